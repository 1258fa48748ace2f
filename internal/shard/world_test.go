package shard_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	namespace = "ns"
	entity    = "acme"
	resource  = "gpt"
	maxShards = 8
	epoch     = int64(1_700_000_000_000)
)

func bucketKey(shard int) item.Key { return layout.BucketKey(namespace, entity, resource, shard) }

// world is one bucket in a table in memory, full at first. After each call it checks that not a
// fraction of a millitoken was minted, and that the shares add up. The worlds of packages limiter
// and simulation have clients with their own clocks and answers.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	db      *memdynamo.DB
	now     int64
	limits  []bucket.Limit
	history map[string]*buckettest.History
	foreign bool   // another client changes the bucket: shards may be missing, counts may be wrong
	planted bool   // a defect is planted: violations are recorded, and do not fail the test
	broken  string // the first violation
	splits  int
}

func newWorld(t *testing.T, seed uint64, limits []bucket.Limit) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 42)), now: epoch, limits: limits,
		history: map[string]*buckettest.History{}}
	w.db = memdynamo.New(func() int64 { return w.now })
	for _, l := range limits {
		w.history[l.Name] = &buckettest.History{}
	}
	put, _ := table.Create(table.NewBucket{Namespace: namespace, Entity: entity, Resource: resource,
		Costs: table.Costs(limits), Lifetime: table.Expires, Now: w.now, Draw: w.rng.Uint64()})
	check.Must(t, check.Err(w.db.Write(t.Context(), put)))
	return w
}

// fullBucket returns a world with one limit of so many millitokens a minute.
func fullBucket(t *testing.T, capacity int64) *world {
	return newWorld(t, 0, []bucket.Limit{{Name: "rpm", Capacity: capacity, Amount: capacity, Period: 60_000}})
}

func (w *world) violated(format string, args ...any) {
	w.t.Helper()
	if w.broken = cmp.Or(w.broken, fmt.Sprintf(format, args...)); !w.planted {
		w.t.Fatal(w.broken)
	}
}

// shards returns the stored shards.
func (w *world) shards() (out []bucket.State) {
	for k := range maxShards {
		if b, ok := w.image(k); ok {
			out = append(out, b.State)
		}
	}
	return out
}

func (w *world) image(shard int) (table.Shard, bool) {
	it := w.db.Item(bucketKey(shard))
	if it == nil {
		return table.Shard{}, false
	}
	b, err := table.DecodeShard(it)
	check.Must(w.t, err)
	return b, true
}

// held returns the tokens of all shards now, by limit.
func (w *world) held() map[string]*big.Rat {
	out, all := map[string]*big.Rat{}, w.shards()
	for _, l := range w.limits {
		out[l.Name] = buckettest.HeldAt(all, l.Name, w.now)
	}
	return out
}

// call performs writes as one call. If they hold, the shards together have at most the capacity. If
// the call is exact, they have exactly the costs less than before.
func (w *world) call(what string, costs []table.Cost, exact bool,
	writes ...item.Write) (item.Item, []store.Reason, error) {
	w.t.Helper()
	before := w.held()
	var it item.Item
	var reasons []store.Reason
	var err error
	if len(writes) == 1 {
		it, err = w.db.Write(w.t.Context(), writes[0])
		if r, ok := errors.AsType[*store.Refused](err); ok {
			it, reasons = r.Old, []store.Reason{{Refused: true, Old: r.Old}}
		}
	} else {
		err = w.db.Transact(w.t.Context(), fmt.Sprint("token-", w.rng.Uint64()), writes)
		if c, ok := errors.AsType[*store.Canceled](err); ok {
			reasons = c.Reasons
		}
	}
	check.MustEqual(w.t, store.KindOf(err), 0, "%s: the write is invalid: %v", what, err)
	if err != nil {
		return it, reasons, err
	}
	after := w.held()
	for _, l := range w.limits {
		due := before[l.Name]
		if c, ok := table.Find(costs, l.Name); ok {
			due = new(big.Rat).Sub(due, buckettest.Milli(c.Milli))
			w.history[l.Name].Take(w.now, c.Milli)
		}
		if got := after[l.Name]; exact && got.Cmp(due) != 0 || got.Cmp(buckettest.Milli(l.Capacity)) > 0 {
			w.violated("%s: %s millitokens of %s are left of %d, want %s", what, got.FloatString(6), l.Name, l.Capacity,
				due.FloatString(6))
		}
	}
	w.sharesAddUp(what)
	return it, nil, nil
}

