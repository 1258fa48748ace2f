package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that finds twice in a row that shards do not hold the expected tokens reads them once
// per DenyFor until it is granted. The first time, and after a failure, the next request continues
// immediately; and the denial gives the length of the pause.
func TestReadingAllShardsInVainPauses(t *testing.T) {
	b := seenAs(perSecond, 3, 3)
	b.facts.DenyFor = 1000
	w := asks(5, perSecond)
	read := func(ms int64, granted, short bool) {
		t.Helper()
		d := b.Decide(w, &Attempt{Calls: 1}, clock(noon+ms)) // it has looked, if necessary
		check.MustEqual(t, d.Do, Several, "after %d ms: decided %+v", ms, d.Choice)
		b.Gather(d.Want)
		b.ReadAll(noon + ms)
		for shard := range 2 {
			b.See(seenAs(perSecond, 3, 3).Seen(shard).Image, noon+ms, Unsent)
		}
		b.Gathered(d.Want, granted, short)
	}
	denied := func(ms, after int64) {
		t.Helper()
		d := b.Decide(w, &Attempt{}, clock(noon+ms))
		if d.Do != Deny || d.Denial.After != after || !d.Denial.Estimated || d.Denial.Limit != "rps" {
			t.Fatalf("after %d ms: decided %+v, %+v, want a denial for %d ms", ms, d.Choice, d.Denial, after)
		}
	}
	read(0, false, true)
	read(10, false, false) // no answer
	read(20, false, true)
	denied(30, 1000-10)
	denied(999+20, 1)
	read(1020, false, true)
	denied(1030, 1000-10)
	// A request for more than the shards hold yet, for half a second, is denied as long.
	more := b.Decide(asks(7, perSecond), &Attempt{}, clock(noon+1030))
	if more.Do != Deny || more.Denial.After != 1000-10 || !more.Denial.Estimated {
		t.Errorf("decided %+v, %+v, want a denial until the pause is over", more.Choice, more.Denial)
	}
	later := b.Decide(asks(10, perSecond), &Attempt{}, clock(noon+1030))
	if later.Do != Deny || later.Denial.After != 4000-1030 || !later.Denial.Estimated {
		t.Errorf("decided %+v, %+v, want a denial until they hold it", later.Choice, later.Denial)
	}
	waits := b.Decide(w, &Attempt{Waits: true, Until: noon + 1e9}, clock(noon+1030))
	check.Equal(t, waits.Do, Several, "one that waits: %+v", waits.Choice)
	b.Gather(waits.Want)
	b.Gathered(waits.Want, true, false)
	read(1040, false, true)
	read(1050, true, false)
	read(1060, false, true)
	read(1070, false, true)
	denied(1080, 1000-10)
}

// A denial until shards together hold the costs lasts at least a millisecond. That is an estimate
// if they seem to hold them already: others were faster.
func TestUntilShardsHoldTheCosts(t *testing.T) {
	for at, want := range map[int64]Choice{
		noon - 5:  {Do: Deny, Limit: "rps", at: noon + 1, guess: true},
		noon:      {Do: Deny, Limit: "rps", at: noon + 1, guess: true},
		noon + 70: {Do: Deny, Limit: "rps", at: noon + 70},
	} {
		d := decider{facts: factsOf(2), now: noon, attempt: &Attempt{}}
		check.Equal(t, d.until(Choice{Limit: "rps"}, at), want, "from %d ms on", at-noon)
		want.guess = true
		check.Equal(t, d.until(Choice{Limit: "rps", guess: true}, at), want, "a guess, from %d ms on", at-noon)
	}
}

// Costs of a request under way on several shards count as taken for the next one until they are
// answered: of 6 tokens one gets 5, and another one 5 in 4 s. A decision that is not carried out
// does not count.
func TestUnderWayOnSeveralShards(t *testing.T) {
	b := seenAs(perSecond, 3, 3)
	first := b.Decide(asks(5, perSecond), &Attempt{}, clock(noon))
	check.MustEqual(t, first.Do, Several, "%+v", first.Choice)
	if d := b.Decide(asks(5, perSecond), &Attempt{}, clock(noon)); d.Do != Several {
		t.Errorf("decided %+v before the first goes on", d.Choice)
	}
	b.Gather(first.Want)
	d := b.Decide(asks(5, perSecond), &Attempt{}, clock(noon))
	if d.Do != Deny || d.Denial.After != 4000 || !d.Denial.Estimated || d.Denial.Limit != "rps" {
		t.Errorf("decided %+v, %+v, want a denial for 4 s", d.Choice, d.Denial)
	}
	if d := b.Decide(asks(1, perSecond), &Attempt{}, clock(noon)); d.Do != Take {
		t.Errorf("one token: %+v", d.Choice)
	}
	b.Gathered(first.Want, false, true)
	if d := b.Decide(asks(5, perSecond), &Attempt{}, clock(noon)); d.Do != Several {
		t.Errorf("decided %+v once that is answered", d.Choice)
	}
}

// If this process takes all tokens, a request is denied until enough is refilled, but no longer
// than an image denies.
func TestUnderWayDeniesNoLongerThanAnImage(t *testing.T) {
	b := seenAs(perSecond, 3, 3)
	b.facts.DenyFor = 1000
	b.Gather(asks(5, perSecond))
	if d := b.Decide(asks(6, perSecond), &Attempt{}, clock(noon)); d.Do != Deny || d.Denial.After != 1000 {
		t.Errorf("decided %+v, %+v, want a denial for a second", d.Choice, d.Denial)
	}
}

// Other requests that gather a limit do not affect a request without a cost of it.
func TestGatheringIsByLimit(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	limits := []bucket.Limit{each("a", 1), each("b", 1)}
	for shard := range 2 {
		image := imageOf(shard, 2, 0)
		image.State = bucket.New(limits, shard, 2, noon)
		b.See(image, noon, Unsent)
	}
	asked := func(first, second int64) Want {
		w := asks(0)
		w.Costs = table.Costs(limits, first, second)
		return w
	}
	b.Gather(asked(9000, 0))
	b.Gather(asked(9000, 0))
	for _, c := range []struct {
		first, second int64
		want          Action
	}{{0, 7000, Several}, {7000, 7000, Deny}, {7000, 0, Deny}} {
		if d := b.Decide(asked(c.first, c.second), &Attempt{}, clock(noon)); d.Do != c.want ||
			d.Do == Deny && d.Denial.Limit != "a" {
			t.Errorf("%d of the first and %d of the second: %+v, %+v", c.first, c.second, d.Choice, d.Denial)
		}
	}
}

// A cost larger than a share is taken from several shards at once, without a look before it,
// however old the images are: all shards are read for it.
func TestLargerThanAShareNeedsNoLook(t *testing.T) {
	b := seenAs(perSecond, 5, 5)
	for ms, want := range map[int64]Action{0: Several, 90_000: Several} {
		d := b.Decide(asks(7, perSecond), &Attempt{}, clock(noon+ms))
		check.Equal(t, d.Do, want, "after %d ms: %+v", ms, d.Choice)
	}
}
