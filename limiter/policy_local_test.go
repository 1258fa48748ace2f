package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// down makes every call fail from now on.
func (w *world) down() {
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
}

// While the table is down, a process grants exactly its share of each limit, and denies with the
// resulting wait.
func TestLocalGrantsAShare(t *testing.T) {
	inBubble(t, Options{OnUnavailable: PolicyLocal, LocalShare: 20}, func(t *testing.T, w *world, l *Limiter) {
		w.configure(l, "", "", PerMinute("rpm", 30), PerMinute("tpm", 1001))
		req := stored(Costs{"rpm": 1, "tpm": 10})
		must(t, l, req)
		w.down()
		for i := range 6 {
			lease := must(t, l, req)
			if lease.Charged() || !errors.Is(lease.Cause(), ErrUnavailable) {
				t.Fatalf("call %d: charged %v, cause %v", i, lease.Charged(), lease.Cause())
			}
			if s := lease.Status(); s[0].Capacity != 6 || s[0].Remaining != int64(5-i) || s[1].Capacity != 200 {
				t.Fatalf("call %d: status %+v", i, s)
			}
		}
		_, err := l.Acquire(t.Context(), req)
		denied, ok := errors.AsType[*LimitError](err)
		if !ok || denied.Limit != "rpm" || denied.RetryAfter != 10*time.Second || !errors.Is(err, ErrUnavailable) ||
			denied.Statuses[0].RetryAfter != denied.RetryAfter || denied.Statuses[1].RetryAfter != 0 {
			t.Fatalf("got %v, want a denial for 10s", err)
		}
		if denied.Wanted != 1 || denied.Remaining != 0 || denied.Entity != acme || denied.Resource != gpt ||
			denied.Statuses[1].Remaining != 140 || !strings.HasPrefix(err.Error(), `limiter: acquire "acme/gpt-4": limit rpm`) {
			t.Errorf("denied: %+v", denied)
		}
		w.advance(10*time.Second - time.Millisecond)
		deniedBy(t, l, req)
		w.advance(time.Millisecond)
		must(t, l, req)
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		if lease := must(t, l, req); !lease.Charged() {
			t.Error("the table answers, and nothing was charged")
		}
		check.Equal(t, w.used(l, "rpm"), 2, "counted, want the 2 that the table has granted")
	})
}

// A lease of the local share settles and gives back in that share.
func TestLocalLeaseSettles(t *testing.T) { synctest.Test(t, testLocalLeaseSettles) }

func testLocalLeaseSettles(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	limit := PerMinute("tpm", 1200)
	req := func(n int64) Request { return asks(Costs{"tpm": n}, limit) }
	w.down()
	remaining := func(want int64) {
		t.Helper()
		lease := must(t, l, req(0))
		check.MustEqual(t, lease.Status()[0].Remaining, want, "remain")
	}
	lease := must(t, l, req(400))
	remaining(200)
	lease.Settle(Costs{"tpm": 150})
	check.Must(t, lease.Commit(t.Context()))
	remaining(450)
	must(t, l, req(400)).Rollback(t.Context())
	remaining(450)
	lease = must(t, l, req(100))
	check.Must(t, lease.Charge(t.Context(), Costs{"tpm": 300}))
	check.MustBe(t, lease.Charge(t.Context(), Costs{"tpm": 300}), ErrLimited)
	remaining(50)
	w.advance(time.Minute) // full again
	lease.Settle(Costs{"tpm": 1400})
	lease.Rollback(t.Context()) // the settled costs are final
	deniedBy(t, l, req(0))
	w.advance(40 * time.Second)
	remaining(0)
	w.db.SetHook(nil)
	time.Sleep(desk.ProbesEvery)
	lease = must(t, l, req(0))
	if err := lease.Charge(t.Context(), Costs{"tpm": 10}); err != nil || w.used(l, "tpm") != 10 {
		t.Fatalf("%v, %d counted", err, w.used(l, "tpm"))
	}
	w.down()
	check.Must(t, lease.Charge(t.Context(), Costs{"tpm": 0}))
	w.db.SetHook(nil)
	if err := lease.Rollback(t.Context()); err != nil || w.used(l, "tpm") != 0 {
		t.Errorf("charged to both: %v, %d counted after a rollback", err, w.used(l, "tpm"))
	}
}