// charge takes costs from a shard if its image covers them.
func (w *world) charge(b table.Shard, costs []table.Cost, bad defect) (item.Item, bool) {
	plan := table.Charge{Image: b, Costs: costs, Now: w.now, Lifetime: table.Expires}.Plan()
	if !plan.Verdict.Granted {
		return nil, false
	}
	is, _ := w.image(b.State.Shard)
	it, _, err := w.call("charge", costs, reflect.DeepEqual(is, b), bad.charge(plan, b, costs, w.now))
	return it, err == nil
}

// sharesAddUp checks that the shares of all shards are the whole (I3). If another client has
// removed shards or changed counts, they may be less.
func (w *world) sharesAddUp(what string) {
	w.t.Helper()
	all := w.shards()
	for _, l := range w.limits {
		var capacity, amount int64
		for _, s := range all {
			r := s.RateOf(l)
			capacity, amount = capacity+r.Capacity, amount+r.Amount
		}
		if capacity > l.Capacity || amount > l.Amount || !w.foreign && (capacity != l.Capacity || amount != l.Amount) {
			w.violated("%s: shares of %s add up to %d/%d, want %d/%d", what, l.Name, capacity, amount, l.Capacity, l.Amount)
		}
	}
}

// step carries out the next step of a plan, perhaps with a lost answer. It returns false if there
// is no step.
func (w *world) step(p *shard.Plan, lost bool, bad defect) bool {
	w.t.Helper()
	s, ok := p.Next(w.now, w.rng.Uint64())
	if !ok {
		return false
	}
	it, reasons, err := w.call(s.String(), nil, false, bad.split(s, p)...)
	switch {
	case err == nil && s.Action == shard.Split:
		w.splits++
		fallthrough
	case err == nil && !lost:
		p.Applied(s, it)
	case !lost:
		p.Refused(s, reasons)
	}
	return true
}

// run carries out a plan to its end.
func (w *world) run(p *shard.Plan) {
	w.t.Helper()
	for steps := 0; w.step(p, false, sound); steps++ {
		if steps > 2000 {
			w.t.Fatal("the plan does not end")
		}
	}
}

// rest brings all shards to the count of shard 0, as the aggregator does at the end of the stream.
func (w *world) rest() {
	w.t.Helper()
	for range 5 {
		zero, ok := w.image(0)
		if !ok || w.atCount(zero.State.Shards) {
			return
		}
		w.run(shard.Propagate(zero))
	}
	w.t.Fatalf("the shards still differ from shard 0: %v", w.shards())
}

func (w *world) atCount(n int) bool {
	all := w.shards()
	return len(all) == n && !slices.ContainsFunc(all, func(s bucket.State) bool { return s.Shards != n })
}

// burst takes all tokens of all shards. Then no window has had too many, not even a fraction of a
// millitoken.
func (w *world) burst() {
	w.t.Helper()
	for _, s := range w.shards() {
		costs := table.Costs(w.limits)
		for i, c := range costs {
			costs[i].Milli = max(0, s.At(w.now).Slots[s.Index(c.Limit.Name)].Tokens)
		}
		b, _ := w.image(s.Shard)
		if _, ok := w.charge(b, costs, sound); !ok {
			w.violated("a burst of %v on shard %d is not granted", costs, s.Shard)
		}
	}
	for _, l := range w.limits {
		x := w.history[l.Name].Worst(bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}, 0)
		if x.Excess > 0 {
			w.violated("%s: worst excess %s", l.Name, x)
		}
	}
}

