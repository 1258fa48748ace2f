package decide

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // takes memory, and saves half of the time
	os.Exit(m.Run())
}

// noon is when these tests begin, epoch ms.
const noon = int64(1_700_000_000_000)

// perSecond refills a token a second and holds ten.
var perSecond = bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1000, Period: 1000}

// clock returns a stopped clock.
func clock(ms int64) func() Now { return func() Now { return Now{Ms: ms} } }

// asks returns a request for tokens under some limits.
func asks(tokens int64, limits ...bucket.Limit) Want {
	return Want{Namespace: "ns", Name: Name{Entity: "acme", Resource: "gpt-4"}, Lifetime: table.Expires,
		Costs: table.Costs(limits, tokens*bucket.Milli)}
}

// seenAs returns a bucket whose shards were seen at noon with these tokens of a limit.
func seenAs(limit bucket.Limit, tokens ...int64) *Bucket {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	for shard, n := range tokens {
		image := shardOf(bucket.New([]bucket.Limit{limit}, shard, len(tokens), noon))
		image.State.Slots[image.State.Index(limit.Name)].Tokens = n * bucket.Milli
		b.See(image, noon, Unsent)
	}
	return b
}

// Each row is a reason why a request is granted a write, looks, or is denied.
func TestWhyDenied(t *testing.T) {
	faster := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 5000, Period: 1000}
	waits := &Attempt{Waits: true, Until: noon + 60_000}
	for _, c := range []struct {
		name   string
		bucket *Bucket
		asks   Want
		has    *Attempt // attempts so far; nil: none
		ms     int64    // since noon
		want   Action
		shard  int
		after  int64 // of a denial, ms
		guess  bool
	}{
		{name: "nothing is known: the first write brings the image", bucket: seenAs(perSecond), asks: asks(1, perSecond),
			want: Take},
		{name: "the image covers it", bucket: seenAs(perSecond, 4), asks: asks(4, perSecond), want: Take},
		{name: "it does not: 7 - 4 tokens take 3 s", bucket: seenAs(perSecond, 4), asks: asks(7, perSecond),
			want: Deny, after: 3000},
		{name: "a second later, 2 s", bucket: seenAs(perSecond, 4), asks: asks(7, perSecond), ms: 1000,
			want: Deny, after: 2000},
		{name: "the image is too old to deny", bucket: seenAs(perSecond, -70), asks: asks(7, perSecond), ms: 60_000,
			want: Look},
		{name: "it has looked", bucket: seenAs(perSecond, -70), asks: asks(7, perSecond), has: &Attempt{Calls: 1},
			ms: 60_000, want: Deny, after: 17_000},
		{name: "more than the capacity", bucket: seenAs(perSecond, 10), asks: asks(11, perSecond), want: Never},
		{name: "the second of two shards has it", bucket: seenAs(perSecond, 0, 5), asks: asks(4, perSecond),
			want: Take, shard: 1},
		{name: "two shards have it together", bucket: seenAs(perSecond, 3, 3), asks: asks(5, perSecond), want: Several},
		{name: "they did not hold what they seemed to", bucket: seenAs(perSecond, 3, 3), asks: asks(5, perSecond),
			has: &Attempt{Spread: true}, want: Deny, after: 1, guess: true},
		{name: "they will: each gets a token in 2 s", bucket: seenAs(perSecond, 3, 3), asks: asks(8, perSecond), want: Deny,
			after: 2000},
		{name: "limits that deny are brought first", bucket: seenAs(perSecond, 4), asks: asks(7, faster), want: Adopt},
		{name: "they are brought", bucket: seenAs(perSecond, 4), asks: asks(7, faster), has: &Attempt{Adopted: true},
			want: Deny, after: 600},
		{name: "others have been faster each time: 5 tokens take 5 s", bucket: seenAs(perSecond, 9),
			asks: asks(5, perSecond), has: &Attempt{Trips: MaxTrips, Lost: true}, want: Deny, after: 5000, guess: true},
		{name: "decided too often", bucket: seenAs(perSecond, 9), asks: asks(5, perSecond),
			has: &Attempt{Rounds: MaxRounds}, want: Deny, after: 5000, guess: true},
		{name: "it waits: into debt", bucket: seenAs(perSecond, 4), asks: asks(7, perSecond), has: waits, want: Take},
		{name: "it does not wait for so long", bucket: seenAs(perSecond, 4), asks: asks(7, perSecond),
			has: &Attempt{Waits: true, Until: noon + 2999}, want: Deny, after: 3000},
		{name: "the queue owes more than a capacity", bucket: seenAs(perSecond, -14), asks: asks(1, perSecond), has: waits,
			want: Deny, after: 4000},
	} {
		a := &Attempt{}
		if c.has != nil {
			*a = *c.has
		}
		got := c.bucket.Decide(c.asks, a, clock(noon+c.ms))
		if got.Do != c.want || got.Shard != c.shard && c.want != Deny {
			t.Errorf("%s: decided %+v, want %d on shard %d", c.name, got.Choice, c.want, c.shard)
			continue
		}
		check.Equal(t, got.Owe, got.Do == Take && a.Waits, "%s: owes", c.name)
		if d := got.Denial; d.After != c.after || d.Estimated != c.guess || c.want == Deny && d.Limit != "rps" {
			t.Errorf("%s: denied with %+v, want %d ms", c.name, d, c.after)
		}
	}
}

