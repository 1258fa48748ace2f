package decide

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The steps of a bucket. The driver calls each when something has happened: a request asks, a call
// has an answer, a caller leaves, a call is late. The step decides, and lists what the driver has
// to do. At most one call is under way to a shard, unless that is late. Requests that arrive in the
// meantime wait behind it, and go out together with the next one, as a charge of the sum.

// Ask decides about a waiter: it is answered, or it has a call, or it waits behind one. sends says
// whether calls may be made for it.
func (b *Bucket) Ask(w *Waiter, sends bool, clock func() Now, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	k.ask(w, sends, clock(), e)
}

func (k *facts) ask(w *Waiter, sends bool, now Now, e *Effects) {
	w.answered, w.call, w.owes = false, nil, false
	w.Trips, w.Lost = w.Spent(now)
	if k.serveHeld(w, now, e) {
		return
	}
	d := k.foresee(w, now, e)
	w.decided = d.Want
	switch zero := k.shards[0]; {
	case d.Do == Deny || d.Do == Never:
		e.answer(w, Answer{Result: Denied, Decision: d})
	case w.Apart && zero != nil && zero.absent: // of a cascade: all its buckets are created at once
		e.answer(w, Answer{Result: Absent})
	case !sends:
		e.answer(w, Answer{Result: Ended})
	case d.Do == Several:
		w.Spread = true
		e.answer(w, Answer{Result: Gathers, Want: d.Want, Owes: d.Owe})
	default:
		w.owes = d.Owe
		k.send(w, d.Choice, now, e)
	}
}

// Foresee decides about a waiter that does not ask yet: it is granted from an allotment, if takes
// is set and one covers it, or denied by the image. Otherwise it has no answer.
func (b *Bucket) Foresee(w *Waiter, takes bool, clock func() Now, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	now := clock()
	if takes && k.serveHeld(w, now, e) {
		return
	}
	if d := k.foresee(w, now, e); d.Do == Deny || d.Do == Never {
		e.answer(w, Answer{Result: Denied, Decision: d})
	}
}

func (k *facts) foresee(w *Waiter, now Now, e *Effects) Decision {
	w.Until = w.WaitsUntil(now)
	w.Want.Costs = table.InForce(w.Want.Costs, now.Ms)
	d := k.choose(w.Want, &w.Attempt, now)
	if d.Yielded {
		e.Yielded = append(e.Yielded, d.Want)
	}
	e.work(d.Mend, d.Count)
	return d
}

// serveHeld answers a waiter from prefetched tokens, and reports whether they cover it.
func (k *facts) serveHeld(w *Waiter, now Now, e *Effects) bool {
	if w.Waits || w.Renews {
		return false
	}
	h, ok := k.grant(w.Want, now)
	if !ok {
		return false
	}
	if h.Renew {
		e.Renew = append(e.Renew, Renewal{w, h})
	}
	e.answer(w, Answer{Result: Granted, Grant: h.Grant(w.Want.Name)})
	return true
}

// Renew asks for an allotment on a shard, by a waiter that asks for nothing else.
func (b *Bucket) Renew(w *Waiter, shard int, clock func() Now, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	w.decided, w.answered = w.Want, false
	k.send(w, Choice{Do: Take, Shard: shard}, clock(), e)
}

// send queues a waiter behind the call under way to a shard, or starts a call for it. From then on
// its costs count as taken.
func (k *facts) send(w *Waiter, c Choice, now Now, e *Effects) {
	s := k.at(c.Shard)
	if s.begin(w.decided); w.Handle != nil {
		w.Handle.Pending()
	}
	if f := s.call; f != nil && !c.Alone() && f.canJoin(w, now) {
		w.trips++
		w.queued, w.call = true, f
		f.queue = append(f.queue, w)
		e.Queued = append(e.Queued, w)
		if !f.timed {
			f.timed = true
			if e.Late == nil {
				e.Late = e.few.late[:0]
			}
			e.Late = append(e.Late, Late{f, Patience(now.Late) - now.At.Sub(f.began)})
		}
		return
	}
	if c.Do == Look || c.Asks {
		k.lookedAt = now.Ms
	}
	if c.Do == Adopt {
		k.adoptedAt, w.Adopted = now.Ms, true
	}
	k.start(c, append(w.alone[:0], w), now.At, e)
}

// again decides about a waiter again, from a newer image.
func (k *facts) again(w *Waiter, now Now, e *Effects) {
	if w.gone {
		return
	}
	if w.Renews {
		e.answer(w, Answer{})
		return
	}
	k.ask(w, w.Deadline.IsZero() || now.At.Before(w.Deadline), now, e)
}

// Overdue starts the next call for the waiters behind a call that is late. A waiter that arrives
// after that, because the table has become slower, waits behind no other.
func (b *Bucket) Overdue(c *Call, at time.Time, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	if c.timed = false; c.Next != Over {
		k.startQueue(c, at, e)
	}
}

// Left says what a caller leaves behind.
type Left int

// What a caller leaves behind.
const (
	Answered Left = iota // nothing: it was answered at the same moment
	NotSent              // nothing was sent with its costs
	OnItsWay             // its costs are on their way; what they turn out to have taken is given back
)

// Leave removes a waiter whose caller no longer waits.
func (b *Bucket) Leave(w *Waiter) Left {
	k := b.lock()
	defer b.mu.Unlock()
	c := w.call
	if w.answered || c == nil {
		return Answered
	}
	w.gone = true
	if i := slices.Index(c.queue, w); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		k.at(c.Choice.Shard).end(w.decided)
		return NotSent
	}
	if c.onWay {
		return OnItsWay
	}
	return NotSent
}

// Advance plans the write of a call, for as much of its group as the image covers, and returns in
// Next what the call needs. The rest of the group decides again.
func (b *Bucket) Advance(c *Call, clock func() Now, e *Effects) {
	k := b.lock()
	defer b.mu.Unlock()
	now := clock()
	k.stay(c)
	k.keep(c, func(w *Waiter) bool { return w.decided.Ahead == 0 || !k.serveHeld(w, now, e) })
	cut := k.keep(c, func(w *Waiter) bool { return c.Choice.Alone() || !w.outrun(now) })
	switch {
	case len(c.riders) == 0:
	case k.meets(c):
		c.Next = Meet
	default:
		var few [4]Want
		hurried := slices.IndexFunc(c.riders, func(w *Waiter) bool { return w.Last(now) })
		if hurried < 0 {
			hurried = len(c.riders)
		}
		var n int
		n, c.Planned = k.planFor(c.Choice, wantsOf(c.riders, few[:0]), hurried, now)
		for _, w := range c.riders[n:] {
			w.lost = w.lost || !c.Replaced
		}
		if cut, c.riders = append(cut, c.riders[n:]...), c.riders[:n:n]; n > 0 {
			c.toSend()
		}
	}
	if len(c.riders) == 0 {
		k.land(c, now, e)
	}
	for _, w := range cut {
		k.again(w, now, e)
	}
}

// toSend notes what a call that is planned needs, and its write with the first whose caller waits
// for it.
func (c *Call) toSend() {
	if c.looked = c.Creates && !c.looked; c.looked { // plan it again with what lives on
		c.Next = Siblings
		return
	}
	c.Next, c.onWay = Send, true
	c.Sent++
	c.writes++
	for _, w := range c.riders {
		if !w.gone && (!w.Renews || len(c.riders) == 1) {
			w.Calls++
			return
		}
	}
}
