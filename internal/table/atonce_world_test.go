package table_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A world of one bucket with slots, a rate and a quota. Processes take slots, give them back,
// move them into the present epoch, die, are paused and lose answers; writes and answers are
// late by up to three epochs, and clocks are up to a second off.
//
// A second, naive reckoning keeps a list of every taking that the table has carried out. A
// holder works until it gives back or dies, or by its own clock until a second before the end
// of the epoch after that of its slots. Never may more be at work than there are, and what
// the item counts must be the sum of the list.
const epochMs = 10_000

type slotsDefect int

const (
	soundSlots   slotsDefect = iota
	forgetsEarly             // a process takes the next epoch for the present one
	blindToOlder             // the write does not mind what was taken in the epoch before
	backToDead               // a give-back does not mind whether the epoch still counts
	backTwice                // a give-back without an answer is sent again
	movesTwice               // a move without an answer is sent again
	neverTold                // a holder works on although it could not move its slots
)

// holding is a taking of slots: it is counted in an epoch until it is given back.
type holding struct {
	n, epoch int64 // the epoch is that of the item
	given    bool
	known    int64 // the epoch that its holder knows of
	works    bool
	busy     bool // a write about it is under way
}

type slotsProcess struct {
	skew  int64
	image table.Shard
	has   bool
	holds []*holding
}

type slotsEvent struct {
	at int64
	do func()
}

type slotsWorld struct {
	r      *rand.Rand
	defect slotsDefect
	n      int64
	lose   int // one answer in so many is lost
	limits []bucket.Limit
	now    int64
	it     item.Item
	b      table.Shard // the item
	list   []*holding
	procs  []slotsProcess
	events []slotsEvent
	taken  int // takings that their holders know of
	moved  int
	second int // writes refused although the slots were there
	err    error
}

func newSlotsWorld(seed uint64, d slotsDefect) *slotsWorld {
	r := rand.New(rand.NewPCG(33, seed))
	w := &slotsWorld{r: r, defect: d, n: 1 + r.Int64N(8), lose: 3 + 9*r.IntN(2),
		now: 1_800_000_000_000 + r.Int64N(epochMs)}
	w.limits = []bucket.Limit{
		{Name: "fly", Capacity: w.n * bucket.Milli, Period: epochMs, AtOnce: true},
		{Name: "q", Capacity: 1e9 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"},
		{Name: "r", Capacity: 1e6 * bucket.Milli, Amount: 1e6 * bucket.Milli, Period: 1000},
	}
	w.procs = make([]slotsProcess, 1+r.IntN(5))
	for i := range w.procs {
		w.procs[i].skew = r.Int64N(2001) - 1000
	}
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(w.limits),
		Now: w.now + w.procs[0].skew, Draw: 5})
	w.store(put.Item)
	return w
}

func (w *slotsWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *slotsWorld) store(it item.Item) {
	b, err := table.DecodeShard(it)
	if err != nil {
		w.fail("%w", err)
		return
	}
	w.it, w.b = it, b
}

func (w *slotsWorld) slot() bucket.Slot { return slotNamed(w.b, "fly") }

func slotNamed(b table.Shard, name string) bucket.Slot { return b.State.Slots[b.State.Index(name)] }

func (w *slotsWorld) later(after int64, do func()) {
	at := w.now + after
	i, _ := slices.BinarySearchFunc(w.events, at, func(e slotsEvent, at int64) int {
		if e.at <= at {
			return -1
		}
		return 1
	})
	w.events = slices.Insert(w.events, i, slotsEvent{at, do})
}

func (w *slotsWorld) delay() int64 {
	return w.r.Int64N([]int64{20, 20, 20, 200, 200, 200, 200, 3000, 3000, 3 * epochMs}[w.r.IntN(10)])
}

// alive is how many slots holders work with.
func (w *slotsWorld) alive() (n int64) {
	for i := range w.procs {
		for _, h := range w.procs[i].holds {
			if h.works && (w.defect == neverTold || w.now+w.procs[i].skew < (h.known+2)*epochMs-1000) {
				n += h.n
			}
		}
	}
	return n
}

