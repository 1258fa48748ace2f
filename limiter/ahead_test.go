package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

var rps1000 = PerSecond("rps", 1000)

// pass lets time pass on the clock of the world and of the bubble.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	w.advance(d)
}

// busy sends n requests for single tokens, one every 10 ms, and returns how many were granted, and
// the last lease.
func (w *world) busy(l *Limiter, req Request, n int) (granted int, last *Lease) {
	w.t.Helper()
	for range n {
		w.pass(10 * time.Millisecond)
		lease, err := l.Acquire(context.Background(), req)
		l.desks.Wait()
		if err == nil {
			granted, last = granted+1, lease
		} else if !errors.Is(err, ErrLimited) {
			w.t.Fatal(err)
		}
	}
	return granted, last
}

// countedOf returns the table's count of the first limit, and how much of it expired unspent.
func (w *world) countedOf(l *Limiter, entity string) (used, ended int64) {
	for _, b := range w.shards(l, entity, gpt) {
		sl := b.State.Slots[0]
		used, ended = used+sl.Used/1000, ended+sl.Ended/1000
	}
	return used, ended
}

// heldOf returns how much a process holds of an entity's limit, in tokens.
func heldOf(l *Limiter, entity, limit string) int64 {
	return l.desks.Of(decide.Name{Entity: entity, Resource: gpt}).Left(0, limit, l.desks.Moment) / 1000
}

// A busy process writes once for many requests; unused tokens are not counted as used.
func TestOneWriteTakesForManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var told atomic.Int64
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: func(_ context.Context, e Event) {
			if e.Ahead {
				told.Add(1)
			}
		}})
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		w.db.ResetStats()
		granted, lease := w.busy(l, req, 500)
		if s := lease.Status()[0]; s.Held == 0 || s.Remaining+s.Held > 1000 {
			t.Errorf("status %+v", s)
		}
		if ahead := told.Load(); ahead < 600 {
			t.Errorf("%d of 700 were reported as prefetched", ahead)
		}
		if n := w.db.Stats().WriteUnits; granted != 500 || n > 25 || n < 5 {
			t.Errorf("%d granted with %d writes", granted, n)
		}
		w.pass(2 * time.Second) // the rest has expired
		w.busy(l, req, 1)
		held := l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) / 1000
		if used, ended := w.countedOf(l, acme); used-ended-held != 701 || ended == 0 {
			t.Errorf("%d used, %d of it ended unspent, %d is held, 701 were granted", used, ended, held)
		}
	})
}

// A lease from prefetched tokens is settled and rolled back in them: without a write, and for the
// next requests. The excess goes to the table.
func TestLeasesSettleIntoPrefetchedTokens(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
		ctx, req := context.Background(), asks(Costs{"rps": 2}, rps1000)
		_, lease := w.busy(l, req, 200)
		k := l.desks.Of(acmeGPT)
		held := func() int64 { return k.Left(0, "rps", l.desks.Moment) / 1000 }
		for held() < 10 {
			_, lease = w.busy(l, req, 1)
		}
		before := held()
		w.db.ResetStats()
		if err := lease.Rollback(ctx); err != nil || held() != before+2 {
			t.Errorf("rolled back: %v, %d held before and %d after", err, before, held())
		}
		_, lease = w.busy(l, req, 1)
		if err := errors.Join(lease.Settle(Costs{"rps": 5}), lease.Commit(ctx)); err != nil || held() != before-3 {
			t.Errorf("settled: %v, %d held before and %d after", err, before, held())
		}
		check.Equal(t, w.db.Stats().WriteUnits, 0, "writes")
		_, lease = w.busy(l, req, 1)
		used, ended := w.countedOf(l, acme)
		left := held()
		if err := errors.Join(lease.Settle(Costs{"rps": 500}), lease.Commit(ctx)); err != nil || held() != left {
			t.Errorf("settled much: %v, %d held before and %d after", err, left, held())
		}
		if more, _ := w.countedOf(l, acme); more != used+498 || ended < 0 {
			t.Errorf("used %d before, %d after 498 more", used, more)
		}
	})
}

