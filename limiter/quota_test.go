package limiter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// midnight returns when the day of a world ends, in UTC.
func midnight(w *world) time.Time { return w.time().Truncate(24 * time.Hour).Add(24 * time.Hour) }

func (w *world) time() time.Time { return time.UnixMilli(w.now.Load()).UTC() }

func TestQuotasRefillAtTheirEdge(t *testing.T) {
	w := newWorld(t)
	l, other := w.process(Options{}), w.process(Options{})
	w.configure(l, "", gpt, Quota("rpd", 3, Daily("")), PerMinute("rpm", 600))
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpd": 1, "rpm": 1}}
	for range 3 {
		must(t, l, req)
	}
	edge := midnight(w)
	for _, who := range []*Limiter{l, other} {
		denied := deniedBy(t, who, req)
		check.MustEqual(t, denied.Limit, "rpd", "%v, want a denial by rpd", denied)
		if at := w.time().Add(denied.RetryAfter); at.Before(edge) || at.After(edge.Add(2*time.Second)) {
			t.Errorf("retry at %s, the edge is at %s", at.UTC(), edge)
		}
		for _, s := range denied.Statuses {
			if s.Limit == "rpd" && (s.Remaining != 0 || s.Refill != 0 || s.Period != 0 || s.ResetAfter < time.Hour) {
				t.Errorf("status %+v", s)
			}
		}
	}
	w.advance(edge.Sub(w.time()) - time.Millisecond)
	deniedBy(t, l, req)
	w.advance(1500 * time.Millisecond)
	granted := 0
	for range 3 {
		for _, who := range []*Limiter{l, other} {
			if _, err := who.Acquire(t.Context(), req); err == nil {
				granted++
			} else if !errors.Is(err, ErrLimited) {
				t.Fatal(err)
			}
		}
	}
	check.Equal(t, granted, 3, "granted in the second period")
}

func TestQuotaTokensAreNotGivenBackAfterThePeriod(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", gpt, Quota("usd", USD(5), Daily("")), PerMinute("tpm", 1000))
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"usd": USD(2), "tpm": 100}}
	early, late := must(t, l, req), must(t, l, req)
	if err := early.Settle(Costs{"usd": USD(1), "tpm": 50}); err != nil || early.Commit(t.Context()) != nil {
		t.Fatal(err)
	}
	w.advance(midnight(w).Sub(w.time()) + 2*time.Second)
	third := must(t, l, req)
	check.Must(t, late.Rollback(t.Context()))
	if err := third.Settle(Costs{"usd": 1_333_333, "tpm": 10}); err != nil || third.Commit(t.Context()) != nil {
		t.Fatal(err)
	}
	lease := must(t, l, Request{Entity: acme, Resource: gpt, Costs: Costs{"usd": 0}})
	for _, s := range lease.Status() {
		if want := USD(5) - 1_333_333; s.Limit == "usd" && s.Remaining != want {
			t.Errorf("%d left, want %d: what the day before has given back is not this day's", s.Remaining, want)
		}
	}
	if tpm, usd := w.used(l, "tpm"), w.used(l, "usd"); tpm != 50+10 || usd != USD(1)+USD(2)+1_333_333 {
		t.Errorf("%d of tpm are used, want 60: it has no periods; and %d of usd", tpm, usd)
	}
}

// If only such a quota is due, one write finds that out, and nothing follows.
func TestGivingNothingBackIsOneWrite(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", gpt, Quota("rpd", 5, Daily("")))
	lease := must(t, l, stored(Costs{"rpd": 2}))
	w.advance(midnight(w).Sub(w.time()) + 2*time.Second)
	must(t, w.bystander(l), stored(Costs{"rpd": 1}))
	w.db.ResetStats()
	if err := lease.Rollback(t.Context()); err != nil || w.db.Stats().Calls() != 1 || w.used(l, "rpd") != 3 {
		t.Errorf("%v after %+v, %d are used, want one call, and 3", err, w.db.Stats(), w.used(l, "rpd"))
	}
}

