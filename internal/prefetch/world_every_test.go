package prefetch

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// moment is one state of a small world: a bucket of three tokens, one per tick, two processes with
// an image and their held tokens, and the bucket without loss.
type moment struct {
	now    int64
	item   table.Shard
	images [2]*table.Shard
	holds  [2]Holding
	level  int64 // of the exact bucket
	trail  string
}

const oneTick = 1000

var three = bucket.Limit{Name: "a", Capacity: 3000, Amount: 1000, Period: oneTick}

func (m moment) key() string {
	k := fmt.Sprint(m.now, m.level, shown(&m.item))
	for p := range m.images {
		h := &m.holds[p]
		k += fmt.Sprint(shown(m.images[p]), h.generation, h.declared, h.allotments, h.ended)
		for i := range h.marks {
			k += shown(&h.marks[i])
		}
	}
	return k
}

func shown(b *table.Shard) string {
	if b == nil {
		return "-"
	}
	sl := b.State.Slots[0]
	return fmt.Sprint(b.State.RF, sl.Tokens, sl.Used, sl.Held, b.State.HeldUntil, b.Generation, ";")
}

// clone returns an independent copy.
func (h Holding) clone() Holding {
	h.declared, h.ended, h.marks = slices.Clone(h.declared), slices.Clone(h.ended), slices.Clone(h.marks)
	h.allotments = slices.Clone(h.allotments)
	for i := range h.allotments {
		h.allotments[i].left = slices.Clone(h.allotments[i].left)
	}
	return h
}

// every runs every order of events.
type every struct {
	t       *testing.T
	d       string
	seen    map[string]struct{}
	next    []moment
	plays   int
	grants  int
	worst   int64
	example string
}

func (x *every) reach(m moment, how string) {
	x.plays++
	k := m.key()
	if _, ok := x.seen[k]; ok {
		return
	}
	x.seen[k] = struct{}{}
	m.trail += " " + how
	x.next = append(x.next, m)
}

func (x *every) grant(m *moment, milli int64) {
	x.grants++
	if m.level -= milli; -m.level > x.worst {
		x.worst, x.example = -m.level, m.trail
	}
}

func (m moment) instant() Instant { return Instant{Wall: m.now, Mono: m.now} }

const lives = 2 * oneTick

func (x *every) step(m moment) {
	next := m
	next.now, next.level = m.now+oneTick, min(3000, m.level+1000)
	x.reach(next, "tick")
	for p := range m.images {
		look := m
		image := m.item
		look.images[p], look.holds[p] = &image, m.holds[p].clone()
		look.holds[p].See(image, 1)
		x.reach(look, fmt.Sprint("look", p))
		local := m
		local.holds[p] = m.holds[p].clone()
		if local.holds[p].Take(table.Costs([]bucket.Limit{three}, 1000), m.instant()) {
			x.grant(&local, 1000)
			x.reach(local, fmt.Sprint("local", p))
		}
		if m.images[p] == nil {
			continue
		}
		for _, q := range [][2]int64{{1000, 0}, {1000, 1000}, {0, 2000}, {3000, 0}} {
			for _, mend := range []bool{false, true} {
				x.charge(m, p, q[0], q[1], mend)
			}
		}
	}
}

// charge runs a charge of process p, answered and with its answer lost.
func (x *every) charge(m moment, p int, cost, take int64, mend bool) {
	h := m.holds[p].clone()
	image := *m.images[p]
	if x.d == notCounted || x.d == heldNow && image.State.HeldUntil <= m.now {
		image.State.HeldUntil = 0
	}
	limits := []bucket.Limit{three}
	c := table.Charge{Image: image, Costs: table.Costs(limits, cost+take), Now: m.now}
	if c.Ahead = h.Ask(image, table.Costs(limits, take), lives, m.instant()); mend {
		c.Ahead.Mend, h.asked.mends = true, true
	}
	plan := c.Plan()
	if !plan.Verdict.Granted {
		return
	}
	after, held, err := plan.Update.Apply(m.item.Item())
	check.Must(x.t, err)
	stored, err := table.DecodeShard(after)
	check.Must(x.t, err)
	how := fmt.Sprintf("charge%d(%d,%d,%v)", p, cost/1000, take/1000, mend)
	m.item = stored
	lost := m
	lost.holds[p] = h.clone()
	if lost.holds[p].Done(Unknown, table.Shard{}); held {
		x.grant(&lost, cost)
		x.grant(&m, cost)
	}
	x.reach(lost, how+"lost")
	o := Refused
	if held {
		o = Written
	}
	h.See(stored, 1)
	h.Done(o, stored)
	m.holds[p], m.images[p] = h, &stored
	x.reach(m, how)
}

func (x *every) play(steps int) {
	x.seen = map[string]struct{}{}
	_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Draw: 1, Now: began,
		Costs: table.Costs([]bucket.Limit{three})})
	first := moment{now: began, item: b, level: 3000}
	first.images[0], first.images[1] = &b, &b
	x.reach(first, "begin")
	x.charge(first, 0, 0, 2000, false)
	for _, m := range x.next { // and a tick after two of three were prefetched
		m.now, m.level = m.now+oneTick, min(3000, m.level+1000)
		x.reach(m, "tick")
	}
	for range steps {
		now := x.next
		x.next = nil
		for _, m := range now {
			if x.d != "" && x.worst > 0 {
				return
			}
			x.step(m)
		}
	}
}

// steps returns how many steps to run: AHEAD_STEPS if that is set.
func steps(byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv("AHEAD_STEPS")); err == nil {
		return n
	}
	return byDefault
}

// In whatever order two processes look, prefetch, grant, mend and lose answers, no token is granted
// that does not exist.
func TestEveryOrder(t *testing.T) {
	x := every{t: t}
	x.play(steps(3))
	t.Logf("%d states, %d transitions, %d grants, worst %+d millitokens", len(x.seen), x.plays, x.grants, x.worst)
	if x.worst > 0 {
		t.Errorf("%d millitokens too many:%s", x.worst, x.example)
	}
	for _, d := range []string{notCounted, heldNow} {
		x := every{t: t, d: d}
		x.play(4)
		if x.worst <= 0 {
			t.Errorf("%s: not found", d)
		}
		t.Logf("%s: found in %d states:%s", d, len(x.seen), x.example)
	}
}
