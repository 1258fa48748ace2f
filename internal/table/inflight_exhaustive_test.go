package table

import (
	"fmt"
	"os"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Every interleaving of two processes on two slots over five epochs. One clock is a second ahead
// and one a second behind. Time passes by half an epoch or two epochs. The steps are looks, takes,
// moves and give-backs, of which one may be late, lost answers, and deaths of holders.
type slotsMoment struct {
	now    int64 // true time since the first epoch
	it     item.Item
	b      Shard // the item
	images [2]Shard
	late   *slotsWrite
	works  [2][8]int8 // by process and epoch, as the process believes
	stuck  [2][8]int8 // of these, moved without an answer: the holders continue
	taken  [8]int8    // by epoch: taken and not given back
	steps  string
}

type slotsWrite struct {
	p    int
	w    item.Update
	kind byte  // take, back or move
	e    int64 // the epoch of the slots, for back and move
}

const (
	smallEpoch = int64(bucket.MinEpoch)
	firstEpoch = int64(300_000_000)
)

var twoSlots = []bucket.Limit{{Name: "fly", Capacity: 2 * bucket.Milli, Period: smallEpoch, InFlight: true}}

// clock returns a process's estimate of the time since the first epoch.
func (m slotsMoment) clock(p int) int64 { return m.now + int64(1000-2000*p) }

// lost reports whether slots of an epoch are lost by a process's clock.
func (m slotsMoment) lost(p int, e int64) bool { return m.clock(p) >= (e+2)*smallEpoch-1000 }

func (m slotsMoment) key() string {
	of := func(s Shard) string {
		sl := slotNamed(s, "fly")
		return fmt.Sprint(s.State.RF, sl.Epoch(), sl.Taken)
	}
	late := ""
	if m.late != nil {
		late = fmt.Sprint(m.late.p, m.late.kind, m.late.e, m.late.w)
	}
	return fmt.Sprint(m.now, of(m.b), of(m.images[0]), of(m.images[1]), m.works, m.stuck, m.taken, late)
}

// check returns an error if the counts are wrong.
func (m slotsMoment) check() error {
	sl, alive := slotNamed(m.b, "fly"), 0
	for p := range m.works {
		for e := range m.works[p] {
			if !m.lost(p, int64(e)) {
				alive += int(m.works[p][e] + m.stuck[p][e])
			}
		}
	}
	if q := m.late; q != nil && q.kind == 'm' && !m.lost(q.p, q.e) {
		alive++
	}
	if alive > 2 {
		return fmt.Errorf("%d at work, there are 2", alive)
	}
	now := sl.Epoch() - firstEpoch
	for e := max(now-1, 0); e <= now+1; e++ {
		if got := sl.Taken.Of(e + firstEpoch); got != int64(m.taken[e])*bucket.Milli {
			return fmt.Errorf("%d are counted in epoch %d, %d were taken", got, e, m.taken[e])
		}
	}
	return nil
}

// deliver performs a write.
func (m slotsMoment) deliver(q slotsWrite, lost bool) (slotsMoment, error) {
	after, held, err := q.w.Apply(m.it)
	if err != nil {
		return m, err
	}
	if held {
		if m.b, err = DecodeShard(after); err != nil {
			return m, err
		}
		m.it = after
	}
	if e := slotNamed(m.b, "fly").Epoch() - firstEpoch; held {
		switch q.kind {
		case 't':
			m.taken[e]++
			if !lost {
				m.works[q.p][e]++
			}
		case 'b':
			m.taken[q.e]--
		case 'm':
			m.taken[q.e]--
			m.taken[q.e+1]++
		}
	}
	switch {
	case q.kind != 'm':
	case lost:
		m.stuck[q.p][q.e]++
	case held:
		m.works[q.p][q.e+1]++
	default:
		m.works[q.p][q.e]++
	}
	if !lost {
		m.images[q.p] = m.b
	}
	return m, m.check()
}

// next returns every possible next moment.
func (m slotsMoment) next() (out []slotsMoment, err error) {
	add := func(n slotsMoment, e error, step string) {
		n.steps += step
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", n.steps, e)
		}
		out = append(out, n)
	}
	ways := func(n slotsMoment, q slotsWrite, step string) {
		a, e := n.deliver(q, false)
		add(a, e, step)
		a, e = n.deliver(q, true)
		add(a, e, step+"-lost")
		if n.late == nil {
			n.late = &q
			add(n, nil, step+"-late")
		}
	}
	for _, d := range []int64{smallEpoch / 2, 2 * smallEpoch} {
		if n := m; m.now+d <= 4*smallEpoch {
			n.now += d
			add(n, n.check(), fmt.Sprintf(" +%dms", d))
		}
	}
	if m.late != nil {
		n, q := m, *m.late
		n.late = nil
		n, e := n.deliver(q, false)
		add(n, e, " arrives")
	}
	for p := range m.images {
		now := firstEpoch*smallEpoch + m.clock(p)
		look := m
		look.images[p] = m.b
		add(look, nil, fmt.Sprint(" look", p))
		costs := Costs(twoSlots, bucket.Milli)
		plan := Charge{Image: m.images[p], Costs: costs, Now: now}.Plan()
		if plan.Verdict.Granted {
			ways(m, slotsWrite{p, plan.Update, 't', 0}, fmt.Sprint(" take", p))
		}
		cold := addAt(now, costs).Plan()
		ways(m, slotsWrite{p, cold, 't', 0}, fmt.Sprint(" cold", p))
		for e := range int64(6) {
			if m.works[p][e] == 0 {
				continue
			}
			n := m
			n.works[p][e]--
			add(n, nil, fmt.Sprint(" dies", p))
			c := Cost{Limit: twoSlots[0], Milli: bucket.Milli, End: (firstEpoch + e + 1) * smallEpoch}
			if m.clock(p) >= (e+1)*smallEpoch+1000 && !m.lost(p, e) {
				moves := Renew(m.images[p].Key(), m.images[p].TTL, []Cost{c})
				ways(n, slotsWrite{p, moves, 'm', e}, fmt.Sprint(" move", p))
			}
			c.Milli = -c.Milli
			u := Adjust(layout.BucketKey("ns", "e", "r", 0), []Cost{c})
			ways(n, slotsWrite{p, u, 'b', e}, fmt.Sprint(" back", p))
		}
	}
	return out, err
}

func TestEveryInterleavingOfSlots(t *testing.T) {
	depth := 4
	if os.Getenv("LONG") != "" {
		depth = 5
	}
	put, b := create(firstEpoch*smallEpoch+2000, Costs(twoSlots, 0))
	first := slotsMoment{now: 2000, it: put.Item, b: b, images: [2]Shard{b, b}}
	freed := 0
	steps, states := interleavings(t, first, depth, func(m slotsMoment) {
		if m.taken[0] == 2 && m.taken[2] > 0 {
			freed++
		}
	})
	if freed == 0 {
		t.Error("no interleaving takes dead slots again")
	}
	t.Logf("%d steps, %d states, %d of them with dead slots taken again", steps, states, freed)
}
