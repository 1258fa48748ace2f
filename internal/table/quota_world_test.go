package table_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A world of one bucket with a quota and a rate, written by processes with stale images,
// clocks a second apart, late writes and lost answers, around edges that come every two
// minutes. Who may take what is told by a second, naive reckoning: the period of a write is
// the even minute in which the refill instant of the item lies afterwards.
const (
	quotaOf  = 20 * bucket.Milli
	periodMs = 120_000
)

var worldLimits = []bucket.Limit{
	{Name: "q", Capacity: quotaOf, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"},
	{Name: "r", Capacity: 500 * bucket.Milli, Amount: 500 * bucket.Milli, Period: 60_000},
}

// defect is something left out on purpose: the checks must see it.
type quotaDefect int

const (
	soundQuota quotaDefect = iota
	resetTwice             // the write does not mind that somebody has begun the period
	resetLate              // the period is believed to end an hour later
	opensEarly             // a clock is three seconds ahead, more than any may be
	lateRefund             // a give-back does not say which period it is of
)

type quotaWorld struct {
	r       *rand.Rand
	defect  quotaDefect
	now     int64 // true time
	it      item.Item
	procs   []quotaProcess // 1 to 256, mostly few
	late    []quotaWrite
	granted map[int64]int64 // by period, less what was given back
	grants  int
	opened  int // periods that were begun
	err     error
}

type quotaProcess struct {
	skew  int64
	image table.Shard
	has   bool
	lease []table.Cost // what it may give back
}

type quotaWrite struct {
	p      int
	w      item.Update
	costs  []table.Cost
	lost   bool
	forced bool
	from   int64 // when the period ends that something is given back of
}

func newQuotaWorld(seed uint64, d quotaDefect) *quotaWorld {
	w := &quotaWorld{r: rand.New(rand.NewPCG(18, seed)), defect: d, now: 1_800_000_000_000, granted: map[int64]int64{}}
	if w.procs = make([]quotaProcess, 3); d == soundQuota {
		w.procs = make([]quotaProcess, 1<<w.r.IntN(9))
	}
	for p := range w.procs {
		w.procs[p].skew = w.r.Int64N(2001) - 1000
	}
	if d == opensEarly {
		w.procs[0].skew = 3000
	}
	return w
}

func (w *quotaWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *quotaWorld) shard() table.Shard {
	b, err := table.DecodeShard(w.it)
	if err != nil {
		w.fail("%w", err)
	}
	return b
}

// period is the naive one of the item.
func (w *quotaWorld) period() int64 { return w.shard().State.RF / periodMs }

// deliver carries a write out.
func (w *quotaWorld) deliver(q quotaWrite) {
	before := int64(-1)
	if w.it != nil {
		before = w.period()
	}
	after, held, err := q.w.Apply(w.it)
	if err != nil {
		w.fail("%w", err)
		return
	}
	me := &w.procs[q.p]
	if held {
		w.it = after
		now := w.period()
		if now != before {
			w.opened++
			if start := now * periodMs; w.now < start {
				w.fail("at %d the period of %d was opened", w.now, start)
			}
		}
		w.account(me, q, now)
	}
	if w.it != nil && !q.lost {
		me.image, me.has = w.shard(), true
	}
	w.check()
}

func (w *quotaWorld) account(me *quotaProcess, q quotaWrite, period int64) {
	end := int64(0)
	for _, sl := range w.shard().State.Slots {
		if sl.Name == "q" {
			end = sl.End
		}
	}
	for _, c := range q.costs {
		if c.Limit.Name != "q" || c.Milli == 0 {
			continue
		}
		if c.Milli > 0 {
			me.lease = append(me.lease, table.Cost{Limit: c.Limit, Milli: c.Milli, End: end})
		} else if q.from != end {
			if w.defect != soundQuota || !q.forced {
				w.fail("given back to the period until %d, taken in that until %d", end, q.from)
			}
			continue // the charge leaves it out
		}
		w.granted[period] += c.Milli
		w.grants++
	}
}

// check holds the item against what was granted: no more than the quota in a period, and
// what is left is there.
func (w *quotaWorld) check() {
	if w.it == nil {
		return
	}
	b := w.shard()
	period := b.State.RF / periodMs
	level := b.State.Slots[b.State.Index("q")].Tokens
	if granted := w.granted[period]; granted > quotaOf || granted+level != quotaOf {
		w.fail("at %d: %d granted in the period of %d, %d left of %d",
			w.now, granted, period*periodMs, level, int64(quotaOf))
	}
}

func (w *quotaWorld) costs() []table.Cost {
	return table.Costs(worldLimits, w.r.Int64N(4)*bucket.Milli, w.r.Int64N(3)*bucket.Milli)
}

// step lets somebody do something.
func (w *quotaWorld) step() {
	switch w.r.IntN(12) {
	case 0, 1, 2:
		w.now += w.r.Int64N(900)
	case 3:
		w.now += w.r.Int64N(50_000)
	case 4: // to just about the edge
		w.now = (w.now/periodMs+1)*periodMs - 1500 + w.r.Int64N(3000)
	}
	for i := 0; i < len(w.late); i++ {
		if w.r.IntN(3) == 0 {
			q := w.late[i]
			w.late = append(w.late[:i], w.late[i+1:]...)
			w.deliver(q)
		}
	}
	p := w.r.IntN(len(w.procs))
	q, ok := w.plan(p)
	if !ok {
		return
	}
	q.lost = w.r.IntN(6) == 0
	if w.r.IntN(5) == 0 {
		w.late = append(w.late, q)
		return
	}
	w.deliver(q)
}

func (w *quotaWorld) plan(p int) (q quotaWrite, ok bool) {
	me, now := &w.procs[p], w.now+w.procs[p].skew
	q.p = p
	switch kind := w.r.IntN(10); {
	case w.it == nil || !me.has && w.r.IntN(2) == 0:
		if w.it == nil {
			put, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
				Costs: table.Costs(worldLimits, 0, 0), Now: now, Draw: 7})
			w.it, me.image, me.has = put.Item, b, true
			return q, false
		}
		q.costs = w.costs()
		q.w = table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shards: 1, Costs: q.costs, Now: now, Room: 50}.Plan()
		return q, true
	case kind == 0 && len(me.lease) > 0: // give back
		i := w.r.IntN(len(me.lease))
		back := me.lease[i]
		me.lease = append(me.lease[:i], me.lease[i+1:]...)
		back.Milli, q.from = -back.Milli, back.End
		if w.defect == lateRefund {
			back.End = 0
		}
		q.costs = []table.Cost{back}
		if me.has && w.r.IntN(2) == 0 { // together with more of another limit
			q.forced = true
			q.costs = append(q.costs, table.Cost{Limit: worldLimits[1], Milli: bucket.Milli})
			q.w = table.Charge{Image: me.image, Costs: q.costs, Now: now, Force: true}.Plan().Update
			return q, true
		}
		q.w = table.Adjust(layout.BucketKey("ns", "e", "r", 0), q.costs)
		return q, true
	case !me.has:
		return q, false
	}
	image := me.image
	switch at := image.State.Index("q"); w.defect {
	case resetTwice:
		image.Generation, image.Calendars.Until = w.shard().Generation, w.shard().Calendars.Until
		image.State.RF = min(image.State.RF, w.shard().State.RF)
	case resetLate:
		image.State.Slots[at].End += 3600_000
	}
	q.costs = w.costs()
	c := table.Charge{Image: image, Costs: q.costs, Now: now, Slack: 20, Refill: w.r.IntN(8) == 0}
	plan := c.Plan()
	if c.Refill {
		q.costs = nil
	}
	q.w = plan.Update
	return q, plan.Verdict.Granted
}

