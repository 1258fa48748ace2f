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
