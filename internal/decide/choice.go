package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/shard"
)

// Action is what to do next about a request.
type Action int

// Actions.
const (
	Deny    Action = iota // no shard can cover it, and asking again is no use yet
	Never                 // no shard can ever hold that much
	Take                  // send a write that takes the costs to a shard, which covers them or has no image
	Look                  // send a write to a shard to learn its image, which is too old to deny
	Adopt                 // send a write to a shard that brings the limits in force that deny, and takes nothing
	Several               // take the costs from several shards
)

// Choice is the next step for a request, and its shard.
type Choice struct {
	Do    Action
	Shard int
	Owe   bool   // the costs are taken into debt
	Asks  bool   // the write is also the look at a shard whose image is too old to show what others take
	Limit string // of a denial: the limit that takes longest, empty if that is not known
	at    int64  // of a denial: when it ends, epoch ms
	guess bool   // that instant is an estimate
	full  bool   // the queue of waiting requests is full
	taken bool   // the image covers the costs, but they are the share of others: it denies until the next look
	last  bool   // a refused write denies at least one request of the group
}

// Decision is the choice about a request, and everything else that came to light.
type Decision struct {
	Choice
	Want    Want // under the limits that it was decided by
	Yielded bool // the limits of others are in force from now on, in place of this process's
	Denial  Denial
	Count   int         // the number of shards, as far as it is known
	Mend    *shard.Plan // lets more be granted: shards to merge, or to restore; nil: nothing would
}

// Alone reports whether the write is for one request only, without others in its group.
func (c Choice) Alone() bool { return c.Do == Look || c.Do == Adopt || c.Owe }

// sooner returns the denial that ends first; it returns a denial that never ends only if both are
// such.
func sooner(a, b Choice) Choice {
	if b.Do == Deny && (a.Do == Never || b.at < a.at) || a.Limit == "" {
		return b
	}
	return a
}

// Denial is the reason why a request is denied, and the duration.
type Denial struct {
	Limit     string  // the one that takes longest to recover
	After     int64   // how long until the request is covered, in ms, at least 1
	Estimated bool    // After may be wrong
	Full      bool    // the queue of waiting requests is full
	Levels    []Level // of the limits that it was decided by
}

// Level is the level of one limit in force, as far as it is known. It describes the whole bucket:
// unseen shards are assumed to be as full as the seen ones.
type Level struct {
	Limit       bucket.Limit
	At          int64 // when that is so, epoch ms
	Milli, Rest int64 // in millitokens, with the remainder of its refill
	Floor       int64 // the part of it that the request leaves, in millitokens
	Remaining   int64 // how many tokens one request can have: shards pay in whole ones
	After       int64 // of a denial: how long until this limit alone covers its cost, in ms
	Edge        int64 // of a quota: how long until it is whole again at once, in ms
	Estimated   bool  // some shards were not seen
	Held        int64 // what processes may hold at most, taken ahead, in millitokens
	Over        int64 // how long until no process holds any, in ms
}
