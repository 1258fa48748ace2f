package limiter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// slots20 is the bucket of these tests: its queue is full at a debt of 20, two seconds.
var slots20 = PerMinute("rpm", 600).WithCapacity(20)

// TestWaitWaitsForRoom: 200 workers without deadlines are all served, at the rate of the limit. It
// prints the cost.
func TestWaitWaitsForRoom(t *testing.T) {
	for _, processes := range []int{1, 4, 16} {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			var mu sync.Mutex
			var history buckettest.History
			var all sync.WaitGroup
			var order []int
			all4 := make([]*Limiter, processes)
			for i := range all4 {
				all4[i] = process()
			}
			w.db.ResetStats()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for i := range 200 {
				all.Go(func() {
					check.NoError(t, check.Err(all4[i%processes].Wait(ctx, asks(Costs{"rpm": 1}, slots20))),
						"worker %d", i)
					mu.Lock()
					defer mu.Unlock()
					history.Take(time.Now().UnixMilli(), bucket.Milli)
					order = append(order, i)
				})
				time.Sleep(5 * time.Millisecond)
			}
			all.Wait()
			took, writes := time.Since(begin), w.db.Stats().Updates
			late, passed := 0, 0 // requests overtaken by others, and by how much
			for i := range order {
				if by := slices.Max(order[:i+1]) - order[i]; by > 0 {
					late, passed = late+1, max(passed, by)
				}
			}
			s := slots20.stored()
			// Answers take 2 ms.
			worst := history.Worst(bucket.Rate{Capacity: s.Capacity, Amount: s.Amount, Period: s.Period}, 2)
			t.Logf("%2d processes: 200 after %s, %d writes, %d out of order by up to %d, worst excess %v",
				processes, took, writes, late, passed, worst)
			if took < 18*time.Second || took > 19*time.Second {
				t.Errorf("%d processes: served within %s, want the 18s that it takes", processes, took)
			}
			if worst.Excess > 0 {
				t.Errorf("%d processes: worst excess %v", processes, worst)
			}
			if processes == 1 && passed > 20 {
				t.Errorf("out of order by more than a capacity: %v", order)
			}
			if most := []int{220, 300, 520}[slices.Index([]int{1, 4, 16}, processes)]; writes > most {
				t.Errorf("%d processes: %d writes, want at most %d", processes, writes, most)
			}
			for _, l := range all4 {
				if l.desks.Waiting.InLine(acmeGPT, "") {
					t.Error("a request is left in line")
				}
			}
		})
	}
}

// TestReserveAtAFullQueue: Reserve at a full queue returns a special error, with the instant from
// which there is room, to the millisecond.
func TestReserveAtAFullQueue(t *testing.T) {
	for _, shards := range []int{1, 4} {
		w, l := newProcess(t, Options{})
		l.desks.Settings.MaxShards = 4
		limit := PerSecond("rps", 40)
		must(t, l, asks(Costs{"rps": 0}, limit))
		if shards > 1 {
			w.split(l, shards)
		}
		all := int64(40 / shards)
		for range 3 * shards {
			l.Reserve(t.Context(), asks(Costs{"rps": all}, limit))
		}
		w.wantHeld(l, limit, -80)
		before := w.db.Snapshot()
		_, _, err := l.Reserve(t.Context(), asks(Costs{"rps": 1}, limit))
		full, ok := errors.AsType[*LimitError](err)
		if !ok || !errors.Is(err, ErrQueueFull) || !errors.Is(err, ErrLimited) || full.RetryAfter != time.Second {
			t.Fatalf("%d shards: got %v, want a full queue for 1s", shards, err)
		}
		w.sameTable(before)
		w.advance(time.Second - time.Millisecond)
		if _, _, err := l.Reserve(t.Context(), asks(Costs{"rps": 1}, limit)); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("%d shards, a millisecond early: %v", shards, err)
		}
		w.advance(time.Millisecond)
		if _, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 1}, limit)); err != nil ||
			after < time.Second || after > 1100*time.Millisecond {
			t.Fatalf("%d shards: after %s, %v, want to be let in, for a second and one token's time", shards, after, err)
		}
		if _, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, limit)); !errors.Is(err, ErrLimited) ||
			errors.Is(err, ErrQueueFull) {
			t.Fatalf("%d shards: an acquire next to a queue: %v", shards, err)
		}
	}
}

