package ahead

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const began = 1_700_000_000_000

// defect is something that a world does wrong on purpose.
type defect string

const (
	sound       defect = ""
	heldNow     defect = "capped by what is held now"
	notCounted  defect = "what is held is not counted"
	noUntil     defect = "hu is not written"
	untilBack   defect = "hu is set back by a late write"
	fromAnswer  defect = "life from the answer"
	toldEarly   defect = "told before the answer"
	mendToZero  defect = "mended to zero"
	youngMark   defect = "a mark half as old"
	endedUntold defect = "what ended is not told"
	overEdge    defect = "held over the edge of a quota"
	anyPeriod   defect = "given back to any period of a quota"
	nothing     defect = "nothing at all" // the worlds in which defects are planted, without one
)

// world is one bucket of random limits, written to by processes with stale images, whose
// writes and answers are late or lost, which begin and end, and of which some take ahead.
type world struct {
	rng      *rand.Rand
	d        defect
	now      int64
	limits   []bucket.Limit
	began    []bucket.Limit // the first limits
	items    map[item.Key]item.Item
	ps       []*process
	ended    []*process // whose last answers may still come
	queue    []event
	life     int64
	skew     int64
	gaveBack []int64                      // by limit: when some of it was last given back
	steps    bool                         // shards are split and merged
	returns  bool                         // tokens are given back
	changes  bool                         // an operator fills the bucket up, and changes its limits
	deletes  bool                         // the bucket is deleted under those who hold of it, and made anew
	turns    bool                         // an operator changes for how long processes hold, or that they do
	foreign  bool                         // a Python client writes, too, and fills the bucket up whatever is held
	held     []int64                      // by limit: the most that the item said was held when that client wrote
	tidy     bool                         // no answer is lost and no process ends: usage must be exact
	quotas   map[string]map[int64]*period // by limit and end
	grants   []grant
	used     []int64 // by limit: granted, less what was given back, and forced; of shards that are gone, negative

	sums
}

type event struct {
	at int64
	do func()
}

// grant is what was granted at an instant, or given back: negative costs. Or it is what an
// operator put into the bucket, then negative too, or the limits that are in force from then on.
type grant struct {
	at     int64
	costs  []table.Cost
	gift   bool
	limits []bucket.Limit
}

// process is one process: for each shard the last image, and what it holds.
type process struct {
	skew    int64
	images  map[int]table.Shard
	holds   map[int]*Holding
	ahead   bool
	life    int64
	granted [][]table.Cost
}

func (w *world) process() *process {
	p := &process{images: map[int]table.Shard{}, holds: map[int]*Holding{}, ahead: w.rng.Float64() < .75}
	p.life = max(1, int64(float64(w.life)*[]float64{1, 1, .5, .2}[w.rng.IntN(4)]))
	if w.skew > 0 {
		p.skew = w.rng.Int64N(2*w.skew+1) - w.skew
	}
	return p
}

func (p *process) hold(shard int) *Holding {
	if p.holds[shard] == nil {
		p.holds[shard] = &Holding{}
	}
	return p.holds[shard]
}

func newWorld(seed uint64, d defect, skew int64) *world {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{rng: rng, d: d, now: began, items: map[item.Key]item.Item{}, skew: skew}
	fill := math.Inf(1)
	for i := range 1 + rng.IntN(3) {
		l := bucket.Limit{Name: string(rune('a' + i)), Capacity: 1000 * (2 + rng.Int64N(40)), Period: 1 + rng.Int64N(3000)}
		l.Amount = max(1, int64(math.Exp(rng.Float64()*6-2)*float64(l.Period)))
		w.limits = append(w.limits, l)
		fill = min(fill, float64(l.Capacity)/float64(l.Amount)*float64(l.Period))
	}
	w.life = min(20_000, max(4, int64((.1+rng.Float64())*min(10_000, fill))))
	w.steps, w.returns, w.tidy = rng.IntN(3) == 0, rng.IntN(3) == 0, rng.IntN(4) == 0 && skew == 0
	w.changes = d == sound && !w.steps && skew == 0 && rng.IntN(3) == 0
	if kind := rng.IntN(6); d == sound && !w.steps && !w.changes {
		w.deletes, w.foreign, w.turns = kind == 0, kind == 1, kind == 2
	}
	w.quota(seed)
	w.began, w.used, w.held = w.limits, make([]int64, len(w.limits)), make([]int64, len(w.limits))
	w.gaveBack = make([]int64, len(w.limits))
	put, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(w.limits),
		Now: w.now, Draw: seed})
	w.items[b.Key()] = put.Item
	for range 1 + rng.IntN(4) {
		w.ps = append(w.ps, w.process())
	}
	return w
}

