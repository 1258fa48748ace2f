package limiter

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// denied remembers a denial for as long as nothing new is seen of the bucket, so
// that a flood does not look at every shard for every request.
type denied struct {
	want   want
	c      choice
	until  int64 // the choice holds before it, epoch ms
	at     int64
	level  []float64 // what the known shards held at that instant, less what was under way, by limit in force
	rate   []float64 // what they gain per ms
	whole  []int64   // what they can hold
	unseen bool      // of some shards nothing is known
	// holds is decider.holds, nil if there is one shard.
	holds func(l bucket.Limit, at int64) int64
}

// covers reports whether a denial is one of this request too: it wants as much under
// the same limits.
func (d *denied) covers(w want, now int64) bool {
	return d != nil && now < d.until && now >= d.at && slices.Equal(d.want.costs, w.costs)
}

// remember keeps a denial, with what is needed to say later how much is there by then.
// It holds until the first shard covers the costs, or the oldest image is due for a look.
func (d decider) remember(c choice) *denied {
	out := &denied{want: d.want, c: c, at: d.now, until: c.at,
		level: make([]float64, len(d.want.costs)), rate: make([]float64, len(d.want.costs)),
		whole: make([]int64, len(d.want.costs))}
	seenShards := 0
	for _, s := range d.shards {
		if !s.imaged() {
			continue
		}
		seenShards++
		out.until = min(out.until, min(max(s.at, d.lookedAt), d.now)+max(d.denyFor, 1))
		state := s.image.State
		for i, c := range d.want.costs {
			r := state.RateOf(c.Limit)
			out.whole[i] = bucket.AddSat(out.whole[i], r.Capacity)
			out.rate[i] += float64(r.Amount) / float64(r.Period)
			level := r.Capacity // a limit that the shard does not have yet starts full
			if j := state.Index(c.Limit.Name); j >= 0 {
				level, _ = state.LevelAt(j, d.now)
			}
			out.level[i] += float64(level) - float64(s.underWay.of(c.Limit.Name))
		}
	}
	if out.unseen = seenShards < d.count; d.count > 1 {
		out.holds = d.holds
	}
	d.denied = out
	return out
}

// decider returns what decides about a request at now. The lock is held.
func (l *Limiter) decider(k *known, w want, now int64, tries *attempt) decider {
	return decider{known: k, want: w, now: now, denyFor: l.opts.DenyFor.Milliseconds(), trip: l.store.lately().ms(),
		attempt: tries, pick: random()}
}

// outdated reports whether some image is from before the bucket was seen to be raised
// (see raised). All shards are read then: not more often than looks go out, and only if
// one call can do it.
func (d decider) outdated() bool {
	if d.count == 1 || d.count > item.MaxReadKeys || d.attempt.spread || !d.again(d.readAt) {
		return false
	}
	for _, s := range d.shards {
		if s.imaged() && s.at < d.raisedAt {
			return true
		}
	}
	return false
}

// error explains the denial at now.
func (d *denied) error(now int64) *LimitError {
	e := &LimitError{
		Entity: d.want.name.entity, Resource: d.want.name.resource, Limit: d.c.short,
		RetryAfter: wait(now, max(d.c.at, now+1)), Estimated: d.unseen || d.c.guess, full: d.c.full,
		Statuses: make([]Status, len(d.want.costs)),
	}
	for i, c := range d.want.costs {
		level := min(d.level[i]+d.rate[i]*float64(now-d.at), float64(d.whole[i]))
		s := statusOf(d.want.name.entity, c.Limit, int64(math.Floor(level)), 0)
		if d.holds != nil {
			s.Remaining = min(s.Remaining, d.holds(c.Limit, now)/bucket.Milli)
		}
		if c.Limit.Name == d.c.short {
			e.Wanted, e.Remaining = c.Milli/bucket.Milli, s.Remaining
		}
		if short := float64(c.Milli) - level; c.Limit.Name == d.c.short && !d.c.full {
			s.RetryAfter = e.RetryAfter
		} else if short > 0 {
			s.RetryAfter = wait(0, int64(math.Ceil(min(short/d.rate[i], float64(longestWait/time.Millisecond)))))
		}
		s.Estimated = d.unseen
		e.Statuses[i] = s
	}
	return e
}

// giveUp returns the denial for a request that has written as often as it may and
// was refused each time, because others took what there was: for the time in which
// its costs refill.
func (d decider) giveUp() choice {
	out := choice{action: deny, at: d.now, guess: true}
	for _, c := range d.want.costs {
		if at := bucket.AddSat(d.now, bucket.Wait(0, 0, c.Limit.Whole(), c.Milli)); at >= out.at {
			out.at, out.short = at, c.Limit.Name
		}
	}
	return out
}

// longestWait is what a Duration holds, in whole milliseconds: 292 years.
const longestWait = math.MaxInt64 / time.Millisecond * time.Millisecond

// wait returns the time from one instant to a later one, at most the longest.
func wait(from, to int64) time.Duration {
	return time.Duration(min(bucket.SubSat(to, from), int64(longestWait/time.Millisecond))) * time.Millisecond
}

// tooLarge explains a request that no shard can ever hold.
func (d decider) tooLarge(c choice) error {
	var cause error
	if cost, ok := table.Find(d.want.costs, c.short); ok {
		share := bucket.Share(cost.Limit.Capacity, 0, d.count)
		cause = fmt.Errorf("cost of %q is %d, want at most the %s tokens that one of %d shards holds",
			c.short, cost.Milli/bucket.Milli, bucket.Tokens(share), d.count)
	}
	return &opError{"acquire", d.want.name, ErrTooLarge, cause}
}
