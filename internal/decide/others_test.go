package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// perHour20 is a limit that hardly refills during a test.
var perHour20 = bucket.Limit{Name: "rph", Capacity: 20_000, Amount: 20_000, Period: 3_600_000}

// factsOf returns the facts of a bucket with several shards, none of which was seen.
func factsOf(count int) *facts {
	return &facts{Settings: &Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32}, count: count}
}

// denyFor is how long, in ms, an image denies in these tests.
const denyFor = 1000

// The estimate is the growth of the counters, minus what this process took, and fades.
func TestOthersLearn(t *testing.T) {
	state := func(used int64) bucket.State {
		return bucket.State{Slots: []bucket.Slot{{Limit: perHour20, Used: used}}}
	}
	var o others
	check.Equal(t, o.rate("rph"), 0, "a rate of nothing seen")
	o.learn(state(1000), state(6000), []table.Cost{{Limit: perHour20, Milli: 2000}}, 1000)
	check.Equal(t, o.rate("rph"), 3, "others take millitokens a millisecond")
	for range 40 {
		o.learn(state(6000), state(6000), nil, 1000)
	}
	if got := o.rate("rph"); got <= 0 || got > 0.01 {
		t.Errorf("after forty seconds of nothing %v, want next to nothing", got)
	}
	o.learn(state(6000), state(0), nil, 1)
	check.Equal(t, o.rate("rph"), 0, "after a give-back")
}

// Others take in bursts: 30 tokens within a tenth of a second, seen in ten images, and then nothing
// for 0.9 s. On average they take 30 a second, whenever one looks.
func TestOthersTakeByTurns(t *testing.T) {
	state := func(used int64) bucket.State {
		return bucket.State{Slots: []bucket.Slot{{Limit: perHour20, Used: used * bucket.Milli}}}
	}
	var o others
	used := int64(0)
	for turn := range 20 {
		for range 10 {
			o.learn(state(used), state(used+3), nil, 10)
			used += 3
		}
		if busy := o.rate("rph"); busy > 35 && turn > 4 {
			t.Errorf("after a burst others seem to take %.1f a second, want about 30", busy)
		}
		o.learn(state(used), state(used), nil, 900)
		if idle := o.rate("rph"); idle < 25 {
			t.Errorf("after a pause others seem to take %.1f a second, want about 30", idle)
		}
	}
}

// The slack follows how much others take between two images, and how much they leave.
func TestSlackFollowsTheFleet(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 600_000, Amount: 600_000, Period: 60_000} // 10 per second
	state := bucket.State{Shards: 1, Slots: []bucket.Slot{{Limit: limit}}}
	w := Want{Costs: []table.Cost{{Limit: limit, Milli: 1000}}}
	for _, c := range []struct {
		name    string
		taken   float64 // tokens between two images
		elapsed float64 // seconds between two images
		want    int64   // percent
	}{
		{"alone", 0, 1, 3}, // 3.5
		{"16 processes at nine tenths", 15, 15 / 9.0, 8}, // 3.5 + 2.0 * 2.5
		{"16 processes at a tenth", 15, 15, 10},          // 3.5 + 2.8 * 2.5
		{"64 processes at nine tenths", 63, 63 / 9.0, 24},
		{"more than is refilled", 15, 15 / 20.0, 8},    // 3.5 + 1.9 * 2.5
		{"256 processes, bounded", 255, 255 / 9.0, 30}, // 3.5 + 2.0 * 42.5
		{"others give back", -15, 1, 3},                // no negative slack
	} {
		o := others{taken: map[string]float64{"rpm": 8000 * c.taken}, elapsed: 8000 * c.elapsed, images: 8}
		if got := o.slack(state, w, 30); got != c.want {
			t.Errorf("%s: slack %d %%, want %d", c.name, got, c.want)
		}
	}
	once := &others{taken: map[string]float64{"rpm": 15_000}, elapsed: 15_000 / 9.0, images: 1}
	if got := once.slack(state, w, 30); got != 8 {
		t.Errorf("slack %d %% by one pair of images, want 8", got)
	}
	if got := (&others{}).slack(state, w, 30); got != 3 {
		t.Errorf("slack %d %% with nothing known, want 3", got)
	}
	if got := (&others{}).slack(state, asks(1, perHour20), 30); got != 3 {
		t.Errorf("slack %d %% for a limit that the bucket lacks, want 3", got)
	}
}

// The rate of others fades with each image, and with the time between two of them: an observation
// from a second ago weighs seven eighths of a current one.
func TestRateOfOthersFades(t *testing.T) {
	at := func(used, other int64) bucket.State {
		s := bucket.New([]bucket.Limit{perHour20, perSecond}, 0, 1, noon)
		s.Slots[s.Index("rph")].Used, s.Slots[s.Index("rps")].Used = used, other
		return s
	}
	var o others
	check.Equal(t, o.rate("rph"), 0, "before anything was seen they take")
	o.learn(at(0, 0), at(5000, 100), []table.Cost{{Limit: perHour20, Milli: 1000}}, 1000)
	if o.images != 1 || o.elapsed != 1000 || o.rate("rph") != 4 || o.rate("rps") != 0.1 {
		t.Errorf("after one image: %+v", o)
	}
	o.learn(at(5000, 100), at(7000, 100), nil, 2000)
	if o.images != 1.875 || o.elapsed != 2875 || o.taken["rph"] != 4000*fade+2000 || o.taken["rps"] != 100*fade {
		t.Errorf("after two: %+v", o)
	}
	o = others{}
	o.learn(at(0, 0), at(5000, 0), nil, 0)
	check.Equal(t, o.elapsed, 1, "images of one millisecond count for")
	o.learn(bucket.New([]bucket.Limit{perSecond}, 0, 1, noon), at(9000, 0), nil, 1)
	if got := o.taken["rph"]; got > 5000 {
		t.Errorf("a limit that the image before did not have counts for %v", got)
	}
}

// A charge is expected to be refused if others have taken more than the slack of a limit that is
// full by now: a limit that is not yet full is not shown too low.
func TestCrowdedWhenFullByNow(t *testing.T) {
	for _, c := range []struct {
		level int64 // at noon, of 10
		taken float64
		ms    int64
		want  bool
	}{
		{10, 1, 4000, true}, {10, 1, 3000, false}, {10, 0.5, 4000, false},
		{7, 1, 4000, true}, {6, 1, 4000, true}, {5, 1, 4000, false}, {0, 1, 9999, false}, {0, 1, 10_000, true},
	} {
		s := &seen{image: imageOf(0, 1, c.level), at: noon,
			others: others{taken: map[string]float64{"rps": c.taken * 10_000}, elapsed: 10_000}}
		check.Equal(t, s.crowded(asks(1, perSecond), noon+c.ms, 30), c.want, "%+v", c)
		if s.crowded(asks(0, perSecond), noon+c.ms, 30) {
			t.Errorf("%+v: crowded for a request that takes nothing", c)
		}
	}
}

// After a write that took nothing, all growth of the counter was by others; after one that took the
// costs, less.
func TestOwnWritesDoNotCountAsOthers(t *testing.T) {
	for takes, want := range map[bool]float64{true: 4, false: 5} {
		b := seenAs(perSecond, 9)
		image := imageOf(0, 1, 4)
		image.State.Slots[image.State.Index("rps")].Used = 5000
		b.Took(image, Planned{Takes: takes, since: b.Seen(0).Serial}, asks(1, perSecond), nil, noon+1000)
		check.Equal(t, b.facts.shards[0].others.rate("rps"), want, "takes %v: what others take a second", takes)
	}
}
