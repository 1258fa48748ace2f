package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// busy makes a worker send enough requests that it keeps slots for the next one, and returns such a
// request. All leases have ended.
func (o *office) busy(w *worker, req Request) Request {
	o.t.Helper()
	for range 5 {
		check.Must(o.t, o.must(w, req).Commit(context.Background()))
	}
	return req
}

// Slots of an ended lease serve the next requests of a process without a write, for as long as
// prefetched tokens may be held. Then one write gives them back.
func TestSlotsServeTheNextRequests(t *testing.T) {
	for name, c := range map[string]struct {
		req  Request
		most int // writes
	}{
		"beside a rate": {takesJob(1), 12}, // most of them for its tokens
		"alone":         {asks(Costs{"jobs": 1}, jobs2), 1},
	} {
		t.Run(name, func(t *testing.T) {
			req, most := c.req, c.most
			inOffice(t, func(t *testing.T, o *office) {
				var told atomic.Int64 // writes
				w := o.worker(0, Options{Ahead: 2 * time.Second, Observe: func(_ context.Context, e Event) {
					told.Add(int64(e.Writes))
				}})
				opening := w.count("write")
				o.busy(w, req)
				time.Sleep(3 * time.Second)
				o.free("a while later", 2)
				before, n := w.count("write"), 0
				for begun := time.Now(); time.Since(begun) < 1900*time.Millisecond; n++ {
					lease := o.must(w, req)
					o.free("at work", 1)
					time.Sleep(20 * time.Millisecond)
					check.Must(t, lease.Commit(t.Context()))
				}
				if writes := w.count("write") - before; n < 90 || writes > most {
					t.Errorf("%d requests took %d writes, want at most %d", n, writes, most)
				}
				before = w.count("write")
				time.Sleep(200 * time.Millisecond)
				if o.free("given back", 2); w.count("write") != before+1 {
					t.Errorf("%d writes give a slot back, want 1", w.count("write")-before)
				}
				if w.desks.Wait(); told.Load() != int64(w.count("write")-opening) {
					t.Errorf("events report %d writes, want %d", told.Load(), w.count("write")-opening)
				}
			})
		})
	}
}

// Giving back idle slots is reported, with the bucket.
func TestIdleSlotsGivenBackAreReported(t *testing.T) {
	for kind, want := range map[store.Kind]error{0: nil, store.Unknown: ErrUnknown, store.Setup: ErrSetup} {
		inOffice(t, func(t *testing.T, o *office) {
			var mu sync.Mutex
			var told []Event
			w := o.worker(0, Options{Ahead: 2 * time.Second, Observe: only(EventAhead, func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e)
			})})
			o.busy(w, asks(Costs{"jobs": 1}, jobs2))
			if kind != 0 {
				w.on(func(string, []item.Write) fate { return fate{err: memdynamo.Fail(kind)} })
			}
			time.Sleep(4 * time.Second)
			w.desks.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 1 || told[0].Entity != acme || told[0].Resource != gpt || told[0].Writes != 1 ||
				!errors.Is(told[0].Err, want) {
				t.Errorf("reported %+v, want one event and %v", told, want)
			}
		})
	}
}

// Slots belong to an epoch, which the answer contains. If it cannot be read, tokens are given back,
// and slots become free when their epoch is over.
func TestUnreadableAnswersLeaveSlotsToTheirEpoch(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		check.Must(t, o.must(w, takesJob(1)).Commit(t.Context()))
		w.store.Store = (&oddly{Store: w.store.Store}).once(unreadable)
		if lease, err := w.Acquire(t.Context(), takesJob(1)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("got %v, %v", lease, err)
		}
		o.free("not given back", 1)
		b := o.bucket(acme)
		if sl := b.State.Slots[b.State.Index("rpm")]; sl.Used != 1*bucket.Milli {
			t.Errorf("%d tokens are used, want the 1 of the first request", sl.Used/bucket.Milli)
		}
		time.Sleep(2*epoch + 2*time.Second)
		o.free("when the epoch is over", 2)
	})
}

// Scarce slots are not kept from others: two processes with the same demand for the only slot get
// it equally often.
func TestFewSlotsAreNotKept(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		one := InFlight("jobs", 1, epoch)
		first, second := o.worker(0, Options{Ahead: time.Second}), o.worker(0, Options{Ahead: time.Second})
		got := map[*worker]int{}
		for range 500 {
			for _, w := range []*worker{first, second} {
				time.Sleep(7 * time.Millisecond)
				lease, err := w.Acquire(t.Context(), takesJob(1, one))
				if err != nil {
					continue
				}
				got[w]++
				time.Sleep(7 * time.Millisecond)
				check.Must(t, lease.Commit(t.Context()))
				o.free("given back", 1)
			}
		}
		if a, b := got[first], got[second]; min(a, b) < 400 {
			t.Errorf("the only slot: got %d and %d times", a, b)
		}
	})
}

