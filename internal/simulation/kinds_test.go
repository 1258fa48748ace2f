package simulation

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// In worlds of kinds every bucket has a rate, a quota, floors of a class and, in
// every second world, slots. (Buckets with slots are whole; the others split.) The judge of
// package simulation follows the rates. This one follows the rest by a reckoning of its own:
// the turn of an instant, what the counters grew by, and who says that he is at work.
const (
	quotaName = "q"
	slotsName = "jobs"
	lowClass  = "batch"
	turn      = int64(120_000) // the period of the quota, by the calendar
	epochOf   = int64(5_000)
)

// kindsJudge is the judge of quotas, slots and floors. The world's lock guards it.
type kindsJudge struct {
	w       *world
	rng     *rand.Rand // of what requests ask for
	slots   bool
	periods map[periodOf]*period
	calls   []*op           // that asked
	work    map[*held]int64 // slots of leases that are not ended
	most    int64           // slots at work at once
}

// periodOf is a turn of an entity; end is when it ends.
type periodOf struct {
	entity string
	end    int64
}

// period is what its quota was used for: what the counters have grown by, and what callers
// have been granted for certain and not given back, in millitokens.
type period struct{ grown, held int64 }

func newKindsJudge(w *world) *kindsJudge {
	return &kindsJudge{
		w: w, rng: rand.New(rand.NewPCG(w.seed, 7)), slots: w.seed%2 == 0,
		periods: map[periodOf]*period{}, work: map[*held]int64{},
	}
}

// scale is how many times the limits of an entity are those of the others.
func scale(entity string) int64 {
	if entity == "org" {
		return 2
	}
	return 1
}

// capacities are those of the limits of an entity, in millitokens.
func capacities(entity string) map[string]int64 {
	n := scale(entity) * bucket.Milli
	return map[string]int64{"rpm": 24 * n, quotaName: 30 * n, slotsName: 4 * n}
}

// floors are the percents that the low class leaves.
var floors = map[string]int64{"rpm": 40, quotaName: 20, slotsName: 25}