// A denial is exact: the request is granted after the given time, and not a millisecond before,
// whether the denial is remembered or decided again.
func TestDenialIsExact(t *testing.T) {
	for cost, tokens := range map[int64][]int64{7: {4}, 8: {-3}, 9: {0, 3}, 6: {1, 1, 0, 2}} {
		for _, again := range []bool{false, true} {
			b := seenAs(perSecond, tokens...)
			d := b.Decide(asks(cost, perSecond), &Attempt{}, clock(noon))
			if d.Do != Deny || d.Denial.Estimated {
				t.Fatalf("%v: decided %+v, %+v", tokens, d.Choice, d.Denial)
			}
			if again { // a new image is decided again
				b.See(b.Seen(0).Image, noon, b.Seen(0).Serial)
			}
			at := noon + d.Denial.After
			if d := b.Decide(d.Want, &Attempt{}, clock(at-1)); d.Do != Deny || d.Denial.After != 1 {
				t.Errorf("%v: a millisecond early %+v, %+v", tokens, d.Choice, d.Denial)
			}
			if d := b.Decide(d.Want, &Attempt{}, clock(at)); d.Do != Take && d.Do != Several {
				t.Errorf("%v: in time %+v, %+v", tokens, d.Choice, d.Denial)
			}
		}
	}
}

// One look is sent for all requests, and the next one when DenyFor is over.
func TestOneLookForAll(t *testing.T) {
	b, want := seenAs(perSecond, -1000), asks(1, perSecond)
	for _, c := range []struct {
		ms   int64
		want Action
	}{{59_999, Deny}, {60_000, Look}, {60_001, Deny}, {119_999, Deny}, {120_000, Look}} {
		d := b.Decide(want, &Attempt{}, clock(noon+c.ms))
		check.MustEqual(t, d.Do, c.want, "after %d ms: %+v", c.ms, d.Choice)
		if d.Do == Look {
			b.Begin(d.Choice, want, noon+c.ms)
			b.End(0, want)
		}
	}
}

// A charge that is also the look at a shard, for a share without room, is started by one of many
// requests. The others are denied until the next look.
func TestOneOfManyChargesIsTheLook(t *testing.T) {
	const now = noon + 60_000
	b, in := seenAs(perSecond, 9, 9), asks(1, perSecond)
	for _, s := range b.lock().shards {
		s.shares = sharing(.1, now)
	}
	b.mu.Unlock()
	e := askMany(b, 3, in, Attempt{}, now)
	if len(e.Calls) != 1 || !e.Calls[0].Choice.Asks || len(e.Answered) != 2 {
		t.Fatalf("%d calls, %d answers", len(e.Calls), len(e.Answered))
	}
	for _, w := range e.Answered {
		if d := w.Answer.Decision; d.Do != Deny || d.Denial.After != b.facts.DenyFor {
			t.Errorf("%+v, want a denial until the next look", d.Denial)
		}
	}
}

