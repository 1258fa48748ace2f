package limiter

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const epoch = 30 * time.Second

var jobs2 = InFlight("jobs", 2, epoch)

// office is a table within a bubble, with processes whose calls a test can disturb.
type office struct {
	t  *testing.T
	db *memdynamo.DB
	ns string
}

func inOffice(t *testing.T, f func(t *testing.T, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &office{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })})
	})
}

// worker is one process. Its store asks for the fate of each call.
type worker struct {
	*Limiter
	skew   atomic.Int64 // of its clock, in nanoseconds
	mu     sync.Mutex
	calls  map[string]int
	before func(op string, writes []item.Write) fate
}

// fate is the fate of a call: performed or not, and late; err is returned to its caller instead of
// the answer.
type fate struct {
	apply bool
	delay time.Duration
	err   error
}

type workersStore struct {
	store.Store
	w *worker
}

// asked sends a call with its fate: late by delay, whether or not its caller still waits.
func asked[T any](ctx context.Context, w *worker, op string, writes []item.Write,
	f func(context.Context) (T, error)) (out T, err error) {
	w.mu.Lock()
	w.calls[op]++
	before := w.before
	w.mu.Unlock()
	what := fate{apply: true}
	if before != nil {
		what = before(op, writes)
	}
	if !what.apply {
		return out, what.err
	}
	if what.delay == 0 {
		if out, err = f(ctx); what.err != nil {
			return *new(T), what.err
		}
		return out, err
	}
	type answer struct {
		out T
		err error
	}
	came := make(chan answer, 1)
	go func() {
		time.Sleep(what.delay)
		out, err := f(context.WithoutCancel(ctx))
		came <- answer{out, err}
	}()
	select {
	case a := <-came:
		return a.out, a.err
	case <-ctx.Done():
		return out, memdynamo.Fail(store.Unknown)
	}
}

func (s workersStore) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return asked(ctx, s.w, "write", []item.Write{w}, func(ctx context.Context) (item.Item, error) {
		return s.Store.Write(ctx, w)
	})
}

func (s workersStore) Transact(ctx context.Context, token string, writes []item.Write) error {
	_, err := asked(ctx, s.w, "transact", writes, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.Transact(ctx, token, writes)
	})
	return err
}

func (s workersStore) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return asked(ctx, s.w, "read", nil, func(ctx context.Context) ([]item.Item, error) {
		return s.Store.Read(ctx, consistent, keys...)
	})
}

func (o *office) worker(skew time.Duration, opts Options) *worker {
	w := &worker{calls: map[string]int{}}
	w.skew.Store(int64(skew))
	opts.Register = true
	opts.Now = func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }
	l, err := open(context.Background(), workersStore{o.db, w}, &opts)
	check.Must(o.t, err)
	w.Limiter, o.ns = l, l.namespace
	return w
}