// A cascade takes from the shares of all levels or of none, as far as they are known.
func TestLocalCascades(t *testing.T) {
	w, l := family(t, 40, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	w.configure(l, "", "", PerMinute("rpm", 60))
	must(t, l, stored(Costs{"rpm": 1}))
	w.down()
	granted := 0
	var err error
	for ; granted <= 60 && err == nil; granted++ {
		_, err = l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
	}
	denied, ok := errors.AsType[*LimitError](err)
	if granted-1 != 20 || !ok || denied.Entity != "org" {
		t.Fatalf("%d granted, then %v; want the 20 of org", granted-1, err)
	}
	w.advance(3 * time.Second)
	lease := must(t, l, stored(Costs{"rpm": 1}))
	if s := lease.Status(); len(s) != 2 || s[0].Remaining != 10 || s[1].Remaining != 0 {
		t.Fatalf("status %+v", s)
	}
	lease.Rollback(t.Context())
	must(t, l, stored(Costs{"rpm": 1}))
}

// Without cached limits, and for more than the share can hold, the policy blocks.
func TestLocalBlocksWithoutLimitsOrRoom(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal})
	w.configure(l, "", "", PerMinute("rpm", 30))
	w.down()
	if lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1})); lease != nil || !errors.Is(err, ErrUnavailable) {
		t.Errorf("limits never read: %v, %v", lease, err)
	}
	if lease, err := l.Acquire(t.Context(), asks(Costs{"rpm": 4}, PerMinute("rpm", 30))); lease != nil ||
		!errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLimited) || errors.Is(err, ErrTooLarge) ||
		!strings.HasPrefix(err.Error(), "limiter: unavailable: ") ||
		!strings.Contains(err.Error(), "more than this process's share of a limit: 10 percent of rpm: 30 per 1m0s") {
		t.Errorf("4 of a share of 3: %v, %v", lease, err)
	}
	for name, cost := range map[string]Costs{
		"more than the capacity": {"rpm": 31}, "no such limit": {"rpm": 1, "tpm": 1},
	} {
		if lease, err := l.Acquire(t.Context(), asks(cost, PerMinute("rpm", 30))); lease != nil || err == nil {
			t.Errorf("%s: %v, %v", name, lease, err)
		}
	}
	check.NoError(t, check.Err(l.Acquire(t.Context(), asks(Costs{"rpm": 1}, PerMinute("rpm", 1)))),
		"a share is one token at least")
	beside := asks(Costs{"tps": 1}, PerMinute("tps", 40), InFlight("jobs", 5, time.Minute))
	if lease, err := l.Acquire(t.Context(), beside); err != nil || len(lease.Status()) != 1 {
		t.Errorf("a limit in flight of which nothing is asked: %v, %v", lease, err)
	}
	deniedBy(t, l, asks(Costs{"b": 1}, Blocked("b")))
	w.db.SetHook(nil)
	l = w.process(Options{OnUnavailable: PolicyLocal})
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Setup) })
	if lease, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10)); lease != nil || !errors.Is(err, ErrSetup) {
		t.Errorf("not set up: %v, %v", lease, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if lease, err := l.Acquire(ctx, asks(Costs{"rpm": 1}, rpm10)); lease != nil || !errors.Is(err, ErrCanceled) {
		t.Errorf("canceled: %v, %v", lease, err)
	}
}

// A changed limit keeps its level, cut to the new share.
func TestLocalLimitsChange(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	w.down()
	for _, step := range []struct {
		limits []Limit
		want   string
	}{
		{[]Limit{PerMinute("rpm", 20)}, "[rpm 9/10]"},
		{[]Limit{PerMinute("rpm", 40)}, "[rpm 8/20]"},
		{[]Limit{PerMinute("rpm", 4), PerMinute("tpm", 60)}, "[rpm 1/2 tpm 30/30]"},
		{[]Limit{PerHour("rpm", 4), PerMinute("tpm", 2)}, "[rpm 0/2 tpm 1/1]"},
	} {
		var got []string
		for _, s := range must(t, l, asks(Costs{"rpm": 1}, step.limits...)).Status() {
			got = append(got, fmt.Sprintf("%s %d/%d", s.Limit, s.Remaining, s.Capacity))
		}
		check.Equal(t, fmt.Sprint(got), step.want, "%v: %v", step.limits, got)
	}
}

// Requests that change the kind of a limit, or its capacity, back and forth, get no more than its
// share.
func TestLocalLimitsThatChangeBackAndForthMintNothing(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	w.down()
	for _, other := range []Limit{Quota("n", 1000, Daily("")), PerMinute("n", 1000), PerMinute("n", 20).AsSoft()} {
		small := Request{Entity: other.String(), Resource: gpt, Costs: Costs{"n": 1}, Limits: []Limit{PerHour("n", 20)}}
		large := small
		large.Costs, large.Limits = Costs{"n": 0}, []Limit{other}
		granted := 0
		for range 100 {
			if _, err := l.Acquire(t.Context(), small); err == nil {
				granted++
			}
			_, _ = l.Acquire(t.Context(), large)
		}
		check.Equal(t, granted, 10, "with %v: granted of a share of 10", other)
	}
}

// However many buckets are in use, none grants more than its share: only full ones are evicted, and
// a request without room for a new one is denied.
func TestLocalSharesComeBackAsTheyWere(t *testing.T) {
	for _, c := range []struct{ tenants, most int }{{99, 100}, {101, 100}, {3, 1}} {
		opts := Options{OnUnavailable: PolicyLocal, LocalShare: 10, MaxBuckets: c.most}
		inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
			w.down()
			granted := make([]int, c.tenants)
			ask := func(i int) {
				lease, err := l.Acquire(t.Context(), Request{Entity: fmt.Sprint("tenant ", i), Resource: gpt,
					Costs: Costs{"rpm": 1}, Limits: []Limit{PerMinute("rpm", 200)}})
				if err == nil && !lease.Charged() {
					granted[i]++
				} else if denied, ok := errors.AsType[*LimitError](err); !ok || denied.RetryAfter <= 0 {
					t.Fatalf("%d of %d: %v", i, c.most, err)
				}
			}
			for range 40 {
				for i := range c.tenants {
					ask(i)
				}
			}
			served := 0
			for i, n := range granted {
				if n != 0 && n != 20 {
					t.Fatalf("%d tenants, room for %d: tenant %d was granted %d of its share of 20", c.tenants, c.most,
						i, n)
				}
				served += n / 20
			}
			check.Equal(t, served, min(c.tenants, max(c.most, maxLevels)),
				"%d tenants, room for %d: of them were served", c.tenants, c.most)
			w.advance(time.Minute) // all are full again, and may be evicted
			before := granted[c.tenants-1]
			ask(c.tenants - 1)
			check.Equal(t, granted[c.tenants-1], before+1,
				"%d tenants, room for %d: the last is not served a minute later", c.tenants, c.most)
		})
	}
}

