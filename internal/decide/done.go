package decide

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Outcome is the result of a call's write.
type Outcome struct {
	Held  bool         // the write holds; else it was refused, or has failed
	Image *table.Shard // of the shard, with the write or with what has refused it; nil: there is none
	Err   error        // why it has failed
}

// Done handles the outcome of a call's write. Unless the call has landed, [Bucket.Advance] follows.
func (b *Bucket) Done(c *Call, out Outcome, clock func() Now, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	now := clock()
	switch {
	case c.Next == Meet:
		k.met(c, out, now, e)
	case out.Held && (c.Takes || c.Charges || c.Creates): // a look that only reports denials is handled like a refusal
		k.taken(c, out.Image, now, e)
		b.holds.Store(k.holds())
	default:
		k.failed(c, out, now, e)
	}
	if out.Held {
		e.work(k.growth(*out.Image, now.Ms), k.count)
		k.mind(out.Image.State.Shard, now, e)
	}
}

// met handles the answer to the read of a call's shard. If the read has failed, the write goes out
// anyway, as a plain add.
func (k *facts) met(c *Call, out Outcome, now Now, e *Effects) {
	displaced := false
	if out.Err == nil {
		displaced = k.meet(c.Choice.Shard, out.Image, now.Ms)
		for _, w := range c.riders {
			w.trips, w.Met = w.trips+1, true
		}
	}
	switch {
	case errors.Is(out.Err, table.ErrUnreadable):
		k.end(c, out.Err, now, e)
	case displaced, out.Err == nil && k.at(c.Choice.Shard).absent && (c.Choice.Shard > 0 || c.apart):
		k.end(c, nil, now, e)
	}
}

// meet remembers the image that a read has returned of a shard, nil if the shard does not exist,
// unless an answer to a write has brought a newer one. It reports whether others have replaced
// limits of this process.
func (k *facts) meet(shard int, image *table.Shard, now int64) (displaced bool) {
	switch s := k.at(shard); {
	case s.imaged():
	case image == nil:
		k.missing(shard, now)
	default:
		return k.look(*image, now, s.serial)
	}
	return false
}

// Met remembers the image that a read has returned of shard 0 of an unknown bucket.
func (b *Bucket) Met(image *table.Shard, now int64) {
	k := b.lock()
	defer b.mu.Unlock()
	k.meet(0, image, now)
}

// Unmet reports whether nothing is known of the bucket.
func (b *Bucket) Unmet() bool {
	k := b.lock()
	defer b.mu.Unlock()
	return len(k.shards) == 0
}

// taken answers the group of a write that holds. One grant covers all callers that have left. From
// here on the tokens are taken, whatever else fails.
func (k *facts) taken(c *Call, image *table.Shard, now Now, e *Effects) {
	var few [4]Want
	wants := wantsOf(c.riders, few[:0])
	levels := k.took(*image, c.Planned, Joined(wants), wants, now.Ms)
	e.settled(c, c.rides, image)
	k.land(c, now, e)
	if !c.Takes {
		for _, w := range c.riders {
			k.again(w, now, e)
		}
		return
	}
	left := wants[:0]
	for _, w := range c.riders {
		if w.gone {
			left = append(left, w.decided)
			continue
		}
		parts := append(w.part[:0], Part{Key: c.Write.Target(), Shard: c.Shard, Taken: w.decided.Costs})
		e.answer(w, Answer{Result: Granted, Want: w.decided, Owes: w.owes,
			Grant: Grant{Name: w.Want.Name, Parts: parts, Image: image, Levels: levels}})
	}
	if len(left) > 0 {
		parts := []Part{{Key: c.Write.Target(), Shard: c.Shard, Taken: Joined(left).Costs}}
		e.Left = append(e.Left, Grant{Name: left[0].Name, Parts: parts, Image: image, Levels: levels})
	}
}

// Returned handles a write that does not hold, or whose outcome is unknown. [Bucket.Done] follows
// with the reason, or [Bucket.Advance] plans the write again.
func (b *Bucket) Returned(c *Call, unknown bool) {
	k := b.lock()
	defer b.mu.Unlock()
	k.unanswered(c.Planned, unknown)
	k.rode(c, unknown)
	k.stay(c)
}

// failed handles the reason why a write did not hold. If the call is over, its group is answered
// with the error, or decides again.
func (k *facts) failed(c *Call, out Outcome, now Now, e *Effects) {
	over := true
	if out.Err == nil {
		over = c.Last()
		switch {
		case out.Image == nil: // there is no such shard: decide again without it
			k.missing(c.Shard, now.Ms)
			e.work(k.mend(), k.count)
			over = over || c.Choice.Shard > 0 || c.apart
		case k.refused(*out.Image, c.Planned, now.Ms):
			over = true
		default: // the image says what there is: plan again
			over = over || c.Choice.Do == Look
		}
		k.outbidAll(c)
	}
	if over {
		k.end(c, out.Err, now, e)
	}
}

// outbidAll counts a refused write as a round trip of its group.
func (k *facts) outbidAll(c *Call) {
	answered, lost := k.outbid(c.Planned)
	for _, w := range c.riders {
		if w.lost = w.lost || lost; answered {
			w.trips++
		}
	}
}

// end ends a call that has taken nothing.
func (k *facts) end(c *Call, err error, now Now, e *Effects) {
	e.settled(c, c.lost, nil)
	for _, w := range c.riders {
		k.at(c.Choice.Shard).end(w.decided)
	}
	k.land(c, now, e)
	for _, w := range c.riders {
		switch {
		case w.gone:
		case err != nil:
			e.answer(w, Answer{Result: Failed, Err: err})
		default:
			k.again(w, now, e)
		}
	}
}

// Abort ends a call that cannot go on, with an error for its group. Unlike the other steps it needs
// no clock.
func (b *Bucket) Abort(c *Call, err error, at time.Time, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	if c.Next == Over {
		return
	}
	if c.onWay {
		k.unanswered(c.Planned, true)
		k.rode(c, true)
	}
	k.end(c, err, Now{At: at}, e)
}
