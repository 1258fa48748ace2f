package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestSettleIsAbsolute: the last word on each limit counts, nothing is written
// before Commit, and what is written is the difference to what was taken.
func TestSettleIsAbsolute(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 500}, rpm10, tpm1000))
	before := w.db.Snapshot()
	for _, actual := range []Costs{{"tpm": 900}, {"tpm": 0}, {"tpm": 120}, {"rpm": 1}, nil} {
		if err := lease.Settle(actual); err != nil {
			t.Fatal(err)
		}
	}
	w.sameTable(before)
	w.db.ResetStats()
	if err := lease.Commit(t.Context()); err != nil || w.db.Stats().Updates != 1 {
		t.Fatalf("%v, %+v, want one write", err, w.db.Stats())
	}
	w.wantHeld(l, tpm1000, 880)
	w.wantHeld(l, rpm10, 9)
}

// TestNeverGivesBackMoreThanWasTaken, by any way of saying so, also of what
// several shards have paid and when the first try to commit was half done.
func TestNeverGivesBackMoreThanWasTaken(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 1}, PerMinute("rpm", 1000)))
	must(t, l, asks(Costs{"rpm": 999}, PerMinute("rpm", 1000)))
	for _, err := range []error{lease.Settle(Costs{"rpm": MaxTokens + 1}), lease.Settle(Costs{"rpm": -1})} {
		if !errors.Is(err, ErrInvalid) {
			t.Fatalf("got %v, want invalid", err)
		}
	}
	if err := errors.Join(lease.Settle(Costs{"rpm": 0}), lease.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, PerMinute("rpm", 1000), 1)
}

// several4 returns a lease that four shards have paid for, 6 of 8 tokens.
func several4(t *testing.T, w *world, l *Limiter) *Lease {
	limit := PerMinute("rpm", 8)
	l.desks.Settings.MaxShards = 4
	must(t, l, asks(Costs{"rpm": 0}, limit))
	w.split(l, 4)
	must(t, l, asks(Costs{"rpm": 0}, limit))
	lease := must(t, l, asks(Costs{"rpm": 6}, limit))
	if len(lease.items) < 3 {
		t.Fatalf("%d shards have paid, want several", len(lease.items))
	}
	return lease
}

// TestSettlingSeveralShardsAgain: one of the writes of a settlement is refused or
// throttled out; the second try settles what is missing, and only that. A lost
// answer closes the lease, and the other shards are settled all the same.
func TestSettlingSeveralShardsAgain(t *testing.T) {
	for name, s := range map[string]struct {
		say  Costs // nil: Settle is not called
		end  func(*Lease, context.Context) error
		left int64
	}{
		"less":     {Costs{"rpm": 1}, (*Lease).Commit, 7},
		"more":     {Costs{"rpm": 9}, (*Lease).Commit, -1},
		"nothing":  {Costs{"rpm": 0}, (*Lease).Rollback, 8},
		"rollback": {nil, (*Lease).Rollback, 8},
	} {
		for nth := range 3 {
			for _, kind := range []store.Kind{store.Unavailable, store.Unknown} {
				t.Run(fmt.Sprintf("%s/write %d/%v", name, nth, kind), func(t *testing.T) {
					w := newWorld(t)
					l := w.process(Options{})
					lease := several4(t, w, l)
					if s.say != nil {
						if err := lease.Settle(s.say); err != nil {
							t.Fatal(err)
						}
					}
					met, writes := false, 0
					var away item.Key // fails from then on
					w.db.SetHook(oneByOne(func(op memdynamo.Op) (bool, error) {
						if writes == nth && isWrite(op) {
							met, away = true, op.Writes[0].Target()
						}
						if writes++; !met || op.Writes[0].Target() != away {
							return true, nil
						}
						return kind == store.Unknown, memdynamo.Fail(kind)
					}))
					err := s.end(lease, t.Context())
					w.db.SetHook(nil)
					failed, ok := errors.AsType[*SettleError](err)
					if ok != met || met && (failed.Entity != acme || failed.Resource != gpt) {
						t.Fatalf("got %v, want a *SettleError: %v", err, met)
					}
					switch again := s.end(lease, t.Context()); {
					case met && kind == store.Unavailable && again != nil:
						t.Fatalf("the second try: %v", again)
					case met && kind == store.Unknown && (!errors.Is(err, ErrUnknown) ||
						again != nil && !errors.Is(again, ErrLeaseClosed)):
						t.Fatalf("%v, then %v; want unknown and a closed lease", err, again)
					}
					w.wantHeld(l, PerMinute("rpm", 8), s.left)
				})
			}
		}
	}
}

