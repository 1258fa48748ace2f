package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/queue"
)

// attempt is what one call of Acquire has done so far.
type attempt struct {
	known.Attempt
	end    time.Time    // of a request that waits: when its context ends; zero: never
	goesOn int64        // when a request that waits may go on, epoch ms; zero: at once
	owed   []queue.Owed // of a request that waits: on which shards
	turn   int64        // of a request that waits: when it went to take into debt, see queue.Sleepers.Turn
	apart  bool         // it is one of several levels and creates no bucket
	// standing: it is a request that waits, and stands in line.
	standing bool
	held     bool          // it was granted from what was taken ahead, without a call
	desk     *desk         // of the bucket; held to the end, also if it is evicted meanwhile
	bound    bound         // of the call
	me       acquirer      // waits for its writes
	room     [1]known.Want // for what is wanted of one entity, as long as it does not cascade
}

// kept reports whether others may have missed what the attempt had while it made calls. Who stands in
// line keeps nothing from others: the first of two lines would wake each other for ever. Nor does who
// made no call: in a flood of such denials, the first in line would ask for each.
func (t *attempt) kept() bool { return !t.standing && t.Calls+t.Trips > 0 }

// acquirer is one acquire that waits for a write, or for the next one. Its caller only waits: writes
// have goroutines of their own. While it is in a group, it belongs to that one's write.
type acquirer struct {
	want   known.Want
	within *bound        // the context of the call, with its bound
	turns  chan struct{} // gets a value when got is set, once for each time that it is sent or queued
	got    turn
	until  time.Time // its caller waits no longer; zero: for ever
	trips  int       // round trips that it has waited for: of calls for it, and of writes before
	calls  int       // writes that its attempt knows of
	sent   int       // writes that count for it, and that its attempt does not know of
	apart  bool      // see attempt
	lost   bool      // a charge was refused it because others had taken the tokens, or had no room for it
	renews bool      // it asks for nothing but what is taken ahead
	queued bool      // it waits behind a write, or did
	waits  bool      // it is one of Wait or Reserve, which are served from the table
	// Guarded by the desk:
	onWay bool         // its costs are on their way to the table
	gone  bool         // its caller has left
	alone [1]*acquirer // room for a group of one
}

// turn is what comes of waiting: a lease or an error. The zero turn says to decide again, from a newer
// image.
type turn struct {
	lease *Lease
	err   error
}

// acquirer returns what waits for the writes of an attempt within ctx.
func (l *Limiter) acquirer(ctx context.Context, tries *attempt) *acquirer {
	me := &tries.me
	me.within, me.turns, me.waits = l.within(ctx), make(chan struct{}, 1), tries.Waits
	me.until, _ = ctx.Deadline()
	return me
}

// give gives an acquire its turn. It never blocks.
func (a *acquirer) give(t turn) {
	a.got = t
	a.turns <- struct{}{}
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

// sending notes that the costs of a group are on their way, and the write with the first whose caller
// still waits for it.
func (k *desk) sending(group []*acquirer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	noted := false
	for _, m := range group {
		m.onWay = true
		if !noted && !m.gone && (!m.renews || len(group) == 1) {
			m.sent++
			noted = true
		}
	}
}

// stay returns those of a group whose callers still wait for an answer, none of which is on its way.
func (k *desk) stay(shard int, group []*acquirer) []*acquirer {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := group[:0]
	for _, m := range group {
		if m.onWay = false; m.gone {
			k.End(shard, m.want)
		} else {
			left = append(left, m)
		}
	}
	return left
}

// count adds the writes that were sent with this acquire as the first of its group.
func (a *attempt) count(me *acquirer) {
	a.Calls += me.sent
	me.sent = 0
}