// oddly is a table with odd answers to performed writes: unreadable items, or panics of the client.
type oddly struct {
	store.Store
	odd func(item.Item) item.Item // nil: all answers are normal
}

func (s *oddly) Write(ctx context.Context, w item.Write) (item.Item, error) {
	it, err := s.Store.Write(ctx, w)
	if err == nil && s.odd != nil {
		it = s.odd(it)
	}
	return it, err
}

// once makes only the next answer odd.
func (s *oddly) once(odd func(item.Item) item.Item) *oddly {
	s.odd = func(it item.Item) item.Item { s.odd = nil; return odd(it) }
	return s
}

// unreadable returns an item that cannot be read.
func unreadable(it item.Item) item.Item {
	it = maps.Clone(it)
	it["shard_count"] = item.S("many")
	return it
}

// After a write with a useless answer, expired tokens are still reported once, and the process
// continues to prefetch.
func TestUselessAnswersReportExpiredTokensOnce(t *testing.T) {
	for name, odd := range map[string]func(item.Item) item.Item{
		"unreadable": unreadable,
		"panic":      func(item.Item) item.Item { panic("planned") },
	} {
		inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
			table := &oddly{Store: l.store.Store}
			l.store.Store = table
			req := asks(Costs{"rps": 1}, rps1000)
			granted, _ := w.busy(l, req, 200)
			w.pass(2 * time.Second) // the next write reports the expired part
			table.once(odd)
			err := desk.Guarded(func() error { _, err := l.Acquire(context.Background(), req); return err })
			if err == nil || table.odd != nil {
				t.Errorf("%s: granted, or without a write", name)
			}
			w.db.ResetStats()
			more, _ := w.busy(l, req, 300)
			if n := w.db.Stats().WriteUnits; more != 300 || n > 30 {
				t.Errorf("%s: %d granted of 300, with %d writes", name, more, n)
			}
			held := l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) / 1000
			if used, ended := w.countedOf(l, acme); used-ended-held < int64(granted+more) || ended == 0 {
				t.Errorf("%s: %d used, %d of it ended unspent, %d is held, %d were granted", name, used, ended, held,
					granted+more)
			}
		})
	}
}

// Whatever happens to each write, processes that prefetch never grant more than is available:
// refused, applied without an answer, not applied without one, or applied with an odd answer.
func TestWritesThatFailTakeNothingAheadTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			rng := rand.New(rand.NewPCG(seed, 1))
			req := asks(Costs{"rps": 1}, PerSecond("rps", 100))
			var ps []*Limiter
			for range 3 {
				l := w.process(Options{Ahead: 400 * time.Millisecond, MaxShards: 1})
				if seed%2 == 1 {
					l.store.Store = &oddly{l.store.Store, func(it item.Item) item.Item {
						switch rng.IntN(20) {
						case 0:
							panic("planned")
						case 1:
							return unreadable(it)
						}
						return it
					}}
				}
				ps = append(ps, l)
			}
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.BatchGetItem || rng.IntN(10) > 0 {
					return true, nil
				}
				kind := []store.Kind{store.Unknown, store.Unavailable}[rng.IntN(2)]
				err := &store.Failure{Kind: kind, Op: "UpdateItem", Err: fmt.Errorf("planned")}
				return kind == store.Unknown && rng.IntN(2) == 0, err
			})
			exact, at, granted := 100., w.now.Load(), 0
			for range 1500 {
				w.pass(time.Duration(rng.IntN(8)) * time.Millisecond)
				if rng.IntN(100) == 0 {
					w.pass(time.Second)
				}
				err := desk.Guarded(func() error { _, err := ps[rng.IntN(3)].Acquire(context.Background(), req); return err })
				for _, l := range ps {
					l.desks.Wait()
				}
				exact = min(100, exact+float64(w.now.Load()-at)/10)
				if at = w.now.Load(); err == nil {
					granted++
					if exact--; exact < -1e-6 {
						t.Fatalf("seed %d: %.3f tokens too many after %d", seed, -exact, granted)
					}
				}
			}
			if granted < 100 {
				t.Errorf("%d granted only", granted)
			}
		})
	}
}