func (w *world) after(d int64, do func()) {
	at := w.now + d
	i := sort.Search(len(w.queue), func(i int) bool { return w.queue[i].at > at })
	w.queue = slices.Insert(w.queue, i, event{at, do})
}

func (w *world) late() int64 {
	return int64(-math.Log(1-w.rng.Float64()) * float64(w.life) * []float64{0, 0, .01, .1, .1, 1}[w.rng.IntN(6)])
}

// grant notes what was granted at an instant, or given back.
func (w *world) grant(at int64, costs []table.Cost) {
	w.grants = append(w.grants, grant{at: at, costs: costs})
	for i, c := range costs {
		w.used[i] += c.Milli
	}
}

// grantSince notes what was granted between an instant and now: of each limit at that instant, but
// not before what it is granted from came back.
func (w *world) grantSince(at int64, costs []table.Cost) {
	for i, c := range costs {
		one := slices.Clone(costs)
		for j := range one {
			one[j].Milli = 0
		}
		one[i] = c
		w.grant(max(at, w.gaveBack[i]), one)
	}
}

// clock is what a process reads at now.
func (w *world) clock(p *process) Instant { return Instant{Wall: w.now + p.skew, Mono: w.now - began} }

// see notes an image that an answer has brought.
func (w *world) see(p *process, it item.Item) {
	b, err := table.DecodeShard(it)
	if err != nil {
		panic(err)
	}
	k := b.State.Shard
	if old, ok := p.images[k]; ok && old.Generation == b.Generation && old.State.RF > b.State.RF {
		return
	} else if ok && table.Began(old.Generation) > table.Began(b.Generation) {
		return
	}
	p.images[k] = b
	if w.d == youngMark {
		b.State.HeldUntil -= max(0, b.State.HeldUntil-b.State.RF) / 2
	}
	p.hold(k).See(b, p.life)
}

// play plays so many moves, and lets everything arrive.
func (w *world) play(moves int) {
	for range moves {
		step := int64(-math.Log(1-w.rng.Float64()) * []float64{0, .01, .1, .3}[w.rng.IntN(4)] * float64(w.life))
		if w.rng.IntN(100) == 0 {
			step = 3 * w.life
		}
		w.pass(w.now + step)
		w.move(w.ps[w.rng.IntN(len(w.ps))])
	}
	w.pass(w.now + 100*w.life + 100_000)
}

func (w *world) pass(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := w.queue[0]
		w.queue = w.queue[1:]
		w.now = e.at
		e.do()
	}
	w.now = until
}

// shard returns a shard that there is.
func (w *world) shard() int {
	var all []int
	for k := range 4 {
		if w.items[key(k)] != nil {
			all = append(all, k)
		}
	}
	return all[w.rng.IntN(len(all))]
}

func key(shard int) item.Key { return layout.BucketKey("ns", "e", "r", shard) }

