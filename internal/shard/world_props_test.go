package shard_test

import (
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
)

// limitSets have rates that leave remainders and capacities that halve unevenly.
var limitSets = [][]bucket.Limit{
	{{Name: "rpm", Capacity: 16_000, Amount: 7_000, Period: 3_000}},
	{{Name: "rpm", Capacity: 61_000, Amount: 61_000, Period: 60_000},
		{Name: "tpm", Capacity: 99_999_000, Amount: 1_000_003, Period: 7_001}},
	{{Name: "day", Capacity: 25_000, Amount: 1_000, Period: 86_400_000},
		{Name: "sec", Capacity: 9_000, Amount: 9_000, Period: 1_000}},
	{{Name: "fast", Capacity: 1_000_000, Amount: 999_999_999, Period: 999},
		{Name: "slow", Capacity: 8_000, Amount: 101, Period: 977}},
}

type profile struct {
	steps   int
	actors  int
	instant bool // calls reach the table when they are planned
	flight  int64
	skew    int64
	grow    int // in hundred steps
	warm    int
	settle  int
	crash   int
	lost    int // answers, in hundred, beside those lost in a crash
	python  int // a Python client is at work, in hundred steps
	anew    int // the bucket is deleted and made anew, in hundred steps
	foreign func(w *world)
	debt    bool
	configs bool // actors read limits that are changed under way
	bad     defect
}

// play runs a random schedule.
func play(w *world, p profile) {
	actors := make([]*actor, p.actors)
	for i := range actors {
		actors[i] = newActor(w, i)
		actors[i].bad, actors[i].debt = p.bad, p.debt
		if p.skew > 0 {
			actors[i].skew = w.rng.Int64N(2*p.skew+1) - p.skew
		}
	}
	ahead, behind := int64(0), int64(0)
	for _, a := range actors {
		ahead, behind = max(ahead, a.skew), min(behind, a.skew)
	}
	w.spread = ahead - behind
	w.exact = p.instant && p.skew == 0
	w.foreign, w.rounded = p.foreign != nil, p.python > 0
	other := &python{w: w}
	for range p.steps {
		a := actors[w.rng.IntN(len(actors))]
		switch n := w.rng.IntN(100); {
		case n < 25:
			w.pass(p, actors)
		case n < 25+p.grow:
			a.grow()
		case n < 25+p.grow+p.warm:
			a.warm()
		case n < 25+p.grow+p.warm+p.settle:
			a.settle()
		case n < 25+p.grow+p.warm+p.settle+p.crash:
			skew := a.skew
			wants := a.wants
			*a = *newActor(w, a.id)
			a.wants = wants
			a.skew, a.bad, a.debt = skew, p.bad, p.debt
		case n >= 94 && p.configs && w.opened:
			a.wants = variants(w.limits)[w.rng.IntN(3)]
		case n >= 96 && p.foreign != nil && w.opened:
			p.foreign(w)
		case n >= 94-p.anew && n < 94 && w.opened:
			w.anew()
		case n >= 94-p.anew-p.python && n < 94 && w.opened:
			other.act()
		default:
			a.acquire(a.costs())
		}
		for p.instant && len(a.flight) > 0 {
			a.land(w.rng.IntN(100) < p.crash+p.lost)
		}
		if !p.instant && w.rng.IntN(3) == 0 {
			a.land(w.rng.IntN(100) < p.crash+p.lost)
		}
	}
	for _, a := range actors {
		for len(a.flight) > 0 {
			a.land(false)
		}
	}
}

// pass lets time go by: mostly little, sometimes long enough to fill up. No call
// stays on its way for longer than the profile says.
func (w *world) pass(p profile, actors []*actor) {
	step := int64(0)
	switch w.rng.IntN(10) {
	case 0:
		step = w.rng.Int64N(100_000)
	case 1, 2:
	case 3, 4, 5:
		step = w.rng.Int64N(5)
	default:
		step = w.rng.Int64N(1000)
	}
	for _, a := range actors {
		for n := len(a.flight); n > 0 &&
			slices.ContainsFunc(a.flight, func(f flight) bool { return w.now+step-f.at > p.flight }); n-- {
			a.land(false)
		}
	}
	w.now += step
}

