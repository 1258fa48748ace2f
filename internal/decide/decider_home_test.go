package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A request whose write was refused continues with the same shard, whose image is new, unless
// others took the tokens there.
func TestGoesOnWithTheShardThatRefused(t *testing.T) {
	for lost, want := range map[bool]int{false: 3, true: 1} {
		b, a := seenAs(perSecond, 1, 1, 1, 1), &Attempt{} // less than half of a share each
		drawn := func(n uint64) func() Now { return func() Now { return Now{Ms: noon, Random: n} } }
		if d := b.Decide(asks(1, perSecond), a, drawn(3)); d.Do != Take || d.Shard != 3 {
			t.Fatalf("at first: %+v", d.Choice)
		}
		a.Trips, a.Lost = 1, lost
		if d := b.Decide(asks(1, perSecond), a, drawn(1)); d.Do != Take || d.Shard != want {
			t.Errorf("lost %v: %+v, want shard %d", lost, d.Choice, want)
		}
	}
}

// The look goes to the shard that will have the costs first.
func TestLooksWhereTokensComeFirst(t *testing.T) {
	for shard, tokens := range [][]int64{{-70, -90}, {-90, -70}} {
		d := seenAs(perSecond, tokens...).Decide(asks(1, perSecond), &Attempt{}, clock(noon+60_000))
		if d.Do != Look || d.Shard != shard {
			t.Errorf("%v: decided %+v, want a look at shard %d", tokens, d.Choice, shard)
		}
	}
}

// Limits with a cost of zero, and soft limits, do not matter to whether a shard is half full.
func TestHalfFullIgnoresZeroCosts(t *testing.T) {
	for _, c := range []struct {
		hard, soft int64
		costs      [2]int64
		want       bool
	}{
		{5, 5, [2]int64{1, 1}, true}, {4, 5, [2]int64{1, 1}, false}, {4, 5, [2]int64{0, 1}, true},
		{5, 0, [2]int64{1, 1}, true}, {5, 5, [2]int64{6, 1}, false},
	} {
		k := seenWithSoft([2]int64{c.hard, c.soft}).lock()
		d := decider{facts: k, want: asksBoth(c.costs[0], c.costs[1]), now: noon}
		check.Equal(t, d.halfFull(k.shards[0]), c.want, "%+v", c)
	}
}

// Of shards that recover at the same instant, the one with the oldest image is looked at. An image
// from the future is the oldest: the clock has been set back.
func TestLooksAtTheOldestImage(t *testing.T) {
	for _, c := range []struct{ first, second, want int64 }{{20, 10, 1}, {10, 20, 0}, {20, 90_000, 1}, {90_000, 20, 0}} {
		b := NewBucket(&Settings{DenyFor: 1000, MaxShards: 32})
		b.See(imageOf(0, 2, -5), noon+c.first, Unsent)
		b.See(imageOf(1, 2, -5), noon+c.second, Unsent)
		for pick := range uint64(2) {
			d := b.Decide(asks(1, perSecond), &Attempt{}, func() Now { return Now{Ms: noon + 2000, Random: pick} })
			if d.Do != Look || d.Shard != int(c.want) {
				t.Errorf("seen at %d and %d: %+v, want a look at shard %d", c.first, c.second, d.Choice, c.want)
			}
		}
	}
}

// A process stays with a shard for sixteen writes, and then picks another at random.
func TestStaysForSixteenWrites(t *testing.T) {
	b, want, writes := seenAs(perSecond, 4, 4), asks(1, perSecond), 0
	for ; writes < 100; writes++ {
		now := Now{Ms: noon, Random: uint64(min(writes, 1))}
		if d := b.Decide(want, &Attempt{}, func() Now { return now }); d.Do != Take {
			t.Fatalf("decided %+v", d.Choice)
		} else if d.Shard == 1 {
			break
		}
	}
	check.Equal(t, writes, 16, "writes")
}

// A process that moves to another shard stays with that one. If that has merged, it stays with
// none.
func TestStaysWithTheShardItWentTo(t *testing.T) {
	k := factsOf(4)
	for shard := range 4 {
		k.see(imageOf(shard, 4, 2), noon, Unsent, nil)
	}
	for i, shard := range []int{0, 0, 2, 2} {
		k.visit(shard)
		check.Equal(t, k.home, home{shard: shard, left: stay - 1 - i%2}, "write %d to shard %d", i, shard)
	}
	for count, want := range map[int]int{4: 2, 3: 2, 2: 1} {
		k.count = count
		d := decider{facts: k, now: noon, want: asks(1, perSecond), attempt: &Attempt{}, pick: 1}
		check.Equal(t, d.first(), want, "%d shards it tries first", count)
	}
}
