package decide

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// tried is a soft limit next to perSecond.
var tried = bucket.Limit{Name: "tps", Capacity: 10_000, Amount: 1000, Period: 1000, Soft: true}

// seenWithSoft returns a bucket whose shards were seen at noon with these tokens of perSecond and
// of tried.
func seenWithSoft(tokens ...[2]int64) *Bucket {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	for shard, n := range tokens {
		image := shardOf(bucket.New([]bucket.Limit{perSecond, tried}, shard, len(tokens), noon))
		image.State.Slots[image.State.Index(perSecond.Name)].Tokens = n[0] * bucket.Milli
		image.State.Slots[image.State.Index(tried.Name)].Tokens = n[1] * bucket.Milli
		b.See(image, noon, Unsent)
	}
	return b
}

func asksBoth(hard, soft int64) Want {
	w := asks(0, perSecond, tried)
	w.Costs[0].Milli, w.Costs[1].Milli = hard*bucket.Milli, soft*bucket.Milli
	return w
}

// Costs of a soft limit under way on several shards do not stop requests from taking from them.
func TestSoftLimitsUnderWayOnSeveralShards(t *testing.T) {
	b := seenWithSoft([2]int64{5, 5}, [2]int64{5, 5}, [2]int64{5, 5}, [2]int64{5, 5})
	for range 2 { // of shares of 2 whole tokens each
		d := b.Decide(asksBoth(4, 50), &Attempt{}, clock(noon))
		check.MustEqual(t, d.Do, Several, "%+v %+v", d.Choice, d.Denial)
		b.Gather(d.Want)
	}
}

// The parts that shards pay are few and add up, and a shard pays what it has of a hard limit.
func TestPartsOfSoftLimits(t *testing.T) {
	levels := make([][2]int64, 8)
	for i := range levels {
		levels[i] = [2]int64{1, 1}
	}
	b := seenWithSoft(levels...)
	var images []table.Shard
	for i := range levels {
		images = append(images, b.Seen(i).Image)
	}
	for _, asked := range [][2]int64{{2, 50}, {8, 50}, {3, 2}, {2, 0}} {
		parts := ByLevels(images, asksBoth(asked[0], asked[1]), noon)
		check.Equal(t, len(parts), int(asked[0]), "%v: shards pay", asked)
		sum := [2]int64{}
		for _, p := range parts {
			sum[0], sum[1] = sum[0]+p.Costs[0].Milli, sum[1]+p.Costs[1].Milli
			if p.Costs[0].Milli > bucket.Milli {
				t.Errorf("%v: a shard with 1 token pays %d", asked, p.Costs[0].Milli)
			}
		}
		check.Equal(t, sum, [2]int64{asked[0] * bucket.Milli, asked[1] * bucket.Milli}, "%v: paid", asked)
	}
}

// A yielding process uses its limits as the bucket has them. One that the bucket lacks stays
// unchanged and is named as removed; one that is soft in the bucket stays hard.
func TestLimitsAsTheBucketHasThem(t *testing.T) {
	stored := perSecond
	stored.Capacity *= 2
	b := table.Shard{State: bucket.New([]bucket.Limit{stored, tried}, 0, 1, noon)}
	gone, hard := bucket.Limit{Name: "gone", Capacity: 1000, Amount: 1000, Period: 1000}, tried
	hard.Soft = false
	out, removed := storedLimitsOf(b, []bucket.Limit{perSecond, gone, hard, tried})
	want := []bucket.Limit{stored, gone, hard, tried}
	if !slices.Equal(out, want) || !slices.Equal(removed, []string{"gone"}) {
		t.Errorf("%+v without %q, want %+v", out, removed, want)
	}
}

// Refused writes do not deny requests that have only soft limits.
func TestSoftLimitsAreNotOutrun(t *testing.T) {
	b := seenAs(tried, 9)
	for _, a := range []*Attempt{{Trips: MaxTrips}, {Trips: MaxTrips, Waits: true, Until: noon + 1e6}} {
		d := b.Decide(asks(50, tried), a, clock(noon))
		check.Equal(t, d.Do, Take, "%+v: decided %+v, %+v", a, d.Choice, d.Denial)
	}
}