// Idle slots count for a request for more slots, and are idle again if it is denied.
func TestIdleSlotsArePartOfARequest(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		six := InFlight("jobs", 6, epoch)
		w, other := o.worker(0, Options{Ahead: 5 * time.Second}), o.worker(0, Options{})
		o.busy(w, takesJob(2, six))
		o.free("two are idle", 4)
		all := o.must(w, takesJob(6, six))
		o.free("all are at work", 0)
		check.Must(t, all.Commit(t.Context()))
		time.Sleep(10 * time.Second)
		o.free("given back", 6)
		o.busy(w, takesJob(2, six))
		beside := o.must(other, takesJob(4, six))
		o.denied(w, takesJob(3, six))
		one := o.must(w, takesJob(1, six))
		another := o.must(w, takesJob(1, six))
		o.denied(w, takesJob(1, six))
		for _, le := range []*Lease{one, another, beside} {
			check.Must(t, le.Rollback(t.Context()))
		}
		time.Sleep(10 * time.Second)
		o.free("all have ended", 6)
	})
}

// A waiter for a slot gets one that becomes idle, before it goes back to the table.
func TestWaiterGetsAnIdleSlot(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{Ahead: 10 * time.Second}), o.worker(0, Options{})
		o.busy(w, takesJob(1))
		lease := o.must(w, takesJob(1))
		beside := o.must(other, takesJob(1))
		time.AfterFunc(time.Second, func() { _ = lease.Commit(context.Background()) })
		begun := time.Now()
		waited, err := w.Wait(t.Context(), takesJob(1))
		check.Must(t, err)
		if took := time.Since(begun); took > 1100*time.Millisecond {
			t.Errorf("it waited for %v, want a second", took)
		}
		o.free("both are at work", 0)
		for _, le := range []*Lease{waited, beside} {
			check.Must(t, le.Commit(t.Context()))
		}
		time.Sleep(20 * time.Second)
		o.free("all have ended", 2)
	})
}

// A request has reused the only idle slot, and writes for its tokens. Another request for a slot
// stands in line meanwhile. When the write denies, the slot is idle again, and the first in line
// gets it.
func TestLineGetsTheSlotOfADeniedRequest(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		rpm := PerMinute("rpm", 100)
		job := asks(Costs{"jobs": 1}, jobs2, rpm)
		w, other := o.worker(0, Options{Ahead: 10 * time.Second}), o.worker(0, Options{})
		o.busy(w, job)
		beside := o.must(other, asks(Costs{"jobs": 1, "rpm": 100}, jobs2, rpm)) // w has not seen that
		w.desks.Wait()
		var slow atomic.Bool
		slow.Store(true)
		w.on(func(op string, _ []item.Write) fate {
			if op == "write" && slow.CompareAndSwap(true, false) {
				return fate{apply: true, delay: 500 * time.Millisecond}
			}
			return fate{apply: true}
		})
		begun, ended := time.Now(), make(chan time.Duration)
		go func() {
			time.Sleep(100 * time.Millisecond)
			waited, err := w.Wait(context.Background(), job)
			if err != nil {
				t.Error(err)
			} else if err := waited.Commit(context.Background()); err != nil {
				t.Error(err)
			}
			ended <- time.Since(begun)
		}()
		o.denied(w, asks(Costs{"jobs": 1, "rpm": 50}, jobs2, rpm))
		denied := time.Since(begun)
		if took := <-ended; took > denied {
			t.Errorf("it had the slot after %v, want %v, when the other was denied", took, denied)
		}
		check.Must(t, beside.Commit(t.Context()))
		time.Sleep(20 * time.Second)
		o.free("all have ended", 2)
	})
}

// Reused slots go back to their own item, whichever item paid the tokens.
func TestReusedSlotsGoBackToTheirOwnItem(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{Ahead: time.Second})
		lease := o.must(w, o.busy(w, takesJob(1)))
		lease.items[0].Key = layout.BucketKey(o.ns, acme, gpt, 1)
		time.Sleep(2 * time.Second)
		check.Must(t, lease.Commit(t.Context()))
		w.desks.Wait()
		o.free("given back", 2)
	})
}

