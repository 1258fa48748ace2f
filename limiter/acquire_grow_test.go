package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var rpm80 = PerMinute("rpm", 80)

func isTransaction(op memdynamo.Op) bool { return op.Name == memdynamo.TransactWriteItems }

// A split that another process did first is reported by that process.
func TestSplitIsReportedByTheProcessThatSplits(t *testing.T) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Observe: func(_ context.Context, e Event) {
		if e.Kind == EventSplit || e.Kind == EventMerge {
			told = append(told, e)
		}
	}})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	w.heat(l, 0)
	w.db.SetHook(onCall(isTransaction, 0, func(memdynamo.Op) (bool, error) {
		w.split(l, 2)
		return true, nil
	}))
	for range 5 {
		must(t, l, asks(Costs{"rpm": 1}, rpm80))
		l.desks.Wait()
	}
	if n := l.desks.Of(acmeGPT).ReadAll(l.now()); len(told) != 0 || n != 2 {
		t.Errorf("reported %+v, and %d shards are known", told, n)
	}
}

// TestFirstWritesDoNotHeat: a first write without an image refills nothing, so the meter that it
// returns is as old as the refill instant. Many such writes within half a minute are not a load.
func TestFirstWritesDoNotHeat(t *testing.T) {
	w := newWorld(t)
	must(t, w.process(Options{}), asks(Costs{"rpm": 60}, rpm80))
	l := w.process(Options{})
	w.edit(l, 0, item.Item{"b_wcu_tk": item.N(0)}) // a thousand of them since the refill instant
	w.advance(5 * time.Second)
	must(t, w.blinds(l, acmeGPT), asks(Costs{"rpm": 1}, rpm80))
	b := w.shards(l, acme, gpt)
	check.MustEqual(t, len(b), 1, "shards, want 1: the meter is full again")
	i := b[0].State.Index("wcu")
	check.MustEqual(t, b[0].State.Slots[i].Tokens, -1000, "not a first write, the meter")
}

// TestSplitConserves: the transaction that splits meets every fault. The request before it is
// granted without waiting for it, even if it is never answered, and the shards together hold the
// tokens of the original one.
func TestSplitConserves(t *testing.T) {
	modes := []struct {
		name    string
		forever bool
		hook    func(*faulty, memdynamo.Op) (bool, error)
		shards  int
		rival   int64
	}{
		{"none", false, func(*faulty, memdynamo.Op) (bool, error) { return true, nil }, 2, 0},
		{"somebody else spends first", false,
			func(f *faulty, _ memdynamo.Op) (bool, error) { f.rival(); return true, nil }, 2,
			1},
		{"refused by a change and its reverse", false,
			func(f *faulty, op memdynamo.Op) (bool, error) { return false, f.w.refusedNow(op) }, 2, 0},
		{"applied, answer lost", false, inject(true, store.Unknown), 2, 0},
		{"not applied, answer lost", false, inject(false, store.Unknown), 2, 0},
		{"not applied, answer lost for ever", true, inject(false, store.Unknown), 1, 0},
		{"applied, answer lost for ever", true, inject(true, store.Unknown), 2, 0},
		{"throttled once", false, inject(false, store.Throttled), 2, 0},
		{"throttled for ever", true, inject(false, store.Throttled), 1, 0},
		{"conflict for ever", true, inject(false, store.Conflict), 1, 0},
		{"store down", true, inject(false, store.Unavailable), 1, 0},
		{"canceled in flight, applied", false, vanish(true), 2, 0},
		{"canceled in flight, not applied", false, vanish(false), 1, 0},
		{"never answered, applied", false, hang(true), 2, 0},
		{"never answered, not applied", false, hang(false), 2, 0}, // repeated unchanged
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
				must(t, l, asks(Costs{"rpm": 3}, rpm80))
				w.heat(l, 0)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				env := &faulty{w: w, cancel: cancel, rival: func() {
					// not by a process, which would split the bucket itself
					w.edit(l, 0, item.Item{"b_rpm_tk": item.N(71_000), "b_rpm_tc": item.N(9_000)})
				}}
				hook := func(op memdynamo.Op) (bool, error) { return m.hook(env, op) }
				if !m.forever {
					hook = onCall(isTransaction, 0, hook)
				} else {
					inner := hook
					hook = func(op memdynamo.Op) (bool, error) {
						if !isTransaction(op) {
							return true, nil
						}
						return inner(op)
					}
				}
				w.db.SetHook(hook)
				begin := time.Now()
				lease, err := l.Acquire(ctx, asks(Costs{"rpm": 5}, rpm80))
				if err != nil || !lease.Charged() {
					t.Fatalf("the request that found the bucket hot: %v, %v", lease, err)
				}
				if took := time.Since(begin); took > 0 {
					t.Fatalf("the request waited %s for the split", took)
				}
				l.desks.Wait()
				w.db.SetHook(nil)
				left := 80 - 3 - 5 - m.rival
				w.wantHeld(l, rpm80, left)
				check.MustEqual(t, len(w.shards(l, acme, gpt)), m.shards, "shards")
				check.MustEqual(t, w.used(l, "rpm"), 80-left, "counted used")
				// Every token is available, also to new processes.
				p := w.process(Options{})
				a := drain(t, l, asks(Costs{"rpm": 1}, rpm80))
				b := drain(t, p, asks(Costs{"rpm": 1}, rpm80))
				// Odd levels split with half a token on each shard, which is kept but is not a
				// whole token.
				if n := int64(a + b); n > left || n < left-1 {
					t.Fatalf("%d and %d granted, want %d together", a, b, left)
				}
			})
		})
	}
}

