package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What other processes or an operator put back, nobody tells a sleeper. So one of those that
// sleep for a shard reads it now and then, and all of them go by what it finds. Once the level
// of a shard is back at zero, all costs that it was charged before are paid, whoever sleeps
// on them: a sleeper goes on then, or when it knew that it may, whichever comes first.
//
// Example: a level of -50 that refills by 1 a second. The last one in the queue sleeps for
// 50 s. After 10 s an operator resets the bucket. At 15 s a sleeper reads a level at which
// nothing is owed, and all go on.

// look is a shard that is about to be read, and who goes by it: those who had been charged
// to it before. What came later, the image does not show.
type look struct {
	key item.Key
	who []debtOf
}

// debtOf is a part of what a sleeper owes.
type debtOf struct {
	by   *sleeper
	part *debtor
}

// lookFor reads the shards that a sleeper owes, for all that sleep for them. What it cannot
// read, it leaves: they sleep for as long as they knew. It returns when to look again.
func (l *Limiter) lookFor(ctx context.Context, s *sleeper) time.Duration {
	looks, next := l.sleepers.due(s)
	if len(looks) == 0 {
		return next
	}
	l.background.Go(func() {
		_ = guarded(func() {
			bounded := l.bounded(context.WithoutCancel(ctx)) // others go by it, also if this one leaves
			defer bounded.end()
			for _, k := range looks {
				items, err := l.store.Read(bounded, true, k.key)
				if err != nil || items[0] == nil {
					continue
				}
				if b, err := table.DecodeShard(items[0]); err == nil {
					l.sleepers.tell(k.who, b)
				}
			}
		})
	})
	return next
}

// due returns what of a sleeper's nobody has looked at for longestPause, and after which
// time to ask again.
func (all *sleepers) due(s *sleeper) (looks []look, next time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	next = longestPause
	for i := range s.parts {
		mine := &s.parts[i]
		if since := now.Sub(mine.looked); since < longestPause {
			next = min(next, longestPause-since)
			continue
		}
		k := look{key: mine.key}
		for _, o := range all.by[mine.name] {
			for j := range o.parts {
				if o.parts[j].key == mine.key {
					o.parts[j].looked = now
					k.who = append(k.who, debtOf{o, &o.parts[j]})
				}
			}
		}
		looks = append(looks, k)
	}
	return looks, next
}

// tell tells those who sleep for a shard what it is now. Of a bucket that has split or merged
// since, part of what they owe is elsewhere, so they sleep on. Who learns nothing is not woken:
// a clock that was set ahead meanwhile would end the wait.
func (all *sleepers) tell(who []debtOf, b table.Shard) {
	if b.State.NoClock || len(b.Partial) > 0 {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, o := range who {
		paid := known.PaidBack(b, o.part.limits)
		knew := min(o.part.paid, known.PaidBack(o.part.image, o.part.limits))
		if b.State.Count() == o.part.image.State.Count() && paid < knew {
			o.part.paid = paid
			o.by.wake()
		}
	}
}