// check holds the item against the list, and those at work against the limit.
func (w *slotsWorld) check() {
	if n := w.alive(); n > w.n {
		w.fail("at %d: %d at work, there are %d", w.now, n, w.n)
	}
	sl := w.slot()
	for _, e := range []int64{sl.Epoch() - 1, sl.Epoch(), sl.Epoch() + 1} {
		sum := int64(0)
		for _, h := range w.list {
			if h.epoch == e && !h.given {
				sum += h.n * bucket.Milli
			}
		}
		if got := sl.Taken.Of(e); got != sum {
			w.fail("at %d: %d are counted in epoch %d of %d, %d were taken", w.now, got, e, sl.Epoch(), sum)
		}
	}
	if start := sl.Epoch() * epochMs; start > w.now {
		w.fail("at %d: epoch %d begins at %d", w.now, sl.Epoch(), start)
	}
}

// send carries a write out later, and brings its answer later still, or never.
func (w *slotsWorld) send(me *slotsProcess, u item.Update, held func(), answered func(ok bool), lost func()) {
	w.later(w.delay(), func() {
		after, ok, err := u.Apply(w.it)
		if err != nil {
			w.fail("%w", err)
			return
		}
		if ok {
			w.store(after)
			held()
		}
		w.check()
		image := w.b
		if w.r.IntN(w.lose) == 0 {
			w.later(w.delay(), lost)
			return
		}
		w.later(w.delay(), func() {
			writes := slotNamed(image, bucket.WCU).Used
			if !me.has || image.Generation != me.image.Generation || writes >= slotNamed(me.image, bucket.WCU).Used {
				me.image, me.has = image, true
			}
			answered(ok)
			w.check()
		})
	})
}

// take plans a taking of some slots.
func (w *slotsWorld) take(p int) {
	me, now := &w.procs[p], w.now+w.procs[p].skew
	h := &holding{n: 1 + w.r.Int64N(min(3, w.n))}
	costs := table.Costs(w.limits, h.n*bucket.Milli, w.r.Int64N(3)*bucket.Milli, bucket.Milli)
	if w.defect == forgetsEarly {
		now += epochMs
	}
	var u item.Update
	if !me.has || w.r.IntN(10) == 0 {
		u = table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shards: 1, Costs: costs, Now: now, Room: 50}.Plan()
	} else {
		image := me.image
		if w.defect == blindToOlder {
			image.State.Slots = slices.Clone(image.State.Slots)
			sl := &image.State.Slots[image.State.Index("fly")]
			sl.Taken[bucket.EpochSlot(sl.Epoch()-1)] = 0
		}
		plan := table.Charge{Image: image, Costs: costs, Now: now, Slack: 20}.Plan()
		if !plan.Verdict.Granted {
			return
		}
		u = plan.Update
	}
	w.send(me, u, func() {
		h.epoch = w.slot().Epoch()
		w.list = append(w.list, h)
	}, func(ok bool) {
		if ok {
			h.known, h.works = h.epoch, true
			me.holds = append(me.holds, h)
			w.taken++
		} else if w.slot().Tokens >= h.n*bucket.Milli {
			w.second++
		}
	}, func() {})
}

// back gives slots back. It does without if they are lost by the clock of the holder.
func (w *slotsWorld) back(p int, h *holding) {
	me := &w.procs[p]
	h.works = false
	cost := table.Cost{Limit: w.limits[0], Milli: -h.n * bucket.Milli, End: (h.known + 1) * epochMs}
	var u item.Update
	if me.has && w.r.IntN(3) == 0 { // together with more of another limit
		costs := table.Costs(w.limits, 0, bucket.Milli)
		costs[0] = cost
		u = table.Charge{Image: me.image, Costs: costs, Now: w.now + me.skew, Force: true}.Plan().Update
	} else {
		u = table.Adjust(layout.BucketKey("ns", "e", "r", 0), []table.Cost{cost})
	}
	if w.defect == backToDead {
		u = table.Adjust(layout.BucketKey("ns", "e", "r", 0), []table.Cost{cost})
		u.If = nil
	}
	again := func() {}
	held := func() {
		if givesBack(u, "fly") {
			h.given = true
		}
	}
	if w.defect == backTwice {
		again = func() { w.send(me, u, held, func(bool) {}, func() {}) }
	}
	w.send(me, u, held, func(bool) {}, again)
}

