package limiter

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// attempt is what one call of Acquire has done so far.
type attempt struct {
	throttles
	spread  bool   // it has tried to take from several shards
	rounds  int    // decisions
	calls   int    // writes sent for it
	asked   []int  // the first shards that it has written to, for at most maxAsked
	adopted bool   // it has brought limits in force
	outrun  bool   // see acquirer
	waits   *waits // how a request of Wait or Reserve waits; nil: it does not
	apart   bool   // it is one of several levels and creates no bucket
	known   *known // of the bucket; held to the end, also if it is evicted meanwhile
}

// sent counts a write to a shard.
func (a *attempt) sent(shard int) {
	a.calls++
	if len(a.asked) < maxAsked && !slices.Contains(a.asked, shard) {
		a.asked = append(a.asked, shard)
	}
}

// maxAsked is how many shards without an image one call asks before it believes
// those that it knows.
const maxAsked = 2

// acquirer is one acquire of a group, or of the queue of those who will be the next one.
// While it is in one, it belongs to whoever leads.
type acquirer struct {
	want    want
	turn    chan turn // gets one turn for every time it is queued
	until   time.Time // its caller waits no longer; zero: for ever
	trips   int       // round trips that it has waited for: of writes for it, and of one before
	refused int       // charges that were refused it, or had no room for it
	gone    bool      // its caller has left while its costs were on their way; guarded by known
}

// turn is what comes of waiting: one of its fields is set.
type turn struct {
	lease  *Lease
	err    error
	again  bool        // decide again, from a newer image
	lead   []*acquirer // lead this group, which begins with oneself
	flight *flight     // with lead
}

// goesWith reports whether an acquire can go out with those in a queue: what they
// bring in force must be the same.
func goesWith(queue []*acquirer, me *acquirer) bool {
	return len(queue) == 0 || queue[0].want.life == me.want.life &&
		slices.EqualFunc(queue[0].want.costs, me.want.costs, func(a, b table.Cost) bool { return a.Limit == b.Limit })
}

// hurried reports whether the caller waits for less than a time from now on.
func (a *acquirer) hurried(d time.Duration) bool {
	return !a.until.IsZero() && time.Until(a.until) < d
}

// outrun reports whether others have been faster as often as it tries: it has waited
// for as many round trips as it may, or its caller would not wait for the answer to
// another write.
func (a *acquirer) outrun(p pace) bool {
	return a.refused > 0 && (a.trips >= maxAttempts || a.hurried(p.late))
}

// last reports whether it will be outrun if its next write is refused, so that this one
// must not be refused for less than that its tokens are gone.
func (a *acquirer) last(p pace) bool { return a.trips >= maxAttempts-1 || a.hurried(p.trip+p.late) }
