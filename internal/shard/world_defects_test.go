package shard_test

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// defect is a weakness put back on purpose, to show that the worlds catch it.
type defect string

const (
	sound           defect = ""
	blindSpend      defect = "a spend looks at levels only, not at what has overflowed since the refill"
	shortRefill     defect = "W17: a refill credits only the limits that are short, and moves the clock"
	floorRefill     defect = "a refill drops the remainder"
	fullClones      defect = "W24: a doubling opens the sibling with the full capacity"
	staleSplit      defect = "a split does not look at the level, only at clock and count"
	undividedRefill defect = "W24: a shard is refilled with the undivided rate"
	noGeneration    defect = "a charge does not look at the generation"
	otherLife       defect = "a charge from an image without a generation does not look at the refill instant"
	literalLevel    defect = "a charge writes the level instead of the line"
	noCapacity      defect = "a charge leaves out the bound of the capacity"
)

// acquire returns the defective write in place of the sound one; ok is false if
// the defect is elsewhere or the costs are not covered.
func (d defect) acquire(
	image table.Shard, costs []table.Cost, now int64,
) (w item.Write, ok bool) {
	s := image.State
	switch d {
	case noGeneration, otherLife, literalLevel, noCapacity:
		return d.charge(table.Charge{Image: image, Costs: costs, Now: now, Lifetime: table.Expires})
	case blindSpend:
		u := item.Update{Key: image.Key()}
		var cond []item.Cond
		for _, c := range costs {
			i := s.Index(c.Limit.Name)
			if i < 0 || s.Slots[i].Tokens < c.Milli {
				return nil, false
			}
			cond = append(cond, item.Compare("b_"+c.Limit.Name+"_tk", item.Ge, item.N(c.Milli)))
			u.Add = append(u.Add, item.Attr{Name: "b_" + c.Limit.Name + "_tk", Value: item.N(-c.Milli)})
		}
		u.If = item.All(cond...)
		return u, true
	case shortRefill, floorRefill, undividedRefill:
		if now <= s.RF {
			return nil, false
		}
		whole := s
		if d == undividedRefill {
			whole.Shard, whole.Shards = 0, 1
		}
		after := whole.At(now)
		after.Shard, after.Shards = s.Shard, s.Shards
		charge := make([]int64, len(s.Slots))
		for _, c := range costs {
			i := s.Index(c.Limit.Name)
			if d == shortRefill && s.Slots[i].Tokens >= c.Milli {
				after.Slots[i].Tokens, after.Slots[i].Rest = s.Slots[i].Tokens, s.Slots[i].Rest
			}
			if after.Slots[i].Tokens < c.Milli {
				return nil, false
			}
			charge[i] = c.Milli
		}
		if d == floorRefill {
			for i := range after.Slots {
				after.Slots[i].Rest = 0
			}
		}
		return replace(image, after.Take(charge)), true
	}
	return nil, false
}

// charge returns a charge with something left out.
func (d defect) charge(c table.Charge) (w item.Write, ok bool) {
	plan := c.Plan()
	s := c.Image.State
	if !plan.Verdict.Granted || len(c.Image.Partial) > 0 {
		return nil, false
	}
	u := plan.Update
	u.Set, u.SetLess = slices.Clone(u.Set), slices.Clone(u.SetLess)
	for i, l := range u.SetLess {
		sl := s.Slots[slices.IndexFunc(s.Slots, func(sl bucket.Slot) bool { return "b_"+sl.Name+"_tk" == l.Name })]
		if d == noCapacity && sl.Name != bucket.WCU {
			gained := bucket.Potential(sl.Rest, s.RateOf(sl.Limit), max(c.Now-s.RF, 0))
			u.SetLess[i].Value = item.N(sl.Used + sl.Tokens + gained - costOf(c.Costs, sl.Name))
		}
	}
	if d != literalLevel {
		u.If = d.condition(c, u)
		return u, true
	}
	for _, l := range u.SetLess {
		i := plan.Before.Index(strings.TrimSuffix(strings.TrimPrefix(l.Name, "b_"), "_tk"))
		sl := plan.Before.Slots[i]
		u.Set = append(u.Set, number(l.Name, sl.Tokens-costOf(c.Costs, sl.Name)))
	}
	u.SetLess = nil
	return u, true
}

