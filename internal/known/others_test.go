package known

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// perHour20 is a limit that hardly refills while a test lasts.
var perHour20 = bucket.Limit{Name: "rph", Capacity: 20_000, Amount: 20_000, Period: 3_600_000}

// factsOf are those of a bucket of so many shards, of which nothing has been seen.
func factsOf(count int) *facts {
	return &facts{Settings: &Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32}, count: count}
}

// denyFor is how long, in ms, an image denies in these tests.
const denyFor = 1000

// What others take denies only after it has made a write fail, and only until the
// image is due for a look; it never grants what the image does not cover.
func TestWhatOthersTake(t *testing.T) {
	for _, c := range []struct {
		name    string
		tokens  int64         // in the image, of 20
		age     time.Duration // of the image
		taken   float64       // by others, tokens per second
		refused time.Duration // ago; negative: never
		want    Action
	}{
		{"nobody else", 10, 500 * time.Millisecond, 0, 0, Take},
		{"others take, none refused", 5, 900 * time.Millisecond, 10, -1, Take},
		{"others took it", 5, 900 * time.Millisecond, 10, 0, Deny},
		{"others leave enough", 19, 100 * time.Millisecond, 1, 0, Take},
		{"refused long ago", 5, 900 * time.Millisecond, 10, contendedFor*time.Millisecond + 1000000, Take},
		{"due for a look", 5, denyFor * time.Millisecond, 10, 0, Take},
		{"image from the future", 5, -time.Second, 10, 0, Take},
		{"others give back", 0, 900 * time.Millisecond, -100, 0, Deny},
		{"others give back, none refused", 0, 900 * time.Millisecond, -100, -1, Deny},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := int64(1_700_000_000_000)
			limit := perHour20
			k := factsOf(1)
			b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
				State: bucket.New([]bucket.Limit{limit}, 0, 1, now-c.age.Milliseconds())}
			b.State.Slots[b.State.Index("rph")].Tokens = c.tokens * bucket.Milli
			k.see(b, now-c.age.Milliseconds(), Unsent, nil)
			s := k.shards[0]
			s.others = others{taken: map[string]float64{"rph": c.taken * 1000}, elapsed: 1000}
			if c.refused >= 0 {
				s.others.refuse(0, now-c.refused.Milliseconds())
			}
			d := decider{facts: k, now: now, attempt: &Attempt{},
				want: Want{Costs: []table.Cost{{Limit: limit, Milli: 1000}}}}
			got := d.decide()
			if got.Do != c.want || got.Do == Look || got.Do == Deny && got.Limit != "rph" {
				t.Fatalf("decided %+v, want %d", got, c.want)
			}
			if estimated := c.tokens > 0; got.Do == Deny && estimated && (got.at <= now || got.at > s.at+denyFor) {
				t.Errorf("denied until %d ms from now, want no longer than until the look in %d ms", got.at-now, s.at+denyFor-now)
			}
		})
	}
}

// Of several shards one look is for all: an older image denies for as long as that one may. A single
// shard denies for as long as its own image may.
func TestOneLookIsForAllShards(t *testing.T) {
	for _, c := range []struct {
		count       int
		looked, now int64 // ms since the image came
		until       int64 // 0: it denies nothing
	}{
		{1, denyFor, denyFor + 1, 0}, {2, denyFor, denyFor + 1, 2 * denyFor},
		{1, 400, 500, denyFor}, {2, 400, 500, 400 + denyFor},
		{2, -100, -50, denyFor - 50}, // the clock was set back
	} {
		k := factsOf(c.count)
		k.see(imageOf(0, c.count, 0), noon, Unsent, nil)
		k.lookedAt = noon + c.looked
		s := k.shards[0]
		s.others = others{taken: map[string]float64{"rps": 900}, elapsed: 1000}
		s.others.refuse(0, noon+c.now)
		d := decider{facts: k, now: noon + c.now, attempt: &Attempt{}, want: asks(1, perSecond)}
		at, limit := d.expected(s)
		if want := c.until; (limit == "rps") != (want > 0) || limit != "" && at-noon != want {
			t.Errorf("%+v: denied by %q until %d ms", c, limit, at-noon)
		}
	}
}

