package bucket_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// naive is a second implementation of a bucket shard: a rational level per limit and their instant,
// computed the obvious way.
type naive struct {
	shard, shards int
	at            int64
	limits        map[string]bucket.Limit
	levels        map[string]*big.Rat
}

func newNaive(s bucket.State) *naive {
	n := &naive{shard: s.Shard, shards: s.Count(), at: s.RF,
		limits: map[string]bucket.Limit{}, levels: map[string]*big.Rat{}}
	for _, sl := range s.Slots {
		n.limits[sl.Name] = sl.Limit
		n.levels[sl.Name] = level(sl.Tokens, sl.Rest, sl.Period)
	}
	return n
}

// rate halves a rate step by step: when the count doubles, shard k of n keeps the larger half, and
// shard k+n gets the smaller one.
func (n *naive) rate(l bucket.Limit) bucket.Rate {
	if l.Name == bucket.WCU {
		return bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
	}
	share := func(whole int64) int64 {
		for size := 1; size < n.shards; size *= 2 {
			small := whole / 2
			if n.shard%(2*size) >= size {
				whole = small
			} else {
				whole -= small
			}
		}
		return whole
	}
	return bucket.Rate{Capacity: share(l.Capacity), Amount: share(l.Amount), Period: l.Period}
}

// advance refills to now, with the rules for clocks that differ.
func (n *naive) advance(now int64) {
	switch ahead := n.at - now; {
	case ahead > bucket.MaxSkew: // a broken clock: no refill, and fractions are dropped
		n.at = now
		for name, l := range n.levels {
			n.levels[name] = buckettest.Exact{Level: floor(l), Rate: n.rate(n.limits[name])}.After(0).Level
		}
		return
	case ahead >= 0:
		now = n.at
	}
	for name, l := range n.levels {
		n.levels[name] = buckettest.Exact{Level: l, Rate: n.rate(n.limits[name])}.After(now - n.at).Level
	}
	n.at = now
}

func floor(r *big.Rat) *big.Rat {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	_ = m
	return new(big.Rat).SetInt(q)
}

// covers reports whether the levels cover all costs at now.
func (n *naive) covers(costs map[string]int64, now int64) bool {
	c := *n
	c.levels = map[string]*big.Rat{}
	for name, l := range n.levels {
		c.levels[name] = l
	}
	c.advance(now)
	for name, cost := range costs {
		if c.levels[name].Cmp(buckettest.Milli(cost)) < 0 {
			return false
		}
	}
	return true
}

// same compares a state with the naive version. Where the design rounds, the naive version takes
// over the state's level, which must be lower by less than a millitoken.
func (n *naive) same(t *testing.T, what string, s bucket.State, rounded bool) {
	t.Helper()
	if s.RF != n.at || len(s.Slots) != len(n.levels) {
		t.Fatalf("%s: %s, the naive version is at %d with %d limits", what, s, n.at, len(n.levels))
	}
	for i, sl := range s.Slots {
		if sl.Rest < 0 || sl.Rest >= sl.Period {
			t.Fatalf("%s: %s: remainder %d of %d", what, sl.Name, sl.Rest, sl.Period)
		}
		got, want := level(sl.Tokens, sl.Rest, sl.Period), n.levels[sl.Name]
		less := new(big.Rat).Sub(want, got)
		if less.Sign() < 0 || less.Sign() > 0 && (!rounded || less.Cmp(buckettest.Milli(1)) >= 0) {
			t.Fatalf("%s: %s holds %s, naive version %s", what, sl.Name, got.FloatString(6), want.FloatString(6))
		}
		n.levels[sl.Name] = got
		if r := s.Rate(i); r != n.rate(sl.Limit) {
			t.Fatalf("%s: %s has rate %v, naive version %v", what, sl.Name, r, n.rate(sl.Limit))
		}
	}
}

// script is a source of decisions for a random history: a generator, or the fuzzer's bytes.
type script struct {
	bytes []byte
	rng   *rand.Rand
}

func (c *script) more() bool { return c.rng != nil || len(c.bytes) > 0 }

func (c *script) below(n int64) int64 {
	if c.rng != nil {
		return c.rng.Int64N(n)
	}
	var v uint64
	for range 4 {
		if len(c.bytes) == 0 {
			break
		}
		v = v<<8 | uint64(c.bytes[0])
		c.bytes = c.bytes[1:]
	}
	return int64(v % uint64(n))
}

