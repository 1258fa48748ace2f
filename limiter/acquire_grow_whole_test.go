package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// eventually acquires and follows every denial, at most tries of them.
func (w *world) eventually(l *Limiter, req Request, tries int) *Lease {
	w.t.Helper()
	for try := 0; ; try++ {
		lease, err := l.Acquire(w.t.Context(), req)
		l.desks.Wait()
		if err == nil {
			return lease
		}
		d, ok := errors.AsType[*LimitError](err)
		if !ok || try >= tries {
			w.t.Fatalf("costs %v of %v, try %d: %v", req.Costs, req.Limits, try, err)
		}
		w.advance(d.RetryAfter)
	}
}

// I9: whatever the shard count and the shards' levels, any request up to the capacity is eventually
// granted, in a process that has images of the bucket and in a new one, never more than is
// available, and a rollback returns all of it. If more shards would have to pay than one
// transaction can write, they merge.
func TestAnyRequestIsGrantedInTheEnd(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 4, 8, 16, 32, 64, 128, 1024} {
		for _, capacity := range []int64{32, 100, 997, 1000, 4096} {
			if many := count > 32; many != (capacity == 4096) || testing.Short() && count > 128 {
				continue
			}
			t.Run(fmt.Sprintf("%d shards of %d", count, capacity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					rng := rand.New(rand.NewPCG(uint64(count), uint64(capacity)))
					l := w.process(Options{})
					limit := PerMinute("rpm", capacity)
					one := asks(Costs{"rpm": 1}, limit)
					must(t, l, one).Rollback(t.Context())
					w.split(l, count)
					first := 0
					if count > 32 { // a round takes long
						first = 3
					}
					for round := first; round < 6; round++ {
						if round%2 == 1 {
							l = w.process(Options{})
						}
						for range rng.IntN(20) { // leave the shards at odd levels
							l.Acquire(t.Context(), asks(Costs{"rpm": 1 + rng.Int64N(capacity/8)}, limit))
						}
						l.desks.Wait()
						cost := 1 + rng.Int64N(capacity)
						if round >= 4 {
							cost = capacity
						}
						lease := w.eventually(l, asks(Costs{"rpm": cost}, limit), 12)
						if cost == capacity {
							if n := drain(t, w.process(Options{}), one); n > 0 {
								t.Fatalf("%d granted in addition to the whole capacity", n)
							}
						}
						held := w.held(l, limit)
						check.Must(t, lease.Rollback(t.Context()))
						if after := w.held(l, limit); after.Sub(after, held).Cmp(whole(cost)) != 0 {
							t.Fatalf("a rollback of %d gave back %s", cost, after.FloatString(3))
						}
						w.sharesAddUp(l)
					}
				})
			})
		}
	}
}

// The same holds for a limit that is new to a split bucket and not stored on any shard. Example: a
// quarter of 10 tokens is 2 whole ones, so four shards never pay 10.
func TestLimitNewToASplitBucketIsGrantedInTheEnd(t *testing.T) {
	other := PerMinute("other", 10)
	for _, stored := range []item.Item{nil, {"b_other_tk": item.N(0)}} { // by others, in part
		for _, knows := range []bool{true, false} {
			inBubble(t, Options{DenyFor: -1}, func(t *testing.T, w *world, l *Limiter) {
				must(t, l, asks(Costs{"rpm": 1}, rpm10))
				w.split(l, 4)
				w.edit(l, 0, stored)
				if !knows {
					l = w.process(Options{})
				}
				w.eventually(l, asks(Costs{"other": 10}, other), 100)
			})
		}
	}
}

func whole(n int64) *big.Rat { return big.NewRat(n, 1) }