// A write to one of several shards is a look, too, where others have taken the tokens lately and the
// image is old. That of a single shard never is.
func TestWhichWriteIsALookToo(t *testing.T) {
	for _, c := range []struct {
		count   int
		ms      int64 // since the image came
		refused bool
		asks    bool
	}{{2, denyFor, true, true}, {2, denyFor - 1, true, false}, {2, denyFor, false, false}, {1, denyFor, true, false}} {
		k := factsOf(c.count)
		for shard := range c.count {
			k.see(imageOf(shard, c.count, 5), noon, Unsent, nil)
			if c.refused {
				k.shards[shard].others.refuse(0, noon)
			}
		}
		d := decider{facts: k, now: noon + c.ms, attempt: &Attempt{}, want: asks(1, perSecond)}
		if got := d.decide(); got.Do != Take || got.Asks != c.asks {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A refusal speaks for requests that leave as much or more, and for ten seconds.
func TestWhomARefusalSpeaksFor(t *testing.T) {
	s := &seen{}
	leaves := func(percent int64) Want { return Want{Costs: []table.Cost{{Floor: percent}, {}}} }
	s.others.refuse(40, 1000)
	s.others.refuse(60, 8000)
	for _, c := range []struct {
		floor, now int64
		want       bool
	}{
		{0, 1000, false}, {39, 1000, false}, {40, 1000, true}, {60, 1000, true},
		{40, 11_000, true}, {40, 11_001, false}, {59, 18_000, false}, {60, 18_000, true}, {60, 18_001, false},
	} {
		if got := s.contended(leaves(c.floor), c.now); got != c.want {
			t.Errorf("%d %% left at %d ms: %v, want %v", c.floor, c.now, got, c.want)
		}
	}
	if s.others.refuse(0, 18_001); len(s.others.refused) != 1 {
		t.Errorf("%v are kept", s.others.refused)
	}
}

// What others take does not make a small request a transaction: shards of which one holds
// enough by its image hold no more together.
func TestWhatOthersTakeIsNotTakenTogether(t *testing.T) {
	const now = 1_700_000_000_000
	limit := perHour20
	for _, c := range []struct {
		name   string
		tokens [2]int64 // by shard
		cost   int64
		want   Action
	}{
		{"one shard has it by its image", [2]int64{0, 5}, 1, Deny},
		{"each has it", [2]int64{5, 5}, 1, Deny},
		{"no shard has it, both together do", [2]int64{5, 5}, 7, Several},
	} {
		k := factsOf(1)
		for shard, tokens := range c.tokens {
			b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
				State: bucket.New([]bucket.Limit{limit}, shard, 2, now-900)}
			b.State.Slots[b.State.Index("rph")].Tokens = tokens * bucket.Milli
			k.see(b, now-900, Unsent, nil)
			k.shards[shard].others = others{taken: map[string]float64{"rph": 5000}, elapsed: 1000}
			k.shards[shard].others.refuse(0, now)
		}
		d := decider{facts: k, now: now, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: limit, Milli: c.cost * bucket.Milli}}}}
		for d.pick = range uint64(2) {
			if got := d.decide(); got.Do != c.want {
				t.Errorf("%s: decided %+v, want %d", c.name, got, c.want)
			}
		}
	}
}

// The estimate is what the counters have grown by, less what this process took,
// and fades.
func TestOthersLearn(t *testing.T) {
	state := func(used int64) bucket.State {
		return bucket.State{Slots: []bucket.Slot{{Limit: perHour20, Used: used}}}
	}
	var o others
	if o.rate("rph") != 0 {
		t.Error("a rate of nothing seen")
	}
	o.learn(state(1000), state(6000), []table.Cost{{Limit: perHour20, Milli: 2000}}, 1000)
	if got := o.rate("rph"); got != 3 {
		t.Errorf("others take %v millitokens a millisecond, want 3", got)
	}
	for range 40 {
		o.learn(state(6000), state(6000), nil, 1000)
	}
	if got := o.rate("rph"); got <= 0 || got > 0.01 {
		t.Errorf("after forty seconds of nothing %v, want next to nothing", got)
	}
	o.learn(state(6000), state(0), nil, 1)
	if got := o.rate("rph"); got != 0 {
		t.Errorf("after a give-back %v", got)
	}
}

