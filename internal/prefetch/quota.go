package prefetch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Prefetched tokens of a quota are granted before its edge or not at all. The rest goes back to the
// table: a rate refills, but a quota would lack them until its next period.

// LifeFrom is [Life] for a charge planned from an image. The life ends before any quota is whole
// again, so every grant is of the same period as its tokens. It also ends before a schedule changes
// a limit, so nothing taken under a larger limit is granted under a smaller one. In the second
// after an edge, while the old period lasts, it is zero.
//
//	life 500 ms, midnight is the edge: 500 at 23:59:59.0, 200 at 23:59:59.8, 0 at 0:00:00.5
func LifeFrom(image table.Shard, costs []table.Cost, most, now int64) int64 {
	return beforeEdges(image, costs, Life(costs, most), now)
}

// beforeEdges shortens a life. A period that begins with the charge has its full length. If a
// period is stored with an earlier end, from other time zone data, the life ends there, for the
// processes that use that data.
func beforeEdges(image table.Shard, costs []table.Cost, life, now int64) int64 {
	edges := false
	for _, c := range costs {
		if n := c.Limit.FirstUse(); n > 0 {
			life = min(life, n)
		}
		edges = edges || c.Limit.Renews() || c.Limit.Plan != ""
		life = max(0, min(life, bucket.SubSat(c.Limit.Changes(now), now)-bucket.EdgeMargin)) // also of a new limit
	}
	if life == 0 || !edges {
		return life
	}
	if end, _ := image.State.At(now).NextEdge(); end != 0 {
		life = max(0, min(life, bucket.SubSat(end, now)))
	}
	if end := image.Calendars.Until; end > now {
		life = min(life, end-now)
	}
	return life
}

// periodsOf returns the quotas among limits, with their periods in an image; nil if there are none.
func periodsOf(limits []table.Cost, image table.Shard) (out []table.Cost) {
	for _, c := range limits {
		if j := image.State.Index(c.Limit.Name); c.Limit.Renews() && j >= 0 {
			sl := image.State.Slots[j]
			out = append(out, table.Cost{Limit: c.Limit, End: sl.End, Resets: sl.Resets, Born: image.Born})
		}
	}
	return out
}

// pass ends allotments with a quota that, by the last image, is in another period or was made whole
// since. They grant nothing any more, because a lease would give the tokens back to the wrong
// period. Tokens of their other quotas go back. An image from before the charge proves nothing.
func (h *Holding) pass() {
	for i := range h.allotments {
		a := &h.allotments[i]
		goesOn := slices.DeleteFunc(slices.Clone(a.periods), func(c table.Cost) bool {
			i := h.image.Index(c.Limit.Name)
			return i >= 0 && c.Late(h.image.Slots[i])
		})
		if len(goesOn) < len(a.periods) && h.image.RF >= a.rf {
			a.until, a.periods = Instant{}, goesOn
		}
	}
}

// takesBack reports whether granted tokens may be put back into the allotment. Tokens of a quota
// must be of its period and of the same life of the bucket.
func (a *allotment) takesBack(back []table.Cost) bool {
	return !slices.ContainsFunc(back, func(c table.Cost) bool {
		if !c.Limit.Renews() || c.Milli <= 0 {
			return false
		}
		p, ok := table.Find(a.periods, c.Limit.Name)
		return !ok || p.End != c.End || p.Resets != c.Resets || c.Born != 0 && p.Born != c.Born
	})
}

// leave keeps the rest of an allotment that is over. Quota tokens move to a later allotment of the
// same period, if there is one, and are held as long as that: a quota does not refill.
func (h *Holding) leave(a *allotment, now Instant) {
	for _, n := range a.left {
		p, quota := table.Find(a.periods, n.limit)
		if !quota {
			h.ended.add(n.limit, n.milli)
		} else if later := h.later(a, p, now); later != nil {
			later.left.add(n.limit, n.milli)
		} else {
			p.Milli = -n.milli
			h.GoesBack([]table.Cost{p}, now)
		}
	}
}

// later returns another allotment that is not over and has tokens of the same period of a quota.
func (h *Holding) later(than *allotment, p table.Cost, now Instant) *allotment {
	for i := range h.allotments {
		a := &h.allotments[i]
		if o, ok := table.Find(a.periods, p.Limit.Name); ok && o == p && !a.over(now) && a.generation == than.generation {
			return a
		}
	}
	return nil
}

// GoesBack records quota tokens to give back, as negative costs: tokens that expired unspent, or a
// [Holding.Back] that was not written. If their period is over, they cannot be given back, and
// count as expired.
func (h *Holding) GoesBack(costs []table.Cost, now Instant) {
	for _, c := range costs {
		i := slices.IndexFunc(h.back, func(o table.Cost) bool { return o.Limit.Name == c.Limit.Name })
		switch {
		case c.Milli >= 0:
		case now.Wall >= c.End:
			h.ended.add(c.Limit.Name, -c.Milli)
		case i < 0:
			h.back = append(h.back, c)
		case earlier(c, h.back[i]) == 0:
			h.back[i].Milli += c.Milli
		case earlier(c, h.back[i]) < 0:
			h.ended.add(c.Limit.Name, -c.Milli) // of an earlier period or bucket, or from before a reset
		default:
			h.ended.add(c.Limit.Name, -h.back[i].Milli)
			h.back[i] = c
		}
	}
}

// earlier orders costs of a quota by when they were taken.
func earlier(a, b table.Cost) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Born, b.Born), cmp.Compare(a.Resets, b.Resets))
}

// Back returns the expired quota tokens that go back to the shard, as negative costs in order of
// name. It removes them from the Holding; GoesBack accepts them again.
func (h *Holding) Back(now Instant) []table.Cost {
	h.end(now)
	out := h.back
	h.back = nil
	slices.SortFunc(out, func(a, b table.Cost) int { return strings.Compare(a.Limit.Name, b.Limit.Name) })
	return out
}

// BackIn returns the number of milliseconds after which quota tokens may have to be given back; ok
// is false if none are held.
func (h *Holding) BackIn(now Instant) (ms int64, ok bool) {
	for i := range h.allotments {
		a := &h.allotments[i]
		if a.periods == nil {
			continue
		}
		left := max(0, min(a.until.Wall-now.Wall, a.until.Mono-now.Mono))
		if !ok || left < ms {
			ms, ok = left, true
		}
	}
	return ms, ok || len(h.back) > 0
}

// Release gives up all held tokens. Tokens of rates expire unspent, as they would a little later:
// giving them back would lower the counter for tokens that were never granted, and an earlier image
// would count them as spent. Tokens of quotas go back. The declared amount falls only by the tokens
// not granted. Granted tokens were held until the refill instant or later, so they stay declared
// until a mend, as after a crash.
func (h *Holding) Release(now Instant) (r table.Released) {
	all := h.held(h.generation)
	for i := range h.allotments {
		if a := &h.allotments[i]; !a.covers {
			a.until = Instant{}
		}
	}
	r = table.Released{Back: h.Back(now), Ended: h.ended.costs(), Generation: h.generation}
	kept := h.held(h.generation) // of others
	var less amounts
	for _, n := range all {
		less.add(n.limit, n.milli-kept.of(n.limit))
	}
	r.Declared, h.declared, h.ended = less.costs(), kept, nil
	return r
}