// A bucket recovers from every broken count within seconds of traffic, and grants no token too many
// on the way.
func TestBrokenCountsHeal(t *testing.T) {
	t.Parallel()
	const capacity = 800
	count := func(n int64) item.Item { return item.Item{"shard_count": item.N(n)} }
	for _, c := range []struct {
		name   string
		shards int
		broken func(*world, *Limiter)
		minted int64 // the new tokens of a bucket without shard 0 and shard 1: it was deleted
	}{
		{"doubled by others once", 1, func(w *world, l *Limiter) { w.edit(l, 0, count(2)) }, 0},
		{"doubled by others five times", 1, func(w *world, l *Limiter) { w.edit(l, 0, count(32)) }, 0},
		{"doubled by others, split before", 4, func(w *world, l *Limiter) { w.edit(l, 0, count(8)) }, 0},
		{"beyond what can be divided", 1, func(w *world, l *Limiter) { w.edit(l, 0, count(4096)) }, 0},
		{"beyond what can be divided, split before", 8, func(w *world, l *Limiter) { w.edit(l, 0, count(1<<20)) }, 0},
		{"no power of two", 1, func(w *world, l *Limiter) { w.edit(l, 0, count(3)) }, 0},
		{"no power of two, split before", 4, func(w *world, l *Limiter) { w.edit(l, 0, count(7)) }, 0},
		{"shard 0 of 2 is missing", 2, func(w *world, l *Limiter) { w.remove(l, 0) }, 0},
		{"shard 0 of 4 is missing", 4, func(w *world, l *Limiter) { w.remove(l, 0) }, 0},
		{"shard 0 of 8 is missing", 8, func(w *world, l *Limiter) { w.remove(l, 0) }, 0},
		{"shard 0 of 16 is missing", 16, func(w *world, l *Limiter) { w.remove(l, 0) }, 0},
		{"shard 0 of 32 is missing", 32, func(w *world, l *Limiter) { w.remove(l, 0) }, 0},
		{"shard 0 and others are missing", 8, func(w *world, l *Limiter) { w.remove(l, 0, 2, 5) }, 0},
		{"all but shard 1 are missing", 8, func(w *world, l *Limiter) { w.remove(l, 0, 2, 3, 4, 5, 6, 7) }, 0},
		{"shards 0 and 1 are missing", 8, func(w *world, l *Limiter) { w.remove(l, 0, 1) }, capacity},
		{"shard 0 is missing in the middle of a doubling", 4, func(w *world, l *Limiter) {
			w.half(l)
			w.remove(l, 0)
		}, 0},
		{"shard 0 is missing in the middle of two doublings", 4, func(w *world, l *Limiter) {
			w.half(l)
			w.half(l)
			w.remove(l, 0)
		}, 0},
		{"shard 0 is missing, shard 1 has an absurd count", 8, func(w *world, l *Limiter) {
			w.edit(l, 1, count(1<<20))
			w.remove(l, 0)
		}, 0},
		{"a middle shard is missing", 8, func(w *world, l *Limiter) { w.remove(l, 3) }, 0},
		{"half are missing", 8, func(w *world, l *Limiter) { w.remove(l, 4, 5, 6, 7) }, 0},
		{"a shard ahead of shard 0", 4, func(w *world, l *Limiter) {
			for _, b := range w.shards(l, acme, gpt)[1:2] {
				check.Must(t, w.db.Bare().Transact(t.Context(), "ahead", table.Split(b, w.now.Load())))
			}
		}, 0},
		{"a shard behind shard 0", 4, func(w *world, l *Limiter) { w.half(l) }, 0},
		{"the count of shard 0 set back", 8, func(w *world, l *Limiter) { w.edit(l, 0, count(2)) }, 0},
		{"the count of another set back", 8, func(w *world, l *Limiter) { w.edit(l, 3, count(4)) }, 0},
		{"shard 0 deleted, and created anew by another client", 8, func(w *world, l *Limiter) {
			w.remove(l, 0)
			w.foreign(l, PerHour("rpm", capacity))
		}, capacity},
		{"all gone", 8, func(w *world, l *Limiter) { w.remove(l, 0, 1, 2, 3, 4, 5, 6, 7) }, capacity},
	} {
		for _, knows := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, client knows %v", c.name, knows), func(t *testing.T) {
				inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
					limit := PerHour("rpm", capacity)
					one := asks(Costs{"rpm": 1}, limit)
					must(t, l, one)
					w.split(l, c.shards)
					granted := 1 + drain(t, l, asks(Costs{"rpm": 13}, limit))*13
					if granted < capacity/2 {
						t.Fatalf("%d granted of %d", granted, capacity)
					}
					changes := w.db.Changes(0)
					agg := &follower{w: w, seq: changes[len(changes)-1].Seq}
					c.broken(w, l)
					if !knows {
						l = w.process(Options{})
					}
					begin := w.now.Load()
					for range 40 { // twenty seconds of traffic by two processes
						for _, p := range []*Limiter{l, w.process(Options{})} {
							if _, err := p.Acquire(t.Context(), one); err == nil {
								granted++
							} else if !errors.Is(err, ErrLimited) {
								t.Fatal(err)
							}
							p.desks.Wait()
						}
						agg.follow(l)
						w.advance(500 * time.Millisecond)
					}
					l.desks.Wait()
					due := capacity + c.minted + capacity*(w.now.Load()-begin)/3_600_000 + 1
					t.Logf("%d granted, at most %d are there", granted, due)
					if int64(granted) > due {
						t.Errorf("%d granted, %d were there: %v", granted, due, w.counts(l))
					}
					w.advance(2 * time.Hour)
					w.eventually(w.process(Options{}), asks(Costs{"rpm": capacity}, limit), 12)
					agg.follow(l)
					agg.follow(l)
					if counts := w.counts(l); !even(counts) {
						t.Errorf("not healed: counts %v", counts)
					}
				})
			})
		}
	}
}

