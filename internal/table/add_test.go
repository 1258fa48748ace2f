package table

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// An add holds if the level covers its cost and cannot have overflowed since the image. A limit
// without a cost only must not be in debt. A soft limit denies nothing, but it must be stored as
// soft, and a level that may have overflowed must not be spent.
func TestAddsNeedACoveringLevel(t *testing.T) {
	rate := newRate("l", 60_000, 60_000)
	quota := newQuota("l", 60_000, "m0h0@UTC")
	soft := func(l bucket.Limit) bucket.Limit {
		l.Soft = true
		return l
	}
	for _, c := range []struct {
		name         string
		stored, of   bucket.Limit
		level, costs int64
		want         bool
	}{
		{"half of a rate's level", rate, rate, 20_000, 10_000, true},
		{"all of it", rate, rate, 20_000, 20_000, true},
		{"more than it", rate, rate, 20_000, 20_001, false},
		{"some of a full rate", rate, rate, 60_000, 1_000, false},
		{"a rate that lacks 30 s of refill", rate, rate, 30_001, 1_000, true}, // it may be as old, and ms are rounded
		{"a rate with a little more", rate, rate, 30_002, 1_000, false},
		{"all of a full rate, in no time", rate, rate, 60_000, 60_000, true},
		{"nothing of a full rate", rate, rate, 60_000, 0, true},
		{"nothing of an empty one", rate, rate, 0, 0, true},
		{"nothing of one in debt", rate, rate, -1, 0, false},

		{"some of a full quota", quota, quota, 60_000, 1_000, true},
		{"more than a quota has", quota, quota, 999, 1_000, false},
		{"nothing of a full quota", quota, quota, 60_000, 0, true},
		{"nothing of one in debt", quota, quota, -1, 0, false},

		{"some of a soft rate in debt", soft(rate), soft(rate), -7_000, 1_000, true},
		{"some of a full soft rate", soft(rate), soft(rate), 60_000, 1_000, false},
		{"nothing of a soft rate in debt", soft(rate), soft(rate), -7_000, 0, true},
		{"nothing of a full soft rate", soft(rate), soft(rate), 60_000, 0, true},
		{"some of a soft quota in debt", soft(quota), soft(quota), -7_000, 1_000, true},
		{"some of a full soft quota", soft(quota), soft(quota), 60_000, 1_000, true},
		{"some of a soft rate that is not stored as soft", rate, soft(rate), 20_000, 1_000, false},
		{"some of a soft quota that is not stored as soft", quota, soft(quota), 20_000, 1_000, false},
	} {
		put, image := create(sampleNow, Costs([]bucket.Limit{c.stored}, 0))
		put.Item["b_l_tk"] = item.N(c.level)
		add := addAt(sampleNow, Costs([]bucket.Limit{c.of}, c.costs))
		after, held, err := add.Plan().Apply(put.Item)
		check.Must(t, err, c.name)
		check.Equal(t, held, c.want, c.name)
		if sl := decode(t, after).State.Slots[0]; held && (sl.Tokens != c.level-c.costs ||
			sl.Used != image.State.Slots[0].Used+c.costs) {
			t.Errorf("%s: leaves %+v", c.name, sl)
		}
	}
}

// The refill since the image must fit into the level. A rate of one token a second with 60 tokens,
// half of them free, cannot overflow within half a minute.
func TestAddsAcceptOnlyRefillsThatFit(t *testing.T) {
	rate := newRate("l", 60_000, 60_000)
	slow := bucket.Limit{Name: "l", Capacity: 60_000, Amount: 1_000, Period: 3600_000 * 24}
	soft := rate
	soft.Soft = true
	// sampleNow is 22:13:20. The zone is 3 hours ahead, so the first period after 1970 had 21
	// hours.
	quota := newQuota("l", 60_000, "m0h0@Africa/Nairobi")
	for _, c := range []struct {
		name       string
		of         bucket.Limit
		room, cost int64
		age        int64 // in milliseconds; the oldest that holds
	}{
		{"half of the capacity", rate, 50, 1_000, 29_998},
		{"a tenth", rate, 10, 1_000, 5_998},
		{"a cost that leaves less", rate, 50, 50_000, 9_998},
		{"the whole capacity", rate, 50, 60_000, 0},
		{"more than a day", slow, 50, 1_000, 24 * 3600 * 1000},
		{"a soft limit, which is not cut to its cost", soft, 50, 50_000, 29_998},
		{"a quota, to its edge", quota, 50, 1_000, 82_000_000 - 1},
	} {
		put, _ := create(sampleNow, Costs([]bucket.Limit{c.of}, 0))
		put.Item["b_l_tk"] = item.N(c.cost)
		if c.of.Soft {
			put.Item["b_l_tk"] = item.N(0)
		}
		for after, want := range map[int64]bool{c.age: true, c.age + 1: false} {
			add := addAt(sampleNow+after, Costs([]bucket.Limit{c.of}, c.cost))
			add.Room = c.room
			check.Equal(t, holds(t, add.Plan(), put.Item), want, "%s, %d ms later", c.name, after)
		}
	}
}

// DynamoDB accepts an add with as many soft limits as a bucket may have. Each of up to sixteen has
// its own condition.
func TestAddsAcceptManySoftLimits(t *testing.T) {
	for n, asks := range map[int]bool{1: true, 16: true, 17: false, bucket.MaxLimits: false} {
		limits := newRates(0, n)
		for i := range limits {
			limits[i].Soft = true
		}
		add := addAt(sampleNow, Costs(limits, slices.Repeat([]int64{1000}, n)...)).Plan()
		check.NoError(t, item.Validate(add), "%d limits", n)
		put, _ := create(sampleNow, Costs(limits, slices.Repeat([]int64{50_000}, n)...))
		check.Equal(t, holds(t, add, put.Item), true, "%d limits", n)
		delete(put.Item, attrLimit("l00", layout.FieldSoft))
		check.Equal(t, holds(t, add, put.Item), !asks, "%d limits, one of them not soft", n)
	}
}