// on sets the fate of calls.
func (w *worker) on(before func(op string, writes []item.Write) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

// crash lets no more calls through: nothing is performed.
func (w *worker) crash() {
	w.on(func(string, []item.Write) fate { return fate{err: memdynamo.Fail(store.Unavailable)} })
}

// renewsAt makes the worker renew slots taken from now on at a point of the renewal time, 0 to
// 0xffff. It returns the worker.
func (w *worker) renewsAt(part uint64) *worker {
	w.desks.Slots.Random = func() uint64 { return part }
	return w
}

func (w *worker) count(op string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[op]
}

func takesJob(n int64, limits ...Limit) Request {
	if limits == nil {
		limits = []Limit{jobs2}
	}
	return asks(Costs{"jobs": n, "rpm": 1}, append(limits, PerMinute("rpm", 1_000_000))...)
}

func (o *office) must(w *worker, req Request) *Lease {
	o.t.Helper()
	lease, err := w.Acquire(context.Background(), req)
	check.Must(o.t, err)
	return lease
}

func (o *office) denied(w *worker, req Request) *LimitError {
	o.t.Helper()
	return deniedBy(o.t, w.Limiter, req)
}

// bucket returns the only shard of a bucket.
func (o *office) bucket(entity string) table.Shard {
	o.t.Helper()
	b, err := table.DecodeShard(o.db.Item(layout.BucketKey(o.ns, entity, gpt, 0)))
	check.Must(o.t, err)
	return b
}

func (o *office) slot() bucket.Slot {
	o.t.Helper()
	s := o.bucket(acme).State.At(time.Now().UnixMilli())
	return s.Slots[s.Index("jobs")]
}

// free checks how many slots are free in the item.
func (o *office) free(step string, want int64) {
	o.t.Helper()
	check.MustEqual(o.t, o.slot().Tokens/bucket.Milli, want, "%s: slots are free", step)
}

func isLost(le *Lease) bool {
	select {
	case <-le.slots.Lost():
		return true
	default:
		return false
	}
}

// Commit and Rollback take and give back a slot in the same write as tokens.
func TestSlotsCostNoWriteMore(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		check.Must(t, o.must(w, takesJob(1)).Commit(t.Context()))
		for _, end := range []func(*Lease) error{
			func(le *Lease) error { return errors.Join(le.Settle(Costs{"rpm": 5}), le.Commit(t.Context())) },
			func(le *Lease) error { return errors.Join(le.Settle(Costs{"rpm": 0}), le.Commit(t.Context())) },
			func(le *Lease) error { return le.Commit(t.Context()) },
			func(le *Lease) error { return le.Rollback(t.Context()) },
			func(le *Lease) error { return errors.Join(le.Settle(Costs{"rpm": 7}), le.Rollback(t.Context())) },
		} {
			before := w.count("write") + w.count("transact") + w.count("read")
			lease := o.must(w, takesJob(2))
			o.free("taken", 0)
			d := o.denied(w, takesJob(1))
			if d.Limit != "jobs" || !d.Estimated || d.RetryAfter > time.Second || d.Remaining != 0 {
				t.Errorf("denied: %+v", d)
			}
			check.Must(t, end(lease))
			o.free("given back", 2)
			check.Equal(t, w.count("write")+w.count("transact")+w.count("read")-before, 2, "it took calls")
			if isLost(lease) || lease.Rollback(t.Context()) != nil {
				t.Error("an ended lease is lost, or gives back once more")
			}
			o.free("rolled back after the end", 2)
		}
	})
}

// A process that dies, or gets no answers, is notified before others can have its slots; they are
// free at the end of the epoch after theirs.
func TestSlotsOfTheDeadAreFree(t *testing.T) {
	for name, fault := range map[string]func(string, []item.Write) fate{
		"unavailable":  func(string, []item.Write) fate { return fate{err: memdynamo.Fail(store.Unavailable)} },
		"throttled":    func(string, []item.Write) fate { return fate{err: memdynamo.Fail(store.Throttled)} },
		"no answer":    func(string, []item.Write) fate { return fate{err: memdynamo.Fail(store.Unknown)} },
		"answer lost":  func(string, []item.Write) fate { return fate{apply: true, err: memdynamo.Fail(store.Unknown)} },
		"client panic": func(string, []item.Write) fate { panic("client") },
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(t *testing.T, o *office) {
				w, other := o.worker(900*time.Millisecond, Options{}), o.worker(-900*time.Millisecond, Options{})
				lease := o.must(w, takesJob(2))
				taken := time.Now()
				w.on(fault)
				for {
					time.Sleep(100 * time.Millisecond)
					if _, err := other.Acquire(t.Context(), takesJob(1)); err == nil {
						break
					}
					if time.Since(taken) > 3*epoch+5*time.Second {
						t.Fatal("the slots of the dead are never free")
					}
				}
				if !isLost(lease) {
					t.Error("its loss was not reported before others had its slots")
				}
				if after := time.Since(taken); after < epoch {
					t.Errorf("free after %s", after)
				}
				w.on(nil)
				check.NoError(t, lease.Rollback(t.Context()))
				time.Sleep(time.Second)
				o.free("one is taken, and nothing was given back for the other", 1)
			})
		})
	}
}