// TestSplitStopsAtOneToken: a hot bucket is split, one doubling after the other, until a share
// would be less than a token, or the configured count is reached. Each split is reported.
func TestSplitStopsAtOneToken(t *testing.T) {
	for _, c := range []struct {
		capacity int64
		max      int
		want     int
	}{{1, 0, 1}, {2, 0, 2}, {7, 0, 4}, {9, 0, 8}, {1000, 0, 32}, {1000, 4, 4}, {1000, 1, 1}} {
		t.Run(fmt.Sprintf("%d tokens, at most %d", c.capacity, c.max), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				reported := 1
				l := w.process(Options{MaxShards: c.max, Observe: only(EventSplit, func(e Event) {
					if e.Entity != acme || e.Resource != gpt || e.Shards != 2*reported && e.Shards != reported {
						t.Errorf("reported %+v after %d shards", e, reported)
					}
					reported = e.Shards
				})})
				req := asks(Costs{"rpm": 1}, PerMinute("rpm", c.capacity))
				must(t, l, req)
				for range 60 {
					w.advance(time.Minute)
					for _, b := range w.shards(l, acme, gpt) {
						w.heat(l, b.State.Shard)
					}
					for range 5 {
						l.Acquire(t.Context(), req)
						l.desks.Wait()
					}
				}
				w.sharesAddUp(l)
				count := 0
				for _, b := range w.shards(l, acme, gpt) {
					count = max(count, b.State.Shards)
				}
				if count != c.want || reported != c.want {
					t.Fatalf("%d shards, reported %d, want %d", count, reported, c.want)
				}
			})
		})
	}
}

