package decide

import "math"

// Processes that share a nearly empty bucket share its refill: each paces itself by the level that
// each answer shows, by additive increase and multiplicative decrease, as TCP does with explicit
// congestion notification. So hardly any write is refused, and processes with equal demand get
// equal shares, or their demand if that is less (Chiu and Jain, 1989). A process that is alone, or
// sees a level above half of the capacity or 20 marks, is not paced at all.
//
// The level is compared with a mark. A process that sees less, while others take too, begins with
// half of the refill. Then each answer changes its share:
//
//	refused           less by 15 %
//	below the mark    less by up to 20 %, the lower the more, and 0.8 % of the refill more
//	at or above it    more, by 0.8 % of the refill for each mark that is there, 3 at most
//
// It grows by at most 15 % of itself. If it grew by a sixteenth of the refill, the shares of 64
// processes would never become small enough to fit.
//
// A process that takes tokens ahead saves up for many requests before it asks (lump), and takes at
// most its savings. It does so even when alone; then its share is the whole refill.
//
// Example: 100 per second, capacity 100, so the mark is 6. Four processes that want 125 a second
// each begin with 50. The level falls below 6, and they give way, until each has 25 and the level
// stays about 6. A process that wants 9 never needs more than its share. Of a few constants tried,
// these shared most evenly in test/bench/fleet, at 4 to 60 ms a write.

const (
	shareBegins  = 0.5   // of the refill, for a process that meets others
	shareLeast   = 0.001 // of the refill
	shareMost    = 2     // of the refill: of several limits each may be the slowest of some requests
	shareRefused = 0.85  // times the share, after a refused write
	shareBelow   = 0.2   // what it loses of itself for a level of zero
	shareMore    = 0.008 // of the refill, for a level of one mark or less
	shareMarks   = 3     // for so many marks at most
	shareGrows   = 0.15  // of itself, at most
	markTime     = 60    // ms of the refill that make a mark
	markMost     = 0.08  // of the capacity, that a mark is at most
	markTells    = 0.25  // of the capacity: a level of so few requests does not show which process takes them
	shareRoom    = 0.5   // of the capacity, above which there is no pace
	shareFree    = 20    // marks, above which there is none either
)

// share is the part of a shard's refill that this process takes. The zero share is not paced. Costs
// are in milliseconds of the whole refill: 1 token of 100 per second costs 10.
type share struct {
	part  float64 // zero: no pace
	saved float64 // what may be taken at the instant at
	at    int64
	most  float64 // the largest cost that was asked for: so much is saved up
	met   bool    // others take, too; else it is the pace of a busy process alone
}

// answered handles the answer to a write of a cost: the level in marks, whether the write was
// refused because of it, whether others take too, whether this process takes ahead, and whether
// there is plenty. A refused write is spent.
func (p *share) answered(cost, level float64, refused, others, busy, plenty bool, now int64) {
	first := others && !p.met
	p.met = p.met || others
	switch {
	case plenty, !p.met && !busy, (p.part == 0 || first) && level >= 1 && !refused:
		*p = share{}
	case p.part == 0, first: // a refused cost is given back: it may try once more
		*p = share{part: shareBegins, at: now, most: cost, met: p.met}
		if !p.met {
			p.part = 1
		}
		if !refused {
			p.saved = cost
		}
	case !p.met && !refused: // alone: the whole refill is its share
	case refused:
		p.part *= shareRefused
		p.saved = min(p.saved, 0) - cost // which is given back
	default:
		p.part *= 1 - shareBelow*max(0, 1-max(0, level))
		p.part += min(shareMore*min(max(level, 1), shareMarks), shareGrows*p.part)
	}
	if p.part > 0 {
		p.part = min(max(p.part, shareLeast), shareMost)
	}
}

// asked notes the cost of a request, so that the share saves up that much.
func (p *share) asked(cost float64) { p.most = max(p.most, cost) }

// from returns the instant from which a cost may be taken.
func (p *share) from(cost, lump float64, now int64) int64 {
	if p.part == 0 {
		return now
	}
	return now + int64(math.Ceil(min(max(0, max(cost, lump)-p.credit(lump, now))/p.part, longest)))
}

// credit returns the cost that may be taken now, by a share that is paced.
func (p *share) credit(lump float64, now int64) float64 {
	more := p.saved + p.part*float64(max(0, now-p.at))
	p.saved, p.at = max(p.saved, min(more, max(p.most, lump, p.part*markTime))), now
	return p.saved
}

// take takes a cost, or gives it back if it is negative.
func (p *share) take(cost float64) {
	if p.part > 0 {
		p.saved -= cost
	}
}

// longest bounds the time, in ms, that a limit is said to need: 31,000 years.
const longest = 1e15