// Limits for which a bucket has no room do not come back full.
func TestLocalLimitsBeyondTheRoomDoNotComeBackFull(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 10})
	w.down()
	granted := 0
	for range 5 {
		for i := range 60 {
			limit := fmt.Sprint("l", i)
			if _, err := l.Acquire(t.Context(), asks(Costs{limit: 10}, PerMinute(limit, 100))); err == nil {
				granted++
			}
		}
	}
	if granted > 60 {
		t.Errorf("%d granted of 60 shares", granted)
	}
	must(t, l, asks(Costs{"more": 0}, PerMinute("more", 100))) // takes nothing, and begins empty
	deniedBy(t, l, asks(Costs{"more": 1}, PerMinute("more", 100)))
	if b, ok := l.locals.State(acmeGPT); !ok || len(b.Slots) != bucket.MaxSlots {
		t.Errorf("%d limits are kept, want %d", len(b.Slots), bucket.MaxSlots)
	}
}

// A first-use quota is whole again after its period, like a calendar quota.
func TestLocalQuotasRefillAfterTheirPeriod(t *testing.T) {
	for name, quota := range map[string]Limit{"from the first use": Quota("q", 10, FromFirstUse(time.Hour)),
		"daily": Quota("q", 10, Daily(""))} {
		inBubble(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50}, func(t *testing.T, w *world, l *Limiter) {
			w.down()
			for i := range 3 {
				check.Equal(t, drain(t, l, asks(Costs{"q": 1}, quota)), 5,
					"%s, period %d: granted, want a share of 5", name, i)
				if denied := deniedBy(t, l, asks(Costs{"q": 1}, quota)); denied.RetryAfter > 25*time.Hour {
					t.Errorf("%s, period %d: %v, want a denial until the next one", name, i, denied)
				}
				w.pass(30 * time.Hour)
			}
		})
	}
}

