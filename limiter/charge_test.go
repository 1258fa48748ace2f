package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestCharge: a charge during the work is taken immediately or denied, counts on top of
// settlements, and is given back with the rest.
func TestCharge(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 100}, rpm10, tpm1000))
	for range 3 {
		w.db.ResetStats()
		if err := lease.Charge(t.Context(), Costs{"tpm": 200}); err != nil || w.db.Stats().Calls() != 1 {
			t.Fatalf("%v, %+v", err, w.db.Stats())
		}
	}
	w.wantHeld(l, tpm1000, 300)
	check.MustEqual(t, lease.Status()[1].Remaining, 300, "status says left")
	err := lease.Charge(t.Context(), Costs{"tpm": 400})
	if d, ok := errors.AsType[*LimitError](err); !ok || d.RetryAfter != 6*time.Second {
		t.Fatalf("got %v, want denied for 6s", err)
	}
	check.MustBe(t, lease.Charge(t.Context(), Costs{"nope": 1}), ErrInvalid)
	check.Must(t, errors.Join(lease.Settle(Costs{"tpm": 650}), lease.Charge(t.Context(), Costs{"tpm": 10})))
	check.Must(t, lease.Commit(t.Context()))
	w.wantHeld(l, tpm1000, 340) // 1000 - 650 - 10
	check.MustBe(t, lease.Charge(t.Context(), Costs{"tpm": 1}), ErrLeaseClosed)

	lease = must(t, l, asks(Costs{"rpm": 1, "tpm": 100}, rpm10, tpm1000))
	check.Must(t, lease.Charge(t.Context(), Costs{"tpm": 40, "rpm": 2}))
	w.db.ResetStats()
	if err := lease.Rollback(t.Context()); err != nil || w.db.Stats().Updates != 1 {
		t.Fatalf("%v, %+v, want one write", err, w.db.Stats())
	}
	w.wantHeld(l, tpm1000, 340)
	w.wantHeld(l, rpm10, 9)
	check.Must(t, lease.Rollback(t.Context()), "rolled back a second time")
}

// Charges granted by the policy while the table is down are not charged, and not settled either.
func TestChargesUnderPolicyAllowAreNotSettled(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.down()
	check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 2}), lease.Charge(t.Context(), Costs{"rpm": 4})))
	w.db.SetHook(nil)
	check.Must(t, lease.Commit(t.Context()))
	w.wantHeld(l, rpm10, 8)
}

// A lease that takes more of a quota in the same period gives back all that it took.
func TestChargeOfAQuota(t *testing.T) {
	w, l := newProcess(t, Options{})
	quota := Quota("rpd", 9, Daily(""))
	lease := must(t, l, asks(Costs{"rpd": 3}, quota))
	check.Must(t, errors.Join(lease.Charge(t.Context(), Costs{"rpd": 2}), lease.Rollback(t.Context())))
	w.wantHeld(l, quota, 9)
}

// A lease that takes more after an operator's reset gives back only what it took since.
func TestChargeAfterAResetOfAQuota(t *testing.T) {
	for settled, left := range map[int64]int64{0: 4, 1: 4, 3: 4, 4: 3, 6: 1} {
		w := newWorld(t)
		l, quota := w.process(Options{}), Quota("rpd", 9, Daily(""))
		lease := must(t, l, asks(Costs{"rpd": 3}, quota))
		w.advance(time.Minute)
		raise := table.Raise(w.shards(l, acme, gpt)[0], map[string]bucket.Gift{"rpd": {Whole: true}}, w.now.Load())
		check.Must(t, check.Err(w.db.Write(t.Context(), raise)))
		check.Must(t, lease.Charge(t.Context(), Costs{"rpd": 1}))
		must(t, l, asks(Costs{"rpd": 5}, quota)) // 9 - 1 - 5 are left
		check.Must(t, errors.Join(lease.Settle(Costs{"rpd": settled}), lease.Commit(t.Context())))
		w.wantHeld(l, quota, left)
	}
}

// A quota that has become a rate meanwhile has no period that could be over.
func TestChargeOfAQuotaThatHasBecomeARate(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", "", Quota("rpd", 9, Daily("")))
	lease := must(t, l, stored(Costs{"rpd": 2}))
	w.configure(l, "", "", PerHour("rpd", 9))
	l.ForgetConfig()
	check.Must(t, errors.Join(lease.Charge(t.Context(), Costs{"rpd": 3}), lease.Rollback(t.Context())))
	w.wantHeld(l, PerHour("rpd", 9), 9)
}

