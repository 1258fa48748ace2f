package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// mended returns the state, with partly stored limits of costs completed: the stored parts stay,
// and mending raises no level above its capacity. The level of a skeleton was added to a deleted
// bucket, so it is a difference from a full one.
//
// If there are more limits than one update can name, unwanted limits are left out, from the last
// name backwards. They then refill more slowly than they could, because the clock moves without
// them.
func (b Shard) mended(costs []Cost) bucket.State {
	s := b.State
	for _, p := range b.Partial {
		want, ok := Find(costs, p.Name)
		if p.Name == bucket.WCU {
			want.Limit, ok = bucket.WCULimit(), true
		}
		if ok && hasLevel(want.Limit) {
			s, _ = s.Adopt(want.Limit)
			sl := &s.Slots[s.Index(p.Name)]
			level := p.Tokens
			if b.skeleton() {
				level = bucket.AddSat(sl.Tokens, p.Tokens)
			}
			sl.Tokens, sl.Used = min(level, sl.Tokens), p.Used
		}
	}
	if len(s.Slots)+len(costs) < bucket.MaxSlots || costs == nil {
		return s
	}
	others := bucket.MaxSlots - len(costs) - 1
	s.Slots = slices.DeleteFunc(slices.Clone(s.Slots), func(sl bucket.Slot) bool {
		if isWanted(costs, sl.Name) {
			return false
		}
		others--
		return others < 0
	})
	return s
}

// skeleton reports whether the bucket was deleted, and another client then settled or gave back
// without a condition. The item has counters, but no clock, no count, and nothing that identifies
// its bucket.
func (b Shard) skeleton() bool { return b.State.NoClock && b.NoShardCount && len(b.State.Slots) == 0 }

// isWanted reports whether a limit has a cost, even zero, or is the write meter.
func isWanted(costs []Cost, name string) bool {
	_, ok := Find(costs, name)
	return ok || name == bucket.WCU
}

// partial returns the named limit if only part of it is stored.
func (b Shard) partial(name string) (PartialLimit, bool) {
	i := slices.IndexFunc(b.Partial, func(p PartialLimit) bool { return p.Name == name })
	if i < 0 {
		return PartialLimit{}, false
	}
	return b.Partial[i], true
}

// drop removes full limits that are not wanted any more, with all their attributes. If such a limit
// returns, it starts full, so this creates no tokens. A limit that is full in the image is still
// full if nothing was taken from it since.
func (p *planned) drop() {
	if p.c.Costs == nil {
		return
	}
	keep := p.before
	keep.Slots = nil
	for i, sl := range p.before.Slots {
		if isWanted(p.c.Costs, sl.Name) || p.c.Image.State.Index(sl.Name) < 0 || !p.before.Full(i) {
			keep.Slots = append(keep.Slots, sl)
			continue
		}
		p.cond = append(p.cond, formOf(sl.Limit).untaken(p, sl))
		p.u.Remove = append(p.u.Remove, LimitAttrs(sl.Limit)...)
	}
	p.before = keep
}