// The period of such a quota begins with its first use, whatever else is requested in it.
func TestALocalPeriodBeginsWithTheFirstUse(t *testing.T) {
	inBubble(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50}, func(t *testing.T, w *world, l *Limiter) {
		w.down()
		req := asks(Costs{"q": 1}, Quota("q", 10, FromFirstUse(time.Hour)))
		for range 2 {
			must(t, l, req)
			w.pass(30 * time.Minute)
			must(t, l, req)
			w.pass(29 * time.Minute)
			wantGranted(t, l, req, 3)
			denied := deniedBy(t, l, req)
			if d := denied.RetryAfter; d < time.Minute || d > time.Minute+2*time.Second {
				t.Errorf("denied for %v, want a minute", d)
			}
			w.pass(denied.RetryAfter)
		}
		must(t, l, req)
	})
}

// Full buckets are evicted for new ones, but none that the request needs, and none that is not
// full.
func TestOnlyFullLocalBucketsAreForgotten(t *testing.T) {
	const now = 1_000_000
	names := func(ids ...string) (out []decide.Want) {
		for _, id := range ids {
			out = append(out, decide.Want{Name: decide.Name{Entity: id, Resource: gpt},
				Costs: table.Costs([]bucket.Limit{rpm10.stored()}, 2000)})
		}
		return out
	}
	for _, c := range []struct {
		full    string // which of four are full
		wants   []string
		granted bool
	}{
		{"a", []string{"e"}, true}, {"d", []string{"e"}, true}, {"", []string{"e"}, false}, {"", []string{"b"}, true},
		{"a", []string{"a", "e"}, false}, {"ab", []string{"a", "e"}, true}, {"a", []string{"e", "f"}, false},
		{"ac", []string{"e", "f"}, true},
	} {
		all := desk.NewLocals(100, newDesks(maxLevels))
		for _, id := range []string{"a", "b", "c", "d"} {
			check.Must(t, check.Err(all.Take(names(id), now)))
			if strings.Contains(c.full, id) {
				all.Adjust(decide.Name{Entity: id, Resource: gpt}, table.Negative(names(id)[0].Costs), now)
			}
		}
		_, err := all.Take(names(c.wants...), now)
		if (err == nil) != c.granted {
			t.Errorf("%q are full: %q is granted %v, %v", c.full, c.wants, err == nil, err)
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			_, there := all.State(decide.Name{Entity: id, Resource: gpt})
			if !there && (!strings.Contains(c.full, id) || slices.Contains(c.wants, id)) {
				t.Errorf("%q are full: %s is forgotten for %q", c.full, id, c.wants)
			}
		}
	}
}

// Without room, a request without costs is granted and leaves nothing behind; give-backs to an
// evicted bucket have no effect, and its debts are kept.
func TestLocalBucketsWithoutRoom(t *testing.T) {
	const now = 1_000_000
	want := func(id string, milli int64) decide.Want {
		return decide.Want{Name: decide.Name{Entity: id, Resource: gpt},
			Costs: table.Costs([]bucket.Limit{rpm10.stored()}, milli)}
	}
	all := desk.NewLocals(100, newDesks(maxLevels))
	for _, id := range []string{"a", "b", "c", "d"} {
		check.Must(t, check.Err(all.Take([]decide.Want{want(id, 2000)}, now)))
	}
	e := want("e", 0)
	check.NoError(t, check.Err(all.Take([]decide.Want{e}, now)), "a request for nothing")
	all.Adjust(e.Name, want("e", -1000).Costs, now)
	if _, there := all.State(e.Name); there || all.Len() != 4 {
		t.Errorf("%d buckets are kept for nothing", all.Len())
	}
	all.Adjust(e.Name, want("e", 3000).Costs, now)
	state, ok := all.State(e.Name)
	if !ok || state.Slots[0].Tokens != 7000 || all.Len() != 5 {
		t.Errorf("what it owes is forgotten: %v, of %d", state, all.Len())
	}
	all.Adjust(e.Name, want("e", -1000).Costs, now)
	state, _ = all.State(e.Name)
	check.Equal(t, state.Slots[0].Tokens, 8000, "given back to a bucket beyond the room")
}