// What others take in a round trip is missing in an image that has just come. 10 tokens
// are refilled per second, others take 16, and the image, of which they are told that it is
// refilled to now, shows 5.
func TestWhatOthersTakeInARoundTrip(t *testing.T) {
	for _, c := range []struct {
		trip  float64 // ms
		age   int64   // ms since the image came
		cost  int64
		deny  bool
		level string
	}{
		{0, 0, 5, false, "5"},
		{10, 0, 5, false, "5: not even a quarter of a request is expected of others"},
		{70, 0, 5, false, "5: 1.12 of others are less than a quarter of the request"},
		{78.125, 0, 5, true, "5 - 1.25, which is a quarter"},
		{100, 0, 1, false, "5 - 1.6, give or take 1.3"},
		{100, 0, 2, true, "3.4, give or take 1.8: two are there, but not surely"},
		{100, 400, 1, true, "5 + 4 - 8, give or take 2.8"},
		{300, 0, 1, true, "5 - 4.8, give or take 2.2"},
		{2000, 0, 1, true, "5 - 32, give or take 5.7"},
	} {
		const now = int64(1_700_000_000_000)
		limit := bucket.Limit{Name: "rps", Capacity: 40_000, Amount: 10_000, Period: 1000}
		k := factsOf(1)
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{limit}, 0, 1, now-c.age)}
		b.State.Slots[b.State.Index("rps")].Tokens = 5 * bucket.Milli
		k.see(b, now-c.age, Unsent, nil)
		k.shards[0].others = others{taken: map[string]float64{"rps": 16_000}, elapsed: 1000}
		k.shards[0].others.refuse(0, now)
		k.trip = c.trip
		d := decider{facts: k, now: now, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: limit, Milli: c.cost * bucket.Milli}}}}
		if got := d.decide(); (got.Do == Deny) != c.deny {
			t.Errorf("%v ms a trip, %d ms ago, a cost of %d: decided %+v; the level is %s", c.trip, c.age, c.cost, got, c.level)
		}
	}
}

// Others take by turns: 30 tokens within a tenth of a second, seen in ten images, and then
// nothing for 0.9 s. In the mean they take 30 a second, whenever one looks.
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

// The slack follows what others take between two images, and what they leave.
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
}

// What others take fades with each image, and with the time between two of them: what was seen a
// second ago weighs seven eighths of what is seen now.
func TestWhatOthersTakeFades(t *testing.T) {
	at := func(used, other int64) bucket.State {
		s := bucket.New([]bucket.Limit{perHour20, perSecond}, 0, 1, noon)
		s.Slots[s.Index("rph")].Used, s.Slots[s.Index("rps")].Used = used, other
		return s
	}
	var o others
	if o.rate("rph") != 0 {
		t.Errorf("before anything was seen they take %v", o.rate("rph"))
	}
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
	if o.elapsed != 1 {
		t.Errorf("images of one millisecond count for %v", o.elapsed)
	}
	o.learn(bucket.New([]bucket.Limit{perSecond}, 0, 1, noon), at(9000, 0), nil, 1)
	if got := o.taken["rph"]; got > 5000 {
		t.Errorf("a limit that the image before did not have counts for %v", got)
	}
}

// Where what others take is too uncertain it denies nothing: the spread is more than a quarter of
// what the bucket holds beside the cost.
func TestTooUncertainToDeny(t *testing.T) {
	for cost, denies := range map[int64]bool{1000: true, 12_000: false} {
		k := factsOf(1)
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{perHour20}, 0, 1, noon)}
		b.State.Slots[b.State.Index("rph")].Tokens = cost
		k.see(b, noon, Unsent, nil)
		s := k.shards[0]
		s.others = others{taken: map[string]float64{"rph": 10_000}, elapsed: 1000}
		s.others.refuse(0, noon)
		d := decider{facts: k, now: noon + 500, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: perHour20, Milli: cost}}}}
		if at, limit := d.expected(s); (at > 0) != denies || (limit != "") != denies {
			t.Errorf("a cost of %d: at %d by %q", cost, at, limit)
		}
	}
}

// A charge is thought to be refused where others have taken more than the slack of a limit that is
// full by now: of one that is not full yet a charge shows nothing lower.
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
		if got := s.crowded(asks(1, perSecond), noon+c.ms, 30); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if s.crowded(asks(0, perSecond), noon+c.ms, 30) {
			t.Errorf("%+v: crowded for a request that takes nothing", c)
		}
	}
}

// What is held of a limit is no room to refill: others are expected to leave less.
func TestExpectedBesideWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		held, until int64
		denies      bool
	}{{0, 0, false}, {15_000, noon + 5000, true}, {15_000, noon + 100, false}} {
		k := factsOf(1)
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{perHour20}, 0, 1, noon)}
		b.State.HeldUntil, b.State.Slots[b.State.Index("rph")].Held = c.until, c.held
		k.see(b, noon, Unsent, nil)
		s := k.shards[0]
		s.others = others{taken: map[string]float64{"rph": 4000}, elapsed: 1000}
		s.others.refuse(0, noon)
		d := decider{facts: k, now: noon + 500, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: perHour20, Milli: 6000}}}}
		if at, _ := d.expected(s); (at > 0) != c.denies {
			t.Errorf("%+v: until %d", c, at)
		}
	}
}

