package limiter

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Settlements go together with the charges of their bucket, and with each other, without SettleWithin: 64 goroutines
// that take and settle at once write far less than once for each.
func TestSettlingJoinsAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := &told{}
		l := w.process(Options{Observe: s.observe})
		req := asks(Costs{"tpd": 500}, Quota("tpd", 10_000_000, Daily("")))
		settled(t, l, req, nil)
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			time.Sleep(5 * time.Millisecond)
			return true, nil
		})
		w.db.ResetStats()
		before := s.sent()
		const goroutines, each = 64, 20
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range each {
					lease, err := l.Acquire(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					report(t, errors.Join(lease.Settle(Costs{"tpd": 300}), lease.Commit(t.Context())))
				}
			})
		}
		all.Wait()
		writes := w.db.Stats().WriteUnits
		w.db.SetHook(nil)
		if used, want := w.used(l, "tpd"), int64(500+goroutines*each*300); used != want {
			t.Errorf("%d are used, want %d", used, want)
		}
		t.Logf("%v writes for %d requests", writes, goroutines*each)
		if writes > goroutines*each/5 {
			t.Errorf("%v writes for %d requests, want a fifth at most", writes, goroutines*each)
		}
		if told := s.sent() - before; told != writes {
			t.Errorf("%d writes are told of %d", told, writes)
		}
		reservesNothing(t, l)
	})
}

// Two settlements wait for a write of their bucket, and go together in the next one, or with a charge. That meets
// every fault. Each caller has the result, and nothing is settled twice.
func TestSettlingJoinedUnderFaults(t *testing.T) {
	fails := func(applied bool, kind store.Kind) func(*world, *Limiter) (bool, error) {
		return func(*world, *Limiter) (bool, error) { return applied, memdynamo.Fail(kind) }
	}
	panics := func(*world, *Limiter) (bool, error) { panic("client") }
	for name, c := range map[string]struct {
		hook func(*world, *Limiter) (bool, error)
		err  error
		used [2]int64 // without a charge, and with one
	}{
		"nothing": {func(*world, *Limiter) (bool, error) { return true, nil }, nil, [2]int64{300, 502}},
		"somebody else writes first": {func(w *world, l *Limiter) (bool, error) {
			must(w.t, w.bystander(l), asks(Costs{"tpd": 50}, tpd1000))
			return true, nil
		}, nil, [2]int64{350, 552}},
		"throttled":                {fails(false, store.Throttled), nil, [2]int64{300, 502}},
		"down":                     {fails(false, store.Unavailable), nil, [2]int64{300, 501}},
		"applied, answer lost":     {fails(true, store.Unknown), ErrUnknown, [2]int64{300, 502}},
		"not applied, answer lost": {fails(false, store.Unknown), ErrUnknown, [2]int64{700, 901}},
		"panic":                    {panics, ErrUnknown, [2]int64{700, 901}},
	} {
		for _, charge := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a charge: %t", name, charge), func(t *testing.T) {
				inBubble(t, Options{Timeout: time.Hour}, func(t *testing.T, w *world, l *Limiter) {
					var leases []*Lease
					for range 3 {
						lease := must(t, l, asks(Costs{"tpd": 300}, tpd1000))
						fine(t, lease.Settle(Costs{"tpd": 100}))
						leases = append(leases, lease)
					}
					fault := onCall(isWrite, 1, func(memdynamo.Op) (bool, error) { return c.hook(w, l) })
					w.db.SetHook(func(op memdynamo.Op) (bool, error) {
						time.Sleep(5 * time.Millisecond)
						return fault(op)
					})
					w.db.ResetStats()
					errs := make([]error, len(leases))
					acquire := func() { _, _ = l.Acquire(t.Context(), asks(Costs{"tpd": 1}, tpd1000)) }
					commit := func(i int) func() { return func() { errs[i] = leases[i].Commit(t.Context()) } }
					first, with := commit(0), func() {}
					if charge {
						first, with = acquire, acquire
					}
					var all sync.WaitGroup
					for _, f := range []func(){first, with, commit(1), commit(2)} {
						all.Go(f)
						time.Sleep(time.Millisecond)
					}
					all.Wait()
					l.desks.Wait()
					w.db.SetHook(nil)
					for i, err := range errs[1:] {
						if !errors.Is(err, c.err) || c.err == nil && err != nil {
							t.Errorf("caller %d: %v, want %v", i, err, c.err)
						}
						if err := leases[1+i].Commit(t.Context()); !errors.Is(err, ErrLeaseClosed) {
							t.Errorf("caller %d once more: %v", i, err)
						}
					}
					if n := w.db.Stats().Calls(); name == "nothing" && n != 2 {
						t.Errorf("%d calls, want 2", n)
					}
					want := c.used[0]
					if charge {
						want = c.used[1]
					}
					if used := w.used(l, "tpd"); used != want {
						t.Errorf("%d are used, want %d", used, want)
					}
					reservesNothing(t, l)
				})
			})
		}
	}
}

var tpd1000 = Quota("tpd", 1000, Daily(""))