// rest brings all shards to the count of shard 0, as the aggregator does when
// the stream has told it everything, and checks that it ends.
func (w *world) rest() {
	a := newActor(w, 99)
	for round := 0; ; round++ {
		zero, ok := w.image(0)
		if !ok {
			return
		}
		a.plan = shard.Propagate(zero)
		sent := 0
		for a.step() {
			a.land(false)
			if sent++; sent > 2000 {
				w.violated("the plan does not end")
				return
			}
		}
		if w.atCount(zero.State.Shards) {
			return
		}
		if round > 4 {
			w.violated("after %d rounds of propagation shards still differ from the %d of shard 0", round, zero.State.Shards)
			return
		}
	}
}

func (w *world) atCount(n int) bool {
	all := w.shards()
	for _, s := range all {
		if s.Shards != n {
			return false
		}
	}
	return len(all) == n
}

// All clocks agree and calls take no time, but images are as stale as can be:
// not a fraction of a millitoken is minted by any step, none is lost by a spend
// or a refill, shares add up after every step, and no window is exceeded.
func TestWorldExact(t *testing.T) {
	t.Run("nothing given back", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, crash: 2}, none)
	})
	t.Run("with give-backs", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, settle: 8, crash: 2}, none)
	})
	t.Run("with debts", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, settle: 8, crash: 2, debt: true},
			none)
	})
	t.Run("limits changed", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, crash: 2, configs: true}, none)
	})
	t.Run("made anew", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, warm: 8, settle: 8, crash: 2, anew: 2,
			debt: true}, none)
	})
	t.Run("with a Python client", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, warm: 8, crash: 2, python: 14}, none)
	})
	t.Run("with a Python client, everything", func(t *testing.T) {
		runWorlds(t, 8, profile{steps: 600, actors: 4, instant: true, grow: 1, warm: 8, settle: 4, crash: 2,
			lost: 8, python: 14, anew: 2, configs: true, debt: true}, none)
	})
	t.Run("answers lost", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, settle: 8, lost: 40,
			debt: true}, none)
	})
	t.Run("one shard", func(t *testing.T) {
		runWorlds(t, 4, profile{steps: 400, actors: 3, instant: true, warm: 8, settle: 8, crash: 2}, none)
	})
	t.Run("counts bumped by another client", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, crash: 2, foreign: bump}, none)
	})
	t.Run("shards deleted", func(t *testing.T) {
		runWorlds(t, 6, profile{steps: 600, actors: 4, instant: true, grow: 6, warm: 8, crash: 2, foreign: vanish}, none)
	})
}

// variants returns the limits, and two changes of them that allow less.
func variants(limits []bucket.Limit) [3][]bucket.Limit {
	out := [3][]bucket.Limit{limits}
	for _, l := range limits {
		lower, slower := l, l
		lower.Capacity = l.Capacity/2 + 1
		slower.Amount, slower.Period = l.Amount/2+1, l.Period+l.Period/7
		out[1], out[2] = append(out[1], lower), append(out[2], slower)
	}
	return out
}

// bump doubles the count of shard 0 and nothing else, as the Python client does.
func bump(w *world) {
	if b, ok := w.image(0); ok && b.State.CanSplit(maxShards) {
		n := int64(b.State.Shards)
		w.call("foreign bump", nil, overflow, false, item.Update{
			Key: b.Key(), Set: []item.Attr{{Name: "shard_count", Value: item.N(2 * n)}},
			If: item.Compare("shard_count", item.Eq, item.N(n)),
		})
	}
}

// vanish deletes a shard other than 0.
func vanish(w *world) {
	if all := w.shards(); len(all) > 1 {
		s := all[1+w.rng.IntN(len(all)-1)]
		w.call("foreign delete", nil, overflow, false, item.Delete{Key: bucketKey(s.Shard)})
	}
}