// A refusal is forgotten after a while, whatever the class.
func TestOldRefusalsAreForgotten(t *testing.T) {
	var o others
	o.refuse(40, noon)
	o.refuse(60, noon+contendedFor)
	if o.refuse(0, noon+contendedFor+1); len(o.refused) != 2 || o.refused[60] != noon+contendedFor {
		t.Errorf("remembered are %v", o.refused)
	}
}

// What this process has under way counts as gone beside what others take.
func TestExpectedBesideWhatIsUnderWay(t *testing.T) {
	for under, denies := range map[int64]bool{0: false, 14_000: true} {
		k := factsOf(1)
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{perHour20}, 0, 1, noon)}
		k.see(b, noon, Unsent, nil)
		s := k.shards[0]
		s.underWay.add([]table.Cost{{Limit: perHour20, Milli: under}})
		s.others = others{taken: map[string]float64{"rph": 4000}, elapsed: 1000}
		s.others.refuse(0, noon)
		d := decider{facts: k, now: noon + 500, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: perHour20, Milli: 6000}}}}
		if at, _ := d.expected(s); (at > 0) != denies {
			t.Errorf("%d under way: until %d", under, at)
		}
	}
}

// Only limits that refill, that the image has, and that something is taken of, are expected to be
// gone.
func TestWhatIsExpectedOf(t *testing.T) {
	soft, quota, odd := perHour20, perHour20, perHour20
	soft.Soft, odd.Name = true, "odd"
	quota.Amount, quota.Period, quota.Reset = 0, bucket.QuotaPeriod, "m0h0D1@UTC"
	for _, c := range []struct {
		name   string
		stored bucket.Limit
		cost   table.Cost
		denies bool
	}{
		{"a rate", perHour20, table.Cost{Limit: perHour20, Milli: 4000}, true},
		{"nothing taken", perHour20, table.Cost{Limit: perHour20}, false},
		{"soft", soft, table.Cost{Limit: soft, Milli: 4000}, false},
		{"a quota", quota, table.Cost{Limit: quota, Milli: 4000}, false},
		{"not stored", perHour20, table.Cost{Limit: odd, Milli: 4000}, false},
	} {
		k := factsOf(1)
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{c.stored}, 0, 1, noon)}
		b.State.Slots[b.State.Index("rph")].Tokens = 5000
		k.see(b, noon, Unsent, nil)
		s := k.shards[0]
		s.others = others{taken: map[string]float64{"rph": 4000, "odd": 4000}, elapsed: 1000}
		s.others.refuse(0, noon)
		d := decider{facts: k, now: noon + 500, attempt: &Attempt{}, want: Want{Costs: []table.Cost{c.cost}}}
		if at, _ := d.expected(s); (at > 0) != c.denies {
			t.Errorf("%s: until %d", c.name, at)
		}
	}
}

// Where others leave something, a denial ends when that covers the cost and its spread, and with the
// image at the latest.
func TestExpectedEndsWithWhatOthersLeave(t *testing.T) {
	for _, c := range []struct {
		taken float64 // of 10 a second
		level int64   // at first, in millitokens
		until int64   // ms
	}{
		{9, 1000, 1000}, {10, 1000, 1000}, {5, 1000, 0},
		{8, 1000, 895}, // 989 millitokens are short, at 2 a millisecond
		{9, 2300, 598}, // 197 at 1
		{9.5, 2400, 1000},
	} {
		k := factsOf(1)
		limit := bucket.Limit{Name: "rps", Capacity: 100_000, Amount: 10_000, Period: 1000}
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{limit}, 0, 1, noon)}
		b.State.Slots[b.State.Index("rps")].Tokens = c.level
		k.see(b, noon, Unsent, nil)
		s := k.shards[0]
		s.others = others{taken: map[string]float64{"rps": c.taken * 1000}, elapsed: 1000}
		s.others.refuse(0, noon)
		d := decider{facts: k, now: noon + 400, attempt: &Attempt{},
			want: Want{Costs: []table.Cost{{Limit: limit, Milli: 1000}}}}
		at, _ := d.expected(s)
		if at == 0 {
			at = noon
		}
		if got := at - noon; got != c.until {
			t.Errorf("others take %v of 10: until %d ms, want %d", c.taken, got, c.until)
		}
	}
}