// follower does the aggregator's work on shards, with the changes since the last call.
type follower struct {
	w   *world
	seq int64
}

// plan returns the plan of the aggregator for the changes since it last was called.
func (f *follower) plan(c usage.Config) usage.Upkeep {
	t, w := f.w.t, f.w
	t.Helper()
	var records []streamtest.Record
	for _, c := range w.db.Changes(f.seq) {
		f.seq = c.Seq
		if c.Key.SK == layout.SKBucketState {
			r := streamtest.Record{Sequence: c.SequenceNumber(), Created: c.CreatedAt, Old: c.Old, New: c.New}
			records = append(records, r)
		}
	}
	batch, err := stream.Decode(streamtest.Payload(records...))
	check.Must(t, err)
	return usage.Decide(usage.Fold(batch.Changes), w.now.Load(), c)
}

func (f *follower) follow(l *Limiter) {
	t, w := f.w.t, f.w
	t.Helper()
	p := f.plan(usage.Config{MaxShards: 32, MergeAfter: 86_400_000})
	for _, s := range p.Reshardings {
		check.Must(t, check.Err(shard.Run(t.Context(), w.db.Bare(), s.Steps, l.now)))
	}
}

// half splits only shard 0.
func (w *world) half(l *Limiter) {
	w.t.Helper()
	zero := w.shards(l, acme, gpt)[0]
	token := fmt.Sprintf("half-of-%d", zero.State.Shards)
	check.Must(w.t, w.db.Bare().Transact(w.t.Context(), token, table.Split(zero, w.now.Load())))
}

// foreign creates the bucket full and with one shard, like another client that does not look for
// other shards.
func (w *world) foreign(l *Limiter, limit Limit) {
	w.t.Helper()
	put, _ := table.Create(table.NewBucket{Namespace: l.namespace, Entity: acme, Resource: gpt, Now: w.now.Load(),
		Costs: []table.Cost{{Limit: limit.stored()}}})
	check.Must(w.t, check.Err(w.db.Bare().Write(w.t.Context(), put)))
}

func (w *world) remove(l *Limiter, shards ...int) {
	for _, k := range shards {
		w.db.Delete(layout.BucketKey(l.namespace, acme, gpt, k))
	}
}

// counts returns the count of every stored shard, by shard.
func (w *world) counts(l *Limiter) map[int]int {
	out := map[int]int{}
	for _, b := range w.shards(l, acme, gpt) {
		out[b.State.Shard] = b.State.Count()
	}
	return out
}

// even reports whether the existing shards are exactly those of one count.
func even(counts map[int]int) bool {
	for k, n := range counts {
		if n != len(counts) || k >= n {
			return false
		}
	}
	return len(counts) > 0
}

