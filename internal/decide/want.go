package decide

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Name identifies a bucket within a namespace.
type Name struct{ Entity, Resource string }

// Places finds what another package stores for each bucket.
type Places[T any] interface {
	// Find returns the place of a bucket, nil if it has none.
	Find(Name) *T
	// Pin returns the place of a bucket, creating one if necessary. The bucket keeps it until Unpin
	// has been called as often as Pin.
	Pin(Name) *T
	Unpin(Name)
}

// Want is what a request needs of one bucket, resolved from the request and the configuration.
type Want struct {
	Namespace string
	Name      Name
	Costs     []table.Cost // of all limits in force
	Lifetime  table.Lifetime
	Read      int64  // when the limits were read, epoch ms; zero if the call gave them
	Parent    string // with Cascade, which the bucket shows to other clients
	Cascade   bool
	Ahead     int64   // how long, in ms, tokens that are taken ahead may be held; zero: none are taken
	Bypass    bool    // nothing is taken; it has no costs
	Reused    []int64 // by cost: what it has of slots of this process, so that it costs less; nil: nothing
	replaced  int     // facts.replaced when it was decided on
}

// stored reports whether the limits in force are stored exactly like this.
func (w Want) stored(s bucket.State) bool {
	return !slices.ContainsFunc(w.Costs, func(c table.Cost) bool { return !s.Has(c.Limit) })
}

// under reports whether these limits decide the request.
func (w Want) under(limits []bucket.Limit) bool {
	return slices.EqualFunc(w.Costs, limits, func(c table.Cost, l bucket.Limit) bool { return c.Limit.Same(l) })
}

// hard reports whether any limit in force may deny.
func (w Want) hard() bool {
	return slices.ContainsFunc(w.Costs, func(c table.Cost) bool { return !c.Limit.Soft })
}

// returns reports whether the request wants slots.
func (w Want) returns() bool {
	return slices.ContainsFunc(w.Costs, func(c table.Cost) bool { return c.Limit.Returns() && c.Milli > 0 })
}

// floored reports whether the request leaves a part of some limit to others. It has no part in
// prefetched tokens: they are taken and held for requests that leave nothing.
func (w Want) floored() bool { return w.floor() > 0 }

// floor is how much the request leaves of its limits, as the sum of their percentages.
func (w Want) floor() (percents int64) {
	for _, c := range w.Costs {
		percents += c.Floor
	}
	return percents
}

// GoesWith reports whether two requests can go out in one write. They must bring the same limits in
// force and leave the same floors. Otherwise one's floor would decide for both.
func (w Want) GoesWith(other Want) bool {
	return w.Lifetime == other.Lifetime &&
		table.SameLimits(w.Costs, other.Costs)
}

// Joined is a group's want, as one.
func Joined(group []Want) Want {
	w := group[0]
	for i, m := range group[1:] {
		if i == 0 {
			w.Costs, w.Reused = slices.Clone(w.Costs), nil
		}
		for j, c := range m.Costs {
			w.Costs[j].Milli = bucket.AddSat(w.Costs[j].Milli, c.Milli)
		}
	}
	return w
}

// Attempt is the history of a request, as far as it matters to its next decision.
type Attempt struct {
	Spread  bool  // it has tried to take from several shards
	Rounds  int   // decisions
	Calls   int   // writes sent for it
	Met     bool  // it has read a shard of which nothing was known
	Adopted bool  // it has brought limits in force
	Trips   int   // round trips that it has waited for, or MaxTrips if there is no time for another
	Lost    bool  // others have taken the tokens in one of them
	Waits   bool  // it takes its costs into debt instead of being denied
	Until   int64 // with Waits: it does not wait for longer, epoch ms
	InLine  bool  // with Waits: others stand in line before it, so it owes nothing yet
}

const (
	// MaxTrips bounds the round trips of a request that is denied: writes, reads of all shards, and
	// writes of others that it waits for. Every refused write brings the image that explains it, so
	// more than two mean that others take the tokens first.
	MaxTrips = 3
	// MaxRounds bounds the decisions of one request, whatever it meets: buckets that come and go,
	// limits that others bring.
	MaxRounds = 24
)

// Now is everything that a decision depends on besides the bucket and the request. Decisions ask
// for it under the lock of their bucket, so the instants of a bucket's decisions are in order. Out
// of order, the later decision would conclude that the clock had been set back.
type Now struct {
	Ms     int64   // the instant, epoch ms
	Mono   int64   // by a clock that is never set, ms since any instant
	Trip   float64 // how long, in ms, a write and its answer are under way
	Random uint64
	At     time.Time     // the instant by a clock that is never set
	Late   time.Duration // after how long a write is late; zero where nothing is known
}

// trip is how long a write and its answer are under way.
func (n Now) trip() time.Duration {
	return time.Duration(math.Round(n.Trip * float64(time.Millisecond)))
}

// instant is now by both clocks.
func (n Now) instant() prefetch.Instant { return prefetch.Instant{Wall: n.Ms, Mono: n.Mono} }