// TestEveryShardIsUsed: a client that knows 8 shards takes from all of them, and denies only if all
// are empty, exact to the millisecond.
func TestEveryShardIsUsed(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1}, rpm80)
	must(t, l, req).Rollback(t.Context())
	w.split(l, 8)
	for _, p := range []*Limiter{l, w.process(Options{}), w.process(Options{})} {
		wantGranted(t, p, req, 80)
		for _, b := range w.shards(l, acme, gpt) {
			if tk := b.State.Slots[b.State.Index("rpm")].Tokens; tk >= 1000 {
				t.Fatalf("denied while shard %d holds %d", b.State.Shard, tk)
			}
		}
		w.db.ResetStats()
		_, err := p.Acquire(t.Context(), req)
		d, ok := errors.AsType[*LimitError](err)
		if !ok || w.db.Stats().Calls() != 0 {
			t.Fatalf("denial %v cost %+v", err, w.db.Stats())
		}
		if d.Remaining != 0 || d.RetryAfter != 6*time.Second {
			t.Fatalf("denial %+v, want 0 left and 6s, when a shard has a token of its 10 per minute", d)
		}
		w.advance(d.RetryAfter - 1*time.Millisecond)
		wantGranted(t, p, req, 0)
		w.advance(time.Millisecond)
		wantGranted(t, p, req, 8)
		w.advance(time.Hour)
	}
}

// TestMissingShardIsOpenedEmpty: the level of a deleted shard is unknown, so it is restored empty,
// and refills to its share.
func TestMissingShardIsOpenedEmpty(t *testing.T) {
	for _, missing := range []int{0, 1, 2, 3} {
		for _, knows := range []bool{true, false} {
			if missing == 0 && !knows {
				continue // without shard 0 there is no bucket for a process that has not seen other shards
			}
			t.Run(fmt.Sprintf("shard %d, client knows %v", missing, knows), func(t *testing.T) {
				w, l := newProcess(t, Options{})
				req := asks(Costs{"rpm": 1}, rpm80)
				must(t, l, req).Rollback(t.Context())
				w.split(l, 4)
				if knows {
					for range 64 {
						must(t, l, req).Rollback(t.Context())
					}
				} else {
					l = w.process(Options{})
				}
				w.db.Delete(layout.BucketKey(l.namespace, acme, gpt, missing))
				wantGranted(t, l, req, 60)
				w.advance(11 * time.Second)
				drain(t, l, req)
				if b := w.shards(l, acme, gpt); len(b) != 4 || b[0].State.Shards != 4 {
					t.Fatalf("%d shards, the first counts %d", len(b), b[0].State.Shards)
				}
				for _, b := range w.shards(l, acme, gpt) {
					if b.TTL != 0 || b.State.Shards != 4 {
						t.Fatalf("shard %d has ttl %d and counts %d", b.State.Shard, b.TTL, b.State.Shards)
					}
				}
				w.advance(10 * time.Minute)
				wantGranted(t, l, req, 80)
			})
		}
	}
}

// Only a thousand writes per second make a partition hot: the bucket is split by load, not by age.
func TestLoadSplits(t *testing.T) {
	limit := PerSecond("rps", 100_000)
	for _, c := range []struct {
		writes int
		within time.Duration
		shards int
	}{{1100, 0, 2}, {1100, 500 * time.Millisecond, 1}, {900, 0, 1}, {3000, 6 * time.Second, 1}} {
		w, l := newProcess(t, Options{})
		req := asks(Costs{"rps": 1}, limit)
		must(t, l, req)
		begin := w.now.Load()
		for i := range c.writes {
			w.now.Store(begin + int64(i)*c.within.Milliseconds()/int64(c.writes))
			must(t, l, req)
			if len(w.shards(l, acme, gpt)) > 1 {
				break
			}
		}
		check.Equal(t, len(w.shards(l, acme, gpt)), c.shards, "%d writes in %s: shards", c.writes, c.within)
	}
}

// A plan for many shards takes many calls, each with the limiter's own bound: behind a slow table
// it is completed.
func TestAPlanOfManyCallsBehindASlowTable(t *testing.T) {
	for _, trip := range []time.Duration{4, 15, 60, 150} {
		synctest.Test(t, func(t *testing.T) {
			failed := []error{}
			w, l, _ := far(t, trip*time.Millisecond, Options{Timeout: time.Second,
				Observe: only(EventUpkeep, func(e Event) { failed = append(failed, e.Err) })}, nil)
			w.split(l, 32)
			small := PerHour("rph", 2)
			for range 20 {
				_, _ = l.Acquire(t.Context(), asks(Costs{"rph": 1}, small))
				l.desks.Wait()
			}
			if zero := w.shards(l, acme, gpt)[0]; zero.State.Count() > 2 || len(failed) > 0 {
				t.Errorf("%d ms: %d shards, failed %v", trip, zero.State.Count(), failed)
			}
		})
	}
}

