package waitqueue

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// No message reports tokens that other processes or an operator put back. So one of a shard's
// sleepers reads it now and then, and all of them use the result. Once the level of a shard is back
// at zero, all costs that it was charged before are paid, whichever sleeper owes them. A sleeper
// goes on then, or at its own time, whichever comes first.
//
// Example: a level of -50 that refills by 1 a second. The last one in the queue sleeps for 50 s.
// After 10 s an operator resets the bucket. At 15 s a sleeper reads a level at which nothing is
// owed, and all go on.

// LongestPause is the longest time between two looks of a shard's sleepers, and of the first in a
// line. For so long they may miss that an operator or another process has put tokens back.
const LongestPause = 15 * time.Second

// Look is a shard that is about to be read, with the sleepers that use the result: those charged to
// it before. The image does not show later ones.
type Look struct {
	Key item.Key
	who []debtOf
}

// debtOf is a sleeper's debt on the shard.
type debtOf struct {
	by   *Sleeper
	part *debtor
}

// Due returns the sleeper's shards without a look for LongestPause, and after which time to ask
// again. From now on they count as looked at.
func (all *Sleepers) Due(s *Sleeper) (looks []Look, next time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	next = LongestPause
	for i := range s.parts {
		mine := &s.parts[i]
		if since := now.Sub(mine.looked); since < LongestPause {
			next = min(next, LongestPause-since)
			continue
		}
		k := Look{Key: mine.image.Key()}
		for _, o := range mine.room.sleepers {
			for j := range o.parts {
				if o.parts[j].image.Key() == k.Key {
					o.parts[j].looked = now
					k.who = append(k.who, debtOf{o, &o.parts[j]})
				}
			}
		}
		looks = append(looks, k)
	}
	return looks, next
}

// Saw gives the sleepers of a shard its image. If the bucket has split or merged since, part of
// their debt is elsewhere, so they sleep on. A sleeper that learns nothing is not woken: it would
// use the clock then, and go on too early if the clock was set ahead meanwhile.
func (all *Sleepers) Saw(k Look, b table.Shard) {
	if b.State.NoClock || len(b.Partial) > 0 {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, o := range k.who {
		paid := decide.PaidBack(b, o.part.limits)
		if b.State.Count() == o.part.image.State.Count() && paid < o.part.until() {
			o.part.paid = paid
			o.by.wake()
		}
	}
}
