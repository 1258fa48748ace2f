package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
)

// This world has one bucket with slots, a rate and a quota. Processes take slots, give them back,
// move them into the current epoch, die, pause and lose answers. Writes and answers are late by up
// to three epochs, and clocks are off by up to a second.
//
// A second, naive computation lists every take that the table has performed. A holder works until
// it gives back or dies, or by its own clock until a second before the end of the epoch after its
// slots' own. The slots in use must never exceed the limit, and the counts in the item must be the
// sum of the list.
const epochMs = 10_000

// The defects that can be planted.
const (
	forgetsEarly = "a process takes the next epoch for the present one"
	blindToOlder = "the write ignores what was taken in the epoch before"
	backToDead   = "a give-back ignores whether the epoch still counts"
	backTwice    = "a give-back without an answer is sent again"
	movesTwice   = "a move without an answer is sent again"
	neverTold    = "a holder works on although it could not move its slots"
)

// holding is a set of taken slots. They count in an epoch until they are given back.
type holding struct {
	n, epoch int64 // the epoch in the item
	given    bool
	known    int64 // the epoch that the holder knows
	works    bool
	busy     bool // a write for it is under way
}

// lost returns when the slots are lost by the holder's clock.
func (h *holding) lost() int64 { return (h.known+2)*epochMs - 1000 }

type slotsWorld struct {
	*bucketWorld
	n     int64
	list  []*holding
	holds map[*process][]*holding
}

func newSlotsWorld(seed uint64, planted string) *slotsWorld {
	r := loadchecktest.New(seed, 33)
	r.Now += r.Int64N(epochMs)
	r.Lost = 3 + 9*r.IntN(2)
	r.Late = func() int64 {
		return r.Int64N([]int64{20, 20, 20, 200, 200, 200, 200, 3000, 3000, 3 * epochMs}[r.IntN(10)])
	}
	n := 1 + r.Int64N(8)
	limits := []bucket.Limit{
		{Name: "fly", Capacity: n * bucket.Milli, Period: epochMs, InFlight: true},
		newQuota("q", 1e9*bucket.Milli, "m*/2@UTC"),
		newRate("r", 1e6*bucket.Milli, 1000),
	}
	return &slotsWorld{n: n, bucketWorld: newBucketWorld(r, planted, limits, 1+r.IntN(5), 1000),
		holds: map[*process][]*holding{}}
}

// atWork returns how many slots are in use.
func (w *slotsWorld) atWork() (n int64) {
	for p, holds := range w.holds {
		for _, h := range holds {
			if h.works && (w.planted == neverTold || w.clock(p) < h.lost()) {
				n += h.n
			}
		}
	}
	return n
}

// check compares the item with the list, and the slots in use with the limit.
func (w *slotsWorld) check() {
	if n := w.atWork(); n > w.n {
		w.Fail("at %d: %d at work, there are %d", w.Now, n, w.n)
	}
	sl := w.slot(0, "fly")
	for _, e := range []int64{sl.Epoch() - 1, sl.Epoch(), sl.Epoch() + 1} {
		sum := int64(0)
		for _, h := range w.list {
			if h.epoch == e && !h.given {
				sum += h.n * bucket.Milli
			}
		}
		if got := sl.Taken.Of(e); got != sum {
			w.Fail("at %d: %d are counted in epoch %d of %d, %d were taken", w.Now, got, e, sl.Epoch(), sum)
		}
	}
	if start := sl.Epoch() * epochMs; start > w.Now {
		w.Fail("at %d: epoch %d begins at %d", w.Now, sl.Epoch(), start)
	}
}

// cost returns the cost that gives back or moves a part of a holding.
func (w *slotsWorld) cost(h *holding, milli int64) Cost {
	return Cost{Limit: w.limits[0], Milli: milli, End: (h.known + 1) * epochMs}
}