// givesBack reports whether an update takes from a count of slots.
func givesBack(u item.Update, limit string) bool {
	return slices.ContainsFunc(u.Add, func(a item.Attr) bool {
		return len(a.Name) == len("s__0")+len(limit) && a.Name[:len(limit)+3] == "s_"+limit+"_"
	})
}

// move moves slots into the present epoch.
func (w *slotsWorld) move(p int, h *holding) {
	me := &w.procs[p]
	h.busy = true
	u := table.Renew(w.b.Key(), w.b.TTL,
		[]table.Cost{{Limit: w.limits[0], Milli: h.n * bucket.Milli, End: (h.known + 1) * epochMs}})
	to := h.known + 1
	held := func() { h.epoch = to }
	again := func() {} // nobody knows, so nobody sends it again: the slots are lost soon
	if w.defect == movesTwice {
		again = func() {
			w.send(me, u, held, func(ok bool) {
				if ok {
					h.known = to
				}
			}, func() {})
		}
	}
	w.send(me, u, held, func(ok bool) {
		if h.busy = false; ok {
			h.known = to
			w.moved++
		}
	}, again)
}

// step lets somebody do something.
func (w *slotsWorld) step() {
	until := w.now + w.r.Int64N([]int64{50, 500, 2000}[w.r.IntN(3)])
	if w.r.IntN(100) == 0 {
		until += 4 * epochMs
	}
	for len(w.events) > 0 && w.events[0].at <= until {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		e.do()
	}
	w.now = until
	w.check()
	p := w.r.IntN(len(w.procs))
	me := &w.procs[p]
	me.holds = slices.DeleteFunc(me.holds, func(h *holding) bool { return !h.works })
	switch kind := w.r.IntN(100); {
	case kind < 45:
		w.take(p)
	case kind == 45: // it dies, and one like it begins
		*me = slotsProcess{skew: me.skew}
	case len(me.holds) == 0:
	case kind < 72:
		if h := me.holds[w.r.IntN(len(me.holds))]; !h.busy {
			w.back(p, h)
		}
	case kind < 97:
		h, now := me.holds[w.r.IntN(len(me.holds))], w.now+me.skew
		if lost := (h.known+2)*epochMs - 1000; !h.busy && now >= (h.known+1)*epochMs+1000 && now < lost {
			w.move(p, h)
		}
	default: // it dies alone
		me.holds[w.r.IntN(len(me.holds))].works = false
	}
}

const slotsSteps = 500

// TestNeverMoreSlotsThanThereAre plays KINDS worlds, 150 if that is not set. `make
// test-worlds` plays 100,000.
func TestNeverMoreSlotsThanThereAre(t *testing.T) {
	worlds := worldsOf(150, 40)
	taken, moved := 0, 0
	for seed := range uint64(worlds) {
		w := newSlotsWorld(seed, soundSlots)
		for range slotsSteps {
			if w.step(); w.err != nil {
				t.Fatalf("seed %d: %v", seed, w.err)
			}
		}
		taken, moved = taken+w.taken, moved+w.moved
	}
	if taken < 30*worlds || moved < worlds {
		t.Errorf("%d taken and %d moved in %d worlds, want more", taken, moved, worlds)
	}
	t.Logf("%d worlds, %d taken, %d moved: never more at work than there are", worlds, taken, moved)
}

func TestSlotsWorldSeesPlantedDefects(t *testing.T) {
	for name, d := range map[string]slotsDefect{
		"an epoch forgotten early": forgetsEarly, "blind to the epoch before": blindToOlder,
		"given back to a dead epoch": backToDead, "given back twice": backTwice, "moved twice": movesTwice,
		"never told": neverTold,
	} {
		seen := 0
		for seed := range uint64(40) {
			w := newSlotsWorld(seed, d)
			for range slotsSteps {
				if w.step(); w.err != nil {
					seen++
					break
				}
			}
		}
		t.Logf("%s: seen in %d of 40 worlds", name, seen)
		if seen < 8 {
			t.Errorf("%s: seen in %d of 40 worlds", name, seen)
		}
	}
}
