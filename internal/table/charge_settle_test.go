package table

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// The numbers of the example in Settled.
func TestExampleOfARide(t *testing.T) {
	l := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 1000, Period: 1000}
	put, image := create(0, []Cost{{Limit: l, Milli: 4000}})
	charge := Charge{Image: image, Costs: []Cost{{Limit: l, Milli: 8000}}, Settles: []Cost{{Limit: l, Milli: -3000}}}
	plan := charge.Plan()
	check.MustEqual(t, plan.Verdict.Granted, true)
	check.MustEqual(t, plan.Settled, true)
	sl := decode(t, applied(t, plan.Update, put.Item)).State.Slots[0]
	check.Equal(t, sl.Tokens, 1000)
	check.Equal(t, sl.Used, image.State.Slots[0].Used+5000)
	others, _, _ := Adjust(image.Key(), []Cost{{Limit: l, Milli: 2000}}).Apply(put.Item) // others take 2 meanwhile
	check.Equal(t, holds(t, plan.Update, others), false, "held although others took the tokens it needs")
}

// A charge with a settlement leaves the same item as the settlement followed by the charge. Levels,
// ages, costs and differences of any sign are random, for rates, quotas and soft limits, in fresh
// and old images. The charge is granted exactly if the second of the two writes would be.
func TestARideIsASettlementAndACharge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	happened := map[string]int{}
	for range 5000 {
		limits := []bucket.Limit{
			{Name: "a", Capacity: 1000 * (1 + r.Int64N(10)), Amount: 1 + r.Int64N(3000), Period: 1 + r.Int64N(2000)},
			{Name: "b", Capacity: 1000 * (1 + r.Int64N(10)), Amount: 1 + r.Int64N(3000), Period: 1 + r.Int64N(2000),
				Soft: r.IntN(4) == 0},
			newQuota("q", 20_000, "m0h0@UTC"),
		}
		some := func(least, most int64) []Cost {
			out := Costs(limits)
			for i := range out {
				out[i].Milli = 1000 * (least + r.Int64N(most-least+1))
			}
			return out
		}
		put, image := create(sampleNow, some(0, 5))
		it := put.Item
		if taken, held, _ := (Charge{Image: image, Costs: some(-1, 4), Now: sampleNow + r.Int64N(1000), Force: true}).Plan().
			Update.Apply(it); held {
			it = taken
		}
		image, _ = DecodeShard(it)
		now := image.State.RF + r.Int64N(4000)
		settles, costs := some(-3, 3), some(0, 4)
		for i, c := range settles {
			sl := image.State.Slots[image.State.Index(c.Limit.Name)]
			if c.Milli < 0 && c.Limit.Renews() {
				settles[i].End, settles[i].Resets, settles[i].Born = sl.End, sl.Resets, image.Born
			}
			check.MustEqual(t, image.Rides(image.State.At(now), settles[i]), true, "%+v rides", settles[i])
		}
		ride := Charge{Image: image, Costs: costs, Now: now, Settles: settles, Slack: r.Int64N(3) * 30}
		plan := ride.Plan()

		// Separately: give-backs by a plain add, more tokens by a forced charge.
		var back, more []Cost
		for _, c := range settles {
			if c.Milli < 0 {
				back = append(back, c)
			} else if c.Milli > 0 {
				more = append(more, c)
			}
		}
		apart := it
		apply := func(u item.Update) { apart = applied(t, u, apart) }
		if len(back) > 0 {
			apply(Adjust(image.Key(), back))
		}
		seen, _ := DecodeShard(apart)
		all := Costs(limits)
		for i := range all {
			c, _ := Find(more, all[i].Limit.Name)
			all[i].Milli = c.Milli
		}
		apply(Charge{Image: seen, Costs: all, Now: now, Force: true}.Plan().Update)
		seen, _ = DecodeShard(apart)
		second := Charge{Image: seen, Costs: costs, Now: now}.Plan()
		if plan.Verdict.Granted != second.Verdict.Granted || !plan.Settled {
			t.Fatalf("granted %v in one, %v apart; settled %v", plan.Verdict.Granted, second.Verdict.Granted, plan.Settled)
		}
		if !plan.Verdict.Granted {
			happened["denied"]++
			continue
		}
		happened["granted"]++
		apply(second.Update)
		got, want := decode(t, applied(t, plan.Update, it)), decode(t, apart)
		for _, l := range limits {
			g, w := got.State.Slots[got.State.Index(l.Name)], want.State.Slots[want.State.Index(l.Name)]
			if g.Tokens != w.Tokens || g.Used != w.Used || g.End != w.End {
				t.Fatalf("%s: one write leaves %d, counted %d; two leave %d, counted %d\n%+v\n%+v", l.Name, g.Tokens, g.Used,
					w.Tokens, w.Used, settles, costs)
			}
		}

		// Others have taken since an old image. The charge holds only if the rest covers the costs.
		taken := some(0, 3)
		stale, _, _ := (Charge{Image: image, Costs: taken, Now: now, Force: true}).Plan().Update.Apply(it)
		late, held, _ := plan.Update.Apply(stale)
		if !held {
			happened["refused"]++
			continue
		}
		happened["late"]++
		before, _ := DecodeShard(stale)
		after, _ := DecodeShard(late)
		for i, l := range limits {
			j := before.State.Index(l.Name)
			level, _ := before.State.LevelAt(j, now)
			left := level - settles[i].Milli - costs[i].Milli
			g := after.State.Slots[after.State.Index(l.Name)]
			if g.Tokens > left || !l.Soft && costs[i].Milli > 0 && left < 0 {
				t.Fatalf("%s: %d are left of %d after %d and %d", l.Name, g.Tokens, level, settles[i].Milli, costs[i].Milli)
			}
			check.MustEqual(t, g.Used, before.State.Slots[j].Used+settles[i].Milli+costs[i].Milli, "%s: counted",
				l.Name)
		}
	}
	t.Log(happened)
	for _, what := range []string{"granted", "denied", "refused", "late"} {
		if happened[what] < 100 {
			t.Errorf("only %d were %s", happened[what], what)
		}
	}
}