func (c *script) limit(name string) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: 1 + c.below(2_000_000), Amount: 1 + c.below(3_000_000),
		Period: 1 + c.below(100_000)}
}

// playHistory runs one history on a state and on the naive version, and compares them after every
// step. Split-off shards are checked and dropped.
func playHistory(t *testing.T, c *script, steps int) {
	limits := []bucket.Limit{c.limit("a"), c.limit("b")}
	now := int64(1_700_000_000_000)
	s := bucket.New(limits, 0, 1, now)
	n := newNaive(s)
	for step := 0; step < steps && c.more(); step++ {
		what := fmt.Sprintf("step %d", step)
		switch c.below(10) {
		case 0, 1, 2: // time passes, sometimes backwards
			now += []int64{1, 7, 500, 30_000, 1e9, -20_000, -500_000}[c.below(7)] * c.below(5)
		case 3, 4:
			s = s.At(now)
			n.advance(now)
			n.same(t, what+" refill", s, false)
		case 5, 6, 7:
			takeBoth(t, c, &s, n, now, what)
		case 8:
			if c.below(3) == 0 && s.CanSplit(64) {
				splitBoth(t, c, &s, n, what)
				continue
			}
			i := int(c.below(int64(len(s.Slots))))
			costs := make([]int64, len(s.Slots))
			costs[i] = c.below(3_000_000) - 1_500_000
			s = s.Take(costs)
			n.levels[s.Slots[i].Name] = new(big.Rat).Sub(n.levels[s.Slots[i].Name], buckettest.Milli(costs[i]))
			n.same(t, what+" adjust", s, false)
		case 9:
			adoptBoth(t, c, &s, n, now, what)
		}
	}
}

func takeBoth(t *testing.T, c *script, s *bucket.State, n *naive, now int64, what string) {
	t.Helper()
	needs, costs, named := make([]int64, len(s.Slots)), make([]int64, len(s.Slots)), map[string]int64{}
	for i, sl := range s.Slots {
		needs[i] = -1
		if c.below(4) > 0 {
			needs[i] = c.below(s.Rate(i).Capacity + 2)
			costs[i] = needs[i]
			named[sl.Name] = needs[i]
		}
	}
	v := s.Decide(needs, now)
	check.MustEqual(t, v.Granted, n.covers(named, now),
		"%s: %s: Decide(%v, %d) = %+v, the naive version differs", what, s, needs, now, v)
	broken := s.RF-now > bucket.MaxSkew
	switch {
	case v.Granted:
		if v.Slot != -1 || v.At != now {
			t.Fatalf("%s: granted with %+v at %d", what, v, now)
		}
		*s = s.At(now).Take(costs)
		n.advance(now)
		for name, cost := range named {
			n.levels[name] = new(big.Rat).Sub(n.levels[name], buckettest.Milli(cost))
		}
		n.same(t, what+" take", *s, false)
	case v.At == bucket.Never:
		if n.covers(named, now+1<<50) {
			t.Fatalf("%s: denied forever, but covered at the end", what)
		}
	case !broken: // with a broken clock no advice is exact
		obey(t, *s, needs, now, v)
		if !n.covers(named, v.At) || n.covers(named, v.At-1) && v.At-1 >= now {
			t.Fatalf("%s: %s: advised %d, the naive version differs", what, s, v.At)
		}
	}
}

func splitBoth(t *testing.T, c *script, s *bucket.State, n *naive, what string) {
	t.Helper()
	keep, moved := s.Split()
	for i, sl := range s.Slots {
		k, m := keep.Slots[i], moved.Slots[i]
		if k.Used+m.Used != sl.Used {
			t.Fatalf("%s: %s: a counter of %d becomes %d and %d", what, sl.Name, sl.Used, k.Used, m.Used)
		}
		if sl.Name == bucket.WCU {
			continue
		}
		whole := level(sl.Tokens, sl.Rest, sl.Period)
		a, b := level(k.Tokens, k.Rest, k.Period), level(m.Tokens, m.Rest, m.Period)
		check.MustEqual(t, new(big.Rat).Add(a, b).Cmp(whole), 0,
			"%s: %s: split %s into %s and %s", what, sl.Name, whole, a, b)
		full := buckettest.Milli(s.Rate(i).Capacity)
		if whole.Cmp(full) <= 0 && (a.Cmp(buckettest.Milli(keep.Rate(i).Capacity)) > 0 ||
			b.Cmp(buckettest.Milli(moved.Rate(i).Capacity)) > 0) {
			t.Fatalf("%s: %s: %s of %s split into %s of %d and %s of %d: more than its share", what, sl.Name,
				whole.FloatString(4), full.FloatString(0), a.FloatString(4), keep.Rate(i).Capacity, b.FloatString(4),
				moved.Rate(i).Capacity)
		}
	}
	*s = keep
	if c.below(2) == 1 {
		*s = moved
	}
	*n = *newNaive(*s)
}

