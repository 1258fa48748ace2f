package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A quota does not refill within its period. So this process gives back what it took ahead of one
// and may no longer grant, with one write for all that has ended on a shard.

// mind has tokens of quotas given back that end unspent on a shard.
func (l *Limiter) mind(k *desk, n decide.Name, shard int) {
	if ms, ok := k.Mind(shard, l.moment); ok {
		l.mindIn(time.Duration(ms)*time.Millisecond, k, n, shard, l.opts.Timeout)
	}
}

// mindIn gives back after a while. If that is not written, it pauses.
func (l *Limiter) mindIn(after time.Duration, k *desk, n decide.Name, shard int, pause time.Duration) {
	time.AfterFunc(after+time.Millisecond, func() { _ = guarded(func() { l.giveUnspent(k, n, shard, pause) }) })
}

// longestPause is how long what was not given back waits at most before it is tried again.
const longestPause = time.Minute

// giveUnspent gives back what has ended unspent on a shard. Where nothing was written it is
// tried again, after pauses that grow, for as long as the period goes on.
func (l *Limiter) giveUnspent(k *desk, n decide.Name, shard int, pause time.Duration) {
	u, ms, more := k.Unspent(shard, l.moment)
	if more {
		l.mindIn(time.Duration(ms)*time.Millisecond, k, n, shard, pause)
	}
	if len(u.Costs) == 0 {
		return
	}
	bounded := l.bounded(context.Background())
	defer bounded.end()
	it := leaseItem{name: n, key: layout.BucketKey(l.namespace, n.Entity, n.Resource, shard), shard: shard}
	s := l.settling(it, table.Shard{}, u.Costs)
	err := s.run(bounded, queue.Taking{})
	e := Event{Kind: EventAhead, Entity: n.Entity, Resource: n.Resource, Writes: 1,
		Ended: Costs(nil).plus(negative(u.Costs))}
	switch kind := store.KindOf(err); {
	case err == nil:
		k.Late(shard, s.late)
		e.Ended = Costs(nil).plus(negative(without(u.Costs, s.late))) // the charge that tells of those does
	case kind != 0 && kind != store.Unknown: // a bucket that cannot be read is made anew, and is whole then
		if e.Writes, e.Ended = 0, nil; k.Unwritten(u, l.moment) {
			l.mindIn(pause, k, n, shard, min(2*pause, max(pause, longestPause)))
		}
	}
	if err != nil {
		e.Err = outcome("give back", n, err)
	}
	l.tell(context.Background(), e)
}