// TestStandingInLine: a request in line for the queue leaves with its context, is denied if that
// cannot be met, and fails immediately if it can never be granted.
func TestStandingInLine(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		w.db.SetHook(nil)
		l := process()
		fill := func() {
			t.Helper()
			for range 41 {
				reserved(t, l, asks(Costs{"rpm": 1}, slots20))
			}
		}
		fill()
		first := make(chan time.Duration)
		begin := time.Now()
		stand := func(ctx context.Context, n int64) {
			check.NoError(t, check.Err(l.Wait(ctx, asks(Costs{"rpm": n}, slots20))))
			first <- time.Since(begin)
		}
		go stand(t.Context(), 1)
		time.Sleep(time.Millisecond)
		calls := w.db.Stats().Calls()
		for _, c := range []struct {
			name  string
			cost  int64
			until time.Duration // of its context; negative: none
			want  error
			after time.Duration
		}{
			{"a deadline that even an empty line would miss", 1, 2 * time.Second, ErrLimited, 0},
			{"more than the capacity", 21, -1, ErrTooLarge, 0},
			{"a context that ends", 1, 3 * time.Second, ErrCanceled, 3 * time.Second},
		} {
			if c.name == "a context that ends" { // behind more requests than can be served by then
				for range 60 {
					go stand(t.Context(), 1)
				}
				time.Sleep(time.Millisecond)
			}
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if c.until > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.until)
			}
			at := time.Now()
			lease, err := l.Wait(ctx, asks(Costs{"rpm": c.cost}, slots20))
			cancel()
			if lease != nil || !errors.Is(err, c.want) || errors.Is(err, ErrQueueFull) || time.Since(at) != c.after {
				t.Errorf("%s: %v after %s, want %v after %s", c.name, err, time.Since(at), c.want, c.after)
			}
			if c.after == 0 && w.db.Stats().Calls() != calls {
				t.Errorf("%s: it sent something", c.name)
			}
		}
		last := time.Duration(0)
		for range 61 {
			last = max(last, <-first)
		}
		if last < 8100*time.Millisecond || last > 8300*time.Millisecond { // a debt of 21, and 61 in line
			t.Errorf("the last in line after %s, want 8.2s", last)
		}
		if l.desks.Waiting.InLine(acmeGPT, "") {
			t.Error("a request is left in line")
		}
	})
}

// TestLineMovesWhenThisProcessGivesBack, not only with time. A request admitted from the line
// sleeps no longer either. Its event has the writes of both.
func TestLineMovesWhenThisProcessGivesBack(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		time.Second: 6 * time.Minute, 45 * time.Minute: 45 * time.Minute, // the line asks after half an hour of debt
	} {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			w.db.SetHook(nil)
			writes := 0
			l, limit := process(), PerHour("rph", 10)
			l.opts.Observe = only(EventAcquire, func(e Event) { writes = e.Writes })
			must(t, l, asks(Costs{"rph": 10}, limit))
			var held []*Lease
			for _, n := range []int64{10, 5} {
				lease, _ := reserved(t, l, asks(Costs{"rph": n}, limit))
				held = append(held, lease)
			}
			begin := time.Now()
			done := make(chan error)
			go func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rph": 1}, limit))
				done <- err
			}()
			time.Sleep(after)
			let := !l.desks.Waiting.InLine(acmeGPT, "")
			for _, lease := range held {
				check.Must(t, lease.Rollback(t.Context()))
			}
			err := <-done
			if took := time.Since(begin); err != nil || took > want+time.Second {
				t.Errorf("given back after %s: %v after %s, want %s", after, err, took, want)
			}
			if let != (after > time.Minute) || writes == 0 {
				t.Errorf("given back after %s: let in %v, with %d writes", after, let, writes)
			}
		})
	}
}

