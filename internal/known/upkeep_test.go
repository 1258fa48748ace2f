package known

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Shard 2 is not there, although shard 0 has split it off. If another shard has a lower
// count, it is younger than the image of shard 0 where shard 0 has merged since, and
// then nothing is missing: restoring it was refused, for 20 units on every denial.
func TestOnlyShardsOfTheCountAreMissing(t *testing.T) {
	image := func(shard, count int, generation int64) *seen {
		return &seen{image: table.Shard{Entity: "acme", Resource: "gpt-4", Generation: generation,
			State: bucket.State{Shard: shard, Shards: count}}}
	}
	for _, c := range []struct {
		other   *seen
		missing bool
	}{
		{image(1, 8, 90), true},
		{image(1, 8, 110), true},
		{image(1, 4, 90), true}, // it has not split yet
		{image(1, 4, 110), false},
	} {
		k := &facts{count: 8, shards: map[int]*seen{0: image(0, 8, 100), 1: c.other, 2: {absent: true}}}
		if plan := k.complete(); (plan != nil) != c.missing {
			t.Errorf("shard 1 has count %d and generation %d: missing %v, want %v",
				c.other.image.State.Shards, c.other.image.Generation, plan != nil, c.missing)
		}
	}
}

// A shard beyond the count of shard 0, or with a larger count, was left behind when shard 0
// merged: it is brought along. What was seen before that, or within the time in which others
// follow, tells nothing.
func TestShardsAheadAreBroughtAlong(t *testing.T) {
	for _, c := range []struct {
		shard, count int
		seen         int64 // ms after shard 0 began its generation
		mends        bool
	}{
		{1, 2, 10_000, false},
		{1, 4, 10_000, true},
		{3, 2, 10_000, true},
		{3, 4, 10_000, true},
		{3, 4, countLag, true},
		{3, 4, countLag - 1, false},
	} {
		zero := &seen{image: imageOf(0, 2, 3), at: noon}
		other := &seen{image: imageOf(c.shard, c.count, 3)}
		other.at = table.Began(zero.image.Generation) + c.seen
		k := &facts{Settings: &Settings{MaxShards: 32}, count: 2, shards: map[int]*seen{0: zero, c.shard: other}}
		if plan := k.repair(); (plan != nil) != c.mends {
			t.Errorf("%+v: mended %v", c, plan != nil)
		}
	}
}
