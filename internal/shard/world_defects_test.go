package shard_test

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// defect is a weakness put back on purpose, to show that the worlds detect it.
type defect string

const (
	sound        defect = ""
	noCondition  defect = "a charge checks only the count"
	literalLevel defect = "a charge writes the level instead of the line"
	floorRefill  defect = "a refill drops the remainder"
	undivided    defect = "W24: a shard is refilled with the undivided rate"
	fullClones   defect = "W24: a split gives the sibling the full capacity"
	staleSplit   defect = "a split checks clock and count, but not the level"
)

// charge returns the write of a charge, or a defective one.
func (d defect) charge(p table.Charged, b table.Shard, costs []table.Cost, now int64) item.Write {
	u := p.Update
	switch d {
	case noCondition:
		u.If = sameCount(b)
	case literalLevel:
		for i := range b.State.Slots {
			sl := p.Before.Slots[i]
			if sl.Name == bucket.WCU {
				continue
			}
			c, _ := table.Find(costs, sl.Name)
			u.Set = append(u.Set, item.Attr{Name: "b_" + sl.Name + "_tk", Value: item.N(sl.Tokens - c.Milli)})
		}
		u.SetLess, u.If = nil, sameCount(b)
	case floorRefill, undivided:
		whole := b.State
		if d == undivided {
			whole.Shard, whole.Shards = 0, 1
		}
		after := whole.At(now)
		after.Shard, after.Shards = b.State.Shard, b.State.Shards
		for i, sl := range after.Slots {
			c, _ := table.Find(costs, sl.Name)
			after.Slots[i].Tokens, after.Slots[i].Used = sl.Tokens-c.Milli, sl.Used+c.Milli
			if d == floorRefill {
				after.Slots[i].Rest = 0
			}
		}
		next := b
		next.State = after
		return item.Put{Item: next.Item(), If: item.All(sameCount(b), item.Compare("rf", item.Eq, item.N(b.State.RF)))}
	}
	return u
}

func sameCount(b table.Shard) item.Cond {
	return item.Compare("shard_count", item.Eq, item.N(int64(b.State.Shards)))
}

// split returns the writes of a step of a plan, or defective ones.
func (d defect) split(s shard.Step, p *shard.Plan) []item.Write {
	if s.Action != shard.Split || d != fullClones && d != staleSplit {
		return s.Writes
	}
	own, sibling := s.Writes[0].(item.Update), s.Writes[1].(item.Put)
	for _, b := range p.Images() {
		if b.State.Shard == s.Shard {
			own.If = item.All(sameCount(b), item.Compare("rf", item.Eq, item.N(b.State.RF)))
		}
	}
	if d == fullClones {
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