// TestOldViewSplitsNothing: a bucket of eight shards has merged down to four. Processes that have
// seen eight discover it one shard after the other, and must not split merged shards.
func TestOldViewSplitsNothing(t *testing.T) {
	w := newWorld(t)
	first := w.process(Options{})
	req := asks(Costs{"rpm": 1}, rpm80)
	must(t, first, req).Rollback(t.Context())
	w.split(first, 8)
	var fleet []*Limiter
	for range 8 {
		l := w.process(Options{})
		for range 40 { // sees most shards
			must(t, l, req).Rollback(t.Context())
		}
		fleet = append(fleet, l)
	}
	w.advance(time.Second)
	w.merge(first, 4)
	w.advance(time.Second)
	for i := range 160 {
		must(t, fleet[i%len(fleet)], req).Rollback(t.Context())
		fleet[i%len(fleet)].desks.Wait()
		if c := w.counts(first); len(c) != 4 || !even(c) {
			t.Fatalf("after %d requests of processes with an old view the shards count %v, want four of four", i+1, c)
		}
	}
	w.wantHeld(first, rpm80, 80)
}

// merge lowers the bucket to a count, like the aggregator.
func (w *world) merge(l *Limiter, count int) {
	w.t.Helper()
	zero := w.shards(l, acme, gpt)[0]
	check.Must(w.t, check.Err(shard.Run(w.t.Context(), w.db.Bare(), shard.Shrink(zero, count), l.now)))
	all := w.shards(l, acme, gpt)
	check.Must(w.t, check.Err(shard.Run(w.t.Context(), w.db.Bare(), shard.Propagate(all[0], all[1:]...), l.now)))
}

// If the shard of a lease has merged, settling more takes from the remaining shard, including that
// shard's refill since.
func TestSettlingMoreFollowsAShardThatHasMerged(t *testing.T) {
	w, l := newProcess(t, Options{})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	w.split(l, 2)
	known := map[int]*Lease{}
	for n := 0; len(known) < 2 && n < 1000; n++ {
		lease := must(t, l, asks(Costs{"rpm": 3}, rpm80))
		if shard := lease.items[0].Shard; known[shard] == nil {
			known[shard] = lease
		} else if err := lease.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.merge(l, 1)
	w.advance(time.Minute)
	check.Must(t, errors.Join(more(known[1], Costs{"rpm": 5}), known[1].Commit(t.Context())))
	w.wantHeld(l, rpm80, 75)
}

// A sharded bucket does not expire: an existing ttl is removed, and no write sets one again. After
// it has merged into a single shard, its next charge sets a ttl.
func TestOnlyWholeBucketsExpire(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1}, rpm80)
	must(t, l, req)
	if w.shards(l, acme, gpt)[0].TTL == 0 {
		t.Fatal("an unsplit bucket has no ttl")
	}
	w.split(l, 4)
	for range 20 {
		w.advance(7 * time.Minute)
		for range 5 {
			must(t, l, req)
		}
		if w.db.Sweep(w.now.Load()/1000) != 0 || len(w.shards(l, acme, gpt)) != 4 {
			t.Fatal("a shard expired")
		}
	}
	w.merge(l, 1)
	must(t, w.process(Options{}), req)
	must(t, l, req)
	all := w.shards(l, acme, gpt)
	if len(all) != 1 || all[0].TTL == 0 || w.db.Sweep(all[0].TTL+1) != 1 {
		t.Fatalf("%d shards, the first expires at %d, and does not", len(all), all[0].TTL)
	}
}

