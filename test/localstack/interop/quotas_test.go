//go:build interop

package interop

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The calendars are tested in many zones, including zones in which midnight is skipped or repeated
// on some days.
var (
	crons = []string{"0 0 * * *", "0 0 1 * *", "0 9 * * 1-5", "30 2 * * *", "0 0 1 1,4,7,10 *", "0 0 1 1 *",
		"15 */6 * * *", "0 0 13 * 5", "0 0 31 * *", "* 9 * * *", "0 * * * *", "*/20 1-3 * * *", "0 0 * * 7", "5,50 23 L * *"}
	zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "America/Havana", "Africa/Cairo",
		"Asia/Beirut", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia", "Europe/Dublin"}
)

// The edges of calendars equal Python's, to the second, over 130 years, except on days when clocks
// change: see TestDaysOnWhichClocksChange.
func TestEdgesEqualPython(t *testing.T) {
	d := driverFor(t, engine.ForTest(t, engines[0]), newer, 0)
	random := rand.New(rand.NewPCG(18, 70))
	var questions [][3]any
	var want []int64
	for range 3000 {
		cron, zone := crons[random.IntN(len(crons)-1)], zones[random.IntN(len(zones))]
		at := random.Int64N(130 * 365 * 86_400_000)
		c := parsed(t, cron, zone)
		questions, want = append(questions, [3]any{cron, zone, at}), append(want, c.Next(at))
	}
	var got []*int64
	d.must(t, &got, "edges", kv{"questions": questions})
	differ := 0
	for i, q := range questions {
		if got[i] == nil && want[i]-q[2].(int64) > 31*24*time.Hour.Milliseconds() {
			continue // Python does not search that far
		}
		if got[i] == nil {
			t.Errorf("%v: Python has no edge, ours is %d", q, want[i])
		} else if *got[i] != want[i] {
			if differ++; !clocksChange(t, q[1].(string), min(*got[i], want[i])) {
				t.Errorf("%v: Python's edge is %d, ours %d", q, *got[i], want[i])
			}
		}
	}
	t.Logf("%d edges compared, %d differ", len(questions), differ)
}

// parsed returns one of our calendars.
func parsed(t *testing.T, cron, zone string) *calendar.Calendar {
	t.Helper()
	canonical, err := calendar.Cron(cron, zone)
	check.Must(t, err)
	c, err := calendar.Parse(canonical)
	check.Must(t, err)
	return c
}

// clocksChange reports whether the clocks of a zone change within about a day of an instant.
func clocksChange(t testing.TB, zone string, ms int64) bool {
	z, err := time.LoadLocation(zone)
	check.Must(t, err)
	at := time.UnixMilli(ms).In(z)
	_, before := at.Add(-25 * time.Hour).Zone()
	_, now := at.Zone()
	_, after := at.Add(25 * time.Hour).Zone()
	return before != now || now != after
}

// Around all clock changes from 1970 to 2100, the edges equal cronsim's, which has our rule if
// minute and hour begin with a number: the first of two repeated times, and the first instant after
// skipped ones.
func TestEdgesEqualCronsim(t *testing.T) {
	d := driverFor(t, engine.ForTest(t, engines[0]), newer, 0)
	compared := 0
	for _, name := range append(zones, "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Nuuk",
		"America/Santiago", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Gaza", "Pacific/Kwajalein") {
		z, err := time.LoadLocation(name)
		check.Must(t, err)
		spans := [][2]int64{}
		for at := time.Unix(3*86_400, 0).UTC(); at.Year() < 2101; at = at.Add(time.Hour) {
			if _, was := at.Add(-time.Hour).In(z).Zone(); was != offset(at.In(z)) {
				spans = append(spans, [2]int64{at.Unix() - 2*86_400, at.Unix() + 2*86_400})
			}
		}
		for _, cron := range []string{"0 0 1-31 * *", "30 2 1-31 * *", "0-59/20 1-3 1-31 * *", "59 23 L * *"} {
			c := parsed(t, cron, name)
			var all [][]float64
			d.must(t, &all, "cronsim", kv{"cron": cron, "zone": name, "spans": spans})
			for i, want := range all {
				var got []int64
				for at := c.Next(spans[i][0] * 1000); at < spans[i][1]*1000; at = c.Next(at) {
					got = append(got, at)
				}
				var minutes []int64 // epoch minutes in which our periods begin
				for _, at := range want {
					minutes = append(minutes, (int64(at)+59)/60*60_000)
				}
				if compared += len(got); !slices.Equal(got, slices.Compact(minutes)) {
					t.Errorf("%q in %s from %d: %d, cronsim %d", cron, name, spans[i][0], got, minutes)
				}
			}
		}
	}
	t.Logf("%d edges compared", compared)
}