// TestQuotaIsExactPerPeriod plays KINDS worlds, 100 if that is not set. `make test-worlds`
// plays 10,000.
func TestQuotaIsExactPerPeriod(t *testing.T) {
	worlds := worldsOf(100, 40)
	grants, opened := 0, 0
	for seed := range uint64(worlds) {
		w := newQuotaWorld(seed, soundQuota)
		for range 600 {
			if w.step(); w.err != nil {
				t.Fatalf("seed %d: %v", seed, w.err)
			}
		}
		grants, opened = grants+w.grants, opened+w.opened
	}
	if grants < 50*worlds || opened < 10*worlds {
		t.Errorf("%d grants and %d periods in %d worlds, want more", grants, opened, worlds)
	}
	t.Logf("%d worlds, %d grants, %d periods: none over, none early, nothing lost", worlds, grants, opened)
}

// worldsOf returns how many worlds are to be played.
func worldsOf(usual, short int) int {
	if n, err := strconv.Atoi(os.Getenv("KINDS")); err == nil {
		return n
	} else if testing.Short() {
		return short
	}
	return usual
}

func TestQuotaWorldSeesPlantedDefects(t *testing.T) {
	for name, d := range map[string]quotaDefect{"a period begun twice": resetTwice, "an hour late": resetLate,
		"opened early": opensEarly, "given back later": lateRefund} {
		seen := 0
		for seed := range uint64(20) {
			w := newQuotaWorld(seed, d)
			for range 600 {
				if w.step(); w.err != nil {
					seen++
					break
				}
			}
		}
		if seen < 15 {
			t.Errorf("%s: seen in %d of 20 worlds", name, seen)
		}
	}
}
