package table

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
)

// bucketWorld is one bucket that processes charge, from images of any age or without one. The
// worlds of quotas, slots and floors embed it.
type bucketWorld struct {
	*loadchecktest.World
	planted string
	limits  []bucket.Limit
	procs   []*process
	decoded [4]cachedShard // by shard
}

// cachedShard is a decoded shard and its item.
type cachedShard struct {
	it item.Item // kept to compare identities
	at uintptr
	b  Shard
}

// process is a process with its own clock, and its image of each shard.
type process struct {
	skew   int64
	images map[int]Shard
}

// newBucketWorld creates a full bucket, and processes whose clocks are off by a bounded number of
// ms.
func newBucketWorld(w *loadchecktest.World, planted string, limits []bucket.Limit, processes int,
	skew int64) *bucketWorld {
	b := &bucketWorld{World: w, planted: planted, limits: limits}
	for range processes {
		b.procs = append(b.procs, &process{skew: w.Skew(skew), images: map[int]Shard{}})
	}
	put, _ := create(w.Now+b.procs[0].skew, Costs(limits))
	w.Write(put)
	return b
}

func (w *bucketWorld) anybody() *process { return w.procs[w.IntN(len(w.procs))] }

func (w *bucketWorld) clock(p *process) int64 { return w.Now + p.skew }

func shardKey(k int) item.Key { return layout.BucketKey("ns", "e", "r", k) }

// shard returns the stored shard, if it exists. The caller does not change it.
func (w *bucketWorld) shard(k int) (b Shard, ok bool) {
	it := w.Items[shardKey(k)]
	if it == nil {
		return b, false
	}
	last := &w.decoded[k]
	if at := reflect.ValueOf(it).Pointer(); last.at != at {
		b, err := DecodeShard(it)
		if err != nil {
			w.Fail("%w", err)
			return b, false
		}
		*last = cachedShard{it, at, b}
	}
	return last.b, true
}

// slot returns a shard's stored limit.
func (w *bucketWorld) slot(k int, limit string) bucket.Slot {
	b, _ := w.shard(k)
	return slotNamed(b, limit)
}

func slotNamed(b Shard, name string) bucket.Slot { return b.State.Slots[b.State.Index(name)] }

// see gives a process an image, unless it has a newer one.
func (p *process) see(b Shard) {
	old, known := p.images[b.State.Shard]
	if !known || old.Generation != b.Generation || slotNamed(old, bucket.WCU).Used <= slotNamed(b, bucket.WCU).Used {
		p.images[b.State.Shard] = b
	}
}

// planned returns the write of a charge: from an image, or without one.
func (w *bucketWorld) planned(k int, c Charge, known bool) (u item.Update, granted bool) {
	if !known {
		b, _ := w.shard(k)
		return Add{Namespace: "ns", Entity: "e", Resource: "r", Shard: k, Shards: b.State.Count(),
			Costs: c.Costs, Now: c.Now, Room: 50}.Plan(), true
	}
	plan := c.Plan()
	return plan.Update, plan.Verdict.Granted
}

// call sends one write of a process, which gets the shard after the write.
func (w *bucketWorld) call(p *process, u item.Update, c loadchecktest.Call, check func()) {
	_, _, _, k, _ := layout.ParseBucketPK(u.Key.PK)
	arrived, answered := c.Arrived, c.Answered
	var image Shard
	var there bool
	c.Writes = []item.Write{u}
	c.Arrived = func(held bool) {
		if image, there = w.shard(k); held && arrived != nil {
			arrived(held)
		}
		check()
	}
	c.Answered = func(held bool) {
		if there {
			p.see(image)
		}
		if answered != nil {
			answered(held)
		}
	}
	w.Send(c)
}

// This world has a bucket with a rate, a quota and slots, and requests of three classes: one
// without a floor, two with one. Processes plan from images of any age, or without one. A second,
// naive computation uses only which tokens were taken and when. After every grant it checks the
// floor. A lone process is granted exactly the requests that leave the floor.

// The defects that can be planted.
const (
	leavesNone   = "the lower classes leave nothing"
	leavesHalf   = "they leave half of what they should"
	starvesAll   = "the class without a floor leaves as much as the lowest"
	starvesLower = "the lower classes leave more than they should"
)