// Costs under way count as taken, until their write is answered.
func TestUnderWayCountsAsTaken(t *testing.T) {
	b, six, five := seenAs(perSecond, 10), asks(6, perSecond), asks(5, perSecond)
	decide := func() Action { return b.Decide(five, &Attempt{}, clock(noon)).Do }
	b.Begin(Choice{Do: Take}, six, noon)
	check.Equal(t, decide(), Deny, "5 of 10 while 6 are under way")
	b.End(0, six)
	check.Equal(t, decide(), Deny, "5 of 10 when nothing is under way any more, and nothing new was seen")
	b.See(b.Seen(0).Image, noon, b.Seen(0).Serial) // the tokens were not taken
	check.Equal(t, decide(), Take, "5 of 10 when nothing is under way")
}

// A write to a shard without an image is for the whole group, even if that wants more than there can be: the
// refusal brings an image.
func TestPlanWithoutAnImageAsksForAll(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	var group []Want
	for _, tokens := range []int64{4, 5, 2} {
		group = append(group, asks(tokens, perSecond))
		b.Begin(Choice{Do: Take}, group[len(group)-1], noon)
	}
	n, p := b.Plan(Choice{Do: Take}, group, len(group), clock(noon))
	if n != 3 || p.Charges || !p.Takes {
		t.Fatalf("%d of the group in %+v, want 3", n, p)
	}
	b.Refused(imageOf(0, 1, 10), p, noon)
	n, p = b.Plan(Choice{Do: Take}, group, len(group), clock(noon))
	if n != 2 || !p.Charges {
		t.Errorf("then: %d of the group in %+v, want the 2 that the image covers", n, p)
	}
}

// replaced returns a bucket in which others have replaced this process's limit at noon.
func replaced(t *testing.T) (b *Bucket, want Want, theirs bucket.Limit) {
	t.Helper()
	b, want = seenAs(perSecond, 10), asks(1, perSecond)
	b.Took(b.Seen(0).Image, Planned{Takes: true, since: Unsent}, want, nil, noon)
	theirs = bucket.Limit{Name: "rps", Capacity: 20_000, Amount: 2000, Period: 1000}
	image := seenAs(theirs, 20).Seen(0).Image
	image.Generation = 2
	if !b.Refused(image, Planned{Charges: true, since: Unsent}, noon) {
		t.Error("nothing was replaced")
	}
	return b, want, theirs
}

// Slots of this process do not pay for a limit that others have put in place of its own.
func TestReusedSlotsOfAReplacedLimit(t *testing.T) {
	fly := bucket.Limit{Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true}
	wider := fly
	wider.Capacity *= 2
	for _, c := range []struct {
		second bucket.Limit // the other limit in force
		want   [2]int64
	}{{wider, [2]int64{3000, 1000}}, {fly, [2]int64{1000, 1000}}} {
		b, w := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), asks(0)
		w.Costs, w.Reused = table.Costs([]bucket.Limit{fly, perSecond}, 1000, 1000), []int64{2000, 0}
		image := imageOf(0, 1, 0)
		image.State = bucket.New([]bucket.Limit{fly, perSecond}, 0, 1, noon)
		b.Took(image, Planned{Takes: true, since: Unsent}, w, nil, noon)
		faster := perSecond
		faster.Amount *= 2
		image.Generation = 2 << 40
		image.State = bucket.New([]bucket.Limit{c.second, faster}, 0, 1, noon)
		b.Refused(image, Planned{Charges: true, since: Unsent}, noon)
		d := b.Decide(w, &Attempt{}, clock(noon))
		if got := d.Want.Costs; got[0].Milli != c.want[0] || got[1].Milli != c.want[1] || got[1].Limit != faster ||
			d.Want.Reused != nil {
			t.Errorf("%v in force: %+v, reuses %v", c.second, got, d.Want.Reused)
		}
	}
}