// condition is that of a charge, with what the defect leaves out left out.
func (d defect) condition(c table.Charge, u item.Update) item.Cond {
	b := c.Image
	cond := []item.Cond{item.Compare("shard_count", item.Eq, item.N(int64(b.State.Shards)))}
	switch {
	case b.Generation == 0 && d != otherLife:
		cond = append(cond, item.Compare("rf", item.Eq, item.N(b.State.RF)), item.Absent("gn"))
	case b.Generation != 0 && d != noGeneration:
		cond = append(cond, item.Compare("gn", item.Eq, item.N(b.Generation)))
	}
	for _, sl := range b.State.Slots {
		cond = append(cond, item.Compare("b_"+sl.Name+"_cp", item.Eq, item.N(sl.Capacity)),
			item.Compare("b_"+sl.Name+"_ra", item.Eq, item.N(sl.Amount)),
			item.Compare("b_"+sl.Name+"_rp", item.Eq, item.N(sl.Period)))
	}
	for _, l := range u.SetLess {
		if l.Minus != "b_wcu_tc" {
			cond = append(cond, item.Compare(l.Minus, item.Le, l.Value))
		}
	}
	return item.All(cond...)
}

func costOf(costs []table.Cost, limit string) int64 {
	for _, c := range costs {
		if c.Limit.Name == limit {
			return c.Milli
		}
	}
	return 0
}

// replace puts the state in place of the image if nothing has changed since.
func replace(image table.Shard, after bucket.State) item.Write {
	cond := []item.Cond{
		item.Compare("rf", item.Eq, item.N(image.State.RF)),
		item.Compare("shard_count", item.Eq, item.N(int64(image.State.Shards))),
	}
	for _, sl := range image.State.Slots {
		cond = append(cond, item.Compare("b_"+sl.Name+"_tk", item.Eq, item.N(sl.Tokens)))
	}
	next := image
	next.State = after
	return item.Put{Item: next.Item(), If: item.All(cond...)}
}

// step returns the writes of a step, defective if the defect is there.
func (d defect) step(s shard.Step, p *shard.Plan) []item.Write {
	if s.Action != shard.Split || d != fullClones && d != staleSplit {
		return s.Writes
	}
	var image table.Shard
	for _, b := range p.Images() {
		if b.State.Shard == s.Shard {
			image = b
		}
	}
	own := s.Writes[0].(item.Update)
	sibling := s.Writes[1].(item.Put)
	own.If = item.All(
		item.Compare("rf", item.Eq, item.N(image.State.RF)),
		item.Compare("shard_count", item.Eq, item.N(int64(image.State.Shards))),
	)
	if d == fullClones {
		own.SetLess = nil
		b, err := table.DecodeShard(sibling.Item)
		if err != nil {
			panic("bug: " + err.Error())
		}
		for i, sl := range b.State.Slots {
			b.State.Slots[i].Tokens = sl.Capacity
		}
		sibling.Item = b.Item()
	}
	return []item.Write{own, sibling}
}

// Each planted defect breaks a promise that the same worlds keep without it.
func TestWorldsCatchPlantedDefects(t *testing.T) {
	split := profile{steps: 300, actors: 3, instant: true, grow: 8, warm: 4}
	anew := profile{steps: 400, actors: 4, instant: true, grow: 1, warm: 4, lost: 10, anew: 2, configs: true,
		python: 14}
	foreign := profile{steps: 400, actors: 4, instant: true, anew: 12, python: 50}
	for _, tt := range []struct {
		profile
		worlds  uint64
		defects []defect
	}{
		{split, 8, []defect{sound, blindSpend, shortRefill, floorRefill, fullClones, staleSplit, undividedRefill,
			literalLevel, noCapacity}},
		{anew, 4, []defect{sound, noGeneration, literalLevel, noCapacity}},
		{foreign, 20, []defect{sound, otherLife}},
	} {
		for _, d := range tt.defects {
			t.Run(cmp.Or(string(d), "none"), func(t *testing.T) { tt.bad = d; catch(t, tt.profile, tt.worlds) })
		}
	}
}

// catch plays worlds with a defect and demands that something is broken in them,
// and without one that nothing is.
func catch(t *testing.T, p profile, worlds uint64) {
	caught, windows := 0, 0
	worst, literal := new(big.Rat), new(big.Rat)
	var first string
	for seed := range worlds {
		w := newWorld(t, seed, limitSets[seed%uint64(len(limitSets))])
		w.planted = true
		play(w, p)
		if len(w.violations) > 0 {
			caught++
			first = cmp.Or(first, w.violations[0])
		}
		for _, l := range w.limits {
			x, lit := w.worst()[l.Name], w.literal(l)
			if x.Milli.Sign() > 0 {
				windows++
			}
			if x.Milli.Cmp(worst) > 0 {
				worst = x.Milli
			}
			if lit.Milli.Cmp(literal) > 0 {
				literal = lit.Milli
			}
		}
	}
	t.Logf("caught in %d of %d worlds, %d windows exceeded, at most by %s millitokens with what was given back, "+
		"%s literally; first: %s",
		caught, worlds, windows, worst.FloatString(0), literal.FloatString(0), first)
	if p.bad == sound && caught+windows > 0 {
		t.Error("the sound writes are caught too: the checks are wrong")
	}
	if p.bad != sound && caught == 0 {
		t.Error("not caught")
	}
}