// TestLineNoticesTokensOfAnOperator, although it would have waited for an hour, and without asking
// all the time.
func TestLineNoticesTokensOfAnOperator(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		w.db.SetHook(nil)
		l, limit := process(), PerHour("rph", 10)
		lease := must(t, l, asks(Costs{"rph": 10}, limit))
		for range 2 {
			reserved(t, l, asks(Costs{"rph": 10}, limit))
		}
		writes, begin, done := w.db.Stats().Updates, time.Now(), make(chan error)
		for range 5 {
			go func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rph": 1}, limit))
				done <- err
			}()
		}
		time.Sleep(10 * time.Minute)
		if sent := w.db.Stats().Updates - writes; sent > 10*60/15 {
			t.Errorf("%d writes in ten minutes, want one in 15s", sent)
		}
		it := w.db.Item(lease.items[0].Key)
		it["b_rph_tk"] = item.N(10 * bucket.Milli)
		w.db.Store(it)
		for range 5 {
			if err := <-done; err != nil || time.Since(begin) > 10*time.Minute+15*time.Second {
				t.Errorf("%v after %s, want that it sees the reset of ten minutes", err, time.Since(begin))
			}
		}
	})
}

// TestLineWhenTheTableIsDown: the first request in line gets the error, and the next one its turn.
func TestLineWhenTheTableIsDown(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		w.db.SetHook(nil)
		for range 41 {
			reserved(t, l, asks(Costs{"rpm": 1}, slots20))
		}
		w.db.SetHook(onCall(isWrite, 0,
			func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		got := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rpm": 1}, slots20))
				got <- err
			}()
			time.Sleep(time.Millisecond)
		}
		check.MustBe(t, <-got, ErrUnavailable)
		check.NoError(t, <-got, "the second")
	})
}