// Each limit is reckoned with by itself, in whatever order they stand: a request is expected to be
// covered when the last of its limits is, meets a crowd if one of them does, finds a recent image if
// all do, and a queue with room when all have some.
func TestLimitsAreReckonedOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	crowds, old, denied, waits := 0, 0, 0, 0
	for n := range 4000 {
		d := anyBucket(r)
		if len(d.seenOf()) == 0 {
			continue
		}
		s := d.seenOf()[0]
		s.others = others{taken: map[string]float64{}, elapsed: 1000, images: 1}
		for _, c := range d.want.Costs {
			s.others.taken[c.Limit.Name] = float64(r.IntN(20_000))
		}
		s.others.refuse(0, d.now)
		for i := range s.image.State.Slots {
			if r.IntN(2) == 0 {
				s.image.State.Slots[i].Tokens = s.image.State.Rate(i).Capacity - r.Int64N(2000)
			}
			if r.IntN(3) == 0 {
				s.image.State.Slots[i].Tokens -= 2 * s.image.State.Rate(i).Capacity
			}
		}
		all, slack, part := d.want, int64(r.IntN(30)), int64(r.IntN(60))
		at, limit := d.expected(s)
		crowded, recent := s.crowded(all, d.now, slack), s.recent(all, d.now, part)
		most := s.others.slack(s.image.State, all, 100)
		room, by := RoomIn(s.image, all, s.underWay.of)
		var wantAt, wantRoom, wantMost int64
		wantLimit, wantBy, wantCrowded, wantRecent := "", "", false, true
		for _, c := range all.Costs {
			one := d
			one.want.Costs = []table.Cost{c}
			if a, l := one.expected(s); a > wantAt {
				wantAt, wantLimit = a, l
			}
			if a, l := RoomIn(s.image, one.want, s.underWay.of); a > wantRoom {
				wantRoom, wantBy = a, l
			}
			wantCrowded = wantCrowded || s.crowded(one.want, d.now, slack)
			wantRecent = wantRecent && s.recent(one.want, d.now, part)
			wantMost = max(wantMost, s.others.slack(s.image.State, one.want, 100))
		}
		if at != wantAt || limit != wantLimit || room != wantRoom || by != wantBy {
			t.Fatalf("bucket %d: expected at %d by %q and room at %d by %q, want %d by %q and %d by %q",
				n, at, limit, room, by, wantAt, wantLimit, wantRoom, wantBy)
		}
		if crowded != wantCrowded || recent != wantRecent || most != wantMost {
			t.Fatalf("bucket %d: crowded %v, recent %v, a slack of %d, want %v, %v and %d",
				n, crowded, recent, most, wantCrowded, wantRecent, wantMost)
		}
		for found, counter := range map[*int]bool{&crowds: crowded, &old: !recent, &denied: at > 0, &waits: room > 0} {
			if counter {
				*found++
			}
		}
	}
	if min(crowds, old, denied, waits) < 100 {
		t.Errorf("%d crowds, %d old images, %d denied, %d wait: the random buckets show little", crowds, old, denied, waits)
	}
}

// A write that took nothing leaves all that the counter grew by to others, one that took the costs less.
func TestWhatAWriteTookIsNotOthers(t *testing.T) {
	for takes, want := range map[bool]float64{true: 4, false: 5} {
		b := seenAs(perSecond, 9)
		image := imageOf(0, 1, 4)
		image.State.Slots[image.State.Index("rps")].Used = 5000
		b.Took(image, Planned{Takes: takes, since: b.Seen(0).Serial}, asks(1, perSecond), nil, noon+1000)
		if got := b.facts.shards[0].others.rate("rps"); got != want {
			t.Errorf("takes %v: others take %v a second, want %v", takes, got, want)
		}
	}
}

// A limit that was taken out between two images tells nothing, and hides no other.
func TestLearnsBesideALimitThatChanged(t *testing.T) {
	state := func(first string, used int64) bucket.State {
		return bucket.State{Slots: []bucket.Slot{{Limit: each(first, 1), Used: used}, {Limit: perHour20, Used: used}}}
	}
	var o others
	o.learn(state("a", 1000), state("b", 3000), nil, 1000)
	if o.rate("rph") != 2 || o.rate("b") != 0 || o.rate("a") != 0 {
		t.Errorf("others take %v", o.taken)
	}
}