// Requests that wait for a write under way are granted from the tokens it prefetches, without
// another write.
func TestRequestsBehindAWriteUseItsPrefetchedTokens(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		w.pass(600 * time.Millisecond) // no tokens are held any more
		var writes atomic.Int64
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			writes.Add(1)
			time.Sleep(4 * time.Millisecond)
			return true, nil
		})
		var granted atomic.Int64
		for range 5 {
			go func() {
				if _, err := l.Acquire(t.Context(), req); err == nil {
					granted.Add(1)
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		if n := writes.Load(); granted.Load() != 5 || n != 1 {
			t.Errorf("%d granted with %d writes, want 5 with one", granted.Load(), n)
		}
	})
}

// holds returns a process that holds so many tokens that it rarely writes, and a request for it.
func holds(t testing.TB) (*world, *Limiter, Request) {
	w, l := newProcess(t, Options{Ahead: 10 * time.Minute, ConfigTTL: ages})
	req := asks(Costs{"rpd": 1}, PerDay("rpd", MaxTokens/1000))
	for range 100 {
		must(t, l, req)
	}
	return w, l, req
}

// A grant from prefetched tokens allocates only a lease.
func TestPrefetchedGrantsAllocateLittle(t *testing.T) {
	_, l, req := holds(t)
	n := testing.AllocsPerRun(1000, func() { must(t, l, req) })
	l.desks.Wait()
	if n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
}

// BenchmarkHeld is a grant from prefetched tokens.
func BenchmarkHeld(b *testing.B) {
	w, l, req := holds(b)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, check.Err(l.Acquire(context.Background(), req)))
	}
	l.desks.Wait()
	b.ReportMetric(float64(w.db.Stats().WriteUnits)/float64(b.N), "writes/op")
}

// A process prefetches only what it can grant in time, however long a write takes: expired tokens
// are lost to all.
func TestAheadFollowsTheRoundTrip(t *testing.T) {
	for _, c := range []struct{ trip, life int }{{4, 100}, {4, 400}, {150, 100}, {150, 200}, {150, 400}} {
		synctest.Test(t, func(t *testing.T) {
			var taken, ended atomic.Int64
			sum := func(e Event) {
				taken.Add(e.Taken["rps"])
				ended.Add(e.Ended["rps"])
			}
			_, l, _ := far(t, time.Duration(c.trip)*time.Millisecond, Options{Ahead: time.Duration(c.life) * time.Millisecond,
				ConfigTTL: time.Hour, Observe: only(EventAhead, sum)}, nil)
			for range 800 { // half of the refill
				time.Sleep(2 * time.Millisecond)
				go l.Acquire(t.Context(), asks(Costs{"rps": 1}, PerSecond("rps", 1000)))
			}
			time.Sleep(time.Second)
			if takes := 2*c.life > 3*c.trip; taken.Load() > 0 != takes || ended.Load() > taken.Load()/10 {
				t.Errorf("%+v: %d taken ahead, of which %d ended unspent", c, taken.Load(), ended.Load())
			}
		})
	}
}

// An invalid request fails even if the process holds tokens of its bucket.
func TestInvalidRequestsFailDespitePrefetchedTokens(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
		w.busy(l, asks(Costs{"rps": 1}, rps1000), 100)
		held := l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment)
		for name, c := range map[string]struct {
			req Request
			err error
		}{
			"a negative cost": {asks(Costs{"rps": -1}, rps1000), ErrInvalid},
			"another limit":   {asks(Costs{"other": 1}, rps1000), ErrInvalid},
			"one limit more":  {asks(Costs{"rps": 1, "other": 1}, rps1000), ErrInvalid},
			"too much":        {asks(Costs{"rps": 1001}, rps1000), ErrTooLarge},
			"no class":        {asks(Costs{"rps": 1}, rps1000).of("a b"), ErrInvalid},
		} {
			if lease, err := l.Acquire(t.Context(), c.req); !errors.Is(err, c.err) {
				t.Errorf("%s: %v, %v, want %v", name, lease, err, c.err)
			}
		}
		if left := l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment); left != held || held == 0 {
			t.Errorf("%d of %d are held", left, held)
		}
	})
}

