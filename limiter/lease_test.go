package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var tpm1000 = PerMinute("tpm", 1000)

// TestLeaseStates: an open lease can be settled; commit and rollback end it. An ended lease writes
// nothing. It refuses everything but a rollback, which may be deferred.
func TestLeaseStates(t *testing.T) {
	ops := map[string]func(*Lease) error{
		"settle":   func(le *Lease) error { return le.Settle(Costs{"rpm": 1}) },
		"charge":   func(le *Lease) error { return le.Charge(context.Background(), Costs{"rpm": 1}) },
		"commit":   func(le *Lease) error { return le.Commit(context.Background()) },
		"rollback": func(le *Lease) error { return le.Rollback(context.Background()) },
	}
	for _, first := range []string{"commit", "rollback"} {
		for then, op := range ops {
			t.Run(first+", then "+then, func(t *testing.T) {
				w, l := newProcess(t, Options{})
				lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
				check.Must(t, more(lease, Costs{"rpm": 3}))
				check.Must(t, ops[first](lease))
				before := w.db.Snapshot()
				err := op(lease)
				if then == "rollback" {
					check.Must(t, err)
				} else if !errors.Is(err, ErrLeaseClosed) || !strings.Contains(err.Error(), then+` "acme/gpt-4"`) {
					t.Fatalf("got %v, want a closed lease named", err)
				}
				w.sameTable(before)
			})
		}
	}
}

func TestLeaseShowsWhatItHolds(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 2}, rpm10, tpm1000))
	if !lease.Charged() || lease.Cause() != nil || lease.Entity() != acme || lease.Resource() != gpt {
		t.Fatalf("lease %v", lease)
	}
	want := []Status{
		{Entity: acme, Resource: gpt, Limit: "rpm", Capacity: 10, Refill: 10, Period: time.Minute, Remaining: 8,
			RefillAfter: 6 * time.Second, ResetAfter: 12 * time.Second, At: w.time()},
		{Entity: acme, Resource: gpt, Limit: "tpm", Capacity: 1000, Refill: 1000, Period: time.Minute, Remaining: 1000,
			At: w.time()},
	}
	got := lease.Status()
	check.MustEqual(t, fmt.Sprint(got), fmt.Sprint(want), "status")
	lease.Status()[0].Remaining = 99
	check.MustEqual(t, lease.Status()[0].Remaining, 8, "Status returns what the lease keeps")
	if s := must(t, l, asks(Costs{"rpm": 2}, rpm10)).Status(); len(s) != 1 || s[0].Remaining != 6 {
		t.Errorf("status %v, want the limit in force alone", s)
	}
}

// more settles additional tokens, or fewer, relative to the taken or settled ones.
func more(le *Lease, costs Costs) error {
	actual := Costs{}
	for limit, n := range costs {
		said, ok := le.actual[limit]
		if !ok {
			said = le.held(limit) / bucket.Milli
		}
		actual[limit] = said + n
	}
	return le.Settle(actual)
}

func TestAdjustRefusesWhatItCannotSettle(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10, tpm1000))
	check.Must(t, more(lease, Costs{"rpm": 2}))
	before := w.db.Snapshot()
	for _, c := range []struct {
		costs Costs
		text  []string
	}{
		{Costs{"nope": 1}, []string{"nope", "rpm", "tpm"}},
		{Costs{"wcu": 1}, []string{"wcu", "rpm", "tpm"}},
		{Costs{"rpm": MaxTokens + 1}, []string{"rpm", fmt.Sprint(int64(MaxTokens + 1)), fmt.Sprint(int64(MaxTokens))}},
		{Costs{"rpm": -1}, []string{`settle "rpm" is -1, want 0 to 1000000000000000 tokens`}},
		{Costs{"rpm": 1 << 62}, []string{"rpm"}},
		{Costs{"rpm": -1 << 63}, []string{"rpm"}},
		{Costs{"tpm": 5, "nope": 1}, []string{"nope"}}, // all or nothing
	} {
		err := lease.Settle(c.costs)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("Settle(%v): %v, want ErrInvalid", c.costs, err)
			continue
		}
		for _, s := range c.text {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("Settle(%v): %v does not say %s", c.costs, err, s)
			}
		}
	}
	w.sameTable(before)
	check.Must(t, lease.Commit(t.Context()))
	w.wantHeld(l, rpm10, 7)
	w.wantHeld(l, tpm1000, 1000)
}