// No request waits in debt for a quota, whose edge would forgive it.
func TestWaitingForAQuota(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		time.Sleep(time.Hour)
		l := process()
		w.configure(l, "", gpt, Quota("rpd", 2, Daily("")), PerSecond("rps", 100))
		req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpd": 1, "rps": 1}}
		edge := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		granted := make(chan time.Time, 6)
		for range 6 {
			go func() {
				waits(t, l, req)
				granted <- time.Now()
			}()
		}
		perDay := map[int]int{}
		for range 6 {
			perDay[int((<-granted).Add(-time.Second).Sub(edge.Add(-24*time.Hour))/(24*time.Hour))]++
		}
		for day := range 3 {
			check.Equal(t, perDay[day], 2, "granted by days: %v, want 2 each", perDay)
		}
	})
}

// Months begin on their day, or on their last day if they are too short.
func TestMonthsThatAreTooShort(t *testing.T) {
	for day, want := range map[int]string{
		1: "02-01 03-01 04-01", 28: "01-28 02-28 03-28", 29: "01-29 02-28 03-29", 30: "01-30 02-28 03-30",
		31: "01-31 02-28 03-31",
	} {
		for year, c := range map[bool]Calendar{false: Monthly(day, ""), true: Yearly(time.February, day, "")} {
			months, err := calendar.Parse(string(c))
			check.Must(t, err)
			var edges []string
			at := time.Date(2023, time.January, 2, 0, 0, 0, 0, time.UTC)
			for range 3 {
				at = time.UnixMilli(months.Next(at.UnixMilli())).UTC()
				edges = append(edges, at.Format("01-02"))
			}
			if got := strings.Join(edges, " "); !year && got != want {
				t.Errorf("months from %d: %s, want %s", day, got, want)
			} else if feb := fmt.Sprintf("02-%02d", min(day, 28)); year && edges[0] != feb {
				t.Errorf("years from February %d: %s, want %s", day, got, feb)
			}
		}
	}
}

func TestCalendarsAndAmountsAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]Calendar{
		"daily": Daily(""), "weekly Asia/Tokyo": Weekly(time.Monday, "Asia/Tokyo"), "monthly": Monthly(1, ""),
		"quarterly Europe/Berlin": Quarterly("Europe/Berlin"), "yearly": Yearly(time.January, 1, ""),
		"0 0 L * *": Monthly(31, ""), "0 6 * * MON-FRI Asia/Tokyo": Cron("0 6 * * 1-5", "Asia/Tokyo"),
		"5h after first use": FromFirstUse(5 * time.Hour),
	} {
		if got, err := ParseCalendar(text); got != want || err != nil {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
		if got, err := ParseCalendar(want.String()); want[0] != '+' && (got != want || err != nil) {
			t.Errorf("%q is %q, %v, want %q", want.String(), got, err, want)
		}
	}
	check.Equal(t, Monthly(1, ""), Cron("0 0 1 * *", "UTC"), "monthly")
	check.Equal(t, Weekly(time.Sunday, ""), Cron("0 0 * * SUN", ""), "weeks that begin on Sunday")
	for _, text := range []string{"", "hourlyish", "daily Mars/Olympus", "0 0 30 2 *", "-5h after first use",
		"1ms after first use", "1500ms after first use", "5 after first use", "monthly UTC UTC"} {
		got, err := ParseCalendar(text)
		if !errors.Is(err, ErrInvalid) || got != "" {
			t.Errorf("%q is %q, %v", text, got, err)
			continue
		}
		if said := err.Error(); !strings.Contains(said, fmt.Sprintf("calendar %q: ", text)) &&
			!strings.Contains(said, fmt.Sprintf("calendar is %q, want ", text)) || !strings.Contains(said, calendarsAccepted) {
			t.Errorf("%q: %v", text, err)
		} else if text != "" && strings.Count(said, text) != 1 {
			t.Errorf("%q is named more than once: %v", text, err)
		}
	}
	for text, want := range map[string]int64{
		"600": 600, "$500": USD(500), "$12.50": 12_500_000, "$0.000001": 1, "$0.50": 500_000, "$010": 10_000_000,
		"$0x1": -1, "$.5": -1, "$9223372036854.775807": 1<<63 - 1, "$9223372036854.775808": -1, "-7": -7, "7x": -1,
		"010": 10, "0x10": -1, "1_000": -1,
		"$1.0000001": -1, "$": -1, "$-1": -1, "1.5": -1, "$1.": -1, "$1,000": -1, "$9223372036854775807": -1, "": -1,
	} {
		got, err := ParseAmount(text)
		if want != -1 {
			if got != want || err != nil {
				t.Errorf("%q is %d, %v, want %d", text, got, err, want)
			}
		} else if said := fmt.Sprintf("amount is %q, want a whole number, or dollars", text); got != 0 ||
			!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), said) {
			t.Errorf("%q is %d, %v, want that it %s", text, got, err, said)
		}
	}
}