// In a process, one goroutine at a time changes the shards of a bucket, while others may change
// those of other buckets. A shard is restored only if that is certainly safe.
func TestOneAtATimeWorksOnTheShardsOfABucket(t *testing.T) {
	at := func(entity, resource string) func(*world, *Limiter) {
		return func(_ *world, l *Limiter) { l.desks.StartGrowing(decide.Name{Entity: entity, Resource: resource}) }
	}
	for name, c := range map[string]struct {
		prepare func(w *world, l *Limiter)
		calls   int
		fails   bool
	}{
		"put back":               {func(*world, *Limiter) {}, 1, false},
		"not written":            {func(*world, *Limiter) {}, 1, true},
		"at work on it":          {at(acme, gpt), 0, false},
		"at work on another":     {at(acme, "b"), 1, false},
		"at work on one of org":  {at("org", gpt), 1, false},
		"not known to be missed": {func(w *world, l *Limiter) { *l = *w.process(Options{}) }, 0, false},
	} {
		w, l := newProcess(t, Options{})
		limit := PerHour("rph", 80)
		must(t, l, asks(Costs{"rph": 1}, limit))
		w.split(l, 2)
		for _, b := range w.shards(l, acme, gpt) {
			l.desks.Of(decide.Name{Entity: b.Entity, Resource: b.Resource}).See(b, l.now(), decide.Unsent)
		}
		w.remove(l, 1)
		c.prepare(w, l)
		k, calls := l.desks.Of(acmeGPT), 0
		k.Missing(l.now(), 1)
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			if calls++; c.fails {
				return false, memdynamo.Fail(store.Unavailable)
			}
			return true, nil
		})
		l.desks.Mend(t.Context(), k)
		l.desks.Wait()
		w.db.SetHook(nil)
		if n := len(w.shards(l, acme, gpt)); calls != c.calls || (n == 2) != (calls > 0 && !c.fails) {
			t.Errorf("%s: %d calls and %d shards, want %d calls", name, calls, n, c.calls)
		} else if s := seen(l)[1]; s.Absent != (n == 1) {
			t.Errorf("%s: %d shards, and it knows %+v", name, n, s)
		}
		check.Equal(t, l.desks.StartGrowing(acmeGPT) == nil, name == "at work on it", "%s: busy", name)
	}
	w, l := newProcess(t, Options{})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	w.heat(l, 0)
	k := l.desks.StartGrowing(acmeGPT)
	for _, busy := range []bool{true, false} {
		if !busy {
			l.desks.StopGrowing(k)
		}
		for range 3 {
			must(t, l, asks(Costs{"rpm": 1}, rpm80))
		}
		if n := len(w.shards(l, acme, gpt)); (n == 1) != busy {
			t.Errorf("busy %v: %d shards", busy, n)
		}
	}
}

// If one shard was deleted, others may be missing too: they are looked for. If one cannot be
// restored, it is remembered as missing.
func TestOtherMissingShardsAreLookedFor(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := PerHour("rph", 80)
	must(t, l, asks(Costs{"rph": 1}, limit))
	w.split(l, 4)
	for _, b := range w.shards(l, acme, gpt)[:3] {
		l.desks.Of(decide.Name{Entity: b.Entity, Resource: b.Resource}).See(b, l.now(), decide.Unsent)
	}
	w.remove(l, 1, 3)
	l.desks.Of(acmeGPT).Missing(l.now(), 1)
	transactions := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if isTransaction(op) {
			if transactions++; transactions > 1 {
				return false, memdynamo.Fail(store.Unavailable)
			}
		}
		return true, nil
	})
	l.desks.Mend(t.Context(), l.desks.Of(acmeGPT))
	l.desks.Wait()
	if s := seen(l); s[1].Absent || !s[3].Absent || transactions < 2 {
		t.Errorf("after %d transactions: known %+v", transactions, s)
	}
}