// Slots of a cascade are idle on all its levels, and go back on each.
func TestIdleSlotsOfACascade(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{Ahead: 2 * time.Second})
		o.cascade(map[string]int64{acme: 8, "org": 6})
		req := o.busy(w, asks(Costs{"jobs": 1, "rpm": 1}))
		time.Sleep(5 * time.Second)
		o.busy(w, req)
		before := w.count("write")
		for range 20 {
			lease := o.must(w, req)
			time.Sleep(20 * time.Millisecond)
			check.Must(t, lease.Commit(t.Context()))
		}
		if n := w.count("write") - before; n > 20 {
			t.Errorf("20 requests of two levels took %d writes", n)
		}
		time.Sleep(5 * time.Second)
		for _, n := range []int64{6, 0} {
			var all []*Lease
			for range n {
				all = append(all, o.must(w, req))
			}
			if n > 0 {
				o.denied(w, req)
			}
			for _, le := range all {
				check.Must(t, le.Rollback(t.Context()))
			}
			time.Sleep(5 * time.Second)
			o.free("given back", 8)
		}
	})
}

// Slots that a lease reused and slots that it took itself go back in one write, if they count in
// one epoch.
func TestSlotsTakenOverAndTaken(t *testing.T) {
	for name, c := range map[string]struct {
		first time.Duration // into the epoch: the reused slot
		work  time.Duration
	}{"one epoch": {0, 5 * time.Second}, "two epochs": {28 * time.Second, 4500 * time.Millisecond}} {
		for _, settled := range []int64{-1, 0, 9} {
			t.Run(fmt.Sprint(name, " ", settled), func(t *testing.T) {
				inOffice(t, func(t *testing.T, o *office) {
					six := InFlight("jobs", 6, epoch)
					w := o.worker(0, Options{Ahead: 4 * time.Second})
					time.Sleep(epoch - time.Duration(time.Now().UnixNano())%epoch)
					o.busy(w, takesJob(1, six))
					time.Sleep(c.first)
					o.busy(w, takesJob(1, six))
					time.Sleep(3500 * time.Millisecond)
					lease := o.must(w, takesJob(3, six))
					o.free("three are at work", 3)
					time.Sleep(c.work)
					if settled >= 0 {
						check.Must(t, lease.Settle(Costs{"rpm": settled}))
					}
					check.Must(t, lease.Commit(t.Context()))
					time.Sleep(10 * time.Millisecond)
					w.desks.Wait()
					o.free("all are given back", 6)
				})
			})
		}
	}
}

// A waiter for more slots than are idle here sleeps until others give some back.
func TestWaiterForMoreThanIdleSlotsSleeps(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var readings atomic.Int64
		six := InFlight("jobs", 6, epoch)
		w, other := o.worker(0, Options{Ahead: 5 * time.Second}), o.worker(0, Options{})
		o.busy(w, takesJob(1, six))
		beside := o.must(other, takesJob(5, six))
		time.AfterFunc(2*time.Second, func() { _ = beside.Commit(context.Background()) })
		w.desks.Wait()
		now := w.opts.Now
		w.opts.Now = func() time.Time {
			if readings.Add(1) > 10_000 {
				panic("it asks again and again")
			}
			return now()
		}
		begun := time.Now()
		var all sync.WaitGroup
		for _, class := range []string{"", "batch"} { // each is the first of a line
			all.Go(func() {
				lease, err := w.Wait(t.Context(), takesJob(2, six).of(class))
				if err != nil || time.Since(begun) > 10*time.Second {
					t.Errorf("after %v: %v", time.Since(begun), err)
				} else if err := lease.Rollback(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// The status of a lease and of a denial includes the slots that this process had.
func TestStatusCountsReusedSlots(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		six := InFlight("jobs", 6, epoch)
		w, other := o.worker(0, Options{Ahead: 5 * time.Second}), o.worker(0, Options{})
		o.busy(w, takesJob(2, six))
		lease := o.must(w, takesJob(2, six))
		if all := lease.Status(); len(all) != 2 || all[0].Limit != "jobs" || all[0].Remaining != 4 {
			t.Errorf("status: %+v", all)
		}
		check.Must(t, lease.Commit(t.Context()))
		beside := o.must(other, takesJob(3, six))
		if d := o.denied(w, takesJob(4, six)); d.Wanted != 4 || d.Remaining != 3 || d.Statuses[0].Remaining != 3 {
			t.Errorf("denied: %+v", d)
		}
		check.Must(t, beside.Commit(t.Context()))
	})
}

// Idle slots are not a local share of an in-flight limit: without a decision, a request that reuses
// them fails under PolicyLocal, also as one of several parts, and they are idle again.
func TestNoLocalShareHasReusedSlots(t *testing.T) {
	also := Part{Entity: "other", Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}}
	for _, parts := range [][]Part{nil, {also}} {
		inOffice(t, func(t *testing.T, o *office) {
			w := o.worker(0, Options{Ahead: 5 * time.Second, OnUnavailable: PolicyLocal})
			six := InFlight("jobs", 6, epoch)
			req := o.busy(w, takesJob(2, six))
			req.Also = parts
			o.db.SetHook(func(op memdynamo.Op) (bool, error) { return !isWrite(op), memdynamo.Fail(store.Unavailable) })
			if lease, err := w.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%d parts: %v, %v", 1+len(parts), lease, err)
			}
			o.db.SetHook(nil)
			o.free("idle", 4)
			check.Must(t, o.must(w, takesJob(2, six)).Commit(t.Context()))
		})
	}
}

// An inactive process keeps no slot longer than an epoch, however long tokens may be held.
func TestIdleSlotsLastAnEpochAtMost(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ten := InFlight("jobs", 10, 5*time.Second)
		w := o.worker(0, Options{Ahead: 10 * time.Minute})
		o.busy(w, asks(Costs{"jobs": 4}, ten))
		o.busy(w, asks(Costs{"jobs": 4}, ten))
		o.free("idle", 6)
		time.Sleep(5100 * time.Millisecond)
		o.free("given back", 10)
	})
}