// If the answer of a renewal is lost, it is sent again with the first token: the slots move once. A
// lease that ends meanwhile is given back after the answer, and not before: that would take from
// another process's count in the old epoch.
func TestLostAnswersOfRenewals(t *testing.T) {
	for _, ends := range []bool{false, true} {
		inOffice(t, func(t *testing.T, o *office) {
			w, other := o.worker(0, Options{}).renewsAt(0), o.worker(0, Options{}).renewsAt(0xffff)
			limit := InFlight("jobs", 3, epoch)
			first, second := o.must(w, takesJob(1, limit)), o.must(w, takesJob(1, limit))
			third := o.must(other, takesJob(1, limit))
			var until atomic.Int64 // when the answers arrive
			w.on(func(op string, _ []item.Write) fate {
				if op != "transact" {
					return fate{apply: true}
				}
				until.CompareAndSwap(0, time.Now().Add(3*time.Second).UnixNano())
				if time.Now().UnixNano() < until.Load() {
					return fate{apply: true, err: memdynamo.Fail(store.Unknown)}
				}
				return fate{apply: true}
			})
			for until.Load() == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			if ends {
				check.Must(t, second.Commit(t.Context()))
				o.free("on its way", 0)
			}
			time.Sleep(4 * time.Second)
			if ends {
				o.free("given back when the answer was there", 1)
			} else {
				o.free("held", 0)
			}
			time.Sleep(10 * epoch)
			if isLost(first) || isLost(second) || isLost(third) {
				t.Error("lost for answers that came in the end")
			}
			for _, le := range []*Lease{first, second, third} {
				check.Must(t, le.Rollback(t.Context()))
			}
			o.free("given back", 3)
		})
	}
}

// cascade stores two entities, the first of which cascades to the second, with a number of slots
// each.
func (o *office) cascade(slots map[string]int64) {
	o.t.Helper()
	const created = "2026-01-01T00:00:00Z"
	o.db.Store(config.Entity{Namespace: o.ns, ID: acme, Parent: "org", Cascade: true, CreatedAt: created}.Item())
	o.db.Store(config.Entity{Namespace: o.ns, ID: "org", CreatedAt: created}.Item())
	for entity, n := range slots {
		limits, err := storedLimits("limits", []Limit{InFlight("jobs", n, epoch), PerMinute("rpm", 1000)})
		check.Must(o.t, err)
		o.db.Store(config.Config{Namespace: o.ns, Entity: entity, Resource: gpt, Limits: limits}.Item())
	}
}

// Slots of a cascade are taken on all levels or on none, renewed on all of them, and given back
// once on each, even if a commit must be repeated for one of them.
func TestSlotsOfACascade(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var lost []string
		w := o.worker(0, Options{Observe: only(EventLost, func(e Event) { lost = append(lost, e.Entity) })})
		o.cascade(map[string]int64{acme: 3, "org": 2})
		req := asks(Costs{"jobs": 1, "rpm": 1})
		first, second := o.must(w, req), o.must(w, req)
		if d := o.denied(w, req); d.Entity != "org" || d.Limit != "jobs" {
			t.Errorf("denied by %s of %s", d.Limit, d.Entity)
		}
		o.free("what a level had taken is given back", 1)
		time.Sleep(5 * epoch)
		if isLost(first) || isLost(second) {
			t.Fatal("lost")
		}
		o.free("held", 1)
		w.on(func(op string, writes []item.Write) fate {
			if _, entity, _, _, _ := layout.ParseBucketPK(writes[0].Target().PK); entity == "org" {
				return fate{err: memdynamo.Fail(store.Unavailable)}
			}
			return fate{apply: true}
		})
		check.MustBe(t, first.Commit(t.Context()), ErrUnavailable)
		o.free("given back on one level", 2)
		w.on(nil)
		check.Must(t, first.Commit(t.Context()))
		o.free("not given back twice", 2)
		third := o.must(w, req)
		o.denied(w, req)
		for _, le := range []*Lease{second, third} {
			check.Must(t, le.Rollback(t.Context()))
		}
		o.free("given back", 3)
		o.must(w, req)
		w.crash()
		time.Sleep(3 * epoch)
		w.on(nil)
		synctest.Wait()
		check.Slices(t, lost, []string{acme}, "a lease of %s on two levels, are said to have lost slots", acme)
	})
}

// All slots are on shard 0. A bucket that had several shards before it got an in-flight limit is
// merged while slots are held. They stay held, also when the limit changes.
func TestSlotsOfShards(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{}), o.worker(0, Options{})
		rate := PerMinute("rpm", 1_000_000)
		o.must(w, asks(Costs{"rpm": 1}, rate))
		b := o.bucket(acme)
		check.Must(t, o.db.Bare().Transact(t.Context(), "split", table.Split(b, time.Now().UnixMilli())))
		leases := []*Lease{o.must(w, takesJob(1)), o.must(other, takesJob(1))}
		for range 20 {
			o.denied(w, takesJob(1))
			o.denied(other, takesJob(1))
			time.Sleep(epoch / 3)
		}
		o.free("held", 0)
		w.desks.Wait()
		other.desks.Wait()
		if o.db.Item(layout.BucketKey(o.ns, acme, gpt, 1)) != nil {
			t.Error("a bucket with slots is still divided")
		}
		time.Sleep(3 * epoch)
		three := InFlight("jobs", 3, epoch)
		leases = append(leases, o.must(w, takesJob(1, three)))
		o.denied(w, takesJob(1, three))
		time.Sleep(3 * epoch)
		for _, le := range leases {
			if isLost(le) {
				t.Error("lost")
			}
			check.Must(t, le.Rollback(t.Context()))
		}
		o.free("given back", 3)
	})
}

