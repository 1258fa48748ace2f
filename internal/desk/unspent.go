package desk

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// A quota does not refill within its period. So this process gives back the tokens that it has
// taken ahead and may no longer grant, with one write for everything that has expired on a shard.

// mindIn gives expired tokens of quotas back on a shard after a while. If that is not written, it
// pauses.
func (d *Desks) mindIn(after time.Duration, k *Desk, shard int, pause time.Duration) {
	d.later(after+time.Millisecond, func() { d.giveUnspent(k, shard, pause) })
}

// longestPause is how long expired tokens that were not given back wait at most for the next try.
const longestPause = time.Minute

// giveUnspent gives back tokens that have expired on a shard. If nothing was written it is tried
// again, after growing pauses, until the period ends.
func (d *Desks) giveUnspent(k *Desk, shard int, pause time.Duration) {
	u, ms, more := k.Unspent(shard, d.Moment)
	if more {
		d.mindIn(time.Duration(ms)*time.Millisecond, k, shard, pause)
	}
	if len(u.Costs) == 0 {
		return
	}
	bounded := d.Bounded(context.Background())
	defer bounded.End()
	n := k.Name
	s := d.settling(n, shard, table.Shard{}, u.Costs)
	s.ends = true
	err := s.run(bounded, waitqueue.Taking{})
	e := Event{Kind: Ahead, Name: n, Op: "give back", Err: err, Writes: 1, Ended: table.Negative(u.Costs)}
	if kind := store.KindOf(err); kind != 0 && kind != store.Unknown { // an unreadable bucket is created again, full
		if e.Writes, e.Ended = 0, nil; k.Unwritten(u, d.Moment) {
			d.mindIn(pause, k, shard, min(2*pause, max(pause, longestPause)))
		}
	}
	d.Observe(context.Background(), e)
}