// Replaced limits yield to those of others, which is reported once.
func TestDecidesByTheLimitsOfOthers(t *testing.T) {
	b, want, theirs := replaced(t)
	for i := range 2 {
		d := b.Decide(want, &Attempt{}, clock(noon))
		if d.Yielded != (i == 0) || d.Want.Costs[0].Limit != theirs || d.Do != Take {
			t.Errorf("request %d: yields %v to %v: %+v", i, d.Yielded, d.Want.Costs[0].Limit, d.Choice)
		}
	}
	if d := b.Decide(want, &Attempt{}, clock(noon+yieldFor)); d.Yielded || d.Want.Costs[0].Limit != perSecond {
		t.Errorf("a minute later: %+v", d.Want)
	}
}

// shardOf returns the image of a shard in a state.
func shardOf(s bucket.State) table.Shard {
	return table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1, State: s}
}

// imageOf returns the image of a shard at noon, of a bucket with several shards.
func imageOf(shard, shards int, tokens int64) table.Shard {
	image := shardOf(bucket.New([]bucket.Limit{perSecond}, shard, shards, noon))
	image.State.Slots[image.State.Index("rps")].Tokens = tokens * bucket.Milli
	return image
}

// Reasons besides levels: images that are missing, old, or unreliable.
func TestWhyDeniedWithoutAllImages(t *testing.T) {
	for _, c := range []struct {
		name  string
		see   func(b *Bucket)
		cost  int64
		has   Attempt
		want  Action
		after int64 // of a denial that is an estimate, ms
		mends bool
	}{
		{"a shard that was never seen is asked", func(b *Bucket) { b.See(imageOf(0, 4, 0), noon, Unsent) }, 2,
			Attempt{}, Take, 0, false},
		{"so is a second one", func(b *Bucket) { b.See(imageOf(0, 4, 0), noon, Unsent) }, 2,
			Attempt{Trips: 1}, Take, 0, false},
		{"not for more than its share: all are read", func(b *Bucket) { b.See(imageOf(0, 4, 0), noon, Unsent) }, 3,
			Attempt{Trips: 1}, Several, 0, false},
		{"that and a transaction take two round trips", func(b *Bucket) { b.See(imageOf(0, 4, 0), noon, Unsent) }, 2,
			Attempt{Trips: 2}, Deny, 2000, false},
		{"a second one is asked before a denial", func(b *Bucket) { b.See(imageOf(0, 2, 0), noon, Unsent) }, 9,
			Attempt{Trips: 1}, Take, 0, false},
		{"which may be shard 0", func(b *Bucket) { b.See(imageOf(1, 2, 0), noon, Unsent) }, 9,
			Attempt{Trips: 1}, Take, 0, false},
		{"but not a third: shard 0 gets 4 of 9 in 8 s", func(b *Bucket) { b.See(imageOf(0, 2, 0), noon, Unsent) }, 9,
			Attempt{Trips: 2}, Deny, 8000, false},
		{"there is no image at all: somebody has to bring one", func(*Bucket) {}, 2, Attempt{Trips: 2}, Take, 0, false},
		{"tokens were put into one shard: the others may have some too", func(b *Bucket) {
			b.See(imageOf(0, 2, 0), noon-10, Unsent)
			b.See(imageOf(1, 2, 0), noon-10, Unsent)
			image := imageOf(0, 2, 2)
			image.State.Slots[image.State.Index(bucket.WCU)].Used++
			b.See(image, noon, Unsent)
		}, 4, Attempt{}, Several, 0, false},
		{"without a clock the denial would never end", func(b *Bucket) {
			image := imageOf(0, 1, 0)
			image.State.NoClock, image.State.RF = true, 0
			b.See(image, noon, Unsent)
		}, 2, Attempt{}, Take, 0, false},
		{"a count that is not believed is mended", func(b *Bucket) {
			b.See(imageOf(0, 2*bucket.MaxShards, 0), noon, Unsent)
		}, 2, Attempt{}, Deny, mergeTime, true},
		{"four shares of 2.5 are no 9 whole tokens, two of 5 are", func(b *Bucket) {
			for i := range 4 {
				b.See(imageOf(i, 4, 2), noon, Unsent)
			}
		}, 9, Attempt{}, Deny, mergeTime, true},
		{"a shard is missing", func(b *Bucket) {
			b.See(imageOf(0, 2, 0), noon, Unsent)
			b.Missing(noon, 1)
		}, 2, Attempt{Spread: true}, Deny, 4000, true},
	} {
		b, a := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), c.has
		c.see(b)
		got := b.Decide(asks(c.cost, perSecond), &a, clock(noon))
		if got.Do != c.want || (got.Mend != nil) != c.mends {
			t.Errorf("%s: decided %+v, mends %v; want %d", c.name, got.Choice, got.Mend != nil, c.want)
		}
		if d := got.Denial; d.After != c.after || d.Estimated != (c.want == Deny) {
			t.Errorf("%s: denied with %+v, want %d ms", c.name, d, c.after)
		}
	}
}

