package shard_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// actor is one process with a clock and images of its own.
type actor struct {
	w      *world
	id     int
	skew   int64
	count  int
	images map[int]table.Shard // a missing entry is not known
	absent map[int]bool
	lacked map[int]map[string]*big.Rat // how much lower than it was an image showed a shard
	plan   *shard.Plan
	leases []lease
	wants  []bucket.Limit
	flight []flight // writes that are on their way

	debt bool // settle beyond what was granted
	bad  defect
}

type lease struct {
	shard int
	costs []table.Cost
}

// flight is a call that was planned and reaches the table later.
type flight struct {
	what   string
	costs  []table.Cost
	may    loss
	forced bool  // not granted by a decision
	at     int64 // true time when it was planned
	image  *table.Shard
	lacked map[string]*big.Rat // by the image
	writes []item.Write
	done   func(items []item.Item, refused []bool, err error)
}

func newActor(w *world, id int) *actor {
	return &actor{w: w, id: id, count: 1, images: map[int]table.Shard{}, absent: map[int]bool{},
		lacked: map[int]map[string]*big.Rat{}, wants: w.limits}
}

func (a *actor) clock() int64 { return a.w.now + a.skew }

// see takes in an image.
func (a *actor) see(k int, it item.Item) {
	delete(a.images, k)
	if it == nil {
		a.absent[k] = true
		return
	}
	delete(a.absent, k)
	b, err := table.DecodeShard(it)
	if err != nil {
		a.w.t.Fatalf("seed %d: %v", a.w.seed, err)
	}
	a.images[k] = b
	a.lacked[k] = a.w.lacks(k)
	a.count = max(a.count, b.State.Shards)
}

// send puts a call on its way.
func (a *actor) send(f flight) {
	f.at = a.w.now
	if f.image != nil {
		f.lacked = a.lacked[f.image.State.Shard]
	}
	a.flight = append(a.flight, f)
}

// land lets one call that is on its way reach the table. If the answer is lost
// the actor never hears of it.
func (a *actor) land(lost bool) {
	if len(a.flight) == 0 {
		return
	}
	i := a.w.rng.IntN(len(a.flight))
	f := a.flight[i]
	a.w.longest = max(a.w.longest, a.w.now-f.at)
	a.flight = append(a.flight[:i:i], a.flight[i+1:]...)
	a.w.late, a.w.owing = nil, false
	if f.image != nil {
		a.w.owing = inDebt(f.image.State.At(a.w.now))
		a.w.since(*f.image, f.lacked)
	}
	items, refused, err := a.w.call(fmt.Sprintf("actor %d: %s", a.id, f.what), f.costs, f.may, f.forced, f.writes...)
	if !lost && f.done != nil {
		f.done(items, refused, err)
	}
}

func inDebt(s bucket.State) bool {
	return slices.ContainsFunc(s.Slots, func(sl bucket.Slot) bool { return sl.Tokens < 0 })
}

// costs returns a random request.
func (a *actor) costs() []table.Cost {
	out := make([]table.Cost, len(a.wants))
	for i, l := range a.wants {
		most := max(l.Capacity/bucket.Milli/4, 1)
		out[i] = table.Cost{Limit: l, Milli: a.w.rng.Int64N(most+1) * bucket.Milli}
		if a.w.rng.IntN(40) == 0 {
			out[i].Milli = l.Capacity / bucket.Milli * bucket.Milli
		}
	}
	return out
}

// under returns costs under the limits wanted now.
func (a *actor) under(costs []table.Cost) []table.Cost {
	out := table.Costs(a.wants)
	for i := range out {
		c, _ := table.Find(costs, out[i].Limit.Name)
		out[i].Milli = c.Milli
	}
	return out
}

// open returns the shard to use for pick k.
func (a *actor) open(k int) int {
	for k > 0 {
		if _, ok := a.images[k]; ok {
			return k
		}
		parent, ok := a.images[bucket.SplitParent(k)]
		if !a.absent[k] && (!ok || parent.State.Shards >= bucket.CountWith(k)) {
			return k
		}
		k = bucket.SplitParent(k)
	}
	return 0
}

// acquire plans one attempt from the images known, as a client does.
func (a *actor) acquire(costs []table.Cost) (planned bool) {
	if a.absent[0] {
		put, _ := table.Create(table.NewBucket{
			Namespace: namespace, Entity: entity, Resource: resource,
			Costs: costs, Lifetime: table.Expires, Now: a.clock(), Draw: a.w.draws.Uint64(),
		})
		a.send(flight{what: "create", costs: costs, writes: []item.Write{put}, done: a.answer(0, costs)})
		return true
	}
	k := a.open(a.w.rng.IntN(a.count))
	image, known := a.images[k]
	if !known {
		cold := table.Add{Room: 50, Namespace: namespace, Entity: entity, Resource: resource, Shard: k, Shards: a.count,
			Costs: costs, Now: a.clock()}.Plan()
		a.send(flight{what: fmt.Sprint("cold ", k, costs), costs: costs, writes: []item.Write{cold},
			done: a.answer(k, costs)})
		return true
	}
	if write, ok := a.bad.acquire(image, costs, a.clock()); ok {
		a.send(flight{what: fmt.Sprint("defective ", k, costs), image: &image, costs: costs, writes: []item.Write{write},
			done: a.answer(k, costs)})
		return true
	}
	c := table.Charge{Image: image, Costs: costs, Now: a.clock(), Lifetime: table.Expires}
	if a.w.rng.IntN(3) == 0 { // as in a crowd
		c.Slack, c.Room = 1+a.w.rng.Int64N(100), a.w.rng.Int64N(2)*10
	}
	plan := c.Plan()
	if !plan.Verdict.Granted {
		if a.w.rng.IntN(3) == 0 {
			delete(a.images, k) // ask next time
		}
		return false
	}
	may := nothing
	if !image.State.Matches(a.wants) || c.Room > 0 {
		may = overflow // a lowered capacity takes away what no longer fits, and room is given up
	}
	a.send(flight{what: fmt.Sprint("charge ", k, costs), costs: costs, may: may, image: &image,
		writes: []item.Write{plan.Update}, done: a.answer(k, costs)})
	return true
}

