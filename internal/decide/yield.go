package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Two releases may give different limits for the same entity and resource, and a process's cached
// configuration may be old. The limits of a bucket must not change back and forth with each of
// their requests. So a process remembers which of its limits it has seen in force, and yields when
// it sees that others have replaced them: it uses their limits for a while.
//
// Example: in a rollout the old release gives 10 per minute and the new one 20. The bucket has 10
// until the first request of the new one brings 20. The old release sees that in the next image,
// and uses 20 for a minute. If it is still running then, it brings 10 again, and the new one yields
// to that. The latest limits apply for a minute. But a limit that denies here does not yield to a
// soft one, as it must hold for every request of this process. It is brought in force again at
// once, and processes that have it as a soft one yield.

const (
	// yieldFor is how long, in ms, a process uses the limits of others.
	yieldFor = 60_000
	// mostLimits bounds how many limits of its own a process remembers of a bucket.
	mostLimits = 4
)

// yield says that others have replaced limits of a bucket.
type yield struct {
	own      []bucket.Limit // those that this process asks for
	inForce  []bucket.Limit // the same names as others have set them
	removed  []string       // those that others have taken out of the bucket
	began    int64          // when the youngest generation began that showed them, see table.Began
	since    int64          // epoch ms
	reported bool           // the observer knows
}

// lasts reports whether the limits of others are still in force here. If the clock has been set
// back by more than yieldFor since, they are not.
func (y yield) lasts(now int64) bool {
	return now-y.since < yieldFor && y.since-now < yieldFor && (len(y.removed) > 0 || !slices.Equal(y.own, y.inForce))
}

// confirm notes that the limits of a request are in force on a shard. If they are stored limits,
// earlier stored ones are forgotten; limits that other calls give yield.
func (k *facts) confirm(b table.Shard, w Want, now int64) {
	s := k.at(b.State.Shard)
	if len(s.confirmed) == 1 && w.under(s.confirmed[0]) {
		return
	}
	if w.Read > 0 {
		s.confirmed = nil
	}
	k.displace(s, now)
	if slices.ContainsFunc(s.confirmed, w.under) {
		return
	}
	s.confirmed = append(s.confirmed[max(0, len(s.confirmed)+1-mostLimits):], table.LimitsOf(w.Costs))
}

// displace yields where the image of a shard shows that limits of this process were replaced, and
// reports whether it does.
func (k *facts) displace(s *seen, now int64) (displaced bool) {
	b := s.image
	for i := range k.yields {
		y := &k.yields[i]
		inForce, removed := storedLimitsOf(b, y.own)
		if s.rules >= y.began {
			y.inForce, y.removed = inForce, removed
		}
		if slices.Equal(y.inForce, inForce) {
			y.began = max(y.began, table.Began(b.Generation))
		}
	}
	s.confirmed = slices.DeleteFunc(s.confirmed, func(own []bucket.Limit) bool {
		if b.State.Matches(own) {
			return false
		}
		displaced = true
		k.yieldTo(s, own, now)
		return true
	})
	for _, o := range k.shards { // a shard that is new here, changed after those that are known
		for _, own := range o.confirmed {
			if !b.State.Matches(own) && o.image.State.Matches(own) &&
				table.Began(o.image.Generation) < s.rules {
				displaced = true
				k.yieldTo(s, own, now)
			}
		}
	}
	return displaced
}

// yieldTo starts to use the limits of a shard instead of this process's own.
func (k *facts) yieldTo(s *seen, own []bucket.Limit, now int64) {
	if slices.ContainsFunc(k.yields, func(y yield) bool { return slices.Equal(y.own, own) && y.lasts(now) }) {
		return
	}
	y := yield{own: own, began: table.Began(s.image.Generation), since: now}
	y.inForce, y.removed = storedLimitsOf(s.image, own)
	k.yields = append(k.yields[max(0, len(k.yields)+1-mostLimits):], y)
	k.replaced++
}

// storedLimitsOf returns limits as the bucket has them. A limit that the bucket lacks stays as it
// is, and is named in removed; one that the bucket has as a soft limit stays hard.
func storedLimitsOf(b table.Shard, limits []bucket.Limit) (out []bucket.Limit, removed []string) {
	out = slices.Clone(limits)
	for i, l := range out {
		j := b.State.Index(l.Name)
		if j < 0 {
			removed = append(removed, l.Name)
		} else if stored := b.State.Slots[j].Limit; !stored.Same(l) && (l.Soft || !stored.Soft) {
			out[i] = stored.Own()
		}
	}
	return out, removed
}

// unreplaced returns how many of a group, starting with the first, are under limits that others
// have not replaced since they decided. The rest decides again: its write would bring the old
// limits back.
func (k *facts) unreplaced(group []Want, now int64) int {
	if len(k.yields) == 0 {
		return len(group)
	}
	i := slices.IndexFunc(group, func(w Want) bool {
		if w.replaced == k.replaced {
			return false
		}
		theirs, _ := k.inForce(w, now)
		return !theirs.under(table.LimitsOf(w.Costs))
	})
	if i < 0 {
		return len(group)
	}
	return i
}

// inForce returns a request's want under the limits that decide it. These are its own. If others
// have replaced them a short while ago, and theirs can grant the costs, they are theirs. Stored
// limits that were read since are in force. It also returns the yield that applies, nil for none.
func (k *facts) inForce(w Want, now int64) (Want, *yield) {
	if len(k.yields) == 0 {
		return w, nil
	}
	k.yields = slices.DeleteFunc(k.yields, func(y yield) bool {
		return !y.lasts(now) || w.under(y.own) && w.Read > y.since // they were read again since
	})
	i := slices.IndexFunc(k.yields, func(y yield) bool { return w.under(y.own) })
	if i < 0 {
		return w, nil
	}
	y := &k.yields[i]
	costs := table.InForce(table.Costs(y.inForce), now)
	for i, c := range w.Costs {
		costs[i].Milli, costs[i].Floor = c.Milli, c.Floor
		if w.Reused != nil && costs[i].Limit != c.Limit { // slots of one limit pay nothing of another
			costs[i].Milli += w.Reused[i]
		}
		if largest := costs[i].Largest(); largest.Need(bucket.State{}) > largest.Limit.Capacity {
			return w, nil
		}
	}
	if w.Read > 0 && len(y.removed) < len(costs) { // else the call itself asks for removed limits
		costs = slices.DeleteFunc(costs, func(c table.Cost) bool { return slices.Contains(y.removed, c.Limit.Name) })
	}
	w.Costs, w.Reused = costs, nil
	return w, y
}
