package decide

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// sharing returns a share of part of the refill that has saved nothing up.
func sharing(part float64, at int64) map[int64]*share {
	return map[int64]*share{0: {part: part, saved: -1e6, at: at, met: true}}
}

// The rule as a story. A cost is 10 ms of the refill.
func TestShareFollowsTheLevel(t *testing.T) {
	var p share
	for i, step := range []struct {
		level                   float64
		refused, others, plenty bool
		part, saved             float64
		why                     string
	}{
		{0.2, false, false, false, 0, 0, "alone, it takes what there is"},
		{0.2, true, false, false, 0, 0, "also where it was refused"},
		{3, false, true, false, 0, 0, "others take, and there is room"},
		{0.2, false, true, false, 0.5, 10, "others take, and little is left"},
		{0.5, false, true, false, 0.458, 10, "half a mark: less by 10 %, and 0.8 % of the refill more"},
		{0, false, true, false, 0.3744, 10, "nothing left: less by 20 %"},
		{-4, false, true, false, 0.30752, 10, "a debt is no less than that"},
		{1, false, true, false, 0.31552, 10, "at the mark: 0.8 % of the refill more"},
		{2.5, false, false, false, 0.33552, 10, "also while others take nothing"},
		{9, false, true, false, 0.35952, 10, "three marks count at most"},
		{0.9, true, true, false, 0.305592, -10, "refused: less by 15 %, and what it had saved is gone"},
		{0.9, true, true, false, 0.2597532, -20, "what was refused is given back by the caller"},
		{9, false, true, true, 0, 0, "plenty: no pace"},
		{0.1, true, true, false, 0.5, 0, "a refusal that begins it leaves one try, which is given back"},
	} {
		p.answered(10, step.level, step.refused, step.others, false, step.plenty, noon)
		if math.Abs(p.part-step.part) > 1e-9 || math.Abs(p.saved-step.saved) > 1e-9 {
			t.Fatalf("%d, %s: %+v, want %v and %v", i, step.why, p, step.part, step.saved)
		}
	}
	for level, want := range map[float64]float64{0: 0.0184, 0.5: 0.0207, 1: 0.023, 9: 0.023} {
		small := share{part: 0.02, met: true}
		if small.answered(10, level, false, true, false, false, noon); math.Abs(small.part-want) > 1e-9 {
			t.Errorf("a small share at %v marks becomes %v, want %v: it grows by 15 %% of itself at most", level, small.part,
				want)
		}
	}
	for range 100 {
		p.answered(10, 0, true, true, false, false, noon)
	}
	check.Equal(t, p.part, shareLeast, "the least share")
	for range 1000 {
		p.answered(10, 3, false, true, false, false, noon)
	}
	check.Equal(t, p.part, shareMost, "the largest share")
	if p.saved = -1e300; p.from(1e300, 0, noon) != noon+longest {
		t.Errorf("a cost without end is due in %d ms", p.from(1e300, 0, noon)-noon)
	}
}

// The share of a busy process alone is the whole refill, as long as it is alone and busy. It begins
// with half of it when others take, too.
func TestTheShareOfABusyProcessAlone(t *testing.T) {
	var p share
	for i, step := range []struct {
		level                float64
		others, busy, plenty bool
		part                 float64
		why                  string
	}{
		{3, false, true, false, 0, "there is room"},
		{0.2, false, true, false, 1, "little is left: it saves up"},
		{0, false, true, false, 1, "it is alone, and gives way to nobody"},
		{0.2, false, false, false, 0, "it takes nothing ahead any more"},
		{0.2, false, true, false, 1, "and again"},
		{0.5, true, true, false, 0.5, "others take, too"},
		{0.5, false, true, false, 0.458, "they are remembered"},
		{9, true, true, true, 0, "plenty"},
		{0.2, false, true, false, 1, "and the others are forgotten with it"},
		{2, true, true, false, 0, "others take, and there is room for both"},
	} {
		p.answered(10, step.level, false, step.others, step.busy, step.plenty, noon)
		if math.Abs(p.part-step.part) > 1e-9 {
			t.Fatalf("%d, %s: %+v, want %v", i, step.why, p, step.part)
		}
	}
}

