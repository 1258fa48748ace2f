package table

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
)

// This world has a quota and a rate. Processes write with stale images, clocks a second apart, late
// writes and lost answers, around edges every two minutes. The bucket may split and merge. A
// second, naive computation assigns each write to a period: the even minute that has the shard's
// refill instant after the write.
const (
	quotaOf  = 20 * bucket.Milli
	periodMs = 120_000
)

var worldLimits = []bucket.Limit{
	newQuota("q", quotaOf, "m*/2@UTC"),
	newRate("r", 500*bucket.Milli, 60_000),
}

// The defects that can be planted.
const (
	resetTwice = "the write ignores that another has begun the period"
	resetLate  = "the period is believed to end an hour later"
	opensEarly = "a clock is three seconds ahead, more than any may be"
	lateRefund = "a give-back does not say which period it is of"
)

type quotaWorld struct {
	*bucketWorld
	most    int            // shards
	others  []bucket.Limit // known to some processes: more of the quota, or raises of it
	all     bool           // known to all processes
	raises  []bucket.Raise
	leases  map[*process][]Cost
	granted map[int64]int64 // by period, minus give-backs
}

func newQuotaWorld(seed uint64, planted string) *quotaWorld { return quotaWorldOf(1, seed, planted) }

// quotaWorldOf creates a world of 1 to 256 processes, mostly few, and fewer if there are shards.
func quotaWorldOf(shards int, seed uint64, planted string) *quotaWorld {
	r := loadchecktest.New(seed, 18)
	r.Lost = 6
	r.Late = func() int64 { return max(0, r.Int64N(300_000)-240_000) } // four in five take no time
	processes := 3
	if planted == "" {
		processes = 1 << r.IntN(9/shards)
	}
	w := &quotaWorld{bucketWorld: newBucketWorld(r, planted, worldLimits, processes, 1000), most: shards,
		leases: map[*process][]Cost{}, granted: map[int64]int64{}, others: slices.Clone(worldLimits)}
	switch r.IntN(4) {
	case 0:
		w.others[0].Capacity += (1 + r.Int64N(15)) * bucket.Milli
	case 1:
		for range 1 + r.IntN(3) {
			end := r.Now/periodMs + 1 + r.Int64N(8)
			w.raises = append(w.raises, bucket.Raise{Tokens: 1 + r.Int64N(15), End: end * periodMs})
		}
		w.others[0] = w.others[0].WithRaises(bucket.FormOfRaises(w.raises))
		w.all = r.OneIn(2)
	}
	if planted == opensEarly {
		w.procs[0].skew = 3000
	}
	return w
}

// mostIn returns how much may be granted in a period.
func (w *quotaWorld) mostIn(period int64) int64 {
	most := w.others[0].Own().Capacity
	for _, r := range w.raises {
		if r.End > period*periodMs {
			most += r.Tokens * bucket.Milli
		}
	}
	return most
}

func (w *quotaWorld) period(k int) int64 {
	b, _ := w.shard(k)
	return b.State.RF / periodMs
}

// check requires that in each period that all shards are in, the grants and the rest add up to the
// quota.
func (w *quotaWorld) check() {
	left, quota, period := int64(0), int64(0), w.period(0)
	for k := range w.most {
		if b, ok := w.shard(k); ok {
			if b.State.RF/periodMs != period {
				return
			}
			sl := slotNamed(b, "q")
			left, quota = left+sl.Tokens, quota+b.State.CapacityOf(sl.Limit)
		}
	}
	if granted := w.granted[period]; granted+left != quota {
		w.Fail("at %d: %d granted in the period of %d, %d left of %d", w.Now, granted, period*periodMs, left, quota)
	}
}

func (w *quotaWorld) Step() {
	switch w.IntN(12) {
	case 0, 1, 2:
		w.Pass(w.Int64N(900))
	case 3:
		w.Pass(w.Int64N(50_000))
	case 4:
		w.PassToEdge(periodMs, 1500)
	}
	zero, _ := w.shard(0)
	p, k := w.anybody(), w.IntN(zero.State.Count())
	b, there := w.shard(k)
	if w.most > 1 && there && w.OneIn(2) {
		p.see(b)
	}
	image, known := w.anybody().images[k]
	switch {
	case w.most > 1 && known && w.OneIn(8):
		w.reshard(p, image)
	case len(w.leases[p]) > 0 && w.most == 1 && w.OneIn(10):
		w.giveBack(p)
	case there:
		w.take(p, k)
	}
}

