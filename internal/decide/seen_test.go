package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// If a shard has tokens that no refill explains, all shards are read, once per process, if one call
// can read them.
func TestUnexplainedTokensReadAllShards(t *testing.T) {
	for _, c := range []struct {
		more   int64 // than a second before, in tokens
		shards int
		spread bool
		reads  bool
	}{
		{0, 2, false, false}, {1, 2, false, false}, {2, 2, false, true}, {5, 2, false, true}, {5, 2, true, false},
		{5, item.MaxReadKeys, false, true}, {5, item.MaxReadKeys + 1, false, false}, // more than one call reads
	} {
		k := factsOf(2)
		for shard := range 2 {
			k.see(imageOf(shard, 2, 0), noon, Unsent, nil)
		}
		image := imageOf(0, 2, 0)
		image.State.RF = noon + 1000
		image.State.Slots[image.State.Index("rps")].Tokens = c.more * bucket.Milli
		k.see(image, noon+1000, k.at(0).serial, nil)
		k.count = c.shards
		d := decider{facts: k, now: noon + 1000, want: asks(1, perSecond), attempt: &Attempt{Spread: c.spread}}
		check.Equal(t, d.outdated(), c.reads, "%+v: reads", c)
		k.readAt = noon + 1000
		if d.outdated() {
			t.Errorf("%+v: reads again", c)
		}
	}
}

// After all shards were read, there is nothing to read: neither a missing or merged one, nor
// because a clock was set back since tokens were added.
func TestShardsAreReadOnce(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32})
	b.See(imageOf(2, 4, 0), noon-10, Unsent)
	b.See(imageOf(0, 2, 0), noon-10, Unsent)
	b.Missing(noon-10, 1)
	more := imageOf(0, 2, 5)
	more.State.Slots[more.State.Index(bucket.WCU)].Used++
	b.See(more, noon, Unsent)
	check.MustEqual(t, b.facts.raisedAt, noon, "raised at")
	d := decider{facts: &b.facts, now: noon, want: asks(1, perSecond), attempt: &Attempt{}}
	if d.outdated() {
		t.Error("reads for shards that are not there")
	}
	for _, shard := range []int{0, 1} {
		b.See(imageOf(shard, 2, 5), noon-5000, Unsent)
	}
	if d.now = noon - 5000; !d.outdated() {
		t.Error("does not read shards seen before tokens were added")
	}
	check.Equal(t, b.ReadAll(d.now), 2, "shards are read")
	check.Must(t, check.Err(b.SeeAll([]item.Item{imageOf(0, 2, 5).Item(), imageOf(1, 2, 5).Item()}, d.now)))
	if d.now += denyFor; d.outdated() {
		t.Error("reads again")
	}
}