// TestCharge: what is charged while work goes on is taken at once or denied, counts
// on top of what was settled, and is given back with the rest.
func TestCharge(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 100}, rpm10, tpm1000))
	for range 3 {
		w.db.ResetStats()
		if err := lease.Charge(t.Context(), Costs{"tpm": 200}); err != nil || w.db.Stats().Calls() != 1 {
			t.Fatalf("%v, %+v", err, w.db.Stats())
		}
	}
	w.wantHeld(l, tpm1000, 300)
	if got := lease.Status()[1].Remaining; got != 300 {
		t.Fatalf("status says %d left, want 300", got)
	}
	err := lease.Charge(t.Context(), Costs{"tpm": 400})
	if d, ok := errors.AsType[*LimitError](err); !ok || d.RetryAfter != 6*time.Second {
		t.Fatalf("got %v, want denied for 6s", err)
	}
	if err := lease.Charge(t.Context(), Costs{"nope": 1}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	if err := errors.Join(lease.Settle(Costs{"tpm": 650}), lease.Charge(t.Context(), Costs{"tpm": 10})); err != nil {
		t.Fatal(err)
	}
	if err := lease.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, tpm1000, 340) // 1000 - 650 - 10
	if err := lease.Charge(t.Context(), Costs{"tpm": 1}); !errors.Is(err, ErrLeaseClosed) {
		t.Fatalf("got %v, want closed", err)
	}

	lease = must(t, l, asks(Costs{"rpm": 1, "tpm": 100}, rpm10, tpm1000))
	err = errors.Join(lease.Charge(t.Context(), Costs{"tpm": 40, "rpm": 2}), lease.Rollback(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, tpm1000, 340)
	w.wantHeld(l, rpm10, 9)
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatalf("rolled back a second time: %v", err)
	}
}

// What the policy allows more while the table is down is not charged, and not settled either.
func TestChargesUnderPolicyAllowAreNotSettled(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{OnUnavailable: PolicyAllow})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.down()
	if err := errors.Join(lease.Settle(Costs{"rpm": 2}), lease.Charge(t.Context(), Costs{"rpm": 4})); err != nil {
		t.Fatal(err)
	}
	w.db.SetHook(nil)
	if err := lease.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, rpm10, 8)
}

// TestChargeUnderFaults: the lease stays as it was when a charge fails, and gives
// back what it knows to have taken.
func TestChargeUnderFaults(t *testing.T) {
	for _, c := range []struct {
		kind    store.Kind
		apply   bool
		outcome string
		left    int64 // after the rollback
	}{
		{store.Unavailable, false, "unavailable", 10},
		{store.Unknown, false, "unknown", 10},
		{store.Unknown, true, "unknown", 7},
		{store.Throttled, false, "granted", 10},
	} {
		w := newWorld(t)
		l := w.process(Options{})
		lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { return c.apply, memdynamo.Fail(c.kind) }))
		if err := lease.Charge(t.Context(), Costs{"rpm": 3}); kindName(err) != c.outcome {
			t.Fatalf("%v applied %v: %v, want %s", c.kind, c.apply, err, c.outcome)
		}
		w.db.SetHook(nil)
		if err := lease.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantHeld(l, rpm10, c.left)
	}
}

// TestChargeWhileTheLeaseEnds: whichever comes first, nothing is left behind.
func TestChargeWhileTheLeaseEnds(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		l := w.process(Options{})
		lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := lease.Charge(t.Context(), Costs{"rpm": 1}); err != nil && !errors.Is(err, ErrLeaseClosed) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := lease.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		w.wantHeld(l, rpm10, 10)
	}
}

// TestStatusOfSeveralShards speaks of the whole bucket, and of the limits in force
// only.
func TestStatusOfSeveralShards(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	must(t, l, asks(Costs{"rpm": 0, "tpm": 1}, PerMinute("rpm", 80), tpm1000))
	must(t, l, asks(Costs{"rpm": 0}, PerMinute("rpm", 80)))
	if s := must(t, l, asks(Costs{"rpm": 2}, PerMinute("rpm", 80))).Status(); len(s) != 1 || s[0].Remaining != 78 {
		t.Fatalf("status %v, want rpm alone at 78", s)
	}
	w.split(l, 4)
	for want := int64(77); want > 20; want-- {
		s := must(t, l, asks(Costs{"rpm": 1}, PerMinute("rpm", 80))).Status()
		can := int64(0) // be had by one request: whole tokens of each shard
		for _, b := range w.shards(l, acme, gpt) {
			level, _ := b.State.LevelAt(b.State.Index("rpm"), w.now.Load())
			can += level / bucket.Milli
		}
		if all := len(seen(l)) == 4; all && s[0].Remaining != can || s[0].Capacity != 80 ||
			can > want || can < want-3 {
			t.Fatalf("status %v, want %d of 80 left, of %d", s, can, want)
		}
	}
}

// What is charged later to a quota in the same period is given back with the rest.
func TestChargeInTheSamePeriod(t *testing.T) {
	w := newWorld(t)
	l, quota := w.process(Options{}), Quota("rpd", 9, Daily(""))
	lease := must(t, l, asks(Costs{"rpd": 2}, quota))
	if err := lease.Charge(t.Context(), Costs{"rpd": 3}); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, quota, 4)
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, quota, 9)
}

