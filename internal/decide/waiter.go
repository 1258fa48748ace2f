package decide

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Waiter is a request at a bucket, from the time it asks until it is answered or its caller has
// left. The exported fields are set before it asks. Until it is answered, they belong to the
// bucket.
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
	// Pending is called when the waiter is not answered at once, before anything is started for it.
	// The bucket is locked.
	Pending()
}

// Result is the kind of an answer.
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

// Grant is the result of a granted request for one bucket.
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

// Part is the payment of the item that granted the request.
func (h Held) Part() Part { return Part{Key: h.Key, Shard: h.Image.State.Shard, Taken: h.Costs} }

// Part is one item's payment of a grant.
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

// hurried reports whether the caller waits for less than a time from now on.
func (w *Waiter) hurried(d time.Duration, now Now) bool {
	return !w.Deadline.IsZero() && w.Deadline.Sub(now.At) < d
}

// Spent returns how many of its round trips are over, and whether others took the tokens first in
// one of them. Then the round trips that its caller would not wait for are over, too.
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

// WaitsUntil returns the instant until which a request that waits does so, epoch ms. The clock that
// decides may be corrected at any time, so it holds for one step.
func (w *Waiter) WaitsUntil(now Now) int64 {
	if w.End.IsZero() {
		return bucket.Never
	}
	return bucket.AddSat(now.Ms, w.End.Sub(now.At).Milliseconds())
}

// outrun reports whether to give up because others took the tokens first.
func (w *Waiter) outrun(now Now) bool {
	trips, _ := w.Spent(now)
	return trips >= MaxTrips
}

// Last reports whether the waiter is denied if its next write is refused.
func (w *Waiter) Last(now Now) bool {
	return w.trips >= MaxTrips-1 || w.hurried(now.trip()+now.Late, now)
}

// wantsOf returns the wants of a group, in the room that it is given.
func wantsOf(group []*Waiter, room []Want) []Want {
	for _, w := range group {
		room = append(room, w.decided)
	}
	return room
}

// Call is one write to a shard for a group of waiters, from its start until it has landed: it is
// sent again while it is refused and the image covers some of the group.
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

// Wants is the group's want, as one.
func (c *Call) Wants() Want {
	var few [4]Want
	return Joined(wantsOf(c.riders, few[:0]))
}

// LeastPatience is the time that a goroutine may need to be scheduled, in addition to a table that
// answers at once or is unknown.
const LeastPatience = 10 * time.Millisecond

// Patience bounds how long a request waits for a call of others: until that call is late, even if
// it hangs.
func Patience(late time.Duration) time.Duration { return max(LeastPatience, late) }

// canJoin reports whether a waiter may wait behind the call: if the call is not late, and the
// caller waits for the answers to it and to the next one.
func (c *Call) canJoin(w *Waiter, now Now) bool {
	under := now.At.Sub(c.began)
	return under < Patience(now.Late) && (len(c.queue) == 0 || c.queue[0].decided.GoesWith(w.decided)) &&
		!w.hurried(max(0, now.trip()-under)+now.Late, now)
}

// Held is a request that was granted from tokens taken ahead.
type Held struct {
	Image  *table.Shard   // the last one of the shard that it was taken from; not to be changed
	Key    item.Key       // of the shard
	Limits []bucket.Limit // as the image has them; not to be changed
	Costs  []table.Cost   // granted, by the limits in force
	Renew  bool           // little is left: more is to be taken ahead, by a request for nothing
}

// Planned is a planned write on a shard, for a group of requests or one.
type Planned struct {
	Write      item.Write
	Shard      int
	Takes      bool  // it takes the costs
	Creates    bool  // it creates the bucket, or restores its shard 0
	Charges    bool  // it depends on the image
	Replaced   bool  // it ends where others have replaced the limits of the rest of the group
	adds       bool  // it is a plain add in place of a charge
	clock      int64 // of a charge: the refill instant that it sets
	since      int   // the serial number of the image when it was planned
	generation int64 // of the image
	want       Want  // what its group wants, together
	members    int   // of the group
	ahead      *table.Ahead
	took       []table.Cost  // with ahead: the costs with prefetched ones
	rides      []*Difference // that are settled besides
	denials    denials       // that are reported besides
}

// Ahead returns the tokens that the write takes ahead, and the expired ones of earlier charges that
// it reports.
func (p Planned) Ahead() (taken, ended []table.Cost) {
	if p.ahead == nil {
		return nil, nil
	}
	return p.ahead.Take, p.ahead.Ended
}

// Difference is how much more or less a lease has cost than it took of a shard, with the periods of
// quotas in which it was taken.
type Difference struct {
	Costs []table.Cost
	At    time.Time // when it is due
	Of    any       // of the driver
	rides bool      // it is on its way with a charge
	free  time.Time // when it waits no longer for the write that was on its way when it was due; zero: it did not
}

// denials are denials of this process that are not in an item yet.
type denials struct {
	n     int64
	since int64 // of the first of them, by Now.Mono
}

// due reports whether a look adds the denials.
func (d denials) due(now Now) bool { return d.n > 0 && now.Mono-d.since >= reportAfter }

// reportAfter is how long, in ms, denials wait for a write that holds before a look adds them.
const reportAfter = 10_000