// A limit that came into force meanwhile can be charged and settled like those from the beginning
// of the lease.
func TestChargeOfALimitThatIsNew(t *testing.T) {
	for _, later := range []Limit{tpm1000, Quota("tpm", 1000, Daily(""))} {
		w, l := newProcess(t, Options{})
		w.configure(l, "", "", rpm10)
		lease := must(t, l, stored(Costs{"rpm": 1}))
		check.MustBe(t, lease.Settle(Costs{"tpm": 1}), ErrInvalid)
		w.configure(l, "", "", rpm10, later)
		l.ForgetConfig()
		check.Must(t, lease.Charge(t.Context(), Costs{"tpm": 300}))
		check.Must(t, lease.Settle(Costs{"tpm": 200, "rpm": 4}))
		check.Must(t, lease.Commit(t.Context()))
		w.wantHeld(l, later, 800)
		w.wantHeld(l, rpm10, 6)
	}
}

// Slots of an in-flight limit that came into force meanwhile cannot be charged: they are given
// back, and the lease is unchanged.
func TestChargeOfSlotsThatAreNew(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", "", rpm10)
	lease := must(t, l, stored(Costs{"rpm": 1}))
	w.configure(l, "", "", rpm10, InFlight("jobs", 2, time.Minute))
	l.ForgetConfig()
	check.MustBe(t, lease.Charge(t.Context(), Costs{"rpm": 2, "jobs": 1}), ErrInvalid)
	w.wantHeld(l, rpm10, 9)
	s := w.shards(l, acme, gpt)[0].State
	check.Equal(t, s.Slots[s.Index("jobs")].Tokens, 2*bucket.Milli, "millislots of 2 are free")
	check.Must(t, errors.Join(lease.Charge(t.Context(), Costs{"rpm": 3}), lease.Rollback(t.Context())))
	w.wantHeld(l, rpm10, 10)
}

// Charges on top of settlements are bounded: no sum of costs overflows.
func TestChargesOnTopAreBounded(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, Unlimited("rpm"), Unlimited("tpm")))
	check.Must(t, lease.Settle(Costs{"rpm": MaxTokens - 5}))
	for i, c := range []struct{ cost, want int64 }{
		{2, MaxTokens - 3}, {MaxTokens, 2*MaxTokens - 3}, {2, 2*MaxTokens - 1}, {2, mostCost}, {MaxTokens, mostCost},
	} {
		if w.advance(time.Second); i == 2 {
			w.advance(time.Second)
		}
		check.Must(t, lease.Charge(t.Context(), Costs{"rpm": c.cost, "tpm": 1}))
		if got, said := lease.actual["rpm"], len(lease.actual); got != c.want || said != 1 {
			t.Errorf("charge %d: has cost %d, want %d; said of %d limits", i, got, c.want, said)
		}
	}
}

// The caller may use its limits and costs again after Acquire: the lease has its own.
func TestLeasesDoNotShareWhatTheCallerPassed(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second} {
		var last Event
		w, l := newProcess(t, Options{Ahead: ahead, Observe: func(_ context.Context, e Event) { last = e }})
		for range 3 { // with Ahead, later ones are granted from what was taken ahead
			for _, also := range []bool{false, true} {
				limits, costs := []Limit{rpm10, jobs2}, Costs{"rpm": 1, "jobs": 1}
				req := asks(costs, limits...)
				if also {
					req = Request{Entity: "umbrella", Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(10),
						Also: []Part{{Entity: acme, Resource: gpt, Costs: costs, Limits: limits}}}
				}
				lease := must(t, l, req)
				req.Limits[0], costs["jobs"] = PerMinute("rpm", 1000), 2
				check.Must(t, lease.Charge(t.Context(), Costs{"rpm": 1}))
				state := w.shards(l, req.Entity, gpt)[0].State
				check.Equal(t, state.Slots[state.Index("rpm")].Capacity, 10*bucket.Milli, "capacity")
				check.Must(t, lease.Rollback(t.Context()))
				if also {
					last.Costs = last.Also[0].Costs
				}
				check.Equal(t, last.Costs["jobs"], -1, "slots given back")
				l.desks.Wait()
			}
		}
	}
}