// A limit without a cost denies nothing, whatever its debt.
func TestLocalDebtDeniesOnlyItsLimit(t *testing.T) {
	const now = 1_000_000
	all, n := desk.NewLocals(100, newDesks(maxLevels)), acmeGPT
	all.Adjust(n, table.Costs([]bucket.Limit{tpm1000.stored()}, 3_000_000), now)
	other := decide.Want{Name: n, Costs: table.Costs([]bucket.Limit{rpm10.stored()}, 1000)}
	check.Must(t, check.Err(all.Take([]decide.Want{other}, now)))
}

// A limit that becomes a first-use quota begins its period with its spent tokens, if any.
func TestALocalLimitBecomesAQuota(t *testing.T) {
	const now = 1_000_000
	n := decide.Name{Entity: acme, Resource: gpt}
	quota := Quota("rpm", 10, FromFirstUse(time.Hour)).stored()
	for spent, want := range map[int64]int64{0: 0, 2000: now + time.Hour.Milliseconds()} {
		all := desk.NewLocals(100, newDesks(maxLevels))
		for _, w := range []decide.Want{
			{Name: n, Costs: table.Costs([]bucket.Limit{rpm10.stored()}, spent)},
			{Name: n, Costs: table.Costs([]bucket.Limit{quota}, 0)},
		} {
			check.Must(t, check.Err(all.Take([]decide.Want{w}, now)))
		}
		state, _ := all.State(n)
		if sl := state.Slots[0]; sl.End != want || sl.Tokens != 10_000-spent {
			t.Errorf("%d were spent: it has %d until %d, want %d", spent, sl.Tokens, sl.End, want)
		}
	}
}

// In a local denial, a soft limit requires no wait, whatever its debt; and a disabled parent is
// respected while the table is down.
func TestLocalDenialsRespectSoftLimitsAndSwitches(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 100})
	w.down()
	for soft, name := range []string{"apm", "tpm"} { // before and after rpm
		req := asks(Costs{"rpm": 6, name: 3000}, rpm10, PerMinute(name, 1000).AsSoft())
		req.Resource = name
		must(t, l, req)
		denied := deniedBy(t, l, req)
		if denied.Limit != "rpm" || denied.Statuses[1-soft].RetryAfter != denied.RetryAfter ||
			denied.Statuses[soft].RetryAfter != 0 || denied.Statuses[soft].Remaining != -2000 || denied.RetryAfter <= 0 ||
			denied.Remaining != 4 || denied.Wanted != 6 {
			t.Errorf("%+v, %v", denied, denied)
		}
	}

	w, l = family(t, 100, Options{})
	w.says(l, "org", gpt, "disabled", item.Bool(true))
	for _, down := range []bool{false, true} {
		if down {
			w.down()
		}
		req := stored(Costs{"rpm": 1})
		req.OnUnavailable = PolicyLocal
		if lease, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrDisabled) {
			t.Errorf("the table is down %v: %v, %v", down, lease, err)
		}
		down := &store.Failure{Kind: store.Unavailable}
		_, err := l.undecided(t.Context(), req, []portion{{Request: req}}, acmeGPT, down)
		check.Is(t, err, ErrDisabled, "the table is down %v: granted by this process", down)
	}
}

// A share is a part of the capacity and of the refill, at least a token and a millitoken. A quota
// refills nothing. The largest numbers fit.
func TestSharesOfLimits(t *testing.T) {
	for _, c := range []struct {
		percent          int
		limit            Limit
		capacity, amount int64 // in millitokens
	}{
		{10, lim("a", 250, 30, time.Second), 25_000, 3000}, {33, lim("a", 101, 7, time.Second), 33_330, 2310},
		{100, lim("a", 3, 2, time.Second), 3000, 2000}, {1, lim("a", 99, 1, time.Second), 1000, 10},
		{50, lim("a", 3, 3, time.Second), 1500, 1500},
		{99, lim("a", MaxTokens, MaxTokens, time.Second), 990 * MaxTokens, 990 * MaxTokens},
		{10, Quota("a", 100, Daily("")), 10_000, 0}, {1, Quota("a", 5, Daily("")), 1000, 0},
	} {
		want := c.limit.stored()
		want.Capacity, want.Amount = c.capacity, c.amount
		check.Equal(t, desk.Share(c.limit.stored(), int64(c.percent)), want, "%d percent of %s", c.percent, c.limit)
	}
	for amount, want := range map[int64]int64{1: 1, 50: 25, 150: 75, 199: 99} { // in millitokens
		got := desk.Share(bucket.Limit{Capacity: 1000, Amount: amount, Period: 1000}, 50)
		check.Equal(t, got.Amount, want, "half of %d millitokens", amount)
	}
}