// play lets some clients charge and change the shards in any order, each by what it has seen. Some
// answers are lost.
func (w *world) play(steps int, bad defect) {
	type client struct {
		images   map[int]table.Shard
		plan     *shard.Plan
		from, to int // the bounds for the count of shard 0 during the plan
	}
	var clients [4]client
	see := func(c *client, k int) {
		if b, ok := w.image(k); ok && w.rng.IntN(10) > 0 {
			c.images[k] = b
		}
	}
	for i := range clients {
		clients[i].images = map[int]table.Shard{}
		see(&clients[i], 0)
	}
	for range steps {
		c, k := &clients[w.rng.IntN(len(clients))], w.rng.IntN(maxShards)
		b, known := c.images[k]
		zero, whole := c.images[0]
		switch do := w.rng.IntN(100); {
		case do < 25:
			w.now += w.rng.Int64N([]int64{5, 1000, 100_000}[w.rng.IntN(3)])
		case do < 26:
			w.burst()
		case do < 40:
			see(c, k)
		case do < 80:
			costs := table.Costs(w.limits)
			for i, l := range w.limits {
				costs[i].Milli = w.rng.Int64N(l.Capacity/bucket.Milli/4+2) * bucket.Milli
			}
			switch {
			case !known:
				_, _, _ = w.call("add", costs, false, table.Add{Room: 50, Namespace: namespace, Entity: entity,
					Resource: resource, Shard: k, Shards: maxShards, Costs: costs, Now: w.now}.Plan())
			case w.rng.IntN(5) == 0: // refills like the aggregator
				w.charge(b, nil, bad)
			default:
				w.charge(b, costs, bad)
			}
			if delete(c.images, k); w.rng.IntN(4) > 0 {
				see(c, k)
			}
		case c.plan != nil:
			before, _ := w.image(0)
			if !w.step(c.plan, w.rng.IntN(10) == 0, bad) {
				c.plan = nil
			}
			if after, _ := w.image(0); after.State.Shards != before.State.Shards &&
				!(slices.IsSorted([]int{c.from, before.State.Shards, after.State.Shards, c.to}) ||
					slices.IsSorted([]int{c.to, after.State.Shards, before.State.Shards, c.from})) {
				w.violated("a plan from %d to %d shards changed %v to %v", c.from, c.to, before.State, after.State)
			}
		case !whole:
			see(c, 0)
		case do < 88 && zero.State.CanSplit(maxShards):
			c.plan, c.from, c.to = shard.Double(zero), zero.State.Shards, 2*zero.State.Shards
		case do < 91 && zero.State.Shards > 1:
			c.from, c.to = zero.State.Shards, zero.State.Shards/2
			c.plan = shard.Shrink(zero, c.to, slices.Collect(maps.Values(c.images))...)
		case do < 94 && known && k > 0:
			c.plan, c.from, c.to = shard.Follow(b, zero.State.Shards), 0, 0
		default:
			c.plan, c.from, c.to = shard.Propagate(zero), 0, 0
		}
	}
}

// limitSets have rates that leave remainders and capacities that halve unevenly.
var limitSets = [][]bucket.Limit{
	{{Name: "rpm", Capacity: 16_000, Amount: 7_000, Period: 3_000}},
	{{Name: "rpm", Capacity: 61_000, Amount: 61_000, Period: 60_000},
		{Name: "tpm", Capacity: 99_999_000, Amount: 1_000_003, Period: 7_001}},
	{{Name: "day", Capacity: 25_000, Amount: 1_000, Period: 86_400_000},
		{Name: "sec", Capacity: 9_000, Amount: 9_000, Period: 1_000}},
	{{Name: "fast", Capacity: 1_000_000, Amount: 999_999_999, Period: 999},
		{Name: "slow", Capacity: 8_000, Amount: 101, Period: 977}},
}

// Whatever clients do with stale images, nothing is minted, a charge from a fresh image loses
// nothing, shares add up after every call, and no window exceeds its bound. Each planted defect
// breaks that.
func TestWorlds(t *testing.T) {
	for bad, worlds := range map[defect]uint64{sound: 16, noCondition: 4, literalLevel: 4, floorRefill: 4, undivided: 8,
		fullClones: 8, staleSplit: 8} {
		splits, broken := 0, ""
		for seed := range worlds {
			w := newWorld(t, seed, limitSets[seed%uint64(len(limitSets))])
			w.planted = bad != sound
			if w.play(600, bad); bad == sound {
				w.rest()
				w.burst()
			}
			splits, broken = splits+w.splits, cmp.Or(broken, w.broken)
		}
		if t.Logf("%d splits, planted %q: %s", splits, bad, broken); (broken == "") != (bad == sound) || splits == 0 {
			t.Errorf("planted %q: broken is %q after %d splits", bad, broken, splits)
		}
	}
}