// move lets a process do something.
func (w *world) move(p *process) {
	k := w.shard()
	if w.quotas != nil && w.rng.IntN(3) == 0 {
		w.unspent(p, k)
	}
	image, known := p.images[k]
	switch x := w.rng.Float64(); {
	case x < .08 || !known && x < .5:
		w.after(w.late(), func() {
			if it := w.items[key(k)]; it != nil {
				w.after(w.late(), func() { w.see(p, it) })
			}
		})
	case !known:
		w.cold(p, k)
	case x < .40:
		for range 1 + w.rng.IntN(4) {
			w.takes(p, k, w.small())
		}
	case x < .45:
		w.takes(p, k, w.all(p, k))
	case x < .80:
		w.charge(p, image, w.some(image.State.At(w.now+p.skew)), false)
	case x < .82:
		w.charge(p, image, w.small(), true)
	case x < .84:
		c := table.Charge{Image: w.seen(image), Now: w.now + p.skew, Slack: int64(w.rng.IntN(2) * 25)}
		u := c.Plan().Update
		w.after(w.late(), func() { w.write(u) })
	case x < .88 && w.returns, x < .95 && w.d == anyPeriod:
		w.giveBack(p, k)
	case x < .92 && w.steps:
		w.reshard(p, image)
	case x < .90 && w.deletes:
		w.anew()
	case x < .90 && w.foreign:
		w.python(k)
	case x < .92:
		w.settles(p, k)
	case x < .93 && w.changes:
		w.raise(p, image)
	case x < .94 && w.changes:
		w.change()
	case x > .96 && w.turns:
		w.turn(p)
	case x < .94 && !w.tidy:
		w.ended = append(w.ended, p)
		w.ps[slices.Index(w.ps, p)] = w.process()
	}
}

func (w *world) small() []table.Cost {
	out := table.Costs(w.limits)
	for i := range out {
		out[i].Milli = 1000 * w.rng.Int64N(3)
	}
	return out
}

// some is a cost: a few tokens, all that the state has, or any number.
func (w *world) some(s bucket.State) []table.Cost {
	out := w.small()
	n := w.rng.IntN(5)
	for i, l := range w.limits {
		switch j := s.Index(l.Name); {
		case n == 0 && j >= 0:
			out[i].Milli = max(0, s.Slots[j].Tokens/1000*1000)
		case n == 1:
			out[i].Milli = 1000 * w.rng.Int64N(l.Capacity/1000+1)
		}
	}
	return out
}

// all is all that a process holds of a shard.
func (w *world) all(p *process, k int) []table.Cost {
	out := table.Costs(w.limits)
	for i, l := range w.limits {
		out[i].Milli = p.hold(k).Left(l.Name, w.clock(p))
	}
	return out
}

// takes lets a process grant from what it holds.
func (w *world) takes(p *process, k int, costs []table.Cost) {
	if p.hold(k).Take(costs, w.clock(p)) {
		w.local++
		w.grant(w.now, costs)
		p.granted = append(p.granted, w.spends(k, w.items[key(k)], p.images[k].State, costs, true))
	}
}

// seen is the image as a defect lets a process see it.
func (w *world) seen(image table.Shard) table.Shard {
	if w.d == notCounted || w.d == heldNow && image.State.HeldUntil <= w.now {
		image.State.HeldUntil = 0
	}
	return image
}

// write applies an update as the table would. One that would set the refill instant back is
// refused, but for clocks that differ: up to table.MaxLag it is accepted, and costs that
// refill, with tokens taken ahead or without.
func (w *world) write(u item.Update) (after item.Item, held bool) {
	before, k := w.items[u.Key], u.Key
	sets := slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == "hu" })
	if w.d == untilBack && sets && before["hu"] != nil {
		before = maps.Clone(before)
		before["hu"] = item.N(0) // its condition holds
	}
	after, held, err := u.Apply(before)
	if err != nil {
		panic(err)
	}
	if !held || w.setBack(before, after) {
		return before, false
	}
	w.items[k] = after
	return after, true
}

func (w *world) setBack(before, after item.Item) bool {
	return before != nil && after != nil && rf(after) < rf(before)-2*w.skew
}

func rf(it item.Item) int64 {
	n, _ := item.Saturated(it["rf"])
	return n
}

// cold is the first write of a process to a shard.
func (w *world) cold(p *process, k int) {
	b, _ := table.DecodeShard(w.items[key(k)])
	costs := w.small()
	add := table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shard: k, Shards: b.State.Count(), Costs: costs,
		Now: w.now + p.skew, Room: 50}
	if after, held := w.write(add.Plan()); held {
		w.grant(w.now, costs)
		w.spends(k, after, bucket.State{}, costs, false)
		w.after(w.late(), func() { w.see(p, after) })
	}
}