// The grants of a share, compared with a version that counts every millisecond; and never more in
// any time than its part, plus the saved-up amount.
func TestShareLetsItsPartGo(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 11))
	for n := range 200 {
		p := share{part: 0.001 + r.Float64(), at: noon}
		naive, went, at := 0., 0., int64(noon)
		for range 300 {
			cost := float64(1 + r.IntN(40))
			p.asked(cost)
			next := at + int64(r.IntN(60))
			for ; at < next; at++ {
				naive = max(naive, min(naive+p.part, max(p.most, p.part*markTime)))
			}
			from := p.from(cost, 0, at)
			if may := naive >= cost-1e-6; may != (from <= at) && math.Abs(naive-cost) > 1e-6 {
				t.Fatalf("share %d: %v of %v saved, from %d ms on", n, naive, cost, from-at)
			}
			if later := naive + p.part*float64(from-at); from > at && later < cost-1e-6 {
				t.Fatalf("share %d: denied for %d ms, when %v of %v are saved", n, from-at, later, cost)
			}
			if from <= at {
				p.take(cost)
				naive, went = naive-cost, went+cost
			}
			if most := p.part*float64(at-noon) + max(p.most, p.part*markTime); went > most+1e-6 {
				t.Fatalf("share %d: %v went in %d ms, of %v", n, went, at-noon, most)
			}
		}
	}
	var none share
	if none.take(5); none.from(1e9, 0, noon) != noon || none.saved != 0 {
		t.Errorf("without a pace: %+v", none)
	}
	back := share{part: .5, at: noon + 60_000}
	if got := back.from(10, 0, noon); got != noon+20 || back.at != noon {
		t.Errorf("the clock was set back: from %d ms on", got-noon)
	}
}

// A class has a separate share: less is left of a limit above its floor.
func TestClassesHaveSharesOfTheirOwn(t *testing.T) {
	b, low := seenAs(perSecond, 5), asks(1, perSecond)
	low.Costs[0].Floor = 40
	for _, w := range []Want{low, asks(1, perSecond)} {
		b.Begin(Choice{Do: Take}, w, noon)
		_, p := b.Plan(Choice{Do: Take}, []Want{w}, 1, clock(noon))
		image := imageOf(0, 1, 4) // a fifth of the class's part is free, and 4 indicates others
		image.State.Slots[image.State.Index("rps")].Used = 5000
		b.Refused(image, p, noon)
	}
	s := b.lock().shards[0]
	defer b.mu.Unlock()
	check.Equal(t, [2]bool{s.share(low).part > 0, s.share(asks(1, perSecond)).part > 0}, [2]bool{true, false},
		"paced")
}

// Only limits that refill, may deny and have a cost count for a share; of several, the slowest.
func TestTakenDenyingRatesCountForAShare(t *testing.T) {
	soft, quota, slow := perHour20, perHour20, bucket.Limit{Name: "slow", Capacity: 9000, Amount: 1000, Period: 60_000}
	soft.Soft = true
	quota.Amount, quota.Period, quota.Reset = 0, bucket.QuotaPeriod, "m0h0D1@UTC"
	for name, c := range map[string]struct {
		costs []table.Cost
		ms    float64
		limit string
	}{
		"a rate":        {[]table.Cost{{Limit: perHour20, Milli: 4000}}, 720_000, "rph"},
		"nothing taken": {[]table.Cost{{Limit: perHour20}}, 0, ""},
		"soft":          {[]table.Cost{{Limit: soft, Milli: 4000}}, 0, ""},
		"a quota":       {[]table.Cost{{Limit: quota, Milli: 4000}}, 0, ""},
		"the slower":    {[]table.Cost{{Limit: perHour20, Milli: 100}, {Limit: slow, Milli: 1000}}, 60_000, "slow"},
		"of both":       {[]table.Cost{{Limit: perHour20, Milli: 4000}, {Limit: slow, Milli: 1000}}, 720_000, "rph"},
	} {
		s := &seen{image: imageOf(0, 1, 5)}
		if ms, limit := s.costs(Want{Costs: c.costs}); ms != c.ms || limit != c.limit {
			t.Errorf("%s: %v ms of %q", name, ms, limit)
		}
	}
}

// A share denies until it has room, but no longer than its image. Of several shards one look is for
// all: an older image denies as long as that one may.
func TestAShareDeniesUntilTheNextLook(t *testing.T) {
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
		k.see(imageOf(0, c.count, 5), noon, Unsent, nil)
		k.lookedAt = noon + c.looked
		s := k.shards[0]
		s.shares = sharing(.1, noon+c.now)
		d := decider{facts: k, now: noon + c.now, attempt: &Attempt{}, want: asks(1, perSecond)}
		at, limit, _ := d.allowed(s)
		if want := c.until; (limit == "rps") != (want > 0) || limit != "" && at-noon != want {
			t.Errorf("%+v: denied by %q until %d ms", c, limit, at-noon)
		}
	}
}

// A denial by a share gives the time until it has room, as an estimate.
func TestDenialByAShareEstimatesTheWait(t *testing.T) {
	b := seenAs(perSecond, 5)
	b.lock().shards[0].shares = map[int64]*share{0: {part: .25, at: noon + 100, saved: 900}} // of 1000
	b.mu.Unlock()
	d := b.Decide(asks(1, perSecond), &Attempt{}, clock(noon+100))
	if d.Do != Deny || d.Denial.After != 400 || !d.Denial.Estimated || d.Denial.Limit != "rps" ||
		d.Denial.Levels[0].Remaining != 0 {
		t.Fatalf("%+v, %+v", d.Choice, d.Denial)
	}
	if d = b.Decide(asks(1, perSecond), &Attempt{}, clock(noon+499)); d.Do != Deny {
		t.Errorf("a millisecond early: %+v", d.Choice)
	}
	if d = b.Decide(asks(1, perSecond), &Attempt{}, clock(noon+500)); d.Do != Take {
		t.Errorf("then: %+v", d.Choice)
	}
}

