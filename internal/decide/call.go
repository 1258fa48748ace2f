package decide

import (
	"slices"
	"time"
)

// Call is one write to a shard for a group of waiters, from its start until it has landed: sent again
// while it is refused and the image covers some of the group.
type Call struct {
	Planned
	Choice Choice
	Next   Next
	Until  time.Time // when it ends
	Sent   int       // writes so far

	began  time.Time
	riders []*Waiter
	queue  []*Waiter     // waiters for the next call
	timed  bool          // Overdue is due
	writes int           // writes so far, with those that were sent for its first rider before
	apart  bool          // it creates no bucket
	met    bool          // its shard was read, or it knew that
	looked bool          // the siblings of the bucket that it creates were read
	onWay  bool          // it is on its way
	lost   []*Difference // that it may have settled
}

// Next is what a call needs next.
type Next int

// What a call needs next.
const (
	Send     Next = iota // its write
	Meet                 // a read of its shard, of which nothing is known; eventually consistent
	Siblings             // a read of the other shards of the bucket that it creates, see [Bucket.Survives]
	Over                 // nothing: it has landed
)

// First returns the first waiter of the group.
func (c *Call) First() *Waiter { return c.riders[0] }

// Renews reports whether the call is for an allotment only.
func (c *Call) Renews() bool { return len(c.riders) == 1 && c.riders[0].Renews }

// Last reports whether the call is not sent again.
func (c *Call) Last() bool { return c.writes >= MaxRounds }

// Wants is what the group wants, as one.
func (c *Call) Wants() Want {
	var few [4]Want
	return Joined(wantsOf(c.riders, few[:0]))
}

// LeastPatience is what a goroutine may take to be scheduled, besides a table that answers at once or
// of which nothing is known.
const LeastPatience = 10 * time.Millisecond

// Patience bounds how long anybody waits for a call of others: until that is late. A call that hangs delays
// nobody for longer.
func Patience(late time.Duration) time.Duration { return max(LeastPatience, late) }

// canJoin reports whether a waiter waits behind the call: if that is not late, and the caller waits for
// the answers to it and to the next one.
func (c *Call) canJoin(w *Waiter, now Now) bool {
	under := now.At.Sub(c.began)
	return under < Patience(now.Late) && (len(c.queue) == 0 || c.queue[0].decided.GoesWith(w.decided)) &&
		!w.hurried(max(0, now.trip()-under)+now.Late, now)
}

// start starts a call for a group. It ends with the last bound of the group. Those that were queued
// leave by themselves then, and first.
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
	e.start(call)
}

// startQueue starts the next call of a shard, for the queue of the last one.
func (k *facts) startQueue(c *Call, at time.Time, e *Effects) {
	if group := c.queue; len(group) > 0 {
		c.queue = nil
		k.start(Choice{Do: Take, Shard: c.Choice.Shard}, group, at, e)
	}
}

// land ends a call, and starts the next one of the shard. That comes before the group is answered, so
// none of the group meets it again.
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

// keep drops the riders that do not stay, and returns them. Their costs are not under way any more.
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