func (w *slotsWorld) take(p *process) {
	h := &holding{n: 1 + w.Int64N(min(3, w.n))}
	image, known := p.images[0]
	c := Charge{Image: image, Now: w.clock(p), Slack: 20,
		Costs: Costs(w.limits, h.n*bucket.Milli, w.Int64N(3)*bucket.Milli, bucket.Milli)}
	known = known && !w.OneIn(10)
	switch w.planted {
	case forgetsEarly:
		c.Now += epochMs
	case blindToOlder:
		c.Image.State.Slots = slices.Clone(image.State.Slots)
		if i := image.State.Index("fly"); i >= 0 {
			sl := &c.Image.State.Slots[i]
			sl.Taken[bucket.EpochSlot(sl.Epoch()-1)] = 0
		}
	}
	u, granted := w.planned(0, c, known)
	if !granted {
		return
	}
	w.call(p, u, loadchecktest.Call{
		Arrived: func(bool) {
			h.epoch = w.slot(0, "fly").Epoch()
			w.list = append(w.list, h)
		},
		Answered: func(held bool) {
			if held {
				h.known, h.works = h.epoch, true
				w.holds[p] = append(w.holds[p], h)
				w.Count("taken")
				w.check()
			}
		},
	}, w.check)
}

// giveBack gives slots back, alone or together with more tokens of another limit, unless they are
// lost by the holder's clock.
func (w *slotsWorld) giveBack(p *process, h *holding) {
	h.works = false
	back := w.cost(h, -h.n*bucket.Milli)
	u := Adjust(shardKey(0), []Cost{back})
	if image, known := p.images[0]; w.planted == backToDead {
		u.If = nil
	} else if known && w.OneIn(3) {
		costs := Costs(w.limits, 0, bucket.Milli)
		costs[0] = back
		u = Charge{Image: image, Costs: costs, Now: w.clock(p), Force: true}.Plan().Update
	}
	call := loadchecktest.Call{Arrived: func(bool) {
		for _, a := range u.Add { // it reduced a count, unless it was too late
			h.given = h.given || strings.HasPrefix(a.Name, "s_fly_")
		}
	}}
	if w.planted == backTwice {
		again := call
		call.Lost = func() { w.call(p, u, again, w.check) }
	}
	w.call(p, u, call, w.check)
}

// move moves slots into the current epoch. Without an answer it is not repeated: the slots will be
// lost soon.
func (w *slotsWorld) move(p *process, h *holding) {
	h.busy = true
	b, _ := w.shard(0)
	to, u := h.known+1, Renew(b.Key(), b.TTL, []Cost{w.cost(h, h.n*bucket.Milli)})
	call := loadchecktest.Call{
		Arrived: func(bool) { h.epoch = to },
		Answered: func(held bool) {
			if h.busy = false; held {
				h.known = to
				w.Count("moved")
				w.check()
			}
		},
	}
	if w.planted == movesTwice {
		again := call
		call.Lost = func() { w.call(p, u, again, w.check) }
	}
	w.call(p, u, call, w.check)
}

func (w *slotsWorld) Step() {
	ms := w.Int64N([]int64{50, 500, 2000}[w.IntN(3)])
	if w.OneIn(100) {
		ms += 4 * epochMs
	}
	w.Pass(ms)
	w.check()
	p := w.anybody()
	holds := slices.DeleteFunc(w.holds[p], func(h *holding) bool { return !h.works })
	w.holds[p] = holds
	switch kind := w.IntN(100); {
	case kind < 45:
		w.take(p)
	case kind == 45: // it dies, and another process begins
		w.holds[p], p.images = nil, map[int]Shard{}
	case len(holds) == 0:
	case kind < 72:
		if h := holds[w.IntN(len(holds))]; !h.busy {
			w.giveBack(p, h)
		}
	case kind < 97:
		h, now := holds[w.IntN(len(holds))], w.clock(p)
		if !h.busy && now >= (h.known+1)*epochMs+1000 && now < h.lost() {
			w.move(p, h)
		}
	default: // it dies without a replacement
		holds[w.IntN(len(holds))].works = false
	}
}

var slots = loadchecktest.Kind[*slotsWorld]{New: newSlotsWorld, Steps: 500, Worlds: 150, Short: 40, Env: "KINDS",
	Least: map[string]float64{"taken": 30, "moved": 1}}

// TestSlotsNeverExceedTheLimit runs KINDS worlds, by default 150. `make test-worlds` runs 100,000.
func TestSlotsNeverExceedTheLimit(t *testing.T) { slots.Keeps(t) }

func TestSlotsWorldSeesPlantedDefects(t *testing.T) {
	slots.Sees(t, 40, 8, forgetsEarly, blindToOlder, backToDead, backTwice, movesTwice, neverTold)
}