// Tokens spent when a limit becomes a first-use quota return one period later, in every process.
func TestSpentTokensBeginAFirstUsePeriod(t *testing.T) {
	for name, from := range map[string]Limit{
		"daily": Quota("q", 10, Daily("")), "from five hours": Quota("q", 10, FromFirstUse(5*time.Hour)),
		"a rate": PerDay("q", 10),
	} {
		inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
			check.MustEqual(t, drain(t, l, asks(Costs{"q": 1}, from)), 10, "%s: granted", name)
			req := asks(Costs{"q": 1}, Quota("q", 10, FromFirstUse(time.Hour)))
			denied := deniedBy(t, l, req)
			if denied.RetryAfter < time.Hour || denied.RetryAfter > time.Hour+2*time.Second {
				t.Errorf("%s: %v, want a denial of an hour", name, denied)
			}
			w.pass(time.Hour + 2*time.Second)
			for _, p := range []*Limiter{l, w.process(Options{})} {
				check.NoError(t, check.Err(p.Acquire(t.Context(), req)), "%s: an hour later", name)
			}
		})
	}
}

// A lease that takes more after an edge gives back only what it took after it.
func TestLeaseAcrossAnEdgeGivesBackTheNewPeriodOnly(t *testing.T) {
	for _, tt := range []struct {
		name    string
		remains int64 // of the new day's 5
		settled int64 // negative: rolled back
		another bool  // Charge names only another limit
	}{
		{name: "rolled back", remains: USD(5), settled: -1},
		{name: "settled to less than before the edge", remains: USD(5), settled: USD(1)},
		{name: "settled to less than both", remains: USD(5) - 200_000, settled: USD(2) + 200_000},
		{name: "settled to what was taken", remains: USD(5) - 500_000, settled: USD(2) + 500_000},
		{name: "settled to more", remains: USD(4), settled: USD(3)},
		{name: "more of another limit, rolled back", remains: USD(5), settled: -1, another: true},
		{name: "more of another limit, settled to more", remains: USD(4), settled: USD(3), another: true},
	} {
		for _, quota := range []string{"usd", "budget"} { // the last or the first of the bucket
			t.Run(tt.name+"/"+quota, func(t *testing.T) {
				w, l := newProcess(t, Options{})
				w.configure(l, "", gpt, Quota(quota, USD(5), Daily("")), PerMinute("tpm", 1000))
				lease := must(t, l, Request{Entity: acme, Resource: gpt, Costs: Costs{quota: USD(2), "tpm": 100}})
				w.advance(midnight(w).Sub(w.time()) + 2*time.Second)
				more := Costs{quota: 500_000}
				if tt.another {
					more = Costs{"tpm": 1}
				}
				check.Must(t, lease.Charge(t.Context(), more))
				if tt.settled >= 0 {
					check.Must(t, lease.Settle(Costs{quota: tt.settled}))
				}
				check.Must(t, lease.Rollback(t.Context()))
				for _, s := range must(t, l, Request{Entity: acme, Resource: gpt, Costs: Costs{quota: 0}}).Status() {
					if s.Limit == quota && s.Remaining != tt.remains {
						t.Errorf("%d left, want %d", s.Remaining, tt.remains)
					}
				}
			})
		}
	}
}

// A denial by a money quota is in dollars, and one by another limit of that name is not.
func TestADenialOfMoneySaysDollars(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  string
	}{
		{Quota("budget", USD(1), Daily("")), "limit budget: $2.50 wanted, $1 left"},
		{PerSecond("budget", USD(1)), "limit budget: 2500000 wanted, 1000000 left"},
	} {
		e := &LimitError{Entity: acme, Resource: gpt, Limit: "budget", Wanted: 2_500_000, Remaining: USD(1),
			Statuses: []Status{{Limit: "rpm"}, {Limit: "budget", Refill: c.limit.Refill}}}
		if !strings.Contains(e.Error(), c.want) {
			t.Errorf("%v, want %q", e, c.want)
		}
	}
}
