package queue

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What other processes or an operator put back, nobody tells a sleeper. So one of those that
// sleep for a shard reads it now and then, and all of them go by what it finds. Once the level
// of a shard is back at zero, all costs that it was charged before are paid, no matter who
// sleeps on them. A sleeper goes on then, or when it knew that it may, whichever comes first.
//
// Example: a level of -50 that refills by 1 a second. The last one in the queue sleeps for
// 50 s. After 10 s an operator resets the bucket. At 15 s a sleeper reads a level at which
// nothing is owed, and all go on.

// LongestPause is how long sleepers of a shard, and the first in a line, go at most before they
// look again. For so long they may miss that an operator or another process has put tokens back.
const LongestPause = 15 * time.Second

// Look is a shard that is about to be read, and who goes by it: those who had been charged
// to it before. The image does not show who came later.
type Look struct {
	Key item.Key
	who []debtOf
}

// debtOf is a part of what a sleeper owes.
type debtOf struct {
	by   *Sleeper
	part *debtor
}

// Due returns the shards of a sleeper that nobody has looked at for LongestPause, and after
// which time to ask again. They are taken for looked at from now on.
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

// Saw tells those who sleep for a shard what it is now. Of a bucket that has split or merged
// since, part of what they owe is elsewhere, so they sleep on. Who learns nothing is not woken:
// it would go by the clock then, and go on too early if that was set ahead meanwhile.
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