func TestCommitOfNothingIsFree(t *testing.T) {
	w, l := newProcess(t, Options{})
	for _, costs := range []Costs{nil, {"rpm": 1}} {
		lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
		check.Must(t, lease.Settle(costs))
		w.db.ResetStats()
		if err := lease.Commit(t.Context()); err != nil || w.db.Stats().Calls() != 0 {
			t.Fatalf("commit of %v: %v, %+v", costs, err, w.db.Stats())
		}
	}
	lease := must(t, l, asks(Costs{"rpm": 0}, rpm10))
	w.db.ResetStats()
	if err := lease.Rollback(t.Context()); err != nil || w.db.Stats().Calls() != 0 {
		t.Fatalf("rollback of a lease on nothing: %v, %+v", err, w.db.Stats())
	}
}

// TestDebtInAnUnnamedLimitDenies (W41), in every process, until it is paid.
func TestDebtInAnUnnamedLimitDenies(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1}, rpm10, tpm1000)
	lease := must(t, l, req)
	check.Must(t, adjustThenCommit(Costs{"tpm": 1500})(t.Context(), lease))
	for _, p := range []*Limiter{l, w.process(Options{}), w.process(Options{DenyFor: -1})} {
		if d := deniedBy(t, p, req); d.Limit != "tpm" || d.Wanted != 0 || d.Remaining != -500 ||
			d.RetryAfter != 30*time.Second {
			t.Fatalf("got %v, want denied by tpm at -500 for 30s", d)
		}
	}
	w.advance(30*time.Second - time.Millisecond)
	for _, p := range []*Limiter{l, w.process(Options{})} {
		deniedBy(t, p, req)
	}
	w.advance(time.Millisecond)
	must(t, l, req)
}

// TestDo: settlements of the function are committed; if it fails, panics, exits or its caller
// leaves, everything is still settled.
func TestDo(t *testing.T) {
	boom := errors.New("boom")
	cases := []struct {
		name string
		fn   func(ctx context.Context, cancel func(), le *Lease) error
		want error
		left int64 // of 1000 tpm, 100 of which are taken
		ends string
	}{
		{"nothing to adjust", func(context.Context, func(), *Lease) error { return nil }, nil, 900, "returns"},
		{"fewer", func(_ context.Context, _ func(), le *Lease) error { return more(le, Costs{"tpm": -60}) }, nil, 960,
			"returns"},
		{"more", func(_ context.Context, _ func(), le *Lease) error { return more(le, Costs{"tpm": 60}) }, nil, 840,
			"returns"},
		{"error", func(_ context.Context, _ func(), le *Lease) error {
			more(le, Costs{"tpm": 60})
			return boom
		}, boom, 840, "returns"}, // its settlement stays
		{"error after it was settled to what was taken", func(_ context.Context, _ func(), le *Lease) error {
			le.Settle(nil)
			return boom
		}, boom, 900, "returns"},
		{"error after nothing was said", func(context.Context, func(), *Lease) error { return boom }, boom, 1000, "returns"},
		{"settled to nothing", func(_ context.Context, _ func(), le *Lease) error {
			return le.Settle(Costs{"rpm": 0, "tpm": 0})
		}, nil, 1000, "returns"},
		{"rolled back by the function", func(ctx context.Context, _ func(), le *Lease) error {
			return le.Rollback(ctx)
		}, nil, 1000, "returns"},
		{"charged, then error", func(ctx context.Context, _ func(), le *Lease) error {
			return errors.Join(boom, le.Charge(ctx, Costs{"tpm": 50}))
		}, boom, 1000, "returns"},
		{"panic", func(_ context.Context, _ func(), le *Lease) error {
			more(le, Costs{"tpm": 60})
			panic(boom)
		}, nil, 840, "panics"},
		{"panic after nothing was said", func(context.Context, func(), *Lease) error { panic(boom) }, nil, 900, "panics"},
		{"goexit", func(context.Context, func(), *Lease) error { runtime.Goexit(); return nil }, nil, 900, "exits"},
		{"caller goes, function succeeds", func(_ context.Context, cancel func(), le *Lease) error {
			cancel()
			return more(le, Costs{"tpm": 60})
		}, nil, 840, "returns"},
		{"caller goes, function fails", func(ctx context.Context, cancel func(), le *Lease) error {
			cancel()
			return ctx.Err()
		}, context.Canceled, 900, "returns"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, l := newProcess(t, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ends, recovered := "exits", any(nil)
			var err error
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() {
					if recovered = recover(); recovered != nil {
						ends = "panics"
					}
				}()
				err = l.Do(ctx, asks(Costs{"rpm": 1, "tpm": 100}, rpm10, tpm1000), func(ctx context.Context, le *Lease) error {
					return c.fn(ctx, cancel, le)
				})
				ends = "returns"
			})
			wg.Wait()
			if ends != c.ends || (ends == "panics" && recovered != any(boom)) || !errors.Is(err, c.want) ||
				(c.want == nil && err != nil) {
				t.Fatalf("Do %s with %v (%v), want %s with %v", ends, err, recovered, c.ends, c.want)
			}
			w.wantHeld(l, tpm1000, c.left)
			if c.left == 1000 {
				w.wantHeld(l, rpm10, 10)
			}
		})
	}
}

