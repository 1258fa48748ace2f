package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A world of one bucket with a rate, a quota and slots, of which requests of three classes
// take: one leaves nothing, the others a part. Processes plan from images of any age, or have
// none. A second, naive reckoning knows only what was taken and when. Whatever is granted, it
// finds the floor left; and of a lone process it grants exactly what leaves it.

type floorDefect int

const (
	soundFloors  floorDefect = iota
	leavesNone               // the lower classes leave nothing
	leavesHalf               // they leave half of what they should
	starvesAll               // the class without a floor leaves as much as the lowest
	starvesLower             // the lower classes leave more than they should
)

const floorPeriod = 120_000 // of the quota, in ms

type floorWorld struct {
	r      *rand.Rand
	defect floorDefect
	limits []bucket.Limit
	floors [3]int64
	now    int64
	it     item.Item
	images []table.Shard // by process
	has    []bool

	rate  int64           // the level of the rate, in millitokens times its period
	spent map[int64]int64 // of the quota, by period
	slots map[int64]int64 // taken, by epoch
	took  [3]int          // by class
	err   error
}

func newFloorWorld(seed uint64, d floorDefect) *floorWorld {
	r := rand.New(rand.NewPCG(44, seed))
	w := &floorWorld{r: r, defect: d, now: 1_800_000_000_000 + r.Int64N(floorPeriod),
		floors: [3]int64{0, r.Int64N(60), 30 + r.Int64N(70)}, spent: map[int64]int64{}, slots: map[int64]int64{}}
	w.limits = []bucket.Limit{
		{Name: "fly", Capacity: (1 + r.Int64N(20)) * bucket.Milli, Period: epochMs, AtOnce: true},
		{Name: "q", Capacity: (1 + r.Int64N(50)) * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"},
		{Name: "r", Capacity: (1 + r.Int64N(50)) * bucket.Milli, Amount: (1 + r.Int64N(30)) * bucket.Milli, Period: 7000},
	}
	n := 1 + r.IntN(4)
	w.images, w.has = make([]table.Shard, n), make([]bool, n)
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
		Costs: table.Costs(w.limits), Now: w.now, Draw: 5})
	w.it, w.rate = put.Item, w.limits[2].Capacity*w.limits[2].Period
	return w
}

func (w *floorWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *floorWorld) pass(ms int64) {
	l := w.limits[2]
	w.now, w.rate = w.now+ms, min(l.Capacity*l.Period, w.rate+ms*l.Amount)
}

// levels are what the naive reckoning finds of each limit, in millitokens, rounded down.
func (w *floorWorld) levels() [3]int64 {
	epoch, period := (w.now-1000)/epochMs, (w.now-1000)/floorPeriod
	return [3]int64{
		w.limits[0].Capacity - w.slots[epoch] - w.slots[epoch-1],
		w.limits[1].Capacity - w.spent[period],
		w.rate / w.limits[2].Period,
	}
}

// leaves reports whether costs of a class may be taken.
func (w *floorWorld) leaves(costs [3]int64, class int) bool {
	for i, level := range w.levels() {
		if costs[i] > 0 && (level-costs[i])*100 < w.floors[class]*w.limits[i].Capacity {
			return false
		}
	}
	return true
}

func (w *floorWorld) floor(class int) int64 {
	switch f := w.floors[class]; {
	case w.defect == leavesNone:
		return 0
	case w.defect == leavesHalf:
		return f / 2
	case w.defect == starvesAll:
		return max(f, w.floors[2])
	case w.defect == starvesLower && f > 0:
		return min(f+10, 99)
	default:
		return f
	}
}

func (w *floorWorld) step() {
	if w.r.IntN(3) == 0 {
		w.pass(w.r.Int64N([]int64{300, 3000, 3 * epochMs}[w.r.IntN(3)]))
	}
	p, class := w.r.IntN(len(w.images)), w.r.IntN(3)
	milli := [3]int64{}
	costs := table.Costs(w.limits)
	for i := range costs {
		if w.r.IntN(2) == 0 {
			milli[i] = (1 + w.r.Int64N(max(1, w.limits[i].Capacity/bucket.Milli/3))) * bucket.Milli
		}
		costs[i].Milli, costs[i].Floor = milli[i], w.floor(class)
	}
	granted, may := false, w.leaves(milli, class)
	for range 3 { // a refused write brings the image to plan from
		var u item.Update
		if !w.has[p] || len(w.images) > 1 && w.r.IntN(4) == 0 {
			u = table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shards: 1, Costs: costs, Now: w.now, Room: 50}.Plan()
		} else {
			c := table.Charge{Image: w.images[p], Costs: costs, Now: w.now, Lifetime: table.Expires}
			if w.r.IntN(4) == 0 { // one that waits owes nothing of what has a floor
				c.Force, c.Owe = w.floor(class) > 0, true
			}
			plan := c.Plan()
			if !plan.Verdict.Granted {
				break
			}
			u = plan.Update
		}
		after, held, err := u.Apply(w.it)
		if err != nil {
			w.fail("%w", err)
			return
		}
		if held {
			w.it, granted = after, true
		}
		if w.images[p], err = table.DecodeShard(w.it); err != nil {
			w.fail("%w", err)
			return
		}
		if w.has[p] = true; held {
			break
		}
	}
	switch lone := len(w.images) == 1; {
	case granted && !may:
		w.fail("class %d took %v of %v and leaves less than %d percent", class, milli, w.levels(), w.floors[class])
	case lone && may && !granted:
		w.fail("class %d did not get %v of %v, of which it leaves %d percent", class, milli, w.levels(), w.floors[class])
	}
	if granted {
		w.took[class]++
		w.slots[(w.now-1000)/epochMs] += milli[0]
		w.spent[(w.now-1000)/floorPeriod] += milli[1]
		w.rate -= milli[2] * w.limits[2].Period
	}
}

func runFloors(seed uint64, d floorDefect) *floorWorld {
	w := newFloorWorld(seed, d)
	for range 150 {
		if w.step(); w.err != nil {
			break
		}
	}
	return w
}

func TestFloorsAreLeft(t *testing.T) {
	var took [3]int
	for seed := range uint64(160) {
		w := runFloors(seed, soundFloors)
		if w.err != nil {
			t.Fatalf("seed %d, %d processes: %v", seed, len(w.images), w.err)
		}
		for i, n := range w.took {
			took[i] += n
		}
	}
	t.Logf("granted by class: %v", took)
	if took[0] < 2500 || took[1] < 1500 || took[2] < 500 {
		t.Error("hardly anything was taken")
	}
}

func TestFloorWorldSeesPlantedDefects(t *testing.T) {
	for d := leavesNone; d <= starvesLower; d++ {
		seen := 0
		for seed := range uint64(60) {
			if runFloors(seed, d).err != nil {
				seen++
			}
		}
		t.Logf("defect %d: seen in %d of 60 worlds", d, seen)
		if seen < 5 {
			t.Errorf("defect %d is seen in %d of 60 worlds", d, seen)
		}
	}
}
