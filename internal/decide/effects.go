package decide

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Effects list what a driver has to do after a step. The zero value is nothing.
type Effects struct {
	Answered []*Waiter
	Queued   []*Waiter // waiters that wait behind a call from now on
	Calls    []*Call   // to be carried out, each by [Bucket.Advance] on a goroutine of its own
	Renew    []Renewal
	Yielded  []Want // with limits that are used in place of replaced ones from now on
	Plans    []Work
	Minded   []Minded
	Late     []Late
	Left     []Grant // taken for callers that have left: to be given back
	Settled  []Settlement
	Dues     []Dues

	few struct { // room for the usual step
		late     [1]Late
		answered [1]*Waiter
		calls    [1]*Call
	}
}

// Late is a call for which [Bucket.Overdue] is due after some time.
type Late struct {
	Call *Call
	In   time.Duration
}

// Renewal is an allotment to be renewed, by [Bucket.Renew].
type Renewal struct {
	For  *Waiter // whose grant has left little
	Held Held
}

// Work is a plan that changes the shards of a bucket, and the count of shards before.
type Work struct {
	Plan  *shard.Plan
	Count int
}

// Minded is a shard that the driver must look after from now on: after some time [Bucket.Unspent]
// has something to give back.
type Minded struct {
	Shard int
	In    time.Duration
}

// Settlement is the result for differences that went with a charge.
type Settlement struct {
	All   []*Difference
	Image *table.Shard // with all of them; nil: it is unknown whether they were written
}

// Dues are the differences of a shard to settle alone. If there are any, [Bucket.Due] follows when
// their write is over.
type Dues struct {
	Shard int
	All   []*Difference
	Again time.Duration // after so long [Bucket.Due] has more; zero: it is not to be called
}

func (e *Effects) answer(w *Waiter, a Answer) {
	w.Answer, w.answered, w.call = a, true, nil
	if e.Answered == nil {
		e.Answered = e.few.answered[:0]
	}
	e.Answered = append(e.Answered, w)
}

// settled notes the result for differences that went with a call.
func (e *Effects) settled(c *Call, all []*Difference, image *table.Shard) {
	if len(all) > 0 {
		e.Settled = append(e.Settled, Settlement{All: all, Image: image})
	}
	c.rides, c.lost = nil, nil
}

// work lists a plan, if there is one; count is the count of shards that is known.
func (e *Effects) work(plan *shard.Plan, count int) {
	if plan != nil {
		e.Plans = append(e.Plans, Work{plan, count})
	}
}