// TestDoReportsAFailedSettlement: both fn's error and the rollback's are found; a failed commit is
// returned.
func TestDoReportsAFailedSettlement(t *testing.T) {
	boom := errors.New("boom")
	w, l := newProcess(t, Options{})
	lose := func() {
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unknown) }))
	}
	err := l.Do(t.Context(), asks(Costs{"rpm": 1}, rpm10), func(context.Context, *Lease) error { lose(); return boom })
	if !errors.Is(err, boom) || !errors.Is(err, ErrUnknown) || !strings.HasPrefix(err.Error(), "boom\n") {
		t.Fatalf("got %v, want fn's error and that of the rollback", err)
	}
	w.db.SetHook(nil)
	err = l.Do(t.Context(), asks(Costs{"rpm": 1}, rpm10), func(_ context.Context, le *Lease) error {
		lose()
		return more(le, Costs{"rpm": 1})
	})
	check.MustBe(t, err, ErrUnknown, "want that of the commit")
	writes := 0
	err = l.Do(t.Context(), asks(Costs{"rpm": 1}, rpm10), func(_ context.Context, le *Lease) error {
		w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) {
			writes++
			return false, memdynamo.Fail(store.Unavailable)
		}))
		return more(le, Costs{"rpm": 1})
	})
	if !errors.Is(err, ErrUnavailable) || writes != desk.UnavailableAttempts {
		t.Fatalf("got %v after %d writes, want that of the commit and no rollback after it", err, writes)
	}
}

// TestLeaseConcurrently: one lease used by many goroutines settles once.
func TestLeaseConcurrently(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"tpm": 100}, tpm1000))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				check.NoError(t, lease.Settle(Costs{"tpm": 300}))
				lease.Status()
				lease.Charged()
			}
		})
	}
	wg.Wait()
	closed := make(chan error, 16)
	w.db.ResetStats()
	for i := range 16 {
		wg.Go(func() {
			if i%2 == 0 {
				closed <- lease.Commit(context.Background())
			} else {
				closed <- lease.Rollback(context.Background())
			}
		})
	}
	wg.Wait()
	for range 16 {
		if err := <-closed; err != nil && !errors.Is(err, ErrLeaseClosed) {
			t.Error(err)
		}
	}
	check.MustEqual(t, w.db.Stats().Calls(), 1, "settled by calls")
	w.wantHeld(l, tpm1000, 700)
}