// giveBack gives back what a process was granted: into what it holds, or into the table.
func (w *world) giveBack(p *process, k int) {
	if len(p.granted) == 0 {
		return
	}
	i := w.rng.IntN(len(p.granted))
	costs := p.granted[i]
	p.granted = slices.Delete(p.granted, i, i+1)
	back, into := slices.Clone(costs), slices.Clone(costs)
	for i := range back {
		back[i].Milli = -costs[i].Milli
		if w.d == anyPeriod {
			back[i].End, into[i].End = 0, p.images[k].State.PeriodEnd()
		}
	}
	if w.rng.IntN(2) == 0 && p.hold(k).Settle(into, w.clock(p)) {
		w.grant(w.now, back)
		w.refund(costs)
		return
	}
	u := table.Adjust(key(k), back)
	w.after(w.late(), func() {
		if w.items[key(k)] == nil {
			return
		}
		if _, held := w.write(u); held {
			w.grant(w.now, back)
			w.refund(costs)
			for i, c := range costs {
				if c.Milli > 0 {
					w.gaveBack[i] = w.now
				}
			}
		}
	})
}

// reshard splits the shard of an image, or merges it with its sibling.
func (w *world) reshard(p *process, image table.Shard) {
	n, k := image.State.Count(), image.State.Shard
	now := w.now + p.skew
	var writes []item.Write
	if n < 4 && image.State.CanSplit(4) && w.rng.IntN(2) == 0 {
		writes = table.Split(w.seen(image), now)
	} else if n > 1 && k < n/2 {
		other, ok := p.images[k+n/2]
		if !ok || other.State.Count() != n {
			return
		}
		writes = table.Merge(w.seen(image), w.seen(other), n/2, now)
	}
	w.after(w.late(), func() {
		after := map[item.Key]item.Item{}
		for _, x := range writes {
			it, held, err := x.Apply(w.items[x.Target()])
			if !held || err != nil || w.setBack(w.items[x.Target()], it) {
				return
			}
			after[x.Target()] = it
		}
		for k, it := range after {
			if it == nil {
				w.gone(w.items[k])
			}
			w.items[k] = it
		}
		if len(writes) > 0 {
			w.reshards++
		}
	})
}

// raise lets an operator, who has just looked, put tokens in.
func (w *world) raise(p *process, image table.Shard) {
	gifts, given, now := map[string]bucket.Gift{}, table.Costs(w.limits), w.now+p.skew
	at := image.State.At(now)
	for i, c := range w.small() {
		if w.rng.IntN(2) == 0 { // a reset
			c.Milli = c.Limit.Capacity
		}
		if j := at.Index(c.Limit.Name); j >= 0 {
			gifts[c.Limit.Name] = bucket.Gift{Milli: c.Milli}
			given[i].Milli = -c.Milli
		}
	}
	u, sent := table.Raise(image, gifts, now), w.now
	w.after(w.late(), func() {
		if _, held := w.write(u); held {
			w.grants = append(w.grants, grant{at: sent, costs: given, gift: true})
			w.raises++
		}
	})
}

// change brings other limits in force, with the next charge of anybody.
func (w *world) change() {
	w.limits = slices.Clone(w.limits)
	l := &w.limits[w.rng.IntN(len(w.limits))]
	l.Capacity = 1000 * (2 + w.rng.Int64N(40))
	l.Amount = max(1, int64(float64(l.Amount)*(.5+w.rng.Float64())))
}

// changed notes that a charge, sent at an instant, has brought other limits in force.
func (w *world) changed(before, after item.Item, sent int64) {
	was, _ := table.DecodeShard(before)
	is, _ := table.DecodeShard(after)
	if !slices.Equal(was.State.Limits(), is.State.Limits()) {
		w.grants = append(w.grants, grant{at: sent, limits: is.State.Limits()})
		w.rules++
	}
}

// gone notes the last word of a shard that ends.
func (w *world) gone(it item.Item) {
	b, _ := table.DecodeShard(it)
	for i, l := range w.limits {
		if j := b.State.Index(l.Name); j >= 0 {
			w.used[i] -= b.State.Slots[j].Spent()
		}
	}
}