// A share refills exactly to the millitoken, in whatever steps it is used, and a limit whose period
// changes keeps its fraction of a millitoken.
func TestALocalShareRefillsExactly(t *testing.T) {
	seven := lim("rpm", 7, 7, time.Minute)
	all, n := desk.NewLocals(100, newDesks(10)), acmeGPT
	take := func(limit Limit, milli, now int64) error {
		_, err := all.Take([]decide.Want{{Name: n, Costs: table.Costs([]bucket.Limit{limit.stored()}, milli)}}, now)
		return err
	}
	granted, now := 0, int64(1_000_000)
	for ; now <= 1_600_000; now += 13 {
		if take(seven, 1000, now) == nil {
			granted++
		}
	}
	if granted != 7+69 { // the last of 70 comes at 600 s
		t.Errorf("%d granted in ten minutes, want 76", granted)
	}
	last := now - 13
	check.Must(t, errors.Join(take(seven, 0, last), take(lim("rpm", 7, 7, time.Second), 0, last)))
	state, _ := all.State(n)
	if rest := 7 * 1000 * (last - 1_000_000) % 60_000 / 60; state.Slots[0].Rest != rest || rest == 0 {
		t.Errorf("a rest of %d of a second, want %d", state.Slots[0].Rest, rest)
	}
}

// For a new bucket, eight old ones are checked. Buckets that are not full are not checked again
// before all others, so a later request finds a full one further on.
func TestFullLocalBucketsAreSoughtInTurns(t *testing.T) {
	const now, size = 1_000_000, 20
	want := func(i int) decide.Want {
		return decide.Want{Name: decide.Name{Entity: fmt.Sprint(i), Resource: gpt},
			Costs: table.Costs([]bucket.Limit{rpm10.stored()}, 2000)}
	}
	for full := range size {
		all := desk.NewLocals(100, newDesks(size))
		for i := range size {
			check.Must(t, check.Err(all.Take([]decide.Want{want(i)}, now)))
		}
		b, _ := all.State(want(full).Name)
		b.Slots[0].Tokens = b.Slots[0].Capacity
		denied := 0
		for denied < size {
			if _, err := all.Take([]decide.Want{want(99)}, now); err == nil {
				break
			}
			denied++
		}
		check.Equal(t, denied, full/8, "number %d is full: denied times before it is found", full)
	}
}

// In a cascade whose parent is unknown, this process grants by the levels it knows.
func TestLocalGrantsIgnoreUnknownParents(t *testing.T) {
	w, l := family(t, 100, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	org := layout.EntityKey(l.namespace, "org")
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if isWrite(op) || slices.Contains(op.Keys, org) {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2}))
	if err != nil || lease.Charged() || !errors.Is(lease.Cause(), ErrUnavailable) {
		t.Fatalf("%v, %v", lease, err)
	}
	if s := lease.Status(); len(s) != 1 || s[0].Entity != acme || s[0].Capacity != 5 || s[0].Remaining != 3 {
		t.Errorf("status %+v", s)
	}
}

// The final costs of a lease are charged to its bucket even if that was full, and was evicted,
// meanwhile. A lease that cost exactly the taken tokens ends without a trace. Such buckets are
// evicted again when they are full.
func TestLocalLeasesOfAForgottenBucket(t *testing.T) {
	for cost, owes := range map[int64]bool{1: false, 101: true} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 100})
		l.locals = desk.NewLocals(100, newDesks(maxLevels))
		w.down()
		req := func(entity string) Request {
			return Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}}
		}
		lease := must(t, l, req("forgotten"))
		w.advance(time.Minute)
		for i := range maxLevels {
			must(t, l, req(fmt.Sprint("other-", i)))
		}
		w.advance(time.Minute)
		if _, there := l.locals.State(lease.name); there {
			t.Fatal("it is still there")
		}
		check.Must(t, errors.Join(lease.Settle(Costs{"rpm": cost}), lease.Commit(t.Context())))
		if _, there := l.locals.State(lease.name); there != owes || !owes && l.locals.Len() != maxLevels {
			t.Errorf("cost %d: it is there: %v, of %d", cost, there, l.locals.Len())
		}
		if owes {
			w.advance(time.Minute)
			deniedBy(t, l, req("forgotten")) // its debt is 80 tokens
		}
		w.advance(time.Hour)
		must(t, l, req("one more"))
		if n := l.locals.Len(); n > maxLevels {
			t.Errorf("%d buckets are kept, want %d at most", n, maxLevels)
		}
	}
}

