package decide

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Unused tokens of a quota that were taken ahead are given back to the table, because nothing
// refills them. The driver calls Unspent for their shard until it reports that there are no more.

// mind asks the driver to look after a shard with held tokens of a quota, unless it does already.
func (k *facts) mind(shard int, now Now, e *Effects) {
	h := k.at(shard).holding
	if h == nil || h.minded {
		return
	}
	var ms int64
	if ms, h.minded = h.BackIn(now.instant()); h.minded {
		e.Minded = append(e.Minded, Minded{shard, time.Duration(ms) * time.Millisecond})
	}
}

// Unspent are expired tokens of quotas, to be given back.
type Unspent struct {
	Shard int
	Costs []table.Cost // negative, with the periods that they are of; nil for nothing
}

// Unspent returns the tokens to give back to a shard, and after how many milliseconds to ask again.
// Without more, the driver may forget the shard.
func (b *Bucket) Unspent(shard int, clock func() Now) (u Unspent, ms int64, more bool) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(shard)
	s.holding.minded = false // also if the clock panics
	now := clock().instant()
	u = Unspent{Shard: shard, Costs: s.holding.Back(now)}
	ms, s.holding.minded = s.holding.BackIn(now)
	return u, ms, s.holding.minded
}

// Unwritten handles a write that gave back nothing of u: it is still to be given back. It reports
// whether the driver must go on looking after the shard.
func (b *Bucket) Unwritten(u Unspent, clock func() Now) bool {
	k := b.lock()
	defer b.mu.Unlock()
	h, now := k.at(u.Shard).holding, clock().instant()
	h.GoesBack(u.Costs, now)
	minds := !h.minded
	_, h.minded = h.BackIn(now)
	return minds && h.minded
}

// TakesAhead reports whether this process has taken tokens ahead from the bucket, so that some may
// have expired and not been reported yet.
func (b *Bucket) TakesAhead() bool {
	k := b.lock()
	defer b.mu.Unlock()
	for _, s := range k.shards {
		if s.holding != nil {
			return true
		}
	}
	return false
}

// Release gives up everything that this process holds of the bucket, and returns it by shard.
func (b *Bucket) Release(now Now) map[int]table.Released {
	k := b.lock()
	defer b.mu.Unlock()
	out := map[int]table.Released{}
	for shard, s := range k.shards {
		if s.holding == nil {
			continue
		}
		if r := s.holding.Release(now.instant()); len(r.Back)+len(r.Declared)+len(r.Ended) > 0 {
			out[shard] = r
		}
	}
	b.holds.Store(false)
	return out
}
