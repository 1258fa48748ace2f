package table

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// This file models an item with two limits and its writes in plain integers, fast enough to run
// every interleaving. agrees compares random samples with the real writes.

const tick = 1000 // milliseconds

// rule is a limit in millitokens and ticks.
type rule struct{ capacity, amount, period int }

// rules are two sets of limits that processes may want. In the second set, the first limit is lower
// and slower, and the second one higher and faster.
var rules = [2][2]rule{{{4, 2, 2}, {2, 1, 2}}, {{3, 1, 1}, {3, 1, 1}}}

func limitsOf(variant int) []bucket.Limit {
	out := make([]bucket.Limit, 2)
	for i, r := range rules[variant] {
		out[i] = bucket.Limit{Name: [2]string{"a", "b"}[i], Capacity: int64(r.capacity), Amount: int64(r.amount),
			Period: int64(r.period) * tick}
	}
	return out
}

func costsOf(variant int, cost [2]int) []Cost {
	return Costs(limitsOf(variant), int64(cost[0]), int64(cost[1]))
}

// share returns shard 0's part of a rule.
func (r rule) share(shards int) rule {
	if shards > 1 {
		r.capacity -= r.capacity / 2
		r.amount -= r.amount / 2
	}
	return r
}

// mslot is a limit as stored; rest is in 1/(1000*period) millitokens.
type mslot struct{ tk, tc, rest int }

// mitem is shard 0 as stored. Generation zero means none.
type mitem struct {
	exists, generation, rf, variant, shards int
	s                                       [2]mslot
}

func full(variant, rf, generation int) mitem {
	it := mitem{exists: 1, generation: generation, rf: rf, variant: variant, shards: 1}
	for i := range it.s {
		it.s[i].tk = rules[variant][i].capacity
	}
	return it
}

func (it mitem) rule(i int) rule { return rules[it.variant][i].share(it.shards) }

// at returns the item refilled to now and cut to its capacity.
func (it mitem) at(now int) mitem {
	elapsed := max(0, now-it.rf)
	it.rf = max(it.rf, now)
	for i := range it.s {
		sl, r := &it.s[i], it.rule(i)
		earned := elapsed*r.amount + sl.rest
		sl.tk += earned / (r.period * tick)
		if sl.rest = earned % (r.period * tick); sl.tk >= r.capacity {
			sl.tk, sl.rest = r.capacity, 0
		}
	}
	return it
}

// adopt returns the item under other rules.
func (it mitem) adopt(variant int) mitem {
	was := it
	it.variant = variant
	for i := range it.s {
		sl, from, to := &it.s[i], was.rule(i), it.rule(i)
		if rules[variant][i] == rules[was.variant][i] {
			continue
		}
		if rules[variant][i].capacity < rules[was.variant][i].capacity {
			sl.tk = min(sl.tk, to.capacity)
		}
		if sl.rest = sl.rest * to.period / from.period; sl.tk >= to.capacity {
			sl.rest = 0
		}
	}
	return it
}

// request is a request for a charge.
type request struct {
	cost    [2]int
	variant int  // the rules it wants
	force   bool // settle, into debt if necessary
	none    bool // take nothing: only refill
	slack   int  // percent that others may have taken from a full limit
	room    int  // percent that a full limit gives up
}

func (q request) String() string {
	return fmt.Sprintf("charge%v-v%d-force=%v-none=%v-slack=%d-room=%d/", q.cost, q.variant, q.force, q.none,
		q.slack, q.room)
}

// mwrite is a planned charge or split.
type mwrite struct {
	image    mitem
	after    mitem  // rf, rests, rules and count after the write; tk is the bound of the counter
	most     [2]int // upper bound of the counter
	bound    [2]bool
	least    [2]bool // lower bound instead
	begins   bool
	defect   mdefect
	forgiven [2]int // by the literal level
}

// mdefect is a deliberate omission from the charge.
type mdefect int

const (
	soundCharge mdefect = iota
	omitsGeneration
	literalLevel
	noCapacity
)

// charge plans a charge from an image; ok is false if it is denied.
func (q request) charge(image mitem, now int, d mdefect) (w mwrite, ok bool) {
	at := image.at(now)
	if d == noCapacity {
		for i := range at.s {
			r := image.rule(i)
			earned := max(0, now-image.rf)*r.amount + image.s[i].rest
			at.s[i].tk, at.s[i].rest = image.s[i].tk+earned/(r.period*tick), earned%(r.period*tick)
		}
	}
	at = at.adopt(q.variant)
	w = mwrite{image: image, after: at, begins: image.generation == 0 || q.variant != image.variant, defect: d}
	for i, sl := range at.s {
		cost, capacity := q.cost[i], at.rule(i).capacity
		isFull := sl.tk >= capacity
		if top := capacity - capacity*q.room/100 + cost; q.room > 0 && !w.begins && sl.tk > top {
			sl.tk, sl.rest = top, 0
		}
		if !q.force && !q.none && sl.tk < cost {
			return w, false
		}
		w.after.s[i].rest = sl.rest
		w.after.s[i].tk = sl.tc + sl.tk - cost
		w.after.s[i].tc = cost
		w.forgiven[i] = sl.tk - cost
		switch {
		case !q.force && !q.none:
			w.most[i], w.bound[i] = sl.tc+sl.tk-cost, true
		case sl.tk >= 0 && (isFull || !q.force):
			w.most[i], w.bound[i] = sl.tc+sl.tk, true
		}
		if q.slack > 0 && isFull {
			w.most[i] = min(w.most[i], sl.tc+capacity*q.slack/100)
		}
	}
	return w, true
}

