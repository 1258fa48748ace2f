package shard_test

import (
	"cmp"
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
)

// acquire returns the defective write in place of the sound one; ok is false if
// the defect is elsewhere or the costs are not covered.
func (d defect) acquire(image table.Bucket, costs []table.Cost, now int64) (w item.Write, ok bool) {
	s := image.State
	switch d {
	case blindSpend:
		u := item.Update{Key: image.Key()}
		var cond []item.Cond
		for _, c := range costs {
			i := s.Index(c.Limit)
			if i < 0 || s.Slots[i].Tokens < c.Milli {
				return nil, false
			}
			cond = append(cond, item.Compare("b_"+c.Limit+"_tk", item.Ge, item.N(c.Milli)))
			u.Add = append(u.Add, item.Attr{Name: "b_" + c.Limit + "_tk", Value: item.N(-c.Milli)})
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
			i := s.Index(c.Limit)
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

// replace puts the state in place of the image if nothing has changed since.
func replace(image table.Bucket, after bucket.State) item.Write {
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
	if s.Kind != shard.Split || d != fullClones && d != staleSplit {
		return s.Writes
	}
	var image table.Bucket
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
		own.Add = nil
		b, err := table.DecodeBucket(sibling.Item)
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
	for _, d := range []defect{sound, blindSpend, shortRefill, floorRefill, fullClones, staleSplit, undividedRefill} {
		t.Run(cmp.Or(string(d), "none"), func(t *testing.T) {
			caught, windows := 0, 0
			var first string
			const worlds = 8
			for seed := range uint64(worlds) {
				w := newWorld(t, seed, limitSets[seed%uint64(len(limitSets))])
				w.planted = true
				play(w, profile{steps: 300, actors: 3, instant: true, grow: 8, warm: 4, bad: d})
				if len(w.violations) > 0 {
					caught++
					if first == "" {
						first = w.violations[0]
					}
				}
				for _, x := range w.worst() {
					if x.Milli.Sign() > 0 {
						windows++
					}
				}
			}
			t.Logf("caught in %d of %d worlds, %d windows exceeded; first: %s", caught, worlds, windows, first)
			if d == sound && caught+windows > 0 {
				t.Error("the sound shapes are caught too: the checks are wrong")
			}
			if d != sound && caught == 0 {
				t.Error("not caught")
			}
		})
	}
}