// If the table does not answer, the slots in use are unknown: PolicyLocal grants no slots.
func TestNoSlotsByPolicyLocal(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{OnUnavailable: PolicyLocal})
		w.crash()
		check.Is(t, check.Err(w.Acquire(t.Context(), takesJob(1))), ErrUnavailable, "with slots")
		for range 3 {
			lease, err := w.Acquire(t.Context(), takesJob(0))
			if err != nil || lease.Charged() || lease.Lost() != nil {
				t.Fatalf("without slots: %v", err)
			}
			check.NoError(t, lease.Commit(t.Context()))
		}
	})
}

// The slots of a forgotten lease are not renewed: they are free when the epochs are over.
func TestSlotsOfADroppedLease(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		lease := o.must(w, takesJob(2))
		before := w.count("transact")
		w.desks.Slots.Drop(lease.slots) // like the garbage collector
		time.Sleep(2*epoch + 2*time.Second)
		o.free("dropped", 2)
		if n := w.count("transact") - before; n > 0 || !isLost(lease) {
			t.Errorf("%d renewals, lost: %v", n, isLost(lease))
		}
	})
	l := newWorld(t).process(Options{})
	var s *inflight.Lease
	var lease weak.Pointer[Lease]
	var taken sync.WaitGroup
	taken.Go(func() { // on a separate stack that disappears
		le := must(t, l, takesJob(1))
		s, lease = le.slots, weak.Make(le)
	})
	taken.Wait()
	l.desks.Wait()
	for range 3 { // a pool keeps its contents for two cycles
		runtime.GC()
	}
	if lease.Value() != nil {
		t.Fatal("a forgotten lease is kept by its limiter")
	}
	for dropped := false; !dropped; runtime.Gosched() { // the collector has found it, and the cleanup is pending
		l.desks.Slots.Look(s, l.now())
		select {
		case <-s.Lost():
			dropped = true
		default:
		}
	}
}

// The context of a function in Do ends when its slots are lost; its slots are given back however it
// ends.
func TestDoWithSlots(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		bad := errors.New("bad")
		for _, want := range []error{nil, bad} {
			check.Equal(t, w.Do(t.Context(), takesJob(2), func(context.Context, *Lease) error { return want }), want)
			o.free("done", 2)
		}
		func() {
			defer func() { _ = recover() }()
			_ = w.Do(t.Context(), takesJob(2), func(context.Context, *Lease) error { panic("bad") })
		}()
		o.free("panicked", 2)
		err := w.Do(t.Context(), takesJob(2), func(ctx context.Context, _ *Lease) error {
			w.crash()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		check.Is(t, err, ErrSlotsLost, "the function ended with")
	})
}

// A context within a lease ends when its slots are lost, when its parent context ends, and when it
// is cancelled, which does not end the lease.
func TestWithin(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		type key struct{}
		outside, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, "kept"))
		lease, without := o.must(w, takesJob(1)), must(t, w.Limiter, asks(Costs{"rpm": 1}, rpm10))
		over, cancelled := lease.Within(outside)
		going, cancel := lease.Within(outside)
		defer cancel()
		alone, cancelAlone := without.Within(outside)
		defer cancelAlone()
		cancelled()
		synctest.Wait()
		if context.Cause(over) != context.Canceled || going.Err() != nil || alone.Err() != nil || isLost(lease) {
			t.Errorf("cancelled: %v; others %v and %v, lost %v", context.Cause(over), going.Err(), alone.Err(), isLost(lease))
		}
		check.Equal(t, going.Value(key{}), "kept", "what the context outside holds is not there")
		w.crash()
		time.Sleep(3 * epoch)
		late, cancelLate := lease.Within(outside)
		defer cancelLate()
		synctest.Wait()
		if context.Cause(going) != ErrSlotsLost || context.Cause(late) != ErrSlotsLost || alone.Err() != nil {
			t.Errorf("lost: %v and %v; without slots %v", context.Cause(going), context.Cause(late), alone.Err())
		}
		bye := errors.New("bye")
		leave(bye)
		check.Equal(t, context.Cause(alone), bye, "left")
	})
}