// A request for zero slots of a bucket with nothing else calls the table: the image may be old.
func TestARequestForNoSlotAsksTheTable(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{Ahead: 5 * time.Second}), o.worker(0, Options{})
		o.busy(w, asks(Costs{"jobs": 1}, jobs2))
		time.Sleep(time.Minute)
		o.must(other, asks(Costs{"jobs": 2}, jobs2))
		lease := o.must(w, asks(Costs{"jobs": 0}, jobs2))
		if all := lease.Status(); len(all) != 1 || all[0].Remaining != 0 {
			t.Errorf("status: %+v", all)
		}
	})
}

// Idle slots do not pay for a limit that has replaced theirs.
func TestIdleSlotsOfALimitThatWasReplaced(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		four := InFlight("jobs", 4, epoch)
		w, other := o.worker(0, Options{Ahead: 20 * time.Second}), o.worker(0, Options{})
		o.busy(w, takesJob(1, four))
		o.busy(w, takesJob(1, four))
		for range 4 {
			o.must(other, takesJob(1, PerMinute("jobs", 4)))
		}
		o.denied(other, takesJob(1, PerMinute("jobs", 4)))
		learns := takesJob(0, four)
		learns.Costs["rpm"] = 5000
		o.must(w, learns)
		if d := o.denied(w, takesJob(1, four)); d.Wanted != 1 || d.Remaining != 0 {
			t.Errorf("denied: %+v", d)
		}
	})
}

// A lease that names an in-flight limit without taking a slot holds none of it: whatever happens to
// that limit, the slots of others are renewed, and nothing is lost.
func TestALeaseHoldsNoSlotOfALimitThatItTakesNoneOf(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{}), o.worker(0, Options{})
		lease := o.must(w, asks(Costs{"first": 0, "jobs": 2}, InFlight("first", 2, epoch), jobs2))
		renewed := w.count("transact")
		time.Sleep(2 * epoch)
		o.must(other, asks(Costs{"first": 1, "jobs": 0}, PerMinute("first", 5), jobs2))
		time.Sleep(3 * epoch)
		if isLost(lease) {
			t.Error("lost")
		}
		o.denied(other, asks(Costs{"jobs": 1}, jobs2))
		if n := w.count("transact") - renewed; n < 4 || n > 6 {
			t.Errorf("renewed %d times in five epochs", n)
		}
		check.Must(t, lease.Commit(t.Context()))
		o.free("given back", 2)
	})
}