func offset(at time.Time) int { _, ahead := at.Zone(); return ahead }

// In Havana, clocks change from midnight to one o'clock in spring, and from one o'clock to midnight
// in autumn. Our client begins one day in spring at the change, and one in autumn at the first
// midnight. Python begins none in spring, and one at each midnight in autumn. On a shared table,
// that depends on the last client before the instant, and on the first one after it. No instant
// begins two days.
func TestDaysOnWhichClocksChange(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		w.set("", "api", limiter.Quota("budget", 6, limiter.Daily("America/Havana")))
		var ahead atomic.Int64
		p := w.python()
		at := func(instant string) (*limiter.Limiter, *python) {
			when, err := time.Parse("2006-01-02 15:04:05", instant)
			check.Must(w, err)
			ahead.Store(time.Until(when).Milliseconds())
			p.driver.must(w, nil, "clock", kv{"client": p.id, "ahead": ahead.Load()})
			return w.open(func(o *limiter.Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Millisecond) }
			}), p
		}
		const ours, theirs = true, false
		type step struct {
			instant string
			client  bool
			want    int // grants of seven requests
		}
		for name, steps := range map[string][]step{
			"spring-ours-alone": {{"2027-03-13 12:00:00", ours, 6}, {"2027-03-14 04:59:00", ours, 0},
				{"2027-03-14 05:00:10", ours, 6}, {"2027-03-15 03:59:00", ours, 0}, {"2027-03-15 04:00:10", ours, 6}},
			"spring-ours-first": {{"2027-03-13 12:00:00", ours, 6}, {"2027-03-14 05:00:10", ours, 6},
				{"2027-03-14 05:00:20", theirs, 0}, {"2027-03-15 04:00:10", theirs, 6}, {"2027-03-15 04:00:20", ours, 0}},
			"spring-Python-first": {{"2027-03-13 12:00:00", ours, 6}, {"2027-03-14 05:00:10", theirs, 0},
				{"2027-03-15 04:00:10", ours, 6}, {"2027-03-15 04:00:20", theirs, 0}},
			"spring-Python-last": {{"2027-03-13 12:00:00", theirs, 6}, {"2027-03-14 05:00:10", ours, 0},
				{"2027-03-15 04:00:10", ours, 6}},
			"autumn-ours-alone": {{"2027-11-06 12:00:00", ours, 6}, {"2027-11-07 04:00:10", ours, 6},
				{"2027-11-07 05:00:10", ours, 0}, {"2027-11-08 04:59:00", ours, 0}, {"2027-11-08 05:00:10", ours, 6}},
			"autumn-ours-first": {{"2027-11-07 04:00:10", ours, 6}, {"2027-11-07 05:00:10", theirs, 0},
				{"2027-11-07 05:00:20", ours, 0}, {"2027-11-08 05:00:10", ours, 6}, {"2027-11-08 05:00:20", theirs, 0}},
			"autumn-Python-first": {{"2027-11-07 04:00:10", theirs, 6}, {"2027-11-07 05:00:10", ours, 0},
				{"2027-11-07 05:00:20", theirs, 6}, {"2027-11-08 05:00:10", ours, 6}, {"2027-11-08 05:00:20", theirs, 0}},
		} {
			for _, s := range steps {
				l, p := at(s.instant)
				granted := 0
				for range 7 {
					if s.client == ours {
						if _, err := l.Acquire(w.Context(), limiter.Request{
							Entity: name, Resource: "api", Costs: limiter.Costs{"budget": 1},
						}); err == nil {
							granted++
						}
					} else if lease, err := p.tryAcquire(name, "api", limiter.Costs{"budget": 1}, nil); err == nil {
						lease.commit()
						granted++
					} else if !err.denied() {
						w.Fatal(err)
					}
				}
				check.Equal(w, granted, s.want, "%s: granted from %s on", name, s.instant)
			}
		}
	})
}

