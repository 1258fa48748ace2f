package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// top renders the write shape for a bucket that is full: every level becomes the
// capacity less the cost, and the clock moves to now. Because a full bucket is a
// full bucket however it came to be, it depends on no particular image: it holds
// whenever the item was last refilled at or before an instant and every level
// since then is so close to capacity that it has filled up by now. Fleets that
// share a bucket which is seldom empty do not race each other with it as they
// would with a [Refill], which needs the very clock it was planned from.
//
// ok is false if the image is not full by now, or a level is above capacity
// (tokens were given back, and stay).
func (c Charge) top() (u item.Update, ok bool) {
	s := c.Image.State
	elapsed := bucket.SubSat(c.Now, s.RF)
	if elapsed <= 0 || s.NoClock {
		return u, false
	}
	since, ok := c.fillTime()
	if !ok || since > elapsed {
		return u, false
	}
	after := s.At(c.Now).Take(costsBySlot(s, c.Costs, true))
	u.Key = c.Image.Key()
	u.Set = append(u.Set, item.Attr{Name: attrRF, Value: item.N(c.Now)})
	u.Remove = append(u.Remove, attrRemainders)
	cond := append(unchangedCount(c.Image), item.Compare(attrRF, item.Le, item.N(c.Now-since)))
	for i, sl := range s.Slots {
		r := s.Rate(i)
		tk := attrLimit(sl.Name, fieldTokens)
		least := bucket.SubSat(r.Capacity, bucket.Potential(0, r, since))
		cond = append(cond, item.Between(tk, item.N(least), item.N(r.Capacity)))
		cond = append(cond, stored(sl.Limit)...)
		level := after.Slots[i].Tokens
		if sl.Name != bucket.WCU {
			level = yield(level, r, c.Headroom)
		}
		u.Set = append(u.Set, item.Attr{Name: tk, Value: item.N(level)})
		if d := after.Slots[i].Used - sl.Used; d != 0 {
			u.Add = append(u.Add, item.Attr{Name: attrLimit(sl.Name, fieldUsed), Value: item.N(d)})
		}
	}
	live(&u, c.Life, c.Image, after, c.Now)
	u.If = item.All(cond...)
	return u, true
}

// fillTime returns the least time, in ms, in which the levels of the image, and
// levels that a charge like this one has just been taken from, fill up. ok is
// false if a level is above its capacity.
func (c Charge) fillTime() (ms int64, ok bool) {
	s := c.Image.State
	ms = 1
	for i, sl := range s.Slots {
		r := s.Rate(i)
		if sl.Tokens > r.Capacity {
			return 0, false
		}
		level := sl.Tokens
		for _, cost := range c.Costs {
			if cost.Limit == sl.Name && !c.Force {
				level = min(level, bucket.SubSat(r.Capacity, cost.Milli))
			}
		}
		ms = max(ms, bucket.Wait(level, 0, r, r.Capacity))
	}
	return ms, true
}