// Tokens and slots are given back independently: slots even if the period of a quota is over, and
// tokens even if the bucket no longer counts the slots. The slots of others stay.
func TestSlotsAndTokensGoBackByThemselves(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{}), o.worker(0, Options{})
		quota := Quota("rpd", 9, Daily(""))
		time.Sleep(24*time.Hour - 5*time.Second)
		lease := o.must(w, asks(Costs{"jobs": 1, "rpd": 2}, jobs2, quota))
		time.Sleep(10 * time.Second)
		o.must(other, asks(Costs{"jobs": 0, "rpd": 1}, jobs2, quota))
		o.free("yesterday's is at work", 1)
		check.Must(t, lease.Rollback(t.Context()))
		o.free("it is given back", 2)
		used := func(limit string) int64 {
			b := o.bucket(acme)
			return b.State.Slots[b.State.Index(limit)].Used / bucket.Milli
		}
		check.Equal(t, used("rpd"), 3, "used of the quota")
		lease = o.must(w, takesJob(2))
		o.db.Delete(layout.BucketKey(o.ns, acme, gpt, 0))
		o.must(other, takesJob(1)) // a new one
		check.Must(t, lease.Rollback(t.Context()))
		o.free("the other is at work", 1)
		check.Equal(t, used("rpm"), 0, "tokens used: one is given back")
	})
}

// A client that panics in a renewal does not end the process. It is unknown whether the slots were
// moved, so they are lost, which is reported. Later slots are renewed again.
func TestARenewalThatPanics(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var told []error
		var mu sync.Mutex
		w := o.worker(0, Options{Observe: func(_ context.Context, e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == EventUpkeep || e.Kind == EventLost {
				told = append(told, e.Err)
			}
			if e.Entity != acme || e.Resource != gpt {
				t.Errorf("reported %+v", e)
			}
		}})
		lease := o.must(w, takesJob(1))
		w.on(func(op string, _ []item.Write) fate {
			if op == "transact" {
				panic("middleware")
			}
			return fate{apply: true}
		})
		time.Sleep(2 * epoch)
		w.on(nil)
		mu.Lock()
		if len(told) != 2 || told[0] != nil || !errors.Is(told[1], ErrUnknown) || !isLost(lease) ||
			!strings.Contains(told[1].Error(), "panic") {
			t.Errorf("lost %v, reported %v", isLost(lease), told)
		}
		mu.Unlock()
		time.Sleep(epoch)
		o.free("its epochs are over", 2)
		check.Must(t, lease.Commit(t.Context()))
		lease = o.must(w, takesJob(2))
		time.Sleep(3 * epoch)
		if isLost(lease) {
			t.Error("lost")
		}
		o.free("at work", 0)
	})
}

// Slots of a bucket that this process has forgotten are renewed as well, and its item does not
// expire before them, because its expiry is recorded when they are taken. No event reports it.
func TestSlotsOfAForgottenBucketAreRenewed(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{Observe: only(EventUpkeep, func(e Event) { t.Errorf("reported %+v", e) })})
		ten := InFlight("jobs", 2, 10*time.Minute)
		lease := o.must(w, takesJob(2, ten))
		for range 4 {
			forget(w.Limiter, acmeGPT)
			time.Sleep(10 * time.Minute)
			b, err := table.DecodeShard(o.db.Item(layout.BucketKey(o.ns, acme, gpt, 0)))
			if err != nil || b.TTL == 0 || b.TTL < time.Now().Add(10*time.Minute).Unix() {
				t.Errorf("%v: it expires in %d s", err, b.TTL-time.Now().Unix())
			}
		}
		if isLost(lease) {
			t.Error("lost")
		}
		o.free("at work", 0)
		check.Must(t, lease.Commit(t.Context()))
		o.free("given back", 2)
	})
}

// If a rollback failed on one level of a cascade, it is repeated there, without taking anything on
// the others, even if the request named limits with zero tokens.
func TestARollbackThatIsRepeatedTakesNoSlot(t *testing.T) {
	for _, fails := range []string{acme, "org"} {
		inOffice(t, func(t *testing.T, o *office) {
			w := o.worker(0, Options{})
			o.cascade(map[string]int64{acme: 8, "org": 6})
			lease := o.must(w, asks(Costs{"jobs": 2, "rpm": 0}))
			w.on(func(_ string, writes []item.Write) fate {
				if writes != nil && writes[0].Target() == layout.BucketKey(o.ns, fails, gpt, 0) {
					return fate{err: memdynamo.Fail(store.Unavailable)}
				}
				return fate{apply: true}
			})
			check.MustBe(t, lease.Rollback(t.Context()), ErrUnavailable)
			w.on(nil)
			check.Must(t, lease.Rollback(t.Context()))
			for entity, slots := range map[string]int64{acme: 8, "org": 6} {
				b := o.bucket(entity)
				if sl := b.State.Slots[b.State.Index("jobs")]; sl.Tokens != slots*bucket.Milli {
					t.Errorf("%s fails at first: %s has %d slots free, want %d", fails, entity, sl.Tokens/bucket.Milli, slots)
				}
			}
		})
	}
}
