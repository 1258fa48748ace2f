package fleet

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
)

// ideal is an exact bucket: the level of each limit at an instant in epoch milliseconds.
type ideal struct {
	rates []bucket.Rate
	level []float64 // millitokens
	at    int64
}

func newIdeal(rates []bucket.Rate, now int64) *ideal {
	b := &ideal{rates: rates, at: now, level: make([]float64, len(rates))}
	for i, r := range rates {
		b.level[i] = float64(r.Capacity)
	}
	return b
}

// to refills to an instant.
func (b *ideal) to(now int64) {
	for i, r := range b.rates {
		if top := float64(r.Capacity); b.level[i] < top {
			b.level[i] = min(top, b.level[i]+float64(now-b.at)*float64(r.Amount)/float64(r.Period))
		}
	}
	b.at = now
}

// acquire takes tokens from all limits or from none.
func (b *ideal) acquire(tokens []int64, now int64) bool {
	const rounding = 1e-3 // of a millitoken
	b.to(now)
	for i, n := range tokens {
		if b.level[i]+rounding < float64(n*bucket.Milli) {
			return false
		}
	}
	for i, n := range tokens {
		b.level[i] -= float64(n * bucket.Milli)
	}
	return true
}

// witness records the tokens taken from a table's bucket, and the resulting levels of an ideal one.
type witness struct {
	rates   []bucket.Rate
	left    *ideal
	history [][]loadcheck.Event // by limit, in millitokens
	back    int64               // when the last write that gave tokens back was sent
	low     low
}

func newWitness(rates []bucket.Rate, now int64) *witness {
	return &witness{rates: rates, left: newIdeal(rates, now), history: make([][]loadcheck.Event, len(rates))}
}

// took records that the counter of limit i has grown by milli. A process takes tokens when it sends
// the write, by its clock; the table performs it a little later. Windows of time use the first
// instant, levels the second. Returned tokens may be taken at once, even by a write sent before:
// that one then counts from the return, which is also before its answer.
func (l *witness) took(i int, milli, sent, now int64) {
	if milli == 0 {
		return
	}
	l.left.to(now)
	l.left.level[i] -= float64(milli)
	e := loadcheck.Event{Kind: loadcheck.Grant, Tokens: milli}
	if milli < 0 {
		e.Kind, e.Tokens, l.back = loadcheck.Return, -milli, max(l.back, sent)
	} else {
		sent = max(sent, l.back)
	}
	e.Sent, e.Answered = sent, sent
	l.history[i] = append(l.history[i], e)
}

// sample compares a stored level, refilled to an instant, with the ideal one.
func (l *witness) sample(shown []float64, now int64) {
	l.left.to(now)
	worst := 0.0
	for i, r := range l.rates {
		worst = max(worst, (l.left.level[i]-shown[i])/float64(r.Capacity))
	}
	l.low.n++
	l.low.sum += worst
	l.low.worst = max(l.low.worst, worst)
}

// excess returns the worst excess over all windows and limits, in tokens. Unspent tokens given back
// to a full bucket may be admitted later (design I1): the bucket may be above its capacity until
// the next refill.
func (l *witness) excess() float64 { return excess(l.rates, true, l.history) }

// low is how far shown levels were below the ideal ones, as shares of the capacity.
type low struct {
	n          int
	sum, worst float64
}

func (l low) mean() float64 { return l.sum / float64(max(l.n, 1)) }

// excess returns the worst excess over all windows and limits, in tokens, for events in millitokens
// by limit. See [loadcheck.Bound] for kept.
func excess(rates []bucket.Rate, kept bool, events [][]loadcheck.Event) float64 {
	worst := math.Inf(-1)
	for i, r := range rates {
		rules := loadcheck.InForce([]loadcheck.Rule{{Capacity: r.Capacity, Amount: r.Amount, Period: r.Period}})
		w, err := loadcheck.Worst(loadcheck.Bound{Rules: rules, Kept: kept}, events[i])
		if err != nil {
			panic("bug: " + err.Error())
		}
		worst = max(worst, float64(w.Excess)/(1000*bucket.Milli))
	}
	return worst
}