// TestQueueFullIsNoReasonToGoOn if taken tokens could not be given back: the caller gets that
// error, and nothing is retried.
func TestQueueFullIsNoReasonToGoOn(t *testing.T) {
	full, kept := &LimitError{full: true}, &SettleError{Op: "rollback", Err: ErrUnknown}
	for _, c := range []struct {
		err  error
		want *LimitError
	}{
		{full, full}, {errors.Join(full, nil), full}, {errors.Join(full, kept), nil}, {&LimitError{}, nil},
		{ErrUnknown, nil}, {nil, nil},
	} {
		if got := queueFull(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// The first in a line waits at random for up to the refill time of half a capacity; up to a
// capacity if others took the room, at least half of one if they did so again, and never longer: by
// then all debt is paid back. At the edge of a quota all ask within 2 s.
func TestPatienceInLine(t *testing.T) {
	newWorld(t) // seeds its random numbers
	rate := Status{Limit: "a", Capacity: 100, Refill: 10, Period: time.Second}
	floored, slow, quota, all := rate, rate, rate, rate
	floored.Floor, quota.Refill, slow.Period, all.Floor = 50, 0, 24*time.Hour, 100
	for _, c := range []struct {
		status      Status
		missed      int
		least, most time.Duration
	}{
		{rate, 0, 0, 5 * time.Second}, {rate, 1, 0, 10 * time.Second}, {rate, 2, 5 * time.Second, 10 * time.Second},
		{floored, 0, 0, 2500 * time.Millisecond}, {floored, 1, 0, 5 * time.Second},
		{floored, 2, 2500 * time.Millisecond, 5 * time.Second},
		{slow, 0, 0, 24 * time.Hour}, {quota, 2, 0, 2 * time.Second},
		{all, 0, 0, 0},
	} {
		e := &LimitError{Limit: "a", Statuses: []Status{{Limit: "b"}, c.status}}
		shortest, longest := c.most, time.Duration(0)
		for range 200 {
			d := e.patience(c.missed)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		tenth := (c.most - c.least) / 10
		if longest > c.most || longest < c.most-tenth || shortest < c.least || shortest > c.least+tenth {
			t.Errorf("%+v, missed %d: from %v to %v, want %v to %v", c.status, c.missed, shortest, longest, c.least, c.most)
		}
	}
	check.Equal(t, (&LimitError{Limit: "a"}).patience(0), 0, "patience for a limit that has no status")
}

// After a request from the line was admitted, as many more may follow as fit into the remaining
// debt of the queue: up to a capacity. Slots and floors cannot be in debt. The tightest limit
// decides, and one more may always ask.
func TestRoomBehindOneThatWasLetIn(t *testing.T) {
	rate := func(name string, remaining int64) Status {
		return Status{Limit: name, Capacity: 20, Refill: 20, Period: time.Minute, Remaining: remaining}
	}
	floored, slots := rate("rpm", 6), rate("jobs", 6)
	floored.Floor, slots.InFlight = 1, true
	for name, c := range map[string]struct {
		status []Status
		costs  Costs
		want   int
	}{
		"7 to owe":              {[]Status{rate("rpm", -13)}, Costs{"rpm": 1}, 8},
		"three at a time":       {[]Status{rate("rpm", -13)}, Costs{"rpm": 3}, 3},
		"nothing asked of it":   {[]Status{rate("rpm", -13)}, Costs{"rpm": 0}, 8},
		"full":                  {[]Status{rate("rpm", 20)}, Costs{"rpm": 1}, 41},
		"owes all":              {[]Status{rate("rpm", -20)}, Costs{"rpm": 1}, 1},
		"owes more":             {[]Status{rate("rpm", -200)}, Costs{"rpm": 1}, 1},
		"the first is tighter":  {[]Status{rate("rpm", -13), rate("tpm", 0)}, Costs{"rpm": 1, "tpm": 1}, 8},
		"the second is tighter": {[]Status{rate("rpm", 0), rate("tpm", -13)}, Costs{"rpm": 1, "tpm": 1}, 8},
		"a floor":               {[]Status{floored}, Costs{"rpm": 2}, 3},
		"a floor and no room":   {[]Status{floored}, Costs{"rpm": 7}, 1},
		"slots":                 {[]Status{slots}, Costs{"jobs": 2}, 3},
		"slots beside a rate":   {[]Status{slots, rate("rpm", 0)}, Costs{"jobs": 1, "rpm": 1}, 6},
		"no status":             {nil, Costs{"rpm": 1}, 1},
	} {
		check.Equal(t, followers(&Lease{charged: charged{status: c.status}}, Request{Costs: c.costs}), c.want, name)
	}
	also := Request{Costs: Costs{"rpm": 1}, Also: []Part{{Entity: "other", Costs: Costs{"rpm": 7}}}}
	of := &Lease{charged: charged{status: []Status{rate("rpm", -7)}}, above: []*charged{
		{name: decide.Name{Entity: "other"}, status: []Status{rate("rpm", -7)}}}}
	if got := followers(of, also); got != 2 { // of 13 and 7 each
		t.Errorf("another part: %d, want 2", got)
	}
	check.Equal(t, followers(nil, Request{}), 1, "behind one that was not let in")
}

// A later request stands behind those in line for a parent, even if another process has given
// something back that this process has not seen.
func TestTheLineOfACascadeIsNotOvertaken(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		w.db.SetHook(nil)
		l, other := process(), process()
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
		w.configure(l, "", "", PerHour("rph", 100))
		w.configure(l, "org", gpt, PerHour("rph", 10))
		ask, org := stored(Costs{"rph": 1}), stored(Costs{"rph": 10})
		org.Entity = "org"
		all := []*Lease{must(t, other, org)}
		for range 2 {
			lease, _ := reserved(t, other, org)
			all = append(all, lease)
		}
		var went [2]time.Time
		var both sync.WaitGroup
		for i := range went {
			both.Go(func() {
				waits(t, l, ask)
				went[i] = time.Now()
			})
			time.Sleep(2 * time.Second)
			if i == 0 {
				for _, lease := range all {
					check.Must(t, lease.Rollback(t.Context()))
				}
			}
		}
		both.Wait()
		if went[1].Before(went[0]) {
			t.Errorf("the second went %v before the first", went[0].Sub(went[1]))
		}
	})
}

// If a request finds the queue of one level full, and may have been charged at another, it fails
// immediately: standing in line would hide that.
func TestALevelThatMayBeChargedEndsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, other := w.process(Options{}), w.process(Options{})
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
		jobs := InFlight("jobs", 1, time.Minute)
		w.configure(l, "", "", PerMinute("rpm", 10), jobs)
		w.configure(l, "org", gpt, PerMinute("rpm", 100), InFlight("jobs", 100, time.Minute))
		req := asks(Costs{"rpm": 1, "jobs": 1})
		must(t, l, req).Rollback(t.Context())
		must(t, other, req) // takes the slot, which is free in this process's image
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if len(op.Writes) > 0 && op.Writes[0].Target() == w.shards(l, "org", gpt)[0].Key() {
				return true, memdynamo.Fail(store.Unknown)
			}
			return true, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lease, err := l.Wait(ctx, req)
		if lease != nil || !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			t.Errorf("%v, %v (%v), want ErrUnknown before the deadline", lease, err, ctx.Err())
		}
	})
}
