package limiter

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/queue"
)

// attempt is what one call of Acquire has done so far.
type attempt struct {
	known.Attempt
	throttles
	end    time.Time    // of a request that waits: when its context ends; zero: never
	goesOn int64        // when a request that waits may go on, epoch ms; zero: at once
	owed   []queue.Owed // of a request that waits: on which shards
	turn   int64        // of a request that waits: when it went to take into debt, see queue.Sleepers.Turn
	apart  bool         // it is one of several levels and creates no bucket
	// together: its writes are those of a group, and are noted with one of its acquires.
	together bool
	shared   int           // writes of groups that count for it
	standing bool          // of a request that waits: it stands in line
	held     bool          // it was granted from what was taken ahead, without a call
	mended   bool          // a limit that is half written has explained a write that was rejected
	desk     *desk         // of the bucket; held to the end, also if it is evicted meanwhile
	room     [1]known.Want // for what is wanted of one entity, as long as it does not cascade
}

// kept reports whether others may have missed what the attempt had while it made calls. Who stands in
// line keeps nothing from others: the first of two lines would wake each other for ever. Nor does who
// made no call: in a flood of such denials, the first in line would ask for each.
func (t *attempt) kept() bool {
	return !t.standing && t.Calls+t.Trips+t.shared > 0
}

// acquirer is one acquire of a group, or of the queue for the next group. While it is in
// one, it belongs to the leader.
type acquirer struct {
	want   known.Want
	turns  chan turn    // gets one turn for every time it is queued; nil until then
	got    turn         // of one that was never queued: its turn
	until  time.Time    // its caller waits no longer; zero: for ever
	trips  int          // round trips that it has waited for: of calls for it, and of writes before
	sent   int          // writes of groups that count for it, and that its attempt does not know of
	lost   bool         // a charge was refused it because others had taken the tokens, or had no room for it
	alone  [1]*acquirer // room for a group of one
	renews bool         // it asks for nothing but what is taken ahead
	waits  bool         // it is one of Wait or Reserve, which are served from the table
	gone   bool         // its caller has left while its costs were on their way; guarded by the desk
}

// turn is what comes of waiting: a lease, an error, or a group to lead. The zero turn says to decide
// again, from a newer image.
type turn struct {
	lease  *Lease
	err    error
	lead   []*acquirer // lead this group, which begins with oneself
	flight *flight     // with lead
}

// give gives an acquire its turn. It never blocks.
func (a *acquirer) give(t turn) {
	if a.turns == nil {
		a.got = t
		return
	}
	a.turns <- t
}

// own returns the turn that an acquire has given itself, as the only one of its group.
func (a *acquirer) own() turn {
	if a.turns == nil {
		return a.got
	}
	return <-a.turns
}

// wantsOf returns what all of a group want, in the room that it is given.
func wantsOf(group []*acquirer, room []known.Want) []known.Want {
	for _, m := range group {
		room = append(room, m.want)
	}
	return room
}

// hurried reports whether the caller waits for less than a time from now on.
func (a *acquirer) hurried(d time.Duration) bool {
	return !a.until.IsZero() && time.Until(a.until) < d
}

// spent returns how many of its round trips are over. Once others were faster, those are over, too,
// that its caller would not wait for.
func (a *acquirer) spent(p pace) int {
	switch {
	case a.lost && a.hurried(p.late):
		return known.MaxTrips
	case a.lost && a.hurried(p.trip+p.late):
		return max(a.trips, known.MaxTrips-1)
	}
	return a.trips
}

// outrun reports whether to give up because others were faster.
func (a *acquirer) outrun(p pace) bool { return a.spent(p) >= known.MaxTrips }

// last reports whether it will be outrun if its next write is refused, so that this one
// must not be refused for less than that its tokens are gone.
func (a *acquirer) last(p pace) bool { return a.trips >= known.MaxTrips-1 || a.hurried(p.trip+p.late) }

// sentFor notes a write of a group with the first whose caller still waits for it.
func (k *desk) sentFor(group []*acquirer, tries *attempt) {
	if !tries.together {
		return // it is in the attempt
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(group, func(m *acquirer) bool { return !m.gone && !m.renews }); i >= 0 {
		group[i].sent++
	}
}

// count adds the writes that were sent for a group with this acquire as the first of it.
func (a *attempt) count(me *acquirer) {
	a.shared += me.sent
	me.sent = 0
}