// If an entity becomes bypassed, nothing is charged, not even tokens that a process holds of it.
func TestNothingHeldIsChargedToTheBypassed(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 100)
		w.says(l, acme, gpt, "disabled", item.S("bypass"))
		l.ForgetConfig()
		left := func() int64 { return l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) }
		before := left()
		for i := range 3 {
			lease := must(t, l, req)
			if lease.Charged() || !errors.Is(lease.Cause(), ErrBypassed) || left() != before || before == 0 {
				t.Errorf("request %d: charged %v, %v; %d of %d are held", i, lease.Charged(), lease.Cause(), left(), before)
			}
		}
	})
}

// More is prefetched even if the caller whose grant started it has left.
func TestRenewalsOutliveTheirCallers(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		hold, sent := make(chan struct{}), atomic.Int64{}
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			sent.Add(1)
			select {
			case <-hold:
				return true, nil
			case <-op.Done:
				return false, context.Canceled
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		for sent.Load() == 0 { // each is granted from the held tokens, until those are renewed
			w.pass(time.Millisecond)
			check.Must(t, check.Err(l.Acquire(ctx, req)))
			synctest.Wait()
		}
		before := heldOf(l, acme, "rps")
		leave()
		synctest.Wait()
		close(hold)
		l.desks.Wait()
		if now := heldOf(l, acme, "rps"); now <= before || sent.Load() != 1 {
			t.Errorf("%d held before, %d after %d writes", before, now, sent.Load())
		}
	})
}

// A renewal prefetches from the shard that granted the request.
func TestRenewalsAreOfTheShardThatGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first := newProcess(t, Options{})
		must(t, first, asks(Costs{"rps": 0}, rps1000))
		w.split(first, 2)
		for shard := range 2 {
			l, req := first, asks(Costs{"rps": 1}, rps1000)
			holds := func(shard int) int64 { return l.desks.Of(acmeGPT).Left(shard, "rps", l.desks.Moment) }
			for try := 0; holds(shard) == 0 || holds(1-shard) > 0; try++ {
				if try == 100 {
					t.Fatalf("no process holds of shard %d alone", shard)
				}
				l = w.process(Options{Ahead: time.Second})
				w.busy(l, req, 100)
			}
			writes := 0
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				for _, one := range op.Writes {
					if writes++; one.Target() != layout.BucketKey(l.namespace, acme, gpt, shard) {
						t.Errorf("a write on %v for what shard %d has granted", one.Target(), shard)
					}
				}
				return true, nil
			})
			for range 100 { // as many as it holds, and more
				if holds(shard) == 0 {
					break
				}
				w.busy(l, req, 1)
			}
			w.db.SetHook(nil)
			if writes == 0 {
				t.Error("nothing was renewed")
			}
		}
	})
}

