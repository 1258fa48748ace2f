package decide

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Shard 2 is missing, although shard 0 has split it off. If another shard has a lower count, it is
// newer than the image of shard 0 if shard 0 has merged since, and then nothing is missing:
// restoring it was refused, for 20 units on every denial.
func TestOnlyShardsOfTheCountAreMissing(t *testing.T) {
	image := func(shard, count int, generation int64) *seen {
		return &seen{image: table.Shard{Entity: "acme", Resource: "gpt-4", Generation: generation << 12,
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

// A bucket grows when the meter of the shard just written is exhausted, if shard 0 is known
// completely, has the known count, and can be split. A shard with a lower count follows.
func TestBucketsGrowWhenTheirMeterIsExhausted(t *testing.T) {
	image := func(shard, count int, meter int64) table.Shard {
		b := imageOf(shard, count, 3)
		b.State.Slots[b.State.Index(bucket.WCU)].Tokens = meter
		return b
	}
	partly := image(0, 2, 0)
	partly.Partial = []table.PartialLimit{{}}
	gone := image(0, 2, 0)
	gone.State.Slots = gone.State.Slots[:1] // no meter
	for _, c := range []struct {
		name    string
		zero    table.Shard
		written table.Shard
		most    int
		grows   bool
	}{
		{"exhausted", image(0, 2, 0), image(0, 2, bucket.WCUPerWrite-1), 8, true},
		{"another shard", image(0, 2, 0), image(1, 2, 0), 8, true},
		{"one write more", image(0, 2, 0), image(0, 2, bucket.WCUPerWrite), 8, false},
		{"no meter", image(0, 2, 0), gone, 8, false},
		{"shard 0 was not seen", table.Shard{}, image(1, 2, 0), 8, false},
		{"shard 0 is stored in part", partly, image(1, 2, 0), 8, false},
		{"shard 0 has another count", image(0, 4, 0), image(1, 2, 0), 8, false},
		{"as many as there may be", image(0, 2, 0), image(0, 2, 0), 2, false},
		{"it follows", image(0, 2, 0), image(1, 1, bucket.WCUPerWrite), 8, true},
		{"it has no count", image(0, 2, 0), image(1, 0, bucket.WCUPerWrite), 8, false},
	} {
		k := &facts{Settings: &Settings{MaxShards: c.most}, count: 2, shards: map[int]*seen{0: {image: c.zero, at: noon}}}
		if plan := k.grown(c.written, noon); (plan != nil) != c.grows {
			t.Errorf("%s: grows %v", c.name, plan != nil)
		}
	}
}

// A process remembers its last four limits that others have replaced.
func TestYieldsAreBounded(t *testing.T) {
	k := &facts{}
	for n := range 6 {
		own := perSecond
		own.Capacity += int64(n)
		k.yieldTo(&seen{image: imageOf(0, 1, 3)}, []bucket.Limit{own}, noon)
		k.yieldTo(&seen{image: imageOf(0, 1, 3)}, []bucket.Limit{own}, noon) // it does so already
	}
	if len(k.yields) != mostLimits || k.yields[0].own[0].Capacity != perSecond.Capacity+2 {
		t.Errorf("%d yields, the first to a capacity of %d", len(k.yields), k.yields[0].own[0].Capacity)
	}
}

// A missing shard can be restored once its parent has split it off, as its count shows, but not if
// shards are to merge, or shard 0 is missing.
func TestSplitOffShardCanBePutBack(t *testing.T) {
	step := func(b *Bucket) string {
		plan, _ := b.Mend()
		if plan == nil {
			return ""
		}
		s, _ := plan.Next(noon, 1)
		return s.String()
	}
	for parent, want := range map[int]string{4: "", 8: "restore 5"} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		b.See(imageOf(0, 8, 1), noon, Unsent)
		for k := range 5 {
			b.See(imageOf(k, 8, 1), noon, Unsent)
		}
		b.See(imageOf(1, parent, 1), noon, Unsent)
		b.Missing(noon, 5)
		check.Equal(t, step(b), want, "its parent has %d shards", parent)
		b.Missing(noon, 0)
		check.Equal(t, step(b), "", "a shard is put back of a bucket that is not there")
	}
	few := bucket.Limit{Name: "rps", Capacity: 2000, Amount: 1000, Period: 1000}
	b := seenAs(few, 1, 1, 0, 0) // four shards for two tokens: they are to merge
	if b.Missing(noon, 1); step(b) == "restore 1" {
		t.Error("a shard is put back that is to merge")
	}
}

// A bucket grows, but not one that is partly stored: that stays unchanged.
func TestGrowth(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	image := imageOf(0, 2, 3)
	image.State.Slots[image.State.Index(bucket.WCU)].Tokens = 0
	b.See(image, noon, Unsent)
	partly := image
	partly.Partial = []table.PartialLimit{{}}
	if b.facts.growth(partly, noon) != nil || b.facts.growth(image, noon) == nil {
		t.Error("it grows while it is stored in part, or not while it is exhausted")
	}
}

// A bucket does not grow until its shares are smaller than the largest request.
func TestTheLargestRequestBoundsGrowth(t *testing.T) {
	zero := imageOf(0, 2, 3) // of two shards with 5 each; of four they have 2.5
	zero.State.Slots[zero.State.Index(bucket.WCU)].Tokens = 0
	for largest, grows := range map[int64]bool{0: true, 2000: true, 2500: true, 3000: false, 5000: false} {
		k := &facts{Settings: &Settings{MaxShards: 8}, count: 2, shards: map[int]*seen{0: {image: zero, at: noon}},
			largest: map[string]int64{perSecond.Name: largest}}
		if plan := k.grown(zero, noon); (plan != nil) != grows {
			t.Errorf("largest %d: grows %v", largest, plan != nil)
		}
	}
}

// The growth is bounded by the largest cost of each limit, whatever is requested later.
func TestTheLargestCostIsKept(t *testing.T) {
	b, other := seenAs(perSecond, 9), each("a", 1)
	for _, milli := range []int64{3000, 5000, 1000} {
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{other, perSecond}, milli, 2*milli)
		b.Decide(w, &Attempt{}, clock(noon))
	}
	b.Decide(asks(1, perSecond), &Attempt{}, clock(noon))
	if got := b.facts.largest; got["a"] != 5000 || got["rps"] != 10_000 {
		t.Errorf("%v, want 5000 of a and 10000 of rps", got)
	}
}

// For each shard, a process remembers the last four lists of its own limits that it has seen in
// force.
func TestConfirmedLimitsAreBounded(t *testing.T) {
	k := factsOf(1)
	var all []bucket.Limit
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		limit := perSecond
		limit.Name = name
		all = append(all, limit)
	}
	image := imageOf(0, 1, 3)
	image.State = bucket.New(all, 0, 1, noon)
	k.see(image, noon, Unsent, nil)
	for _, limit := range all {
		k.confirm(image, asks(1, limit), noon)
	}
	if c := k.at(0).confirmed; len(c) != mostLimits || c[0][0].Name != "c" || c[3][0].Name != "f" {
		t.Errorf("remembered are %v", c)
	}
}

// The siblings of a shard 0 are all other seen shards.
func TestSiblings(t *testing.T) {
	k := factsOf(4)
	for _, shard := range []int{0, 1, 3} {
		k.see(imageOf(shard, 4, 1), noon, Unsent, nil)
	}
	k.missing(2, noon)
	var got []int
	for _, image := range k.siblings() {
		got = append(got, image.State.Shard)
	}
	slices.Sort(got)
	check.Slices(t, got, []int{1, 3})
}

// A shard beyond the count of shard 0, or with a larger count, was left behind when shard 0 merged:
// it is merged too. An image from before that, or from the time in which others follow, shows
// nothing.
func TestShardsAheadAreBroughtAlong(t *testing.T) {
	for _, c := range []struct {
		shard, count int
		seen         int64 // ms after shard 0 began its generation
		mends        bool
	}{
		{1, 2, 10_000, false},
		{1, 4, 10_000, true},
		{2, 2, 10_000, true},
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

// A shard with a lower count follows the known count. If it is newer than the image of shard 0,
// that one may have merged since, and is read first.
func TestShardBehindFollowsTheKnownCount(t *testing.T) {
	for _, c := range []struct {
		zero, written int64 // generations, in ms
		seen          bool
		asks          bool
	}{{1000, 2000, true, true}, {1000, 1000, true, false}, {2000, 1000, true, false}, {0, 1000, false, false}} {
		zero, written := imageOf(0, 4, 3), imageOf(1, 2, 3)
		zero.Generation, written.Generation = c.zero<<12, c.written<<12
		k := &facts{Settings: &Settings{MaxShards: 8}, count: 4, shards: map[int]*seen{0: {image: zero}}}
		if !c.seen {
			k.shards[0].image = table.Shard{}
		}
		step, ok := k.grown(written, noon).Next(noon, 1)
		if want := map[bool]string{true: "look 0", false: "split 1"}[c.asks]; !ok || step.String() != want {
			t.Errorf("%+v: %s first, want %s", c, step, want)
		}
	}
}

// A count is fine enough if the whole tokens of as many full shards as can pay together cover the
// largest cost: of 128 shards a hundred pay.
func TestGranular(t *testing.T) {
	limit := bucket.Limit{Name: "rps", Capacity: 128_000, Amount: 128_000, Period: 1000}
	for _, c := range []struct {
		count   int
		largest int64
		want    bool
	}{
		{128, 100_000, true}, {128, 100_001, false}, {64, 128_000, true}, {128, 129_000, true},
	} {
		k := factsOf(c.count)
		k.largest = map[string]int64{"rps": c.largest, bucket.WCU: 900_000}
		check.Equal(t, k.granular(bucket.New([]bucket.Limit{limit}, 0, c.count, noon), c.count), c.want, "%+v", c)
	}
}

// A bucket with more shards than its limits can be divided by merges shard 0 first, down to a
// fitting count; the others follow the stream.
func TestRepairMergesShard0(t *testing.T) {
	limit := bucket.Limit{Name: "rps", Capacity: 2000, Amount: 1000, Period: 1000}
	image := shardOf(bucket.New([]bucket.Limit{limit}, 0, 4, noon))
	k := &facts{Settings: &Settings{MaxShards: 32}, count: 4, shards: map[int]*seen{0: {image: image, at: noon}}}
	step, ok := k.repair().Next(noon, 1)
	if !ok || step.String() != "look 2" {
		t.Errorf("first %s, want a look at shard 2, which merges into 0", step)
	}
	for largest, repairs := range map[int64]bool{2000: false, 1000: false} {
		fits := shardOf(bucket.New([]bucket.Limit{limit}, 0, 2, noon))
		k = &facts{Settings: k.Settings, count: 2, shards: map[int]*seen{0: {image: fits, at: noon}},
			largest: map[string]int64{"rps": largest}}
		if plan := k.repair(); (plan != nil) != repairs {
			t.Errorf("two shards of a token, %d wanted: repaired %v", largest, plan != nil)
		}
	}
}

// A write that finds its shard missing restores it.
func TestMissingShardIsRestored(t *testing.T) {
	for _, missing := range []bool{true, false} {
		k := factsOf(2)
		for shard := range 2 {
			k.see(imageOf(shard, 2, 3), noon, Unsent, nil)
		}
		var e Effects
		out, c := Outcome{}, &Call{Planned: Planned{Shard: 1, since: Unsent}}
		if image := imageOf(1, 2, 3); !missing {
			out.Image = &image
		}
		if k.failed(c, out, Now{Ms: noon}, &e); (len(e.Plans) == 1) != missing {
			t.Errorf("missing %v: %d plans", missing, len(e.Plans))
		}
	}
}