// A charge that begins a generation or takes nothing settles nothing. Rides reports such
// differences.
func TestNewGenerationsSettleNothing(t *testing.T) {
	_, image := Create(sampleNew(quotaLimits))
	s := Cost{Limit: quotaLimits[0], Milli: 1000}
	changed := quotaLimits[0]
	changed.Capacity *= 2
	for name, c := range map[string]Charge{
		"other limits": {Costs: Costs([]bucket.Limit{changed})}, "a refill": {Costs: Costs(quotaLimits), Refill: true},
		"no costs": {},
	} {
		c.Image, c.Now, c.Settles = image, sampleNow, []Cost{s}
		check.Equal(t, c.Plan().Settled, false, "%s: settled", name)
	}
	day := image.State.Slots[image.State.Index("tpd")]
	for name, c := range map[string]struct {
		cost Cost
		now  int64
	}{
		"unknown":         {Cost{Limit: bucket.Limit{Name: "no"}, Milli: 1}, sampleNow},
		"slots":           {Cost{Limit: slotsLimit("fly", 10), Milli: -1000, End: sampleNow}, sampleNow},
		"the next period": {Cost{Limit: quotaLimits[1], Milli: -1000, End: day.End}, day.End + bucket.EdgeMargin},
		"reset since":     {Cost{Limit: quotaLimits[1], Milli: -1000, End: day.End, Resets: 1}, sampleNow},
		"a younger item":  {Cost{Limit: quotaLimits[1], Milli: -1000, End: day.End, Born: image.Born - 1}, sampleNow},
	} {
		check.Equal(t, image.Rides(image.State.At(c.now), c.cost), false, "%s: rides", name)
	}
}

// A settlement that begins the period of a first-use quota needs its own write. A charge without a
// cost of the quota would take tokens without beginning a period, which would then never end.
func TestFirstUsesOfQuotasGoAlone(t *testing.T) {
	q := newQuota("q", 10_000, "+3600")
	_, image := create(sampleNow, []Cost{{Limit: q}})
	s := Cost{Limit: q, Milli: 10_000}
	check.Equal(t, image.Rides(image.State.At(sampleNow), s), false, "rides on a charge that begins no period")
	begun := charged(t, image, Charge{Image: image, Costs: []Cost{s}, Force: true, Now: sampleNow + 1})
	if begun.State.Slots[0].End == 0 || !begun.Rides(begun.State.At(sampleNow+2), s) {
		t.Errorf("alone it ends at %d", begun.State.Slots[0].End)
	}
}

// Tokens given back by a settlement leave room for held ones: level and held tokens together never
// exceed the capacity. Of 10, 4 are held and 6 available. 4 come back and 6 are taken; another 4
// would make 14.
func TestGiveBacksLeaveRoomForHeldTokens(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	b := charged(t, full, Charge{Image: full, Costs: tenCosts(5_000), Now: at,
		Ahead: &Ahead{Life: 60_000, Take: tenCosts(4_000)}})
	now := at + int64(5_000)
	one := charged(t, b, Charge{Image: b, Costs: tenCosts(6_000), Settles: tenCosts(-4_000), Now: now})
	more := Charge{Image: one, Costs: tenCosts(4_000), Now: now}.Plan()
	check.Equal(t, more.Verdict.Granted, false, "granted, but the held 4 leave no room for 4 more")
}

// A settlement from an old image of a full limit is refused if others have taken since: the refill
// since then would look like debt. That includes soft limits, and limits without a cost.
func TestSettlementsFromOldFullImagesAreRefused(t *testing.T) {
	for _, soft := range []bool{true, false} {
		l := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 10_000, Period: 1000, Soft: soft}
		r := newRate("r", 10_000, 1000)
		_, image := create(sampleNow, []Cost{{Limit: l}, {Limit: r}})
		stored := image
		for i := range 20 { // others take 100 in 20 s, which are refilled
			stored = charged(t, stored, Charge{Image: stored, Costs: []Cost{{Limit: l, Milli: 5000}, {Limit: r}},
				Now: sampleNow + int64(i)*1000})
		}
		costs := []Cost{{Limit: l, Milli: 1000}, {Limit: r, Milli: 1000}}
		if !soft {
			costs = costs[1:] // the limit is stored, but not part of this request
		}
		late, held := written(t, stored, Charge{Image: image, Costs: costs, Settles: []Cost{{Limit: l, Milli: 15_000}},
			Now: sampleNow + 60_000, Slack: 30})
		if owed := slotNamed(late, "a").Tokens; held && owed < -6_000 {
			t.Errorf("soft %v: %d are owed, want 6000 at most", soft, -owed)
		}
	}
}

// Differences of one limit are summed before the capacity cuts them: -5 and +5 on a level of 8
// leave 8.
func TestDifferencesAreSummedFirst(t *testing.T) {
	_, image := create(sampleNow, tenCosts(2000))
	s := append(tenCosts(-5000), tenCosts(5000)...)
	b := charged(t, image, Charge{Image: image, Costs: tenCosts(0), Settles: s, Now: sampleNow})
	check.Equal(t, b.State.Slots[0].Tokens, 8000)
}
