package limiter

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Whoever holds slots of a bucket that was deleted, by its expiry or by a reset, is told when it
// renews them, not only when its epochs are over. It takes nothing from those who came after.
func TestRefusedRenewalsAreReported(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var told atomic.Int64
		w, other := o.worker(0, Options{Observe: only(EventUpkeep, func(e Event) {
			if told.Add(1); e.Entity != acme || e.Resource != gpt || e.Err == nil {
				t.Errorf("told %+v", e)
			}
		})}).renewsAt(0), o.worker(0, Options{})
		old := o.must(w, takesJob(2))
		end := o.slot().End
		o.db.Delete(layout.BucketKey(o.ns, acme, gpt, 0))
		later := o.must(other, takesJob(1))
		time.Sleep(time.Until(time.UnixMilli(end)) + bucket.EdgeMargin*time.Millisecond)
		if isLost(old) {
			t.Fatal("lost before it is renewed")
		}
		time.Sleep(epoch/6 + 10*time.Millisecond)
		select {
		case <-old.Lost():
		default:
			t.Error("not told when its renewal was refused")
		}
		check.Equal(t, told.Load(), 1, "events tell of the renewal")
		check.NoError(t, old.Commit(t.Context()))
		o.free("given back by who has lost them", 1)
		time.Sleep(3 * epoch)
		if isLost(later) {
			t.Error("who came after has lost its slot")
		}
		check.NoError(t, later.Commit(t.Context()))
		o.free("given back", 2)
	})
}

// However many leases a process holds of a bucket, an epoch takes one renewal.
func TestManyLeasesAreRenewedAtOnce(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{}).renewsAt(0)
		limit := InFlight("jobs", 1000, epoch)
		var leases []*Lease
		for range 1000 {
			leases = append(leases, o.must(w, takesJob(1, limit)))
		}
		o.denied(w, takesJob(1, limit))
		start := w.count("transact")
		time.Sleep(4 * epoch)
		check.Equal(t, w.count("transact")-start, 4, "renewals in 4 epochs")
		o.free("held", 0)
		for _, le := range leases {
			if isLost(le) {
				t.Fatal("lost")
			}
			check.Must(t, le.Commit(t.Context()))
		}
		o.free("given back", 1000)
		time.Sleep(5 * epoch)
		check.Equal(t, w.count("transact")-start, 4, "renewals: it goes on renewing what was given back")
	})
}

// A lease whose slots were given back, or not, by a write whose answer is lost is not settled
// again: the slot of another would be given back.
func TestSlotsAreGivenBackOnce(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		for _, applied := range []bool{true, false} {
			w, other := o.worker(0, Options{}), o.worker(0, Options{})
			mine, theirs := o.must(w, takesJob(1)), o.must(other, takesJob(1))
			w.on(func(string, []item.Write) fate { return fate{apply: applied, err: memdynamo.Fail(store.Unknown)} })
			check.MustBe(t, mine.Commit(t.Context()), ErrUnknown)
			w.on(nil)
			check.MustBe(t, mine.Commit(t.Context()), ErrLeaseClosed)
			check.NoError(t, mine.Rollback(t.Context()))
			want := int64(0)
			if applied {
				want = 1
			}
			o.free("given back once", want)
			time.Sleep(2*epoch + 2*time.Second)
			o.free("free by the epochs", 1)
			if isLost(theirs) || theirs.Commit(t.Context()) != nil {
				t.Error("the slot of another is lost")
			}
			o.free("given back", 2)
		}
	})
}

// Observers are told once of each lease that has lost its slots, whoever finds out: the clock,
// Lost, Commit, or that nobody has it any more. Those that are ended in time lose nothing.
func TestLostSlotsAreObserved(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var told atomic.Int64
		var w *worker
		var asks atomic.Pointer[Lease] // an observer may look, too
		w = o.worker(0, Options{Observe: func(_ context.Context, e Event) {
			if e.Kind != EventLost {
				return
			}
			if told.Add(1); e.Entity != acme || e.Resource != gpt || e.Err != nil {
				t.Errorf("told of %+v", e)
			}
			if le := asks.Load(); le != nil {
				le.Lost()
			}
		}})
		frozen := func(*Lease) { w.skew.Add(int64(2 * epoch)) }
		for name, tt := range map[string]struct {
			lose func(*Lease)
			want int64
		}{
			"the clock":  {func(*Lease) { w.crash(); time.Sleep(3 * epoch); w.on(nil) }, 1},
			"Lost":       {func(le *Lease) { frozen(le); le.Lost() }, 1},
			"Commit":     {frozen, 1},
			"dropped":    {func(le *Lease) { w.desks.Slots.Drop(le.slots); time.Sleep(epoch) }, 1},
			"held":       {func(*Lease) { time.Sleep(5 * epoch) }, 0},
			"ended soon": {func(*Lease) {}, 0},
		} {
			told.Store(0)
			lease := o.must(w, takesJob(2))
			asks.Store(lease)
			if tt.lose(lease); name == "Lost" && told.Load() != 1 {
				t.Errorf("%s: told %d times at once", name, told.Load())
			}
			check.NoError(t, lease.Commit(t.Context()))
			time.Sleep(4 * epoch)
			check.Equal(t, told.Load(), tt.want, "%s: told times", name)
		}
	})
}