// A bucket with too many shards for its limit merges, which is reported; so is a split that failed.
func TestMergesAndFailedSplitsAreReported(t *testing.T) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Observe: func(_ context.Context, e Event) {
		if e.Kind == EventMerge || e.Kind == EventSplit || e.Kind == EventUpkeep {
			told = append(told, e)
		}
	}})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	serial := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if isTransaction(op) {
			serial = l.desks.Of(acmeGPT).Seen(0).Serial
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	w.heat(l, 0)
	for n := 0; len(told) == 0 && n < 5; n++ {
		must(t, l, asks(Costs{"rpm": 1}, rpm80))
	}
	if len(told) != 1 || told[0].Kind != EventUpkeep || told[0].Entity != acme || told[0].Resource != gpt ||
		!errors.Is(told[0].Err, ErrUnavailable) {
		t.Errorf("of a split that was not written: %+v", told)
	}
	if got := l.desks.Of(acmeGPT).Seen(0).Serial; serial == 0 || got != serial {
		t.Errorf("a split that was not written counts as %d images of news", got-serial)
	}
	w.db.SetHook(nil)
	w.split(l, 4)
	told = nil
	few := PerMinute("rpm", 2)
	for n := 0; len(w.shards(l, acme, gpt)) > 2 && n < 100; n++ {
		w.advance(time.Minute)
		l.Acquire(t.Context(), asks(Costs{"rpm": 1}, few))
		l.desks.Wait()
	}
	if len(told) == 0 || told[0].Kind != EventMerge || told[0].Shards > 2 || told[0].Entity != acme ||
		told[0].Resource != gpt {
		t.Errorf("of a merge: %+v", told)
	}
}

// I9: shards are split, merged half-way and deleted by hand while three processes acquire, with or
// without an aggregator. Afterwards each process is granted the tokens of a full bucket within 100
// s, without a stream of writes.
func TestShardsWithHolesHeal(t *testing.T) {
	for seed := range 60 {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHoles(t, seed).play(t) })
		})
	}
}

// A shard left behind by a split is followed up by the third request that it serves at the latest,
// even if it was changed since and is newer than shard 0. One that only seems to be behind, because
// shard 0 has merged, is left alone.
func TestShardLeftBehindIsTakenUp(t *testing.T) {
	limit := PerMinute("rpm", 80_000)
	for _, tt := range []struct {
		name            string
		younger, merged bool
	}{{"older", false, false}, {"younger", true, false}, {"shard 0 has merged", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			w, l := newProcess(t, Options{})
			must(t, l, asks(Costs{"rpm": 1}, limit))
			at := func(k int) table.Shard { return w.shards(l, acme, gpt)[k] }
			run := func(p *shard.Plan) {
				t.Helper()
				check.Must(t, check.Err(shard.Run(t.Context(), w.db.Bare(), p, w.now.Load)))
				w.advance(time.Second)
			}
			run(shard.Double(at(0)))
			run(shard.Double(at(0))) // shard 1 is behind
			l.desks.Of(acmeGPT).See(at(0), w.now.Load(), decide.Unsent)
			if tt.merged {
				run(shard.Shrink(at(0), 2))
			}
			if tt.younger {
				check.Must(t, check.Err(w.db.Write(t.Context(), table.Raise(at(1), nil, w.now.Load()))))
			}
			want := 4
			if tt.merged {
				want = 2
			}
			served := func() int64 { return at(1).State.Slots[at(1).State.Index("rpm")].Used / bucket.Milli }
			// A process stays with a shard for up to 16 writes: 3,000 requests are 180 draws or more.
			for try := 0; served() < 3 && try < 3000; try++ {
				must(t, l, asks(Costs{"rpm": 1}, limit))
			}
			if served() != 3 || at(1).State.Shards != want {
				t.Errorf("after %d requests shard 1 has the count %d, want %d", served(), at(1).State.Shards, want)
			}
		})
	}
}

// holes is a world whose shards are damaged.
type holes struct {
	*world
	rng       *rand.Rand
	processes []*Limiter
	capacity  int64
	limit     Limit
	stream    *follower
	follows   bool
	trace     string
}

func newHoles(t *testing.T, seed int) *holes {
	h := &holes{world: newWorld(t), rng: rand.New(rand.NewPCG(uint64(seed), 7))}
	h.capacity = []int64{3, 10, 40, 640}[h.rng.IntN(4)]
	h.limit = PerMinute("rpm", h.capacity)
	for range 3 {
		h.processes = append(h.processes, h.process(Options{}))
	}
	h.stream, h.follows = &follower{w: h.world}, h.rng.IntN(2) == 0
	return h
}