// earlier moves the last write of a bucket back into an earlier period.
func (w *world) earlier(entity string, by time.Duration) {
	w.Helper()
	b := w.bucket(entity, "api")
	b.State.RF -= by.Milliseconds()
	for i := range b.State.Slots {
		b.State.Slots[i].End = 0
	}
	w.write(item.Update{Key: b.Key(), Set: []item.Attr{
		{Name: layout.AttrRF, Value: item.N(b.State.RF)}, {Name: "vu", Value: item.N(b.State.PeriodEnd())},
	}})
}

// A calendar quota stored by either client is one quota: both take from the same level, either
// begins a period, once, and both know when it is full again.
func TestQuotasByCalendarAreShared(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p := w.open(), w.python()
		again := func() { l, p = w.open(), w.python() } // without cached denials
		monthly := limiter.Quota("budget", 6, limiter.Monthly(1, "Asia/Tokyo"))
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": []kv{
			{"name": "budget", "capacity": 6, "refill_amount": 0, "refill_period_seconds": 1,
				"reset_schedule": []kv{{"cron": "0 0 1 * *", "tz": "Asia/Tokyo"}}},
			{"name": "rpm", "capacity": 1000, "refill_amount": 1000, "refill_period_seconds": 60},
		}})
		w.set("ours", "api", monthly, limiter.PerMinute("rpm", 1000))
		one := limiter.Costs{"budget": 1, "rpm": 1}
		ours := func(entity string) bool {
			lease, err := l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: one})
			if err != nil {
				w.denied(l, entity, "api", one)
			}
			return lease != nil
		}
		theirs := func(entity string) bool {
			lease, err := p.tryAcquire(entity, "api", one, nil)
			if err != nil && !err.denied() {
				w.Fatal(err)
			}
			if lease != nil {
				lease.commit()
			}
			return lease != nil
		}
		for _, c := range []struct {
			entity string
			order  []func(string) bool
		}{{"acme", []func(string) bool{theirs, ours}}, {"bob", []func(string) bool{ours, theirs}},
			{"ours", []func(string) bool{ours, theirs}}, {"alone", []func(string) bool{theirs, theirs}}} {
			for period := range 3 {
				granted := 0
				for i := range 10 {
					if c.order[i%2](c.entity) {
						granted++
					}
				}
				check.Equal(w, granted, 6, "%s: granted in period %d", c.entity, period)
				if c.entity != "alone" {
					w.sameEdge(l, p, c.entity, one)
				}
				w.earlier(c.entity, 40*24*time.Hour)
				again()
			}
		}
	})
}

// sameEdge checks that both clients deny until the same instant.
func (w *world) sameEdge(l *limiter.Limiter, p *python, entity string, costs limiter.Costs) {
	w.Helper()
	c, err := calendar.Parse("m0h0D1@Asia/Tokyo")
	check.Must(w, err)
	edge := time.UnixMilli(c.Next(time.Now().UnixMilli()))
	denied := w.denied(l, entity, "api", costs)
	if off := time.Until(edge) - denied.RetryAfter; off < -2*time.Second || off > time.Second {
		w.Errorf("%s: ours says %v, the edge is in %v", entity, denied.RetryAfter, time.Until(edge))
	}
	_, raised := p.tryAcquire(entity, "api", costs, nil)
	if !raised.denied() {
		w.Fatal(raised)
	}
	theirs := time.Duration(raised.RetryAfter * float64(time.Second))
	if off := denied.RetryAfter - theirs; off < 0 || off > 2*time.Second {
		w.Errorf("%s: ours says %v, Python %v", entity, denied.RetryAfter, theirs)
	}
}