func adoptBoth(t *testing.T, c *script, s *bucket.State, n *naive, now int64, what string) {
	t.Helper()
	l := c.limit([]string{"a", "b", "c"}[c.below(3)])
	next, changed := s.At(now).Adopt(l)
	n.advance(now)
	old, known := n.limits[l.Name]
	n.limits[l.Name] = l
	top := buckettest.Milli(n.rate(l).Capacity)
	switch {
	case !known:
		n.levels[l.Name] = top
	case l.Capacity < old.Capacity && n.levels[l.Name].Cmp(top) > 0:
		n.levels[l.Name] = top
	}
	check.MustEqual(t, changed, old != l, "%s: Adopt(%v) says changed", what, l)
	if _, again := next.Adopt(l); again {
		t.Fatalf("%s: %v adopted twice", what, l)
	}
	*s = next
	n.same(t, what+" adopt", *s, true)
}

func TestHistoriesEqualNaiveVersion(t *testing.T) {
	for seed := range uint64(400) {
		playHistory(t, &script{rng: rand.New(rand.NewPCG(seed, 7))}, 150)
	}
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 8))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { playHistory(t, &script{bytes: b}, 400) })
}

// No numbers make a state overflow or panic.
func TestStatesNeverOverflow(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 20_000 {
		r, rest := legal(wild(rng), wild(rng), wild(rng), wild(rng))
		l := bucket.Limit{Name: "a", Capacity: r.Capacity, Amount: r.Amount, Period: r.Period}
		s := bucket.State{Shard: rng.IntN(8), Shards: 1 << rng.IntN(4), RF: wild(rng), NoClock: rng.IntN(9) == 0,
			Slots: []bucket.Slot{{Limit: l, Tokens: wild(rng), Rest: rest, Used: wild(rng)}}}
		now, cost := wild(rng), []int64{wild(rng)}
		at := s.At(now)
		before, after := level(s.Slots[0].Tokens, 0, 1), level(at.Slots[0].Tokens, 0, 1)
		capacity := level(s.Rate(0).Capacity, 0, 1)
		if after.Cmp(before) < 0 && after.Cmp(capacity) != 0 {
			t.Fatalf("%s at %d: the level fell to %s", s, now, at)
		}
		if after.Cmp(capacity) > 0 {
			t.Fatalf("%s at %d: above capacity: %s", s, now, at)
		}
		if v := s.Decide(cost, now); v.Granted != (v.At == now && v.Slot == -1) || v.At < now {
			t.Fatalf("%s: Decide(%v, %d) = %+v", s, cost, now, v)
		}
		if full := s.FullAt(now); full < now {
			t.Fatalf("%s is full at %d, before %d", s, full, now)
		}
		s.Take(cost)
		s.Split()
		s.Adopt(bucket.Limit{Name: "a", Capacity: cost[0] &^ math.MinInt64, Amount: 1, Period: 1})
		_ = s.String()
	}
}

// A shard within its share splits into two shards within their shares, down to the last fraction.
// Otherwise the two could refill more than the one.
func TestSplitStaysWithinShares(t *testing.T) {
	for capacity := int64(2); capacity < 40; capacity++ {
		for tokens := int64(-5); tokens <= capacity; tokens++ {
			for rest := int64(0); rest < 4 && (tokens < capacity || rest == 0); rest++ {
				l := bucket.Limit{Name: "a", Capacity: capacity, Amount: 7, Period: 4}
				s := bucket.State{Shards: 1, Slots: []bucket.Slot{{Limit: l, Tokens: tokens, Rest: rest}}}
				splitBoth(t, &script{}, &s, newNaive(s), s.String())
			}
		}
	}
}