func (h *holes) play(t *testing.T) {
	must(t, h.processes[0], asks(Costs{"rpm": 1}, h.limit))
	for range 12 {
		h.harm()
		for range h.rng.IntN(6) {
			p := h.processes[h.rng.IntN(len(h.processes))]
			_, _ = p.Acquire(t.Context(), asks(Costs{"rpm": 1 + h.rng.Int64N(h.capacity)}, h.limit))
			if h.rng.IntN(2) == 0 {
				p.desks.Wait()
			}
		}
		h.advance(time.Duration(h.rng.IntN(5000)) * time.Millisecond)
	}
	for _, p := range h.processes {
		p.desks.Wait()
	}
	h.limit = []Limit{h.limit, h.limit, PerMinute("other", h.capacity), PerMinute("rpm", 3*h.capacity)}[h.rng.IntN(4)]
	cost := 1 + h.rng.Int64N(h.capacity)
	p := h.processes[h.rng.IntN(len(h.processes))]
	h.trace += fmt.Sprintf("| %v, cost %d, with an aggregator: %v", h.limit, cost, h.follows)
	seconds, units, err := h.quiet(t, p, cost)
	if err != nil || seconds > 100 || units > 1500 {
		t.Errorf("%v after %d s and %d units:%s; counts %v", err, seconds, units, h.trace, h.counts(p))
	}
}

// harm damages the shards once.
func (h *holes) harm() {
	l := h.processes[0]
	all := h.shards(l, acme, gpt)
	run := func(p *shard.Plan) { _, _ = shard.Run(context.Background(), h.db.Bare(), p, h.now.Load) }
	propagate := func() {
		if h.rng.IntN(2) == 0 {
			all = h.shards(l, acme, gpt)
			run(shard.Propagate(all[0], all[1:]...))
			h.trace += " propagated"
		}
	}
	switch op := h.rng.IntN(7); {
	case len(all) == 0:
	case op == 0 && all[0].State.Shard == 0 && all[0].State.Count() < 32 && h.capacity >= 10:
		h.trace += " doubled"
		run(shard.Double(all[0]))
		propagate()
	case op == 1 && all[0].State.Shard == 0:
		h.trace += " merged"
		run(shard.Shrink(all[0], max(all[0].State.Count()/(2<<h.rng.IntN(3)), 1)))
		propagate()
	case op == 2:
		for _, b := range all {
			if h.rng.IntN(3) == 0 {
				h.remove(l, b.State.Shard)
				h.trace += fmt.Sprintf(" -%d", b.State.Shard)
			}
		}
	case op == 3:
		h.remove(l, all[0].State.Shard)
		h.trace += fmt.Sprintf(" -%d", all[0].State.Shard)
	case op == 4 && h.follows:
		h.stream.follow(l)
		h.trace += " followed"
	}
}

// quiet sends one request per second until the costs are granted, and returns how long that took
// and how many write units.
func (h *holes) quiet(t *testing.T, p *Limiter, cost int64) (seconds, units int, err error) {
	var sent atomic.Int64 // also by what other processes do in the background
	h.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.TransactWriteItems {
			sent.Add(2 * int64(len(op.Writes)))
		} else if isWrite(op) {
			sent.Add(1)
		}
		return true, nil
	})
	for seconds = range 400 {
		_, err = p.Acquire(t.Context(), asks(Costs{h.limit.Name: cost}, h.limit))
		p.desks.Wait()
		if !errors.Is(err, ErrLimited) {
			return seconds, int(sent.Load()), err
		}
		if h.follows {
			h.stream.follow(p)
		}
		h.advance(time.Second)
	}
	return seconds, int(sent.Load()), err
}

// Shard 1 of 32 remains alone, of a bucket with another limit. The process that restores shard 0
// and merges it does not use the remaining shard's count. It once did, and was denied forever, for
// two units each time.
func TestLoneShardOfAnotherLimitIsOvercome(t *testing.T) {
	for _, aggregator := range []bool{false, true} {
		t.Run(fmt.Sprintf("aggregator %v", aggregator), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dead := headless(t, 32, PerHour("rph", 640))
				for k := 2; k < 32; k++ {
					w.remove(dead, k)
				}
				w.advance(time.Hour)
				h := &holes{world: w, limit: PerMinute("other", 3), follows: aggregator, stream: &follower{w: w}}
				changes := w.db.Changes(0)
				h.stream.seq = changes[len(changes)-1].Seq
				p := w.process(Options{})
				if seconds, units, err := h.quiet(t, p, 2); err != nil {
					t.Errorf("%v after %d s and %d units; counts %v", err, seconds, units, w.counts(p))
				}
			})
		})
	}
}
