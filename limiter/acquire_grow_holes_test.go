package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// I9: shards are split, merged half-way and deleted by hand while three processes
// acquire, with or without an aggregator. When that is over, each process is granted
// what a full bucket holds, within 100 s and without a stream of writes.
func TestShardsWithHolesHeal(t *testing.T) {
	for seed := range 300 {
		if testing.Short() && seed == 60 {
			break
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHoles(t, seed).play(t) })
		})
	}
}

// A shard that was left behind by a split is taken up by the third request that it serves
// at the latest, also if it was changed since and so is younger than shard 0. One that
// only seems to be behind, because shard 0 has merged, is left alone.
func TestShardLeftBehindIsTakenUp(t *testing.T) {
	limit := PerMinute("rpm", 80_000)
	for _, tt := range []struct {
		name            string
		younger, merged bool
	}{{"older", false, false}, {"younger", true, false}, {"shard 0 has merged", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{})
			must(t, l, asks(Costs{"rpm": 1}, limit))
			at := func(k int) table.Shard { return w.shards(l, acme, gpt)[k] }
			run := func(p *shard.Plan) {
				t.Helper()
				if _, err := shard.Run(t.Context(), w.db.Bare(), p, w.now.Load); err != nil {
					t.Fatal(err)
				}
				w.advance(time.Second)
			}
			run(shard.Double(at(0)))
			run(shard.Double(at(0))) // shard 1 is behind
			l.desks.Of(acmeGPT).See(at(0), w.now.Load(), decide.Unsent)
			if tt.merged {
				run(shard.Shrink(at(0), 2))
			}
			if tt.younger {
				if _, err := w.db.Write(t.Context(), table.Raise(at(1), nil, w.now.Load())); err != nil {
					t.Fatal(err)
				}
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

// holes is a world whose shards are treated badly.
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

// harm does one thing to the shards.
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

// quiet asks once a second until the costs are granted, and returns for how long and
// how many write units that took.
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

// Shard 1 of 32 lives on alone, of a bucket with another limit. The process that
// brings shard 0 back and merges it does not take its count from the shard that is
// left: it did, and was denied for ever, for two units each time.
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
