package e2e

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// findMintedOrLost compares every shard with an exact bucket that is refilled to the same instants
// and charged by the counters. A shard must never hold more, not even a fraction of a millitoken,
// beyond given-back tokens, and not much less. Near full, a charge from an image shows it lower by
// what others have taken since, up to the client's slack and room (limiter.Options.Slack), and so
// does a charge from an image of that. Lost refills would add up.
func findMintedOrLost(o *observation) (broken []string, figures string) {
	steps, alone := o.steps()
	broken = append(broken, alone...)
	refills, splits := 0, 0
	exact := map[level]*good{}
	for _, s := range steps {
		if s.sibling != nil {
			splits++
		}
		if s.at.old != nil && s.at.new.State.RF > s.at.old.State.RF {
			refills++
		}
		if back := s.lag(); back > table.MaxLag {
			broken = append(broken, fmt.Sprintf("%s sets the refill instant back by %d ms", s.at.sequence, back))
		}
		for i, sl := range s.at.new.State.Slots {
			if sl.Name != bucket.WCU {
				if b := s.unfaithful(i, exact, o.tolerance); b != "" {
					broken = append(broken, b)
				}
			}
		}
	}
	return broken, fmt.Sprintf("writes=%d refills=%d splits=%d broken=%d", len(steps), refills, splits, len(broken))
}

// lag returns by how many ms the write sets the refill instant back.
func (s step) lag() int64 {
	if s.at.old == nil {
		return 0
	}
	return max(s.at.old.State.RF-s.at.new.State.RF, 0)
}

// level names a limit of a shard.
type level struct {
	entity, resource string
	shard            int
	limit            string
}

// good bounds the exact level of a limit at an instant. The upper bound includes tokens that may be
// granted twice.
type good struct {
	least, most *big.Rat
	at          int64
	back        *big.Rat       // given back, and not yet added
	low         *big.Rat       // the most by which a write has shown it lower, where allowed
	past        []bucket.State // the states from which a client may still write
}

func newGood(tokens *big.Rat, at int64) *good {
	return &good{least: tokens, most: tokens, at: at, back: new(big.Rat), low: new(big.Rat)}
}

// tolerance bounds how much lower than exact levels may be.
type tolerance struct {
	slack  *big.Rat // the share of the capacity that may be missing
	margin *big.Rat // what may be missing elsewhere in addition, relative to slack
}

// usual is the tolerance of these tests' clients: their slack, as much for adds without a clock,
// and some for writes under way.
var usual = tolerance{slack: big.NewRat(6, 100), margin: big.NewRat(1, 4)}

func (s step) unfaithful(i int, exact map[level]*good, may tolerance) (broken string) {
	b := s.at.new
	limit := b.State.Slots[i].Name
	key := level{b.Entity, b.Resource, b.State.Shard, limit}
	taken := b.State.Slots[i].Used - used(s.at.old, limit)
	rate := b.State.Rate(i)
	g := exact[key]
	switch {
	case s.at.old == nil || g == nil && s.at.old.State.Index(limit) < 0: // a new shard is full
		g = newGood(buckettest.Milli(rate.Capacity), b.State.RF)
	default:
		old := s.at.old.State
		j := old.Index(limit)
		if g == nil {
			g = newGood(buckettest.LevelAt(old, j, old.RF), old.RF)
			g.past = []bucket.State{old}
		}
		rate = old.Rate(j)
	}
	exact[key] = g
	late := max(g.at-b.State.RF, 0)
	g.until(max(g.at, b.State.RF), rate)
	capacity := buckettest.Milli(rate.Capacity)
	nearlyFull := g.most.Cmp(new(big.Rat).Sub(capacity, new(big.Rat).Mul(capacity, may.slack))) >= 0
	g.take(buckettest.Milli(taken))
	if taken < 0 {
		g.back.Add(g.back, buckettest.Milli(-taken))
	}
	var sibling *good
	handed := int64(0)
	if s.sibling != nil { // after a split, tokens above the capacity are the sibling's own
		other := s.sibling.State
		k := other.Index(limit)
		sibling = newGood(buckettest.LevelAt(other, k, g.at), g.at)
		sibling.past = []bucket.State{other}
		exact[level{b.Entity, b.Resource, other.Shard, limit}] = sibling
		handed = other.Slots[k].Tokens + other.Slots[k].Used
		moved := buckettest.NewExact(other.Slots[k].Tokens+other.Slots[k].Used, other.Slots[k].Rest, other.Rate(k)).Level
		g.take(moved.Add(moved, buckettest.Earned(other.Rate(k), g.at-other.RF)))
	}
	g.until(g.at, b.State.Rate(i)) // tokens given back above the capacity do not count
	got := buckettest.LevelAt(b.State, i, g.at)
	if more := new(big.Rat).Sub(got, g.most); more.Sign() > 0 && g.minted(more, buckettest.Earned(rate, late)) {
		broken = "minted " + more.FloatString(3)
	}
	lack := new(big.Rat).Sub(g.least, got)
	if g.lost(lack, capacity, nearlyFull, may) {
		if g.outdated(b.State, i, handed) {
			g.least, lack = got, new(big.Rat)
			g.low.SetInt64(0)
		} else {
			broken = "lost " + lack.FloatString(3)
		}
	}
	g.past = append(g.past, b.State)
	if sibling != nil { // a split halves the missing tokens like the present ones
		half := big.NewRat(1, 2)
		g.low.Mul(g.low, half)
		sibling.low.Set(g.low)
		if lack.Sign() > 0 {
			lack.Mul(lack, half)
			g.least = new(big.Rat).Sub(g.least, lack)
			sibling.least = new(big.Rat).Add(sibling.least, lack)
		}
	}
	if broken == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s#%d %s at %s: %s millitokens", b.Entity, b.Resource, b.State.Shard, limit, s.at.sequence,
		broken)
}