// If a denial gives a wait that is not an estimate, the request is granted then unless others take
// the tokens, in a process that prefetches too.
func TestRetryAfterHoldsWithPrefetch(t *testing.T) {
	t.Parallel()
	told := 0
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, seed))
			w, l := newProcess(t, Options{Ahead: time.Duration(1+r.IntN(3)) * time.Second})
			var limits []Limit
			for _, name := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
				x := Limit{Name: name, Capacity: 1 + r.Int64N(50), Refill: 1 + r.Int64N(50),
					Period: time.Duration(1+r.IntN(100)) * time.Second}
				if r.IntN(4) == 0 {
					x = x.WithFloor("batch", r.IntN(60))
				}
				limits = append(limits, x)
			}
			for range 60 {
				costs := Costs{}
				for _, x := range limits {
					costs[x.Name] = r.Int64N(min(x.Capacity, 12) + 1)
				}
				req := asks(costs, limits...)
				if r.IntN(3) == 0 {
					req.Class = "batch"
				}
				w.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
				lease, err := l.Acquire(context.Background(), req)
				l.desks.Wait()
				if err == nil {
					if r.IntN(3) == 0 {
						check.Must(t, lease.Rollback(context.Background()))
					}
					continue
				}
				d, denied := errors.AsType[*LimitError](err)
				if !denied {
					continue
				}
				if d.Remaining >= d.Wanted || !slices.ContainsFunc(d.Statuses, func(s Status) bool {
					return s.Limit == d.Limit && s.Remaining == d.Remaining
				}) {
					t.Fatalf("seed %d: %v, status %+v", seed, err, d.Statuses)
				}
				if d.Estimated {
					continue
				}
				told++
				w.pass(d.RetryAfter)
				check.Must(t, check.Err(l.Acquire(context.Background(), req)),
					"seed %d: %v of %v: %v, and then", seed, costs, limits, d)
				l.desks.Wait()
			}
		})
	}
	if told < 1000 {
		t.Errorf("only %d denials gave an exact instant", told)
	}
	t.Logf("%d told instants held", told)
}

// An operator enables prefetching for a hot key, and disables it again, for processes whose options
// leave it open. Tokens prefetched by then are granted or reported, so usage stays exact.
func TestStoredLimitsTurnPrefetchOnAndOff(t *testing.T) {
	for name, level := range map[string]struct{ entity, resource string }{
		"of the entity": {acme, gpt}, "of the namespace": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{ConfigTTL: time.Second, MaxShards: 1}, func(t *testing.T, w *world, l *Limiter) {
				req := asks(Costs{"rps": 1})
				writes := func() int {
					w.pass(2 * time.Second) // the configuration is read again
					w.busy(l, req, 200)
					w.db.ResetStats()
					if granted, _ := w.busy(l, req, 500); granted != 500 {
						t.Fatalf("%d of 500 were granted", granted)
					}
					return w.db.Stats().WriteUnits
				}
				w.configure(l, level.entity, level.resource, rps1000)
				check.Equal(t, writes(), 500, "500 grants are writes, nothing being taken ahead")
				w.configure(l, level.entity, level.resource, rps1000.WithAhead(500*time.Millisecond))
				if n := writes(); n > 25 {
					t.Errorf("500 grants are %d writes", n)
				}
				w.configure(l, level.entity, level.resource, rps1000)
				if n := writes(); n != 500 || l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) != 0 {
					t.Errorf("500 grants are %d writes, and %d is held", n, l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment))
				}
				if used, ended := w.countedOf(l, acme); used-ended != 2100 {
					t.Errorf("%d used, of which %d ended unspent; 2100 were granted", used, ended)
				}
			})
		})
	}
}

// The setting of a limit takes precedence over the options, and the shortest of several limits
// applies.
func TestTheShortestTimeHolds(t *testing.T) {
	l := newWorld(t).process(Options{Ahead: time.Second})
	a, b, c := PerSecond("a", 5), PerSecond("b", 5).WithAhead(2*time.Second), PerSecond("c", 5).WithAhead(3*time.Second)
	d, e := PerSecond("d", 5).WithAhead(time.Second/2), PerSecond("e", 5)
	for _, tt := range []struct {
		limits []Limit
		want   int64
	}{{[]Limit{a}, 1000}, {[]Limit{a, b}, 2000}, {[]Limit{a, c, b}, 2000}, {[]Limit{c, d, e}, 500}, {[]Limit{c}, 3000}} {
		stored, err := storedLimits("limits", tt.limits)
		check.Must(t, err)
		if w, err := l.want(acmeGPT, Request{}, inforce.Config{Limits: stored}, nil); err != nil || w.Ahead != tt.want {
			t.Errorf("%v: %d ms, want %d", tt.limits, w.Ahead, tt.want)
		}
	}
}