func (k *kindsJudge) furnish() {
	every := limiter.Cron("*/2 * * * *", "UTC")
	if k.w.defect.reset != "" {
		every = k.w.defect.reset
	}
	for _, entity := range []string{"", "org"} {
		c := capacities(entity)
		limits := []limiter.Limit{
			limiter.PerMinute("rpm", c["rpm"]/bucket.Milli), limiter.Quota(quotaName, c[quotaName]/bucket.Milli, every),
		}
		if k.slots {
			epoch := time.Duration(epochOf) * time.Millisecond
			limits = append(limits, limiter.InFlight(slotsName, c[slotsName]/bucket.Milli, epoch))
		}
		for i, l := range limits {
			limits[i] = l.WithFloor(lowClass, int(floors[l.Name]))
		}
		slices.SortFunc(limits, func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
		k.w.store(entity, resource, limits)
	}
}

// linger waits for the end of a turn now and then.
func (k *kindsJudge) linger() {
	if k.rng.IntN(8) == 0 {
		now := time.Now().UnixMilli()
		edge := (now/turn+1)*turn - 1500 + k.rng.Int64N(3500)
		time.Sleep(time.Duration(max(edge-now, 0)) * time.Millisecond)
	}
}

// ask says what a request asks for besides.
func (k *kindsJudge) ask(o *op) {
	if k.rng.IntN(3) > 0 {
		o.costs[quotaName] = k.rng.Int64N(7)
	}
	if k.slots && k.rng.IntN(2) == 0 {
		o.costs[slotsName] = 1 + k.rng.Int64N(2)
	}
	if k.rng.IntN(3) == 0 {
		o.class = lowClass
	}
	k.calls = append(k.calls, o)
}

// holds notes a lease that was granted.
func (k *kindsJudge) holds(o *op, h *held) {
	now := time.Now().UnixMilli()
	if n := h.costs[slotsName]; n > 0 {
		k.work[h] = n
		k.atWork()
	}
	spread := k.w.spread.Milliseconds()
	first, last := (o.began-bucket.EdgeMargin-spread-planned)/turn, (now+spread)/turn
	if first == last { // else nobody knows which period it is of
		h.period = (last + 1) * turn
		k.change(h, h.costs[quotaName])
	}
}

// change adds to what a lease has of the quota, in tokens.
func (k *kindsJudge) change(h *held, tokens int64) {
	if h.period == 0 {
		return
	}
	for _, e := range h.who {
		k.of(e, h.period).held += tokens * bucket.Milli
		k.check(e, h.period)
	}
}

// ends notes that a lease begins to end, and says what it has cost.
func (k *kindsJudge) ends(h *held, how int, actual map[string]int64) {
	if how == 4 { // it is charged for more
		return
	}
	delete(k.work, h)
	if cost, ok := h.costs[quotaName]; ok && how == 1 {
		actual[quotaName] = k.rng.Int64N(cost + 1)
	}
	k.change(h, -h.costs[quotaName])
}

// ended notes what a lease has cost in the end, if that is certain.
func (k *kindsJudge) ended(h *held, how int, actual map[string]int64, err error) {
	if how >= 2 || err != nil {
		return
	}
	n, settled := actual[quotaName]
	if !settled {
		n = h.costs[quotaName]
	}
	k.change(h, n)
}

// atWork counts who is at work: who has a lease with slots, and was not told that they are lost.
func (k *kindsJudge) atWork() {
	sum := map[string]int64{}
	for h, n := range k.work {
		select {
		case <-h.lease.Lost():
			delete(k.work, h)
			continue
		default:
		}
		for _, e := range h.who {
			sum[e] += n * bucket.Milli
		}
	}
	for e, n := range sum {
		k.most = max(k.most, n/bucket.Milli)
		if most := capacities(e)[slotsName]; n > most {
			k.w.violated("kinds: %s: %d slots are at work, there are %d", e, n/bucket.Milli, most/bucket.Milli)
		}
	}
}

func (k *kindsJudge) of(entity string, end int64) *period {
	p := k.periods[periodOf{entity, end}]
	if p == nil {
		p = &period{}
		k.periods[periodOf{entity, end}] = p
	}
	return p
}

// check holds a period against its quota.
func (k *kindsJudge) check(entity string, end int64) {
	switch p, quota := k.of(entity, end), capacities(entity)[quotaName]; {
	case p.grown > quota:
		k.w.violated("kinds: %s: %d of a quota of %d were taken in a turn", entity, p.grown, quota)
	case p.grown < p.held:
		k.w.violated("kinds: %s: %d of a quota are taken, callers hold %d", entity, p.grown, p.held)
	}
}

// changed checks a change of one shard.
func (k *kindsJudge) changed(b *judged, c memdynamo.Change, before, after table.Shard, o *op) {
	k.quota(b, c, before, after, o)
	if k.slots {
		k.slot(c, before, after, o)
	}
	k.atWork()
	if o == nil || o.class == "" || o.kind != "acquire" && o.kind != "wait" {
		return
	}
	for i, sl := range after.State.Slots {
		floor := (after.State.CapacityOf(sl.Limit)*floors[sl.Name] + 99) / 100
		left, used := sl.Tokens, sl.Used-slotOf(before, sl.Name).Used
		if sl.InFlight {
			used = busy(sl, sl.Epoch()) - busy(slotOf(before, sl.Name), sl.Epoch())
		} else if sl.Refills() {
			left = (levelAt(after.State, i, c.CreatedAt) + b.allowance(k.w.judge, sl.Name)) / sl.Period
		}
		if used > 0 && sl.Name != bucket.WCU && left < floor {
			k.w.violated("kinds: %s: %s takes %d of %s and leaves %d, less than its floor of %d", c.Key.PK, o.class, used,
				sl.Name, left, floor)
		}
	}
}

// slotOf returns what a shard stores of a limit.
func slotOf(b table.Shard, name string) bucket.Slot {
	if i := b.State.Index(name); i >= 0 {
		return b.State.Slots[i]
	}
	return bucket.Slot{Limit: bucket.Limit{Period: epochOf}}
}

// quota checks a change of a quota. The period of an item is the turn of its refill instant.
func (k *kindsJudge) quota(b *judged, c memdynamo.Change, before, after table.Shard, o *op) {
	sl, entity := slotOf(after, quotaName), after.Entity
	if sl.Name == "" {
		return
	}
	end := (after.State.RF/turn + 1) * turn
	grown := sl.Used - slotOf(before, quotaName).Used
	p := k.of(entity, end)
	p.grown += grown
	switch {
	case c.CreatedAt < end-turn:
		k.w.violated("kinds: %s: the turn until %d was begun at %d", c.Key.PK, end, c.CreatedAt)
	case grown > 0 && o != nil && o.kind != "settle" && o.began > end+bucket.EdgeMargin+k.w.spread.Milliseconds():
		k.w.violated("kinds: %s: taken from the turn until %d by a call of %d", c.Key.PK, end, o.began)
	case k.w.defect.reset == "" && slotOf(after, quotaName).End != end:
		k.w.violated("kinds: %s: a turn ends at %d, the item says %d", c.Key.PK, end, sl.End)
	}
	k.check(entity, end)
	left := sl.Tokens + p.grown
	whole := len(b.shards) == 1 && after.State.Count() == 1 && !b.merged
	if quota := capacities(entity)[quotaName]; whole && left != quota {
		k.w.violated("kinds: %s: %d left of a quota of %d, and %d taken in it", c.Key.PK, sl.Tokens, quota, p.grown)
	}
}

// busy is what counts of slots in an epoch.
func busy(sl bucket.Slot, epoch int64) (sum int64) {
	for e := epoch - 1; e <= epoch; e++ {
		if own := sl.Epoch(); e == own || e == own-1 {
			sum += sl.Taken.Of(e)
		}
	}
	return sum
}

// slot checks a change of slots: a call takes or gives back what it asks for, and nobody else
// takes any.
func (k *kindsJudge) slot(c memdynamo.Change, before, after table.Shard, o *op) {
	sl := slotOf(after, slotsName)
	if sl.Name == "" {
		return
	}
	if start := sl.Epoch() * epochOf; start > c.CreatedAt {
		k.w.violated("kinds: %s: the epoch of %d was begun at %d", c.Key.PK, start, c.CreatedAt)
	}
	took := busy(sl, sl.Epoch()) - busy(slotOf(before, slotsName), sl.Epoch())
	switch {
	case took == 0:
	case o == nil && took < 0: // moved for a lease that has ended since
	case o == nil, took > 0 && o.kind == "settle", !k.asked(o, max(took, -took)):
		k.w.violated("kinds: %s: %d slots were taken, the call is %+v", c.Key.PK, took, o)
	}
	if n := busy(sl, sl.Epoch()); n > capacities(after.Entity)[slotsName] {
		k.w.violated("kinds: %s: %d slots count", c.Key.PK, n)
	}
}

// asked reports whether a write for a call may take or give back that many slots. Two calls that one
// client makes at the same time may share a write, so the slots of both count.
func (k *kindsJudge) asked(o *op, slots int64) bool {
	return slots == o.slots() || slices.ContainsFunc(k.calls, func(p *op) bool {
		meets := p.client == o.client && p != o && (p.ended == 0 || p.ended >= o.began)
		return meets && (slots == p.slots() || slots == p.slots()+o.slots())
	})
}

// slots is how many slots a call is about.
func (o *op) slots() int64 { return o.costs[slotsName] * bucket.Milli }

// inTheEnd checks that nothing has leaked once all leases have ended and all limits are full:
// the low class gets what it need not leave, the others the rest, at once.
func (k *kindsJudge) inTheEnd() {
	w := k.w
	w.mu.Lock()
	leases := w.leases
	w.leases = map[int]*held{}
	split := w.judge.buckets["org"] != nil && len(w.judge.buckets["org"].shards) > 1
	w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(leases)) {
		h := leases[id]
		w.mu.Lock()
		k.ends(h, 2, nil)
		for _, e := range h.who { // what it gives back is not worth following
			for limit, n := range h.costs {
				h.client.told(e, map[string]int64{limit: -n}, false)
			}
		}
		w.mu.Unlock()
		o := &op{id: -2, began: time.Now().UnixMilli(), client: h.client, kind: "settle", costs: h.costs}
		if err := h.lease.Rollback(o.context(w.t.Context())); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) {
			w.mu.Lock()
			w.violated("kinds: %v at rest", err)
			w.mu.Unlock()
		}
	}
	now := time.Now().UnixMilli()
	time.Sleep(time.Duration((now/turn+3)*turn+5000-now) * time.Millisecond)
	if w.isBroken() || split {
		return
	}
	var got []*limiter.Lease
	var costsOf []map[string]int64
	for _, class := range []string{lowClass, ""} {
		costs := map[string]int64{}
		for name, c := range capacities("org") {
			low := (c/bucket.Milli)*(100-floors[name])/100 - 1
			if costs[name] = low; class == "" {
				costs[name] = c/bucket.Milli - low
			}
		}
		if !k.slots {
			delete(costs, slotsName)
		}
		lease, err := k.last(class, costs)
		if err != nil {
			return
		}
		got, costsOf = append(got, lease), append(costsOf, costs)
	}
	for i, lease := range got {
		o := &op{client: w.clients[0], kind: "settle", costs: costsOf[i]}
		if err := lease.Rollback(o.context(w.t.Context())); err != nil {
			w.mu.Lock()
			w.violated("kinds: %v at rest", err)
			w.mu.Unlock()
		}
	}
}

