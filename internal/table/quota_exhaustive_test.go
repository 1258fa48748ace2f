package table

import (
	"fmt"
	"os"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Every interleaving of two processes on a quota of two tokens across an edge. One clock is a
// second ahead and one a second behind. Time passes by half seconds. The steps are looks, charges
// of one token, of which one may be late, lost answers, and give-backs.
type edgeMoment struct {
	now     int64 // true time, relative to the edge
	it      item.Item
	images  [2]Shard
	late    *edgeWrite
	leases  [2][2]int8 // by process: of the period before the edge, and after it
	granted [2]int64
	steps   string
}

type edgeWrite struct {
	p    int
	w    item.Update
	back int // -1: a charge; otherwise the period given back
}

const theEdge = int64(15_000_000) * periodMs

var edgeQuota = []bucket.Limit{newQuota("q", 2*bucket.Milli, "m*/2@UTC")}

func (m edgeMoment) shard() Shard {
	b, err := DecodeShard(m.it)
	if err != nil {
		panic(err)
	}
	return b
}

func periodOf(b Shard) int {
	if b.State.RF >= theEdge {
		return 1
	}
	return 0
}

// key identifies moments. Of a generation, it has only whether it is the item's.
func (m edgeMoment) key() string {
	b := m.shard()
	of := func(s Shard) string {
		q := s.State.Slots[s.State.Index("q")]
		return fmt.Sprint(s.Generation == b.Generation, s.State.RF-theEdge, q.Tokens, b.State.Slots[0].Used-q.Used,
			s.Calendars.Until)
	}
	late := ""
	if m.late != nil {
		late = fmt.Sprint(m.late.p, m.late.back, m.late.w)
	}
	return fmt.Sprint(m.now, of(b), of(m.images[0]), of(m.images[1]), m.leases, m.granted, late)
}

// deliver performs a write, and checks the result.
func (m edgeMoment) deliver(q edgeWrite, lost bool) (edgeMoment, error) {
	after, held, err := q.w.Apply(m.it)
	if err != nil {
		return m, err
	}
	before := periodOf(m.shard())
	if held {
		m.it = after
		period := periodOf(m.shard())
		if period != before && (period < before || m.now < 0) {
			return m, fmt.Errorf("period %d follows %d at %d ms", period, before, m.now)
		}
		if q.back < 0 {
			m.granted[period] += bucket.Milli
			m.leases[q.p][period]++
		} else {
			if q.back != period {
				return m, fmt.Errorf("tokens of period %d were given back to period %d", q.back, period)
			}
			m.granted[period] -= bucket.Milli
		}
	}
	if !lost {
		m.images[q.p] = m.shard()
	}
	b := m.shard()
	level := b.State.Slots[b.State.Index("q")].Tokens
	if g := m.granted[periodOf(b)]; g+level != 2*bucket.Milli || level < 0 {
		return m, fmt.Errorf("%d granted and %d left of 2000", g, level)
	}
	return m, nil
}

// next returns every possible next moment.
func (m edgeMoment) next() (out []edgeMoment, err error) {
	add := func(n edgeMoment, e error, step string) {
		n.steps += step
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", n.steps, e)
		}
		out = append(out, n)
	}
	if m.now < 3000 {
		n := m
		n.now += 500
		add(n, nil, " tick")
	}
	if m.late != nil {
		n, q := m, *m.late
		n.late = nil
		n, e := n.deliver(q, false)
		add(n, e, " arrives")
	}
	for p := range m.images {
		now := theEdge + m.now + int64(1000-2000*p)
		look := m
		look.images[p] = m.shard()
		add(look, nil, fmt.Sprint(" look", p))
		plan := Charge{Image: m.images[p], Costs: Costs(edgeQuota, bucket.Milli), Now: now}.Plan()
		if q := (edgeWrite{p, plan.Update, -1}); plan.Verdict.Granted {
			n, e := m.deliver(q, false)
			add(n, e, fmt.Sprint(" charge", p))
			n, e = m.deliver(q, true)
			add(n, e, fmt.Sprint(" lost", p))
			if m.late == nil {
				n := m
				n.late = &q
				add(n, nil, fmt.Sprint(" late", p))
			}
		}
		for period, n := range m.leases[p] {
			if n == 0 {
				continue
			}
			back := Cost{Limit: edgeQuota[0], Milli: -bucket.Milli, End: theEdge + int64(period)*periodMs}
			n := m
			n.leases[p][period]--
			n, e := n.deliver(edgeWrite{p, Adjust(layout.BucketKey("ns", "e", "r", 0), []Cost{back}), period}, false)
			add(n, e, fmt.Sprint(" back", p))
		}
	}
	return out, err
}

// smallModel is a state of a small model, with its successors.
type smallModel[M any] interface {
	key() string
	next() ([]M, error)
}

// interleavings visits everything that can follow a state, up to a depth, each state once.
func interleavings[M smallModel[M]](t *testing.T, first M, depth int, visit func(M)) (steps, states int) {
	t.Helper()
	seen, level := map[string]bool{first.key(): true}, []M{first}
	for range depth {
		var following []M
		for _, m := range level {
			all, err := m.next()
			check.Must(t, err)
			for _, n := range all {
				steps++
				if k := n.key(); !seen[k] {
					seen[k] = true
					following = append(following, n)
					visit(n)
				}
			}
		}
		level = following
	}
	return steps, len(seen)
}

func TestEveryInterleavingAtAnEdge(t *testing.T) {
	depth := 6
	if os.Getenv("LONG") != "" {
		depth = 8
	}
	put, b := create(theEdge-60_000, Costs(edgeQuota, 0))
	first := edgeMoment{now: -500, it: put.Item, images: [2]Shard{b, b}}
	crossed := 0
	steps, states := interleavings(t, first, depth, func(m edgeMoment) {
		if m.granted[0] > 0 && m.granted[1] > 0 {
			crossed++
		}
	})
	if crossed == 0 {
		t.Error("no interleaving grants before and after the edge")
	}
	t.Logf("%d steps, %d states, %d of them with grants on both sides of the edge", steps, states, crossed)
}