// Wait gets a slot as soon as this process gives one back, and soon after another process does.
func TestWaitForSlots(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w, other := o.worker(0, Options{}), o.worker(0, Options{})
		mine, theirs := o.must(w, takesJob(1)), o.must(other, takesJob(1))
		for _, tt := range []struct {
			end  *Lease
			most time.Duration
		}{{mine, 0}, {theirs, 4 * time.Second}} {
			time.AfterFunc(20*time.Second, func() { _ = tt.end.Commit(context.Background()) })
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
			defer cancel()
			lease, err := w.Wait(ctx, takesJob(1))
			check.Must(t, err)
			if after := time.Since(began) - 20*time.Second; after < 0 || after > tt.most {
				t.Errorf("it waited for %s after there was a slot", after)
			}
			o.free("taken again", 0)
			defer func() { _ = lease.Rollback(context.Background()) }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		check.Is(t, check.Err(w.Wait(ctx, takesJob(1))), context.DeadlineExceeded, "waited in vain")
		if _, _, err := w.Reserve(t.Context(), takesJob(1)); !errors.Is(err, ErrQueueFull) {
			t.Errorf("reserved: %v", err)
		}
	})
}

// Invalid operations on slots are refused by name.
func TestInvalidInFlight(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		four := []Limit{InFlight("a", 1, epoch), InFlight("b", 1, epoch), InFlight("c", 1, epoch), InFlight("d", 1, epoch)}
		if _, err := w.Acquire(t.Context(), asks(Costs{"a": 1}, four...)); !errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), "4 in-flight limits") {
			t.Error(err)
		}
		check.Is(t, check.Err(w.Acquire(t.Context(), takesJob(3))), ErrTooLarge)
		lease := o.must(w, takesJob(1))
		check.MustBe(t, lease.Settle(Costs{"jobs": 2}), ErrInvalid)
		before := w.count("write")
		if err := lease.Charge(t.Context(), Costs{"jobs": 1}); !errors.Is(err, ErrInvalid) || w.count("write") != before {
			t.Errorf("charged slots: %v, with %d writes", err, w.count("write")-before)
		}
		check.NoError(t, lease.Charge(t.Context(), Costs{"rpm": 4}))
		check.NoError(t, lease.Rollback(t.Context()))
		o.free("given back", 2)
		check.Equal(t, jobs2.String(), "jobs: 2 in flight, epochs of 30s")
	})
}

// A waiter for the parent's slot gets it when this process gives one back, even one of another
// child. Of several waiters behind their own children, one is admitted per slot, and each
// eventually.
func TestWaitForASlotOfAParent(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{})
		for entity, n := range map[string]int64{"u1": 5, "u2": 5, "u3": 5, "org": 1} {
			e := config.Entity{Namespace: o.ns, ID: entity, CreatedAt: "2026-01-01T00:00:00Z"}
			if entity != "org" {
				e.Parent, e.Cascade = "org", true
			}
			o.db.Store(e.Item())
			limits, err := storedLimits("l", []Limit{InFlight("jobs", n, epoch)})
			check.Must(t, err)
			o.db.Store(config.Config{Namespace: o.ns, Entity: entity, Resource: gpt, Limits: limits}.Item())
		}
		ask := func(entity string) Request {
			return Request{Entity: entity, Resource: gpt, Costs: Costs{"jobs": 1}}
		}
		held := o.must(w, ask("u1"))
		got := make(chan *Lease, 3)
		for _, entity := range []string{"u1", "u2", "u3"} {
			go func() {
				lease, err := w.Wait(context.Background(), ask(entity))
				check.NoError(t, err)
				got <- lease
			}()
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 3 {
			time.Sleep(10*time.Second + time.Duration(i)*707*time.Millisecond)
			freed := time.Now()
			check.Must(t, held.Commit(context.Background()))
			if held = <-got; time.Since(freed) > 100*time.Millisecond {
				t.Errorf("the slot is taken %v after it was given back", time.Since(freed))
			}
			if len(got) > 0 {
				t.Error("two have the slot")
			}
		}
		check.NoError(t, held.Commit(context.Background()))
	})
}
