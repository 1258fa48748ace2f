package decide

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Waiter is a request at a bucket, from when it asks until it is answered or its caller has left. The
// exported fields are set before it asks. Until it is answered, they belong to the bucket.
type Waiter struct {
	Want     Want      // as it asks: under the limits that it brings
	Attempt            // what it has done so far
	End      time.Time // with Waits: it does not wait for longer; zero: for ever
	Deadline time.Time // its caller does not wait for longer; zero: for ever
	Bound    time.Time // its calls end then
	Apart    bool      // it is one of several levels and creates no bucket
	Renews   bool      // it asks for nothing but an allotment
	Handle   Handle    // of the driver
	Answer   Answer    // valid once an effect lists the waiter as answered

	decided  Want  // under the limits in force, by the last decision
	call     *Call // that it rides on, or waits behind
	trips    int   // round trips that it has waited for: of calls for it, and of calls before
	lost     bool  // one of its charges was refused because others had taken the tokens, or had no room for it
	queued   bool  // it waits behind a call, or did
	owes     bool  // it is charged into debt
	gone     bool  // its caller has left
	answered bool
	alone    [1]*Waiter // room for a group of one
	part     [1]Part    // room for its grant
}

// Handle is what a driver knows of a waiter.
type Handle interface {
	// Pending is called when the waiter is not answered at once, before anything is started for it. The
	// bucket is locked.
	Pending()
}

// Result says what an answer is.
type Result int

// Results.
const (
	Nothing Result = iota // a waiter that renews an allotment got none
	Granted
	Denied
	Gathers // no shard has the costs alone: they are to be taken from several
	Absent  // the bucket is not there, and the waiter creates none
	Ended   // nothing may be sent for it any more
	Failed
)

// Answer is the result for a waiter.
type Answer struct {
	Result   Result
	Want     Want     // of Granted and Gathers: under the limits in force
	Grant    Grant    // of Granted
	Owes     bool     // of Granted and Gathers: the costs are taken into debt
	Decision Decision // of Denied
	Err      error    // of Failed
}

// Grant is what a request was given of one bucket.
type Grant struct {
	Name   Name
	Parts  []Part         // by item that has paid
	Image  *table.Shard   // of the shard right after the charge, not to be changed
	Levels []Level        // nil if it was granted from an allotment
	Limits []bucket.Limit // if it was granted from an allotment: as the image has them, not to be changed
	Ahead  bool           // it was granted from an allotment
	Worked bool           // the image was worked out: others may have written before the charge
	Turn   int64          // of the driver, if Worked: when all was taken, see waitqueue.Queue.Turn
	Local  *bucket.State  // of the driver: the bucket of this process that was charged in place of the table
}

// Grant is the grant of a request on a bucket.
func (h Held) Grant(n Name) Grant {
	return Grant{Name: n, Image: h.Image, Limits: h.Limits, Ahead: true, Parts: []Part{h.Part()}}
}

// Part is what the item has paid that the request was granted from.
func (h Held) Part() Part { return Part{Key: h.Key, Shard: h.Image.State.Shard, Taken: h.Costs} }

// Part is what one item has paid of a grant.
type Part struct {
	Key   item.Key
	Shard int
	Taken []table.Cost
}

// Of returns what the item has paid of a limit, in millitokens.
func (p Part) Of(limit string) int64 {
	c, _ := table.Find(p.Taken, limit)
	return c.Milli
}

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

// Late is a call for which [Bucket.Overdue] is due after a time.
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

func (e *Effects) answer(w *Waiter, a Answer) {
	w.Answer, w.answered, w.call = a, true, nil
	if e.Answered == nil {
		e.Answered = e.few.answered[:0]
	}
	e.Answered = append(e.Answered, w)
}

// settled notes what became of differences that rode with a call.
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

func (e *Effects) start(c *Call) {
	if e.Calls == nil {
		e.Calls = e.few.calls[:0]
	}
	e.Calls = append(e.Calls, c)
}

// hurried reports whether the caller waits for less than a time from now on.
func (w *Waiter) hurried(d time.Duration, now Now) bool {
	return !w.Deadline.IsZero() && w.Deadline.Sub(now.At) < d
}

// Spent returns how many of its round trips are over, and whether others were faster in one of them. Then
// the round trips that its caller would not wait for are over, too.
func (w *Waiter) Spent(now Now) (trips int, lost bool) {
	switch {
	case w.lost && w.hurried(now.Late, now):
		return MaxTrips, true
	case w.lost && w.hurried(now.trip()+now.Late, now):
		return max(w.trips, MaxTrips-1), true
	}
	return w.trips, w.lost
}

// Waited counts a round trip, in which others may have taken the tokens.
func (w *Waiter) Waited(lost bool) {
	w.trips++
	w.lost = w.lost || lost
}

// WaitsUntil returns the instant until which a request that waits does so, epoch ms. The clock that decides
// may be corrected at any time, so it holds for one step.
func (w *Waiter) WaitsUntil(now Now) int64 {
	if w.End.IsZero() {
		return bucket.Never
	}
	return bucket.AddSat(now.Ms, w.End.Sub(now.At).Milliseconds())
}

// outrun reports whether to give up because others were faster.
func (w *Waiter) outrun(now Now) bool {
	trips, _ := w.Spent(now)
	return trips >= MaxTrips
}

// Last reports whether the waiter is denied if its next write is refused.
func (w *Waiter) Last(now Now) bool {
	return w.trips >= MaxTrips-1 || w.hurried(now.trip()+now.Late, now)
}

// wantsOf returns what all of a group want, in the room that it is given.
func wantsOf(group []*Waiter, room []Want) []Want {
	for _, w := range group {
		room = append(room, w.decided)
	}
	return room
}