// Stored limits that were read after others had replaced them are in force: the last change wins.
// Limits that were read before, or that a call brings, yield for the minute.
func TestLimitsThatAreReadAgainYieldNoLonger(t *testing.T) {
	for _, c := range []struct {
		read   int64
		yields bool
	}{{0, true}, {noon - 1000, true}, {noon, true}, {noon + 1, false}} {
		b, want, theirs := replaced(t)
		want.Read = c.read
		d := b.Decide(want, &Attempt{}, clock(noon+2))
		if inForce := d.Want.Costs[0].Limit; (inForce == theirs) != c.yields || d.Yielded != c.yields {
			t.Errorf("read %d ms later: by %v, yields %v; want %v", c.read-noon, inForce, d.Yielded, c.yields)
		}
		want.Read = 0
		if d = b.Decide(want, &Attempt{}, clock(noon+3)); (d.Want.Costs[0].Limit == theirs) != c.yields {
			t.Errorf("read %d ms later: the next one uses %v", c.read-noon, d.Want.Costs[0].Limit)
		}
	}
}

// Of unknown shards, a second one is tried if its own share covers the costs: of ten for four
// shards, 3, 3, 2 and 2. A soft limit fits any.
func TestSecondShardIsAskedIfItsShareCovers(t *testing.T) {
	soft := perSecond
	soft.Soft = true
	limit := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 10_000, Period: 1000}
	for _, c := range []struct {
		cost table.Cost
		fits []bool
	}{
		{table.Cost{Limit: limit, Milli: 2500}, []bool{true, true, true, true}},
		{table.Cost{Limit: bucket.Limit{Name: "one", Capacity: 10_001}, Milli: 2501}, []bool{true, false, false, false}},
		{table.Cost{Limit: limit, Milli: 2501}, []bool{false, false, false, false}},
		{table.Cost{Limit: soft, Milli: 99_000}, []bool{true, true, true, true}},
	} {
		d := decider{facts: factsOf(4), want: Want{Costs: []table.Cost{c.cost}}}
		for shard, want := range c.fits {
			check.Equal(t, d.fits(shard), want, "%+v on shard %d", c.cost, shard)
		}
	}
}