// Tokens given back from an earlier period do not count, whoever began the next one.
func TestRefundsOfAnEarlierPeriod(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p := w.open(), w.python()
		w.set("", "api", limiter.Quota("budget", 6, limiter.Daily("")))
		two := limiter.Costs{"budget": 2}
		late := w.open(func(o *limiter.Options) { o.Now = func() time.Time { return time.Now().Add(-48 * time.Hour) } })
		for _, entity := range []string{"acme", "bob"} {
			lease := w.acquire(late, limiter.Request{Entity: entity, Resource: "api", Costs: two})
			if entity == "acme" {
				w.take(l, entity, "api", limiter.Costs{"budget": 1})
			} else {
				p.take(entity, "api", limiter.Costs{"budget": 1})
			}
			check.Must(w, lease.Rollback(w.Context()))
			b := w.bucket(entity, "api").State
			if level := b.Slots[b.Index("budget")].Tokens; level != 5*bucket.Milli {
				w.Errorf("%s: %d left of 6 after 1 was taken, want 5", entity, level/bucket.Milli)
			}
		}
	})
}

// An operation with a key happens once for both clients. Either can use the other's credits. Tokens
// that Python took before our reset are not given back after it.
func TestOperationsOnQuotasAreShared(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		p := w.python()
		w.set("acme", "api", limiter.Quota("budget", 6, limiter.Monthly(1, "Asia/Tokyo")))
		type result struct{ Amounts map[string]int64 }
		reset := func(key string) int64 {
			var r result
			p.repository(&r, "reset_bucket", kv{"entity_id": "acme", "resource": "api", "idempotency_key": key})
			return r.Amounts["budget"]
		}
		once := func(id string) *admin.Namespace {
			ns, err := w.manage().Once(id)
			check.Must(w, err)
			return ns
		}
		one := limiter.Costs{"budget": 1}
		lease := p.acquire("acme", "api", limiter.Costs{"budget": 5})
		added, err := once("a").Reset(w.Context(), "acme", "api")
		if err != nil || added["budget"] != 5 {
			w.Errorf("our reset: %v, %v", added, err)
		}
		check.Equal(w, reset("a"), 5, "our reset, repeated by Python")
		lease.adjust(limiter.Costs{"budget": -4})
		lease.commit()
		ours, err := w.open().Acquire(w.Context(), limiter.Request{Entity: "acme", Resource: "api", Costs: one})
		check.Must(w, err)
		check.Equal(w, reset("b"), 1, "Python's reset")
		if added, err = once("b").Reset(w.Context(), "acme", "api"); err != nil || added["budget"] != 1 {
			w.Errorf("we repeat Python's reset: %v, %v", added, err)
		}
		check.Must(w, ours.Rollback(w.Context()))
		added, err = once("c").Credit(w.Context(), "acme", "api", limiter.Costs{"budget": 3})
		if err != nil || added["budget"] != 3 {
			w.Errorf("our credit: %v, %v", added, err)
		}
		l, granted := w.open(), 0
		for range 8 {
			if lease, err := p.tryAcquire("acme", "api", one, nil); err == nil {
				lease.commit()
				granted++
			} else if !err.denied() {
				w.Fatal(err)
			}
			if _, err := l.Acquire(w.Context(), limiter.Request{Entity: "acme", Resource: "api", Costs: one}); err == nil {
				granted++
			}
		}
		check.Equal(w, granted, 9, "granted of 6 and 3")
	})
}

// Python's resets and credits survive, although one of our processes remembers the earlier bucket:
// for a rate if our client is next, and for a quota also if Python is.
func TestOperationsOfPythonOutliveOurImages(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p, one := w.open(), w.python(), limiter.Costs{"q": 1}
		for kind, limit := range map[string]limiter.Limit{
			"rate": still("q", 100), "quota": limiter.Quota("q", 100, limiter.Monthly(1, "Asia/Tokyo")),
		} {
			for _, operation := range []string{"reset_bucket", "top_up"} {
				entity := kind + "-" + operation
				w.set(entity, "api", limit)
				w.take(l, entity, "api", limiter.Costs{"q": 60})
				args, want := kv{"entity_id": entity, "resource": "api"}, int64(99)
				if operation == "top_up" {
					args["amounts"], want = kv{"q": 30}, 69
				}
				p.repository(nil, operation, args)
				if kind == "quota" {
					p.take(entity, "api", one)
					want--
				}
				w.take(l, entity, "api", one)
				w.wantLevels(entity, entity, "api", levels{"q": want * bucket.Milli})
			}
		}
	})
}