// A circle of parents, or a fifth level, charges nothing while the table is down either.
func TestLocalGrantsNothingToBadParents(t *testing.T) {
	levels := []string{acme, "team", "org", "root", "world"}
	for _, parents := range []map[string]string{
		{acme: "org", "org": acme}, {acme: "team", "team": "org", "org": "root", "root": "world", "world": ""},
	} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
		w.configure(l, "", "", rpm10)
		for child, parent := range parents {
			w.entity(l, child, parent)
		}
		for _, id := range levels { // caches the configuration of each
			l.Acquire(t.Context(), Request{Entity: id, Resource: gpt, Costs: Costs{"rpm": 1}})
		}
		check.MustBe(t, check.Err(l.Acquire(t.Context(), stored(Costs{"rpm": 1}))), ErrInvalid)
		w.down()
		if len(parents) == len(levels) {
			must(t, l, Request{Entity: "team", Resource: gpt, Costs: Costs{"rpm": 1}}) // four levels
		}
		for range desk.BreaksAfter { // until no more calls are sent
			l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
		}
		if lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1})); err == nil {
			t.Errorf("granted %v", lease.Status())
		}
		req := stored(Costs{"rpm": 1})
		req.OnUnavailable = PolicyLocal
		down := &store.Failure{Kind: store.Unavailable}
		lease, err := l.undecided(t.Context(), req, []portion{{Request: req}}, acmeGPT, down)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLimited) {
			t.Errorf("%v: %v, %v", parents, lease, err)
		}
	}
}

// A local share granted on Monday is not given back on Tuesday; on Monday it is. Additional costs
// of Monday's work are taken on Tuesday, when it is settled.
func TestLocalLeasesAreSettledInTheirPeriod(t *testing.T) {
	for _, c := range []struct {
		passes time.Duration
		cost   int64
		left   int // of a share of 5, one of which is taken then
	}{{0, 0, 4}, {0, 3, 1}, {24 * time.Hour, 0, 4}, {24 * time.Hour, 3, 2}} {
		inBubble(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50}, func(t *testing.T, w *world, l *Limiter) {
			w.down()
			req := asks(Costs{"q": 1}, Quota("q", 10, Daily("")))
			monday := must(t, l, req)
			w.pass(c.passes)
			must(t, l, req)
			check.Must(t, errors.Join(monday.Settle(Costs{"q": c.cost}), monday.Commit(t.Context())))
			check.Equal(t, drain(t, l, req), c.left, "%+v: granted after", c)
		})
	}
}

// A disabled parent and a blocked limit need no decision of the table: they apply under every
// policy, whether calls are sent without an answer, or not sent any more.
func TestNoPolicyGrantsWhatIsRefusedForCertain(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.says(l, "org", gpt, "disabled", item.Bool(true))
	blocked := asks(Costs{"rpm": 1, "none": 1}, rpm10, Blocked("none"))
	blocked.Entity = "alone"
	l.Acquire(t.Context(), stored(Costs{"rpm": 1})) // caches the stored configuration
	l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
	w.down()
	for range desk.BreaksAfter + 1 {
		for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
			child, other := stored(Costs{"rpm": 1}), blocked
			child.OnUnavailable, other.OnUnavailable = policy, policy
			if lease, err := l.Acquire(t.Context(), child); !errors.Is(err, ErrDisabled) {
				t.Errorf("%v: below a parent that is disabled: %v, %v", policy, lease, err)
			}
			if lease, err := l.Acquire(t.Context(), other); !errors.Is(err, ErrLimited) {
				t.Errorf("%v: of a limit that is blocked: %v, %v", policy, lease, err)
			}
		}
		l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
	}
	if !l.desks.Breaker.Open() {
		t.Error("calls are sent")
	}
}
