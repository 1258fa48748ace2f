package decide

import (
	"slices"
	"time"
)

// start starts a call for a group. It ends with the latest bound in the group. Waiters queued
// behind it leave by themselves then, and earlier.
func (k *facts) start(c Choice, group []*Waiter, at time.Time, e *Effects) {
	call := &Call{Choice: c, began: at, riders: group, writes: group[0].Calls, apart: group[0].Apart && len(group) == 1}
	for _, w := range group {
		w.call = call
		until := w.Bound
		if w.queued {
			until = until.Add(1)
		}
		if until.After(call.Until) {
			call.Until = until
		}
	}
	k.at(c.Shard).call = call
	if e.Calls == nil {
		e.Calls = e.few.calls[:0]
	}
	e.Calls = append(e.Calls, call)
}

// startQueue starts the next call of a shard, for the queue of the last one.
func (k *facts) startQueue(c *Call, at time.Time, e *Effects) {
	if group := c.queue; len(group) > 0 {
		c.queue = nil
		k.start(Choice{Do: Take, Shard: c.Choice.Shard}, group, at, e)
	}
}

// land ends a call, and starts the next one of the shard. That comes before the group is answered,
// so none of the group meets it again.
func (k *facts) land(c *Call, now Now, e *Effects) {
	c.Next = Over
	if s := k.at(c.Choice.Shard); s.call == c {
		s.call = nil
	}
	k.startQueue(c, now.At, e)
	if dues := k.dues(c.Choice.Shard, now); len(dues.All) > 0 || dues.Again > 0 {
		e.Dues = append(e.Dues, dues)
	}
}

// keep drops the riders that do not stay, and returns them. Their costs are no longer under way.
func (k *facts) keep(c *Call, stays func(*Waiter) bool) (out []*Waiter) {
	left := c.riders
	for i, w := range c.riders {
		switch {
		case !stays(w):
			if out == nil { // else it has a copy already
				left = slices.Clone(c.riders[:i])
			}
			k.at(c.Choice.Shard).end(w.decided)
			out = append(out, w)
		case out != nil:
			left = append(left, w)
		}
	}
	c.riders = left
	return out
}

// stay drops the riders whose callers have left, while nothing is on its way.
func (k *facts) stay(c *Call) {
	c.onWay = false
	k.keep(c, func(w *Waiter) bool { return !w.gone })
}

// meets reports whether a call reads its shard before it writes, because it has no image of it. A
// charge can be planned from any image, and a read costs a tenth of a refused write. Without an
// image only a plain add could be sent, which leaves half of the bucket empty.
func (k *facts) meets(c *Call) bool {
	s := k.at(c.Choice.Shard)
	meets := !c.met && !s.imaged() && !(c.Choice.Shard == 0 && s.absent)
	c.met = true
	return meets
}