// A bucket that was empty for a while and now has many tokens, though less than half, denies
// nothing.
func TestNoShareWhereThereIsRoom(t *testing.T) {
	perDay := bucket.Limit{Name: "rpd", Capacity: 1_000_000, Amount: 1_000_000, Period: 86_400_000}
	b, w := seenAs(perDay, 400), asks(1, perDay)
	b.lock().shards[0].shares = sharing(.1, noon)
	b.mu.Unlock()
	for i := range int64(20) {
		d := b.Decide(w, &Attempt{}, clock(noon+60_000+i))
		check.MustEqual(t, d.Do, Take, "request %d: %+v", i, d.Denial)
		b.Begin(d.Choice, w, noon+60_000+i)
		_, p := b.Plan(d.Choice, []Want{w}, 1, clock(noon+60_000+i))
		image := imageOf(0, 1, 0)
		image.State = bucket.New([]bucket.Limit{perDay}, 0, 1, noon+60_000+i)
		j := image.State.Index("rpd")
		image.State.Slots[j].Tokens, image.State.Slots[j].Used = (399-i)*bucket.Milli, (1+i)*bucket.Milli
		b.Took(image, p, w, []Want{w}, noon+60_000+i)
	}
}

// A short limit denies no request for another limit alone.
func TestAShareOfOneLimitDeniesNothingOfAnother(t *testing.T) {
	other := bucket.Limit{Name: "other", Capacity: 10_000_000, Amount: 1_000_000, Period: 1000}
	b := NewBucket(&Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32})
	image := imageOf(0, 1, 0)
	image.State = bucket.New([]bucket.Limit{other, perSecond}, 0, 1, noon)
	image.State.Slots[image.State.Index("rps")].Tokens = 1000
	b.See(image, noon, Unsent)
	b.lock().shards[0].shares = sharing(.1, noon)
	b.mu.Unlock()
	w := asks(1, other, perSecond)
	if d := b.Decide(w, &Attempt{}, clock(noon+100)); d.Do != Take {
		t.Errorf("of the other: %+v", d.Choice)
	}
	w.Costs[1].Milli = 1000
	if d := b.Decide(w, &Attempt{}, clock(noon+100)); d.Do != Deny {
		t.Errorf("of both: %+v", d.Choice)
	}
}

// A share that has begun ends with the next answer of a shard that is too small to show others.
func TestShareEndsWhereTheShardIsTooSmall(t *testing.T) {
	for tokens, ends := range map[int64]bool{3: true, 10: false} {
		l := perSecond
		l.Capacity = tokens * bucket.Milli
		b := seenAs(l, 3)
		k := b.lock()
		k.shards[0].shares = sharing(.1, noon)
		k.learn(k.shards[0], Planned{want: asks(1, l), members: 1}, false, true, noon)
		check.Equal(t, k.shards[0].shares[0].part == 0, ends, "capacity %d: the share has ended", tokens)
		for _, cost := range []int64{0, 3} { // nothing, and too much for a mark
			k.shards[0].shares = sharing(.1, noon)
			k.learn(k.shards[0], Planned{want: asks(cost, l), members: 1}, false, true, noon)
			ended := k.shards[0].shares[0].part == 0
			check.Equal(t, ended, ends && cost > 0, "capacity %d, cost %d: it has ended", tokens, cost)
		}
		b.mu.Unlock()
	}
}

// A refused write uses up the saved amount, so it is not sent again immediately.
func TestARefusedShareIsSpent(t *testing.T) {
	b, w := seenAs(perSecond, 5), asks(1, perSecond)
	b.lock().shards[0].shares = map[int64]*share{0: {part: .25, at: noon, saved: 2500, met: true}}
	b.mu.Unlock()
	take := Choice{Do: Take}
	b.Begin(take, w, noon)
	_, p := b.Plan(take, []Want{w}, 1, clock(noon))
	image := imageOf(0, 1, 0)
	image.State.Slots[image.State.Index("rps")].Used, image.State.Slots[image.State.Index("rps")].Tokens = 5000, 900
	image.State.RF = noon - 100 // 1.9 tokens by now
	b.Refused(image, p, noon)
	if n, _ := b.Plan(take, []Want{w}, 1, clock(noon)); n != 0 {
		t.Error("it is sent again")
	}
	d := b.Decide(w, &Attempt{Trips: 1}, clock(noon))
	check.Equal(t, d.Do, Deny, "%+v", d.Choice)
}

// A share does not deny requests that take nothing from it: for slots, for a quota, or for nothing.
func TestAShareDeniesNothingThatTakesNothingOfIt(t *testing.T) {
	b := seenAs(perSecond, 5)
	b.lock().shards[0].shares = sharing(.1, noon)
	b.mu.Unlock()
	d := b.Decide(asks(0, perSecond), &Attempt{}, clock(noon+100))
	check.Equal(t, d.Do, Take, "%+v", d.Choice)
}