// A partly stored limit, as another client may leave it, cannot be divided: the new shard would
// lack it, and a missing limit starts full. So a bucket is not split if a limit is incomplete on
// the hot shard, on shard 0, or on a shard behind the count. Nor are such shards merged, because
// the other's tokens could not be added.
func TestLimitStoredInPartKeepsTheShards(t *testing.T) {
	lacking := item.Item{"b_tpm_cp": nil, "b_tpm_tk": item.N(-500_000)}
	for name, c := range map[string]struct {
		shards, lacks int
		hot           int // -1: none
		behind        bool
		rpm           int64
	}{
		"hot":                     {1, 0, 0, false, 1000},
		"on shard 0, another hot": {2, 0, 1, false, 1000},
		"on a shard behind":       {2, 1, -1, true, 1000},
		"too many shards":         {4, 0, -1, false, 2}, // of rpm four shards hold less than a token each
	} {
		w, l := newProcess(t, Options{})
		rpm, tpm := PerMinute("rpm", c.rpm), PerMinute("tpm", 1000)
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
		w.split(l, c.shards)
		if c.behind {
			check.Must(t, w.db.Bare().Transact(t.Context(), "zero", table.Split(w.shards(l, acme, gpt)[0], l.now())))
		}
		w.edit(l, c.lacks, lacking)
		if c.hot >= 0 {
			w.heat(l, c.hot)
		}
		before := w.counts(l)
		l = w.process(Options{})
		for range 40 {
			l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm))
			l.desks.Wait()
			w.advance(50 * time.Millisecond)
		}
		if got := w.counts(l); !maps.Equal(got, before) {
			t.Errorf("%s: shards %v, want %v", name, got, before)
		}
		for _, b := range w.shards(l, acme, gpt) {
			if len(b.Partial) == 0 && b.State.Index("tpm") < 0 {
				t.Errorf("%s: shard %d has lost tpm", name, b.State.Shard)
			}
		}
	}
}

// Python clients double the shards of a bucket without splitting it. A doubling that leaves a share
// of at least a token is followed: shard 0 keeps its share of its tokens, and the others begin
// empty. The rest is lost, and refills at the rate of the whole bucket. With more shards than
// tokens, the bucket becomes whole again within seconds, with all its tokens, even without an
// aggregator.
func TestDoublingsByOthers(t *testing.T) {
	for _, c := range []struct{ count, atOnce, shards int }{
		{2, 5, 2}, {4, 2, 4}, {8, 1, 8}, {16, 10, 1}, {64, 10, 1}, {256, 10, 1}, {4096, 10, 1},
	} {
		for _, aggregated := range []bool{true, false} {
			if !aggregated && c.shards > 1 {
				continue
			}
			w, l := newProcess(t, Options{})
			one := asks(Costs{"rph": 1}, PerHour("rph", 10))
			must(t, l, one).Rollback(t.Context())
			changes := w.db.Changes(0)
			agg := &follower{w: w, seq: changes[len(changes)-1].Seq}
			w.edit(l, 0, item.Item{"shard_count": item.N(int64(c.count))})
			if aggregated && c.shards == 1 { // it sees the count first
				agg.follow(l)
			}
			granted := 0
			for range 80 {
				if _, err := l.Acquire(t.Context(), one); err == nil {
					granted++
				}
				l.desks.Wait()
				if aggregated {
					agg.follow(l)
				}
				w.advance(100 * time.Millisecond)
			}
			if counts := w.counts(l); granted != c.atOnce || len(counts) != c.shards || !even(counts) {
				t.Errorf("count %d, aggregator %v: %d of 10 granted in 8 s, want %d; shards %v", c.count, aggregated, granted,
					c.atOnce, counts)
			}
			w.advance(time.Hour)
			w.wantHeld(l, PerHour("rph", 10), 10)
		}
	}
}