// until advances to an instant.
func (g *good) until(at int64, rate bucket.Rate) {
	g.least = buckettest.Exact{Level: g.least, Rate: rate}.After(at - g.at).Level
	g.most = buckettest.Exact{Level: g.most, Rate: rate}.After(at - g.at).Level
	g.at = at
}

func (g *good) take(tokens *big.Rat) {
	g.least, g.most = new(big.Rat).Sub(g.least, tokens), new(big.Rat).Sub(g.most, tokens)
}

// minted handles a level above the exact one. It returns false if that is explained: near full,
// writes that reach the table in another order than they were planned may be granted the refill of
// the time between twice (design I1), and given-back tokens may be added once.
func (g *good) minted(more, twice *big.Rat) bool {
	g.most = new(big.Rat).Add(g.most, more)
	if more.Cmp(twice) <= 0 {
		return false
	}
	if g.back.Sub(g.back, new(big.Rat).Sub(more, twice)); g.back.Sign() >= 0 {
		return false
	}
	g.back.SetInt64(0)
	return true
}

// outdated reports whether a state is what a charge or a split writes from an earlier image of a
// limit that is full by then: it shows the limit lower by what others took since. A client with
// time for another write does that only within its slack. A client without, and a split, may do it
// by any amount (limiter.Options.Slack). A split has handed part of it over. The number of writes
// in between does not matter, because a machine may stand still.
func (g *good) outdated(now bucket.State, i int, handed int64) bool {
	for _, image := range g.past {
		j, count := image.Index(now.Slots[i].Name), image.Count()
		if handed != 0 {
			count *= 2
		}
		if j < 0 || count != now.Count() || image.RF > now.RF {
			continue
		}
		capacity := image.Rate(j).Capacity
		full := buckettest.LevelAt(image, j, now.RF).Cmp(buckettest.Milli(capacity)) >= 0
		if full && image.Slots[j].Used+capacity == now.Slots[i].Used+now.Slots[i].Tokens+handed {
			return true
		}
	}
	return false
}

// lost reports whether more of a capacity is missing than allowed.
func (g *good) lost(lack, capacity *big.Rat, nearlyFull bool, may tolerance) bool {
	if nearlyFull && lack.Cmp(g.low) > 0 {
		g.low.Set(lack)
	}
	most := new(big.Rat).Mul(capacity, may.slack)
	return g.low.Cmp(most) > 0 || lack.Cmp(new(big.Rat).Add(g.low, new(big.Rat).Mul(most, may.margin))) > 0
}

// A client that stood still may write from a very old image. That shows a full limit lower by
// exactly the tokens that others have taken since, however many.
func TestAWriteFromAnOldImageIsNoLoss(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 10_000, Period: 1000}
	for _, c := range []struct {
		tokens int64 // after 20 others took 1 each, a minute passed, and 50 were taken from the first image
		broken string
	}{{50_000, ""}, {30_000, ""}, {29_000, "lost 21000"}, {51_000, "minted 1000"}} {
		old := table.Shard{Entity: "acme", Resource: "gpt", State: bucket.New([]bucket.Limit{limit}, 0, 1, 0)}
		exact := map[level]*good{}
		write := func(to table.Shard) string {
			i := to.State.Index("rpm")
			s := step{at: change{sequence: fmt.Sprint(len(exact)), old: &old, new: &to}}
			broken := s.unfaithful(i, exact, usual)
			old = to
			return broken
		}
		next := func(taken, tokens, at int64) table.Shard {
			to := old
			to.State.Slots = slices.Clone(old.State.Slots)
			sl := &to.State.Slots[to.State.Index("rpm")]
			sl.Used, sl.Tokens, to.State.RF = sl.Used+taken, tokens, at
			return to
		}
		for n := range int64(20) {
			check.MustEqual(t, write(next(1000, (99-n)*1000, 0)), "")
		}
		got := write(next(50_000, c.tokens, 60_000))
		if !strings.Contains(got, c.broken) || got != "" && c.broken == "" {
			t.Errorf("%d millitokens are left: %q, want %q", c.tokens, got, c.broken)
		}
	}
}

// A full limit was shown lower once, as far as allowed, and is full again when its shard splits.
// The halves lack nothing.
func TestASplitHalvesWhatMayBeMissing(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 10_000, Period: 1000}
	old := table.Shard{Entity: "acme", Resource: "gpt", State: bucket.New([]bucket.Limit{limit}, 0, 1, 0)}
	exact := map[level]*good{}
	write := func(to bucket.State, sibling *table.Shard) {
		t.Helper()
		next := old
		next.State = to
		s := step{at: change{sequence: "1", old: &old, new: &next}, sibling: sibling}
		check.Equal(t, s.unfaithful(to.Index("rpm"), exact, usual), "")
		old = next
	}
	charged := func(taken, tokens, at int64) bucket.State {
		to := old.State
		to.Slots = slices.Clone(to.Slots)
		sl := &to.Slots[to.Index("rpm")]
		sl.Used, sl.Tokens, to.RF = sl.Used+taken, tokens, at
		return to
	}
	write(charged(1000, 94_000, 0), nil) // 5,000 lower
	write(charged(1000, 99_000, 60_000), nil)
	keep, moved := old.State.Split()
	sibling := old
	sibling.State = moved
	write(keep, &sibling)
	write(charged(1000, keep.Slots[keep.Index("rpm")].Tokens-1000, 60_000), nil)
}