// A lease that takes more after an operator's reset gives back what it took since, and nothing of before.
func TestChargeAfterAResetOfAQuota(t *testing.T) {
	for settled, left := range map[int64]int64{0: 4, 1: 4, 3: 4, 4: 3, 6: 1} {
		w := newWorld(t)
		l, quota := w.process(Options{}), Quota("rpd", 9, Daily(""))
		lease := must(t, l, asks(Costs{"rpd": 3}, quota))
		w.advance(time.Minute)
		raise := table.Raise(w.shards(l, acme, gpt)[0], map[string]bucket.Gift{"rpd": {Whole: true}}, w.now.Load())
		if _, err := w.db.Write(t.Context(), raise); err != nil {
			t.Fatal(err)
		}
		if err := lease.Charge(t.Context(), Costs{"rpd": 1}); err != nil {
			t.Fatal(err)
		}
		must(t, l, asks(Costs{"rpd": 5}, quota)) // 9 - 1 - 5 are left
		if err := errors.Join(lease.Settle(Costs{"rpd": settled}), lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		w.wantHeld(l, quota, left)
	}
}

// A quota that has become a rate meanwhile has no period that could be over.
func TestChargeOfAQuotaThatHasBecomeARate(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	w.configure(l, "", "", Quota("rpd", 9, Daily("")))
	lease := must(t, l, stored(Costs{"rpd": 2}))
	w.configure(l, "", "", PerHour("rpd", 9))
	l.ForgetConfig()
	if err := errors.Join(lease.Charge(t.Context(), Costs{"rpd": 3}), lease.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, PerHour("rpd", 9), 9)
}

// What was charged more on the same shard is given back with the rest, in one write.
func TestChargesOfOneShardAreGivenBackInOneWrite(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	for range 3 {
		if err := lease.Charge(t.Context(), Costs{"rpm": 2}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantHeld(l, rpm10, 3)
	w.db.ResetStats()
	if err := lease.Rollback(t.Context()); err != nil || w.db.Stats().Updates != 1 {
		t.Errorf("%v, %+v, want one write", err, w.db.Stats())
	}
	w.wantHeld(l, rpm10, 10)
}

// A limit that came into force meanwhile can be charged and settled like those that the lease began with.
func TestChargeOfALimitThatIsNew(t *testing.T) {
	for _, later := range []Limit{tpm1000, Quota("tpm", 1000, Daily(""))} {
		w := newWorld(t)
		l := w.process(Options{})
		w.configure(l, "", "", rpm10)
		lease := must(t, l, stored(Costs{"rpm": 1}))
		if err := lease.Settle(Costs{"tpm": 1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("settled what is not there: %v", err)
		}
		w.configure(l, "", "", rpm10, later)
		l.ForgetConfig()
		if err := lease.Charge(t.Context(), Costs{"tpm": 300}); err != nil {
			t.Fatal(err)
		}
		if err := lease.Settle(Costs{"tpm": 200, "rpm": 4}); err != nil {
			t.Fatal(err)
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantHeld(l, later, 800)
		w.wantHeld(l, rpm10, 6)
	}
}

// Slots of an in-flight limit that came into force meanwhile are not charged: what was taken for that is given
// back, and the lease stays as it was.
func TestChargeOfSlotsThatAreNew(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	w.configure(l, "", "", rpm10)
	lease := must(t, l, stored(Costs{"rpm": 1}))
	w.configure(l, "", "", rpm10, InFlight("jobs", 2, time.Minute))
	l.ForgetConfig()
	if err := lease.Charge(t.Context(), Costs{"rpm": 2, "jobs": 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("charged: %v", err)
	}
	w.wantHeld(l, rpm10, 9)
	s := w.shards(l, acme, gpt)[0].State
	if free := s.Slots[s.Index("jobs")].Tokens; free != 2*bucket.Milli {
		t.Errorf("%d millislots of 2 are free", free)
	}
	if err := errors.Join(lease.Charge(t.Context(), Costs{"rpm": 3}), lease.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, rpm10, 10)
}

// What is charged on top of what was settled is bounded: no sum of costs overflows.
func TestChargesOnTopAreBounded(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, Unlimited("rpm"), Unlimited("tpm")))
	if err := lease.Settle(Costs{"rpm": MaxTokens - 5}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ cost, want int64 }{
		{2, MaxTokens - 3}, {MaxTokens, 2*MaxTokens - 3}, {2, 2*MaxTokens - 1}, {2, mostCost}, {MaxTokens, mostCost},
	} {
		if w.advance(time.Second); i == 2 {
			w.advance(time.Second)
		}
		if err := lease.Charge(t.Context(), Costs{"rpm": c.cost, "tpm": 1}); err != nil {
			t.Fatal(err)
		}
		if got, said := lease.actual["rpm"], len(lease.actual); got != c.want || said != 1 {
			t.Errorf("charge %d: has cost %d, want %d; said of %d limits", i, got, c.want, said)
		}
	}
}