// split plans that shard 0 hands half to a new sibling, and returns the sibling's half.
func split(image mitem, now int) (w mwrite, moved [2]mslot) {
	at := image.at(now)
	w = mwrite{image: image, after: at, begins: true}
	w.after.shards = 2
	for i, sl := range at.s {
		moved[i].tk = sl.tk >> 1
		keep, r := sl.tk-moved[i].tk, rules[image.variant][i]
		other := r.capacity / 2
		switch {
		case moved[i].tk >= other:
			w.after.s[i].rest = sl.rest
		case keep >= w.after.rule(i).capacity:
			w.after.s[i].rest, moved[i].rest = 0, sl.rest
		default:
			moved[i].rest = sl.rest >> 1
			w.after.s[i].rest = sl.rest - moved[i].rest
		}
		w.after.s[i].tk, w.after.s[i].tc = sl.tc+keep, 0
		w.most[i], w.bound[i] = sl.tc+sl.tk, sl.tk >= 0
		switch {
		case moved[i].tk > 0:
			w.most[i] = sl.tc + keep
		case moved[i].tk < 0:
			w.most[i], w.bound[i], w.least[i] = sl.tc+keep, true, true
		}
	}
	return w, moved
}

// apply performs a write. It is not held if its condition fails.
func (w mwrite) apply(it mitem) (after mitem, held bool) {
	im := w.image
	switch {
	case im.variant != it.variant, im.shards != it.shards:
		return it, false
	case w.defect == omitsGeneration:
	case im.generation != it.generation,
		im.generation == 0 && im.rf != it.rf,
		im.generation != 0 && im.rf <= w.after.rf && it.rf > w.after.rf+MaxLag:
		return it, false
	}
	for i := range it.s {
		if over := it.s[i].tc - w.most[i]; w.bound[i] && (!w.least[i] && over > 0 || w.least[i] && over < 0) {
			return it, false
		}
	}
	after = w.after
	after.generation = im.generation
	if w.begins {
		after.generation = max(im.generation+1, epoch+w.after.rf)
	}
	for i := range it.s {
		after.s[i].tk = w.after.s[i].tk - it.s[i].tc
		if w.defect == literalLevel {
			after.s[i].tk = w.forgiven[i]
		}
		after.s[i].tc = it.s[i].tc + w.after.s[i].tc
	}
	return after, true
}

// add moves tokens from the levels to the counters.
func (it mitem) add(cost [2]int) mitem {
	for i := range it.s {
		it.s[i].tk -= cost[i]
		it.s[i].tc += cost[i]
	}
	return it
}

const epoch = 1_700_000_000_000

// bucket returns the real image of a model item.
func (it mitem) bucket() Shard {
	b := Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: int64(it.generation) << 12}
	b.State = bucket.New(limitsOf(it.variant), 0, it.shards, int64(epoch+it.rf))
	for i := range it.s {
		sl := &b.State.Slots[i]
		sl.Tokens, sl.Used, sl.Rest = int64(it.s[i].tk), int64(it.s[i].tc), int64(it.s[i].rest)
	}
	return b
}

// agrees compares the effect of a write in the model with the real one's.
func agrees(t *testing.T, what string, it mitem, real item.Update, held bool, after mitem) {
	t.Helper()
	got, ok, err := real.Apply(it.bucket().Item())
	if err != nil || ok != held {
		t.Fatalf("%s on %+v: held %v (%v), the model says %v", what, it, ok, err, held)
	}
	if !held {
		return
	}
	b := decode(t, got)
	want := after.bucket()
	for i := range after.s {
		if b.State.Slots[i] != want.State.Slots[i] {
			t.Fatalf("%s on %+v: leaves %+v, the model says %+v", what, it, b.State.Slots[i], want.State.Slots[i])
		}
	}
	if b.State.RF != want.State.RF || b.State.Shards != want.State.Shards ||
		Began(b.Generation) != Began(want.Generation) {
		t.Fatalf("%s on %+v: leaves %s generation %d, the model says %s, %d", what, it, b.State, b.Generation, want.State,
			want.Generation)
	}
}

// mref is one limit without any loss, in parts of a millitoken. line is the level without the bound
// of the capacity. limit is the level if it was full at the item's refill instant: a plain add of
// another client counts from that instant, however old it is. pool is the tokens given back, which
// may be taken in addition.
type mref struct{ limit, line, pool int }

const parts = 4 // of a millitoken

func (r mref) level() int { return min(r.limit, r.line) }

func (r *mref) pass(q rule, ticks int) {
	earned := ticks * q.amount * parts / q.period
	r.limit, r.line = min(r.limit+earned, q.capacity*parts), r.line+earned
}

// refilled records a write that moves the refill instant to now.
func (r *mref) refilled(q rule) {
	r.line = min(r.level(), q.capacity*parts)
	r.limit = q.capacity * parts
}

// take takes milli tokens now, and returns by how much that exceeds the tokens there.
func (r *mref) take(milli int, q rule) (excess int) {
	r.limit, r.line = r.limit-milli*parts, r.line-milli*parts
	if milli < 0 {
		r.pool -= milli * parts
		r.limit = min(r.limit, q.capacity*parts)
		return 0
	}
	if from := min(r.pool, -r.level()); from > 0 {
		r.pool, r.limit, r.line = r.pool-from, r.limit+from, r.line+from
	}
	return -r.level()
}

func (it mitem) String() string {
	return fmt.Sprintf("rf=%d gn=%d v%d n=%d a=%+v b=%+v", it.rf, it.generation, it.variant, it.shards, it.s[0], it.s[1])
}