// Waiting and other requests are denied for separate reasons: a remembered denial of one does not
// apply to the other.
func TestWaitersHaveDenialsOfTheirOwn(t *testing.T) {
	waits := func() *Attempt { return &Attempt{Waits: true, Until: noon + 60_000} }
	b, one := seenAs(perSecond, -14), asks(1, perSecond)
	for i := range 2 {
		if d := b.Decide(one, waits(), clock(noon)); d.Do != Deny || !d.Denial.Full || d.Denial.After != 4000 {
			t.Errorf("%d: it waits: %+v, %+v", i, d.Choice, d.Denial)
		}
		if d := b.Decide(one, &Attempt{}, clock(noon)); d.Do != Deny || d.Denial.Full || d.Denial.After != 15_000 {
			t.Errorf("%d: it does not wait: %+v, %+v", i, d.Choice, d.Denial)
		}
	}
	faster := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 5000, Period: 1000}
	if d := seenAs(perSecond, 4).Decide(asks(7, faster), waits(), clock(noon)); d.Do != Take || !d.Owe {
		t.Errorf("by limits that are not stored yet: %+v", d.Choice) // the write stores them
	}
	inLine := waits()
	inLine.InLine = true
	if d := seenAs(perSecond, 9).Decide(one, inLine, clock(noon)); d.Do != Deny || !d.Denial.Full {
		t.Errorf("others stand in line before it: %+v", d.Choice)
	}
}

// Of requests that need a look at the same time, one gets it, and the others are denied: one write
// is enough for all. The same applies to limits that must be put in force.
func TestOneOfManyGetsTheLook(t *testing.T) {
	other := perSecond
	other.Capacity *= 2
	for _, c := range []struct {
		want Action
		in   Want
		ms   int64
	}{{Look, asks(1, perSecond), 60_000}, {Adopt, asks(1, other), 1}} {
		e := askMany(seenAs(perSecond, -1000), 16, c.in, Attempt{}, noon+c.ms)
		if len(e.Calls) != 1 || e.Calls[0].Choice.Do != c.want || len(e.Answered) != 15 {
			t.Errorf("%d calls, %d answers of 16, want 1 of kind %d and 15", len(e.Calls), len(e.Answered), c.want)
		}
		for _, w := range e.Answered {
			check.Equal(t, w.Answer.Result, Denied, "%+v", w.Answer)
		}
	}
}

// However a request is refused, it ends: after its decisions, or after its writes, of which one
// decision may send several.
func TestARequestEnds(t *testing.T) {
	for _, c := range []struct {
		has  Attempt
		want Action
	}{
		{Attempt{Rounds: MaxRounds - 1, Calls: MaxRounds - 1}, Take},
		{Attempt{Rounds: 2, Calls: MaxRounds}, Deny},
		{Attempt{Rounds: MaxRounds, Calls: 2}, Deny},
	} {
		a := c.has
		if got := seenAs(perSecond, 5).Decide(asks(1, perSecond), &a, clock(noon)); got.Do != c.want {
			t.Errorf("%+v: decided %+v, want %d", c.has, got.Choice, c.want)
		}
	}
	a := Attempt{}
	for round := range MaxRounds + 1 {
		if got := seenAs(perSecond, 5).Decide(asks(1, perSecond), &a, clock(noon)); (got.Do == Take) != (round < MaxRounds) {
			t.Errorf("round %d: decided %+v", round, got.Choice)
		}
	}
}

// A denial by the image takes no round trip, so it is exact for a request without one left. A
// request that would have to look is denied with an estimate.
func TestNoRoundTripLeftDeniesByTheImage(t *testing.T) {
	for _, c := range []struct {
		ms, after int64
		has       Attempt
		guess     bool
	}{
		{0, 3000, Attempt{Trips: MaxTrips, Lost: true}, false},
		{0, 3000, Attempt{Rounds: MaxRounds, Lost: true}, false},
		{60_000, 7000, Attempt{Trips: MaxTrips, Lost: true}, true},
	} {
		b, ms := seenAs(perSecond, 4), c.ms
		if ms > 0 {
			b = seenAs(perSecond, -70)
		}
		d := b.Decide(asks(7, perSecond), &c.has, clock(noon+ms))
		if d.Do != Deny || d.Denial.After != c.after || d.Denial.Estimated != c.guess {
			t.Errorf("after %d ms: %+v, %+v, want %d ms, estimated %v", ms, d.Choice, d.Denial, c.after, c.guess)
		}
	}
}
