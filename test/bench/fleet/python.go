package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// pythonTable is one bucket item as writers of the documented Python algorithm
// see it, at the end of a network: levels and counters per limit, one refill
// clock. A call is refused when its condition does not hold.
type pythonTable struct {
	network *network
	rates   []bucket.Rate

	mu            sync.Mutex
	there         bool
	item          pythonItem
	writes, reads int
	witness       *witness
}

type pythonItem struct {
	tokens []int64
	rf     int64
}

// call carries a call to the item and its answer back. f runs with the item
// locked and reports whether it changed it.
func (t *pythonTable) call(f func(*pythonItem) bool) (after pythonItem, held bool) {
	time.Sleep(t.network.way())
	t.mu.Lock()
	next := pythonItem{tokens: append([]int64(nil), t.item.tokens...), rf: t.item.rf}
	if held = f(&next); held {
		t.item = next
	}
	after = t.item
	t.mu.Unlock()
	time.Sleep(t.network.way())
	return after, held
}

// write is a call that costs a write unit, and spends when its condition holds.
func (t *pythonTable) write(tokens []int64, f func(*pythonItem) bool) (after pythonItem, held bool) {
	sent := nowMilli()
	return t.call(func(it *pythonItem) bool {
		t.writes++
		if !f(it) {
			return false
		}
		for i, n := range tokens {
			t.witness.took(i, n*bucket.Milli, sent, nowMilli())
		}
		return true
	})
}

// read costs half a read unit each for the entity and the bucket.
func (t *pythonTable) read() (it pythonItem, there bool) {
	it, _ = t.call(func(*pythonItem) bool { t.reads++; there = t.there; return false })
	return it, there
}

// spend is the plain add that holds when the stored levels cover it.
func (t *pythonTable) spend(tokens []int64) (after pythonItem, held bool) {
	return t.write(tokens, func(it *pythonItem) bool {
		if !t.there || !covers(it.tokens, tokens) {
			return false
		}
		for i, n := range tokens {
			it.tokens[i] -= n * bucket.Milli
		}
		return true
	})
}

func covers(levels, tokens []int64) bool {
	for i, n := range tokens {
		if levels[i] < n*bucket.Milli {
			return false
		}
	}
	return true
}

// refilled is the documented refill: whole millitokens, the rest is dropped.
func (t *pythonTable) refilled(it pythonItem, now int64) []int64 {
	out := make([]int64, len(it.tokens))
	for i, r := range t.rates {
		add := max(0, now-it.rf) * r.Amount / r.Period
		if out[i] = it.tokens[i]; add > 0 {
			out[i] = min(r.Capacity, out[i]+add)
		}
	}
	return out
}

var errPythonDenied = errors.Join(limiter.ErrLimited, errors.New("denied by the model of the Python client"))

// acquire is the documented behaviour of the Python client. It sends a plain add. If that is
// refused and refill would cover the request, it reads, and refills under a lock on the clock. If
// others moved the clock, it sends the plain add again.
func (t *pythonTable) acquire(_ context.Context, tokens []int64) error {
	it, held := t.spend(tokens)
	if held {
		return nil
	}
	if len(it.tokens) > 0 && !covers(t.refilled(it, nowMilli()), tokens) {
		return errPythonDenied
	}
	now := nowMilli() // read before the item is, W7
	it, there := t.read()
	if !there {
		if t.create(tokens) {
			return nil
		}
	} else {
		level := t.refilled(it, now)
		if !covers(level, tokens) {
			return errPythonDenied
		}
		if t.refill(it, level, tokens) {
			return nil
		}
	}
	if _, held = t.spend(tokens); held {
		return nil
	}
	return errPythonDenied
}

func (t *pythonTable) create(tokens []int64) bool {
	now := nowMilli()
	_, held := t.write(tokens, func(it *pythonItem) bool {
		if t.there {
			return false
		}
		t.there, it.rf = true, now
		for i, r := range t.rates {
			it.tokens = append(it.tokens, r.Capacity-tokens[i]*bucket.Milli)
		}
		return true
	})
	return held
}

// refill adds the refill since the item was read and takes the tokens, if nobody has moved the
// clock meanwhile and the level covers them.
func (t *pythonTable) refill(from pythonItem, level, tokens []int64) bool {
	now := nowMilli() // later than the clock that level was worked out with, W7
	_, held := t.write(tokens, func(it *pythonItem) bool {
		if it.rf != from.rf {
			return false
		}
		for i, n := range tokens {
			added := level[i] - from.tokens[i]
			if it.tokens[i] < max(0, n*bucket.Milli-added) {
				return false
			}
			it.tokens[i] += added - n*bucket.Milli
		}
		it.rf = now
		return true
	})
	return held
}

func (t *pythonTable) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.there {
		return
	}
	now := nowMilli()
	shown := make([]float64, len(t.rates))
	for i, n := range t.refilled(t.item, now) {
		shown[i] = float64(n)
	}
	t.witness.sample(shown, now)
}

func (t *pythonTable) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes, t.reads = 0, 0
}

func (t *pythonTable) result(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Writes, r.Reads = t.writes, float64(t.reads)
	r.Low, r.LowWorst, r.Excess, r.Shards = t.witness.low.mean(), t.witness.low.worst, t.witness.excess(), 1
}

// Python plays the case with the model of the Python client, which keeps no image
// between its calls, so that one process is as good as many. It has to be called
// inside a bubble of testing/synctest.
func (c Case) Python(ctx context.Context) Result {
	t := &pythonTable{
		network: c.network(), rates: c.Bucket.rates(),
		witness: newWitness(c.Bucket.rates(), nowMilli()),
	}
	return c.arrive(ctx, []process{t.acquire}, t)
}