// The dues of a lease on several items make each limit cost the settled amount, and no item pays
// back more than it has paid. More is due only from the first item, and unnamed limits stay.
func TestDuesAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	limits := []bucket.Limit{rpm10.stored(), tpm1000.stored(), PerDay("rpd", 9).stored()}
	for n := range 2000 {
		le := &charged{limits: limits, actual: map[string]int64{}}
		for range 1 + r.IntN(4) {
			costs := table.Costs(limits, r.Int64N(5)*1000, r.Int64N(5)*1000, r.Int64N(5)*1000)
			le.items = append(le.items, leaseItem{Part: decide.Part{Taken: costs[:1+r.IntN(3)]}})
		}
		for _, l := range limits {
			if r.IntN(3) > 0 {
				le.actual[l.Name] = r.Int64N(20)
			}
		}
		le.pay()
		for _, l := range limits {
			taken, settled := int64(0), int64(0)
			for i, it := range le.items {
				c, _ := table.Find(it.due, l.Name)
				if was := it.Of(l.Name); was+c.Milli < 0 || c.Milli > 0 && i > 0 {
					t.Fatalf("run %d: item %d has paid %d of %s, and %d is due", n, i, was, l.Name, c.Milli)
				}
				taken, settled = taken+it.Of(l.Name), settled+it.Of(l.Name)+c.Milli
			}
			want := taken
			if said, ok := le.actual[l.Name]; ok {
				want = said * bucket.Milli
			}
			check.MustEqual(t, settled, want, "run %d: %s costs", n, l.Name)
		}
	}
}

// Overdrawn lists the soft limits in debt, on all levels: not one that is exactly empty, and not a
// hard limit that a waiting request has taken into debt.
func TestOverdrawnAreSoftLimitsInDebt(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.configure(l, acme, gpt, PerMinute("rpm", 50), PerMinute("tpm", 10).AsSoft())
	w.configure(l, "org", gpt, PerMinute("rpm", 50), PerMinute("tpm", 15).AsSoft())
	for i, c := range []struct {
		costs Costs
		want  []string
	}{
		{Costs{"tpm": 10}, nil}, {Costs{"tpm": 1}, []string{"acme tpm -1"}}, {Costs{"tpm": 4}, []string{"acme tpm -5"}},
		{Costs{"tpm": 1}, []string{"acme tpm -6", "org tpm -1"}},
		{Costs{"rpm": 50}, []string{"acme tpm -6", "org tpm -1"}},
	} {
		var got []string
		for _, s := range must(t, l, stored(c.costs)).Overdrawn() {
			got = append(got, fmt.Sprint(s.Entity, " ", s.Limit, " ", s.Remaining))
		}
		check.Slices(t, got, c.want, "request %d: overdrawn", i)
	}
	w = newWorld(t)
	l = w.process(Options{})
	must(t, l, asks(Costs{"rpm": 10}, rpm10))
	lease, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 5}, rpm10))
	if err != nil || lease.Status()[0].Remaining != -5 || lease.Overdrawn() != nil {
		t.Errorf("a hard limit in debt: %v, overdrawn %+v", err, lease.Overdrawn())
	}
}

// A settlement counts on every level of a cascade or on none: if the parent lacks a limit, the
// error names it together with the existing ones. The same holds for a limit whose slots all come
// back at the end.
func TestSettlingACascadeIsAllOrNothing(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.configure(l, acme, gpt, rpm10, tpm1000, jobs2)
	lease := must(t, l, stored(Costs{"rpm": 1}))
	for limit, says := range map[string]string{
		"tpm":  `settle limit is "tpm", want one of ["rpm"], the limits of "org"`,
		"jobs": `settle limit is "jobs", want no in-flight limit: the end of the lease gives all slots back`,
		"rpd":  `settle limit is "rpd", want one of ["jobs" "rpm" "tpm"], the limits of "acme"`,
	} {
		err := lease.Settle(Costs{"rpm": 5, limit: 7})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", limit, err, says)
		}
	}
	before := w.db.Snapshot()
	check.Must(t, lease.Commit(t.Context()))
	w.sameTable(before)
}