func (w *quotaWorld) take(p *process, k int) {
	image, known := p.images[k]
	now, _ := w.shard(k)
	switch image.State.Slots = slices.Clone(image.State.Slots); {
	case known && w.planted == resetTwice:
		image.Generation, image.Calendars.Until = now.Generation, now.Calendars.Until
		image.State.RF = min(image.State.RF, now.State.RF)
	case known && w.planted == resetLate:
		image.State.Slots[image.State.Index("q")].End += 3600_000
	}
	cost := w.Int64N(4) * bucket.Milli
	limits := worldLimits
	if w.all || w.OneIn(2) {
		limits = w.others
	}
	c := Charge{Image: image, Costs: Costs(limits, cost, w.Int64N(3)*bucket.Milli), Now: w.clock(p),
		Slack: 20, Refill: known && w.OneIn(8)}
	u, granted := w.planned(k, c, known)
	if !granted {
		return
	}
	before := w.period(k)
	w.call(p, u, loadchecktest.Call{Arrived: func(bool) {
		period := w.period(k)
		if period != before && w.granted[period] == 0 {
			w.Count("periods")
		}
		if start := period * periodMs; w.Now < start {
			w.Fail("at %d the period of %d was opened", w.Now, start)
		}
		if cost == 0 || c.Refill {
			return
		}
		w.Count("grants")
		if w.granted[period] += cost; w.granted[period] > w.mostIn(period) {
			w.Fail("at %d: %d granted in the period of %d", w.Now, w.granted[period], period*periodMs)
		}
		w.leases[p] = append(w.leases[p], Cost{Limit: worldLimits[0], Milli: cost, End: w.slot(k, "q").End})
	}}, w.check)
}

// giveBack gives one lease back, alone or together with more tokens of another limit. In the latter
// case tokens of an earlier period are left out.
func (w *quotaWorld) giveBack(p *process) {
	i := w.IntN(len(w.leases[p]))
	back := w.leases[p][i]
	w.leases[p] = slices.Delete(w.leases[p], i, i+1)
	from := back.End
	if back.Milli = -back.Milli; w.planted == lateRefund {
		back.End = 0
	}
	u := Adjust(shardKey(0), []Cost{back})
	image, together := p.images[0]
	if together = together && w.OneIn(2); together {
		costs := []Cost{back, {Limit: worldLimits[1], Milli: bucket.Milli}}
		u = Charge{Image: image, Costs: costs, Now: w.clock(p), Force: true}.Plan().Update
	}
	w.call(p, u, loadchecktest.Call{Arrived: func(bool) {
		switch end := w.slot(0, "q").End; {
		case end == from:
			w.granted[w.period(0)] += back.Milli
		case !together || w.planted == lateRefund:
			w.Fail("given back to the period until %d, taken in that until %d", end, from)
		}
	}}, w.check)
}

// reshard splits a shard, or merges it with its sibling.
func (w *quotaWorld) reshard(p *process, b Shard) {
	n, k := b.State.Count(), b.State.Shard
	var writes []item.Write
	if n < w.most && w.OneIn(2) {
		writes = Split(b, w.clock(p))
	} else if other, ok := w.shard(k + n/2); n > 1 && k < n/2 && ok && other.State.Count() == n {
		writes = Merge(b, other, n/2, w.clock(p))
	}
	if len(writes) == 0 {
		return
	}
	w.Send(loadchecktest.Call{Writes: writes, Arrived: func(held bool) {
		if held {
			w.Count("splits and merges")
		}
		w.check()
	}})
}

var (
	quotas = loadchecktest.Kind[*quotaWorld]{New: newQuotaWorld, Steps: 600, Worlds: 60, Short: 40, Env: "KINDS",
		Least: map[string]float64{"grants": 50, "periods": 10}}
	quotasOfShards = loadchecktest.Kind[*quotaWorld]{
		New:   func(seed uint64, planted string) *quotaWorld { return quotaWorldOf(4, seed, planted) },
		Steps: 800, Worlds: 40, Least: map[string]float64{"splits and merges": 10, "periods": 20},
	}
)

// TestQuotaIsExactPerPeriod runs KINDS worlds, by default 60. `make test-worlds` runs 10,000.
func TestQuotaIsExactPerPeriod(t *testing.T) { quotas.Keeps(t) }

func TestQuotaWorldSeesPlantedDefects(t *testing.T) {
	quotas.Sees(t, 20, 15, resetTwice, resetLate, opensEarly, lateRefund)
}

// Shares of a quota add up: in each period, the grants of all shards and their rests are the quota,
// through splits, merges and edges.
func TestSharesOfAQuotaAddUp(t *testing.T) { quotasOfShards.Keeps(t) }