// last asks for costs that org has.
func (k *kindsJudge) last(class string, costs map[string]int64) (*limiter.Lease, error) {
	w, c := k.w, k.w.clients[0]
	o := &op{id: -2, began: time.Now().UnixMilli(), client: c, kind: "acquire", class: class, costs: costs}
	req := limiter.Request{Entity: "org", Resource: resource, Costs: costs, Class: w.defect.classOf(class)}
	lease, err := c.l.Acquire(o.context(w.t.Context()), req)
	if d, ok := errors.AsType[*limiter.LimitError](err); ok && d.Estimated && d.RetryAfter <= 2*time.Second {
		time.Sleep(d.RetryAfter) // shards whose fractions add up to too little merge first
		lease, err = c.l.Acquire(o.context(w.t.Context()), req)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.told("org", costs, false)
	c.told("org", map[string]int64{"rpm": -costs["rpm"]}, false) // it is given back
	if err != nil {
		w.violated("kinds: %v of class %q, all is there: %v", costs, class, err)
	}
	return lease, err
}

// kindsSteps is how many steps a world of kinds has.
const kindsSteps = 40

func playKinds(t *testing.T, seed uint64, d defect, verbose bool) (out played) {
	d.kinds = true
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, d)
		w.verbose = verbose
		out.broken = w.play(kindsSteps)
		out.trace, out.log, out.stats = w.trace, w.log, w.stats
		out.periods, out.atWork = len(w.kinds.periods), w.kinds.most
	})
	return out
}

// TestKindsTogether plays worlds in which every bucket has a rate, a quota, floors and maybe
// slots: KINDS of them, 30 if that is not set. `make test-long` plays 500.
func TestKindsTogether(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	if n, err := strconv.ParseUint(os.Getenv("KINDS"), 10, 64); err == nil {
		seeds = n
	}
	var sum stats
	periods, atWork := 0, int64(0)
	for seed := range seeds {
		got := playKinds(t, seed, defect{}, false)
		if got.broken != "" {
			for _, l := range playKinds(t, seed, defect{}, true).trace {
				t.Log(l)
			}
			t.Fatalf("world %d of kinds: %s", seed, got.broken)
		}
		sum.add(got.stats)
		periods, atWork = periods+got.periods, max(atWork, got.atWork)
	}
	t.Logf("%d worlds, %d periods, up to %d slots at work: %+v", seeds, periods, atWork, sum)
	if n := int(seeds); sum.granted < 8*n || periods < 4*n || atWork < 4 {
		t.Errorf("%d granted in %d periods of %d worlds, %d slots at work: hardly anything was played",
			sum.granted, periods, seeds, atWork)
	}
}