type floorWorld struct {
	*bucketWorld
	floors [3]int64        // by class, in percent
	rate   int64           // the level of the rate, in millitokens times its period
	spent  map[int64]int64 // of the quota, by period
	slots  map[int64]int64 // taken, by epoch
}

func newFloorWorld(seed uint64, planted string) *floorWorld {
	r := loadchecktest.New(seed, 44)
	r.Now += r.Int64N(periodMs)
	limits := []bucket.Limit{
		{Name: "fly", Capacity: (1 + r.Int64N(20)) * bucket.Milli, Period: epochMs, InFlight: true},
		newQuota("q", (1+r.Int64N(50))*bucket.Milli, "m*/2@UTC"),
		{Name: "r", Capacity: (1 + r.Int64N(50)) * bucket.Milli, Amount: (1 + r.Int64N(30)) * bucket.Milli,
			Period: 7000},
	}
	return &floorWorld{bucketWorld: newBucketWorld(r, planted, limits, 1+r.IntN(4), 0),
		floors: [3]int64{0, r.Int64N(60), 30 + r.Int64N(70)}, rate: limits[2].Capacity * limits[2].Period,
		spent: map[int64]int64{}, slots: map[int64]int64{}}
}

// levels returns the naive levels of each limit, in millitokens, rounded down.
func (w *floorWorld) levels() [3]int64 {
	epoch, period := (w.Now-1000)/epochMs, (w.Now-1000)/periodMs
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
	case w.planted == leavesNone:
		return 0
	case w.planted == leavesHalf:
		return f / 2
	case w.planted == starvesAll:
		return max(f, w.floors[2])
	case w.planted == starvesLower && f > 0:
		return min(f+10, 99)
	default:
		return f
	}
}

func (w *floorWorld) Step() {
	if w.OneIn(3) {
		ms, l := w.Int64N([]int64{300, 3000, 3 * epochMs}[w.IntN(3)]), w.limits[2]
		w.Pass(ms)
		w.rate = min(l.Capacity*l.Period, w.rate+ms*l.Amount)
	}
	p, class := w.anybody(), w.IntN(3)
	milli, costs := [3]int64{}, Costs(w.limits)
	for i := range costs {
		if w.OneIn(2) {
			milli[i] = (1 + w.Int64N(max(1, w.limits[i].Capacity/bucket.Milli/3))) * bucket.Milli
		}
		costs[i].Milli, costs[i].Floor = milli[i], w.floor(class)
	}
	may := w.leaves(milli, class)
	granted := w.take(p, costs, w.floor(class) > 0)
	switch lone := len(w.procs) == 1; {
	case granted && !may:
		w.Fail("class %d took %v of %v and leaves less than %d percent", class, milli, w.levels(), w.floors[class])
	case lone && may && !granted:
		w.Fail("class %d did not get %v of %v, of which it leaves %d percent", class, milli, w.levels(),
			w.floors[class])
	}
	if granted {
		w.Count([]string{"of the best class", "of the second class", "of the third class"}[class])
		w.slots[(w.Now-1000)/epochMs] += milli[0]
		w.spent[(w.Now-1000)/periodMs] += milli[1]
		w.rate -= milli[2] * w.limits[2].Period
	}
}

// take charges: a refused write returns the image from which the next one is planned.
func (w *floorWorld) take(p *process, costs []Cost, floor bool) bool {
	for range 3 {
		image, known := p.images[0]
		known = known && (len(w.procs) == 1 || !w.OneIn(4))
		c := Charge{Image: image, Costs: costs, Now: w.Now, Lifetime: Expires}
		if known && w.OneIn(4) { // a waiting request has no debt in limits with a floor
			c.Force, c.Owe = floor, true
		}
		u, granted := w.planned(0, c, known)
		if !granted {
			return false
		}
		held := w.Write(u)
		b, _ := w.shard(0)
		if p.see(b); held {
			return true
		}
	}
	return false
}

var floors = loadchecktest.Kind[*floorWorld]{New: newFloorWorld, Steps: 150, Worlds: 160,
	Least: map[string]float64{"of the best class": 15, "of the second class": 9, "of the third class": 3}}

func TestFloorsAreLeft(t *testing.T) { floors.Keeps(t) }

func TestFloorWorldSeesPlantedDefects(t *testing.T) {
	floors.Sees(t, 60, 5, leavesNone, leavesHalf, starvesAll, starvesLower)
}