// Clocks disagree by up to 20 s either way, and calls take up to 5 s to reach the
// table. What that can cost is what the rate yields in the two together.
func TestWorldSkewed(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    profile
	}{
		{"calls take time", profile{steps: 800, actors: 5, flight: 5_000, grow: 6, warm: 8, crash: 2}},
		{"clocks disagree", profile{steps: 600, actors: 5, instant: true, skew: 20_000, grow: 6, warm: 8, crash: 2}},
		{"both", profile{steps: 800, actors: 5, flight: 5_000, skew: 20_000, grow: 6, warm: 8, crash: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) { runWorlds(t, 6, tt.p, skewAllowance) })
	}
}

// skewAllowance is what a limit yields in the time by which clocks disagree and
// calls are on their way.
func skewAllowance(w *world, l bucket.Limit) *big.Rat {
	return buckettest.Earned(bucket.Rate{Amount: l.Amount, Period: l.Period}, w.spread+w.longest)
}

// FuzzWorlds looks for a schedule that breaks a promise, for as long as it may.
func FuzzWorlds(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, byte(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, knobs byte) {
		p := profile{steps: 300, actors: 1 + int(knobs)%5, instant: true, grow: 6, warm: 8, crash: 2}
		switch knobs >> 5 {
		case 1:
			p.settle = 8
		case 2:
			p.settle, p.debt = 8, true
		case 3:
			p.foreign = bump
		case 4:
			p.foreign = vanish
		case 5:
			p.grow = 0
		case 6:
			p.settle, p.configs = 4, true
		}
		w := newWorld(t, seed, limitSets[seed%uint64(len(limitSets))])
		play(w, p)
		w.rest()
		for name, x := range w.worst() {
			if x.Milli.Sign() > 0 {
				w.violated("%s: worst excess %s", name, x)
			}
		}
	})
}

// none is the allowance when clocks agree and calls take no time.
func none(*world, bucket.Limit) *big.Rat { return new(big.Rat) }

// runWorlds plays a profile with many seeds, WORLDS if that is set, and prints the worst excess. bound
// returns how much excess is the stated allowance for skew and time in flight.
func runWorlds(t *testing.T, seeds int, p profile, bound func(*world, bucket.Limit) *big.Rat) {
	t.Helper()
	worst, worstOf := new(big.Rat), ""
	first := true
	var steps, refused, splits, merges int
	literal := new(big.Rat)
	loss := new(big.Rat)
	if n, err := strconv.Atoi(os.Getenv("WORLDS")); err == nil {
		seeds = n
	}
	for seed := range uint64(seeds) {
		w := newWorld(t, seed, limitSets[seed%uint64(len(limitSets))])
		play(w, p)
		w.rest()
		if w.opened {
			w.sharesAddUp("at rest")
		}
		for _, l := range w.limits {
			x, allowed := w.worst()[l.Name], bound(w, l)
			if lit := w.literal(l); lit.Milli.Cmp(literal) > 0 {
				literal = lit.Milli
			}
			if first || x.Milli.Cmp(worst) > 0 {
				worst, first = x.Milli, false
				worstOf = fmt.Sprintf("%s %s, allowed %s milli", l, x, allowed.FloatString(0))
			}
			if x.Milli.Cmp(allowed) > 0 {
				w.violated("%s: worst excess %s, allowed %s millitokens", l, x, allowed.FloatString(3))
			}
		}
		steps, refused, splits, merges = steps+w.steps, refused+w.refused, splits+w.splits, merges+w.merges
		if w.worstSplitLoss.Cmp(loss) > 0 {
			loss = w.worstSplitLoss
		}
	}
	t.Logf("%d worlds, %d calls of which %d refused, %d splits and %d merges; worst excess with what was given back %s; "+
		"literal excess %s millitokens; most lost by one split or reopening %s millitokens",
		seeds, steps, refused, splits, merges, worstOf, literal.FloatString(3), loss.FloatString(3))
	if splits == 0 && p.grow > 0 {
		t.Error("no shard was ever split: the test proves nothing")
	}
}