func (a *actor) answer(k int, costs []table.Cost) func([]item.Item, []bool, error) {
	return func(items []item.Item, refused []bool, err error) {
		a.see(k, items[0])
		if err == nil {
			a.leases = append(a.leases, lease{k, costs})
		}
	}
}

// settle gives back part of a lease, as a rollback or an estimate too high does,
// or takes more than was granted, into debt.
func (a *actor) settle() {
	if len(a.leases) == 0 {
		return
	}
	i := a.w.rng.IntN(len(a.leases))
	le := a.leases[i]
	a.leases = append(a.leases[:i:i], a.leases[i+1:]...)
	k := le.shard
	seen := func(items []item.Item, _ []bool, _ error) { a.see(k, items[0]) }
	if image, ok := a.images[k]; ok && a.debt && a.w.rng.IntN(2) == 0 {
		u := table.Charge{Image: image, Costs: a.under(le.costs), Now: a.clock(), Force: true}.Plan().Update
		a.send(flight{what: fmt.Sprint("settle ", k, le.costs), image: &image, costs: le.costs, forced: true,
			writes: []item.Write{u}, done: seen})
		return
	}
	back := make([]table.Cost, len(le.costs))
	for j, c := range le.costs {
		back[j] = table.Cost{Limit: c.Limit, Milli: -a.w.rng.Int64N(c.Milli/bucket.Milli+1) * bucket.Milli}
	}
	a.send(flight{what: fmt.Sprint("give back ", k, back), costs: back, may: overflow,
		writes: []item.Write{table.Adjust(bucketKey(k), back)}, done: seen})
}

// warm refills a shard from the image known, as the aggregator does.
func (a *actor) warm() {
	k := a.w.rng.IntN(a.count)
	image, ok := a.images[k]
	if !ok {
		return
	}
	u := table.Charge{Image: image, Now: a.clock()}.Plan().Update
	a.send(flight{what: fmt.Sprint("refill ", k), image: &image, writes: []item.Write{u},
		done: func(items []item.Item, _ []bool, _ error) { a.see(k, items[0]) }})
}

// grow begins, or goes on with, a plan for the shards.
func (a *actor) grow() {
	if a.plan == nil {
		zero, ok := a.images[0]
		if !ok {
			return
		}
		switch k := a.w.rng.IntN(a.count); {
		case a.w.rng.IntN(3) == 0 && zero.State.CanSplit(maxShards):
			a.plan = shard.Double(zero)
		case a.w.rng.IntN(4) == 0 && zero.State.Shards > 1:
			a.plan = shard.Shrink(zero, zero.State.Shards/2, a.others()...)
		case a.w.rng.IntN(2) == 0 && k > 0:
			b, ok := a.images[k]
			if !ok {
				return
			}
			if a.plan = shard.Follow(b, zero.State.Shards); a.w.draws.IntN(2) == 0 {
				a.plan = shard.FollowAsking(b)
			}
		default:
			a.plan = shard.Propagate(zero, a.others()...)
		}
	}
	a.step()
}

// others returns the images of shards other than 0 that the actor has, sometimes.
func (a *actor) others() []table.Shard {
	if a.w.rng.IntN(2) == 0 {
		return nil
	}
	var out []table.Shard
	for _, k := range slices.Sorted(maps.Keys(a.images)) {
		if k > 0 {
			out = append(out, a.images[k])
		}
	}
	return out
}

// step sends the next step of the plan; it reports whether there was one.
func (a *actor) step() bool {
	plan := a.plan
	s, ok := plan.Next(a.clock(), a.w.draws.Uint64())
	if !ok {
		a.plan = nil
		return false
	}
	may := overflow
	if s.Action == shard.Look {
		may = nothing
	}
	a.send(flight{what: s.String(), may: may, writes: a.bad.step(s, plan),
		done: func(items []item.Item, refused []bool, err error) {
			if err != nil {
				plan.Refused(s, refused, items)
				return
			}
			if s.Action == shard.Split {
				a.w.splits++
			}
			if s.Action == shard.Merge {
				a.w.merges++
			}
			plan.Applied(s, items[0])
		}})
	return true
}
