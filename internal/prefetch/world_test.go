package prefetch

import (
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const began = 1_700_000_000_000

// The defects that can be planted.
const (
	heldNow     = "capped by what is held now"
	notCounted  = "what is held is not counted"
	noUntil     = "hu is not written"
	untilBack   = "hu is set back by a late write"
	fromAnswer  = "life from the answer"
	toldEarly   = "told before the answer"
	mendToZero  = "mended to zero"
	youngMark   = "a mark half as old"
	endedUntold = "what ended is not told"
	overEdge    = "held over the edge of a quota"
	anyPeriod   = "given back to any period of a quota"
	grantedToo  = "what was granted is given up, too"
)

// world is one bucket of random limits. Processes with stale images write to it, with late or lost
// writes and answers; they begin and end, and some of them prefetch.
type world struct {
	*loadchecktest.World
	d        string // the planted defect
	limits   []bucket.Limit
	began    []bucket.Limit // the first limits
	stored   []bucket.Limit // the limits in the table
	ps       []*process
	ended    []*process // their last answers may still arrive
	life     int64
	skew     int64
	gaveBack []int64                      // by limit: when some of it was last given back
	steps    bool                         // shards are split and merged
	returns  bool                         // tokens are given back
	changes  bool                         // an operator fills the bucket up, and changes its limits
	deletes  bool                         // the bucket is deleted while its tokens are held, and created again
	turns    bool                         // an operator changes for how long processes hold, or whether they do
	foreign  bool                         // a Python client writes, too, and fills up the bucket despite held tokens
	held     []int64                      // by limit: the most declared held tokens when that client wrote
	tidy     bool                         // no answer is lost and no process ends: usage must be exact
	quotas   map[string]map[int64]*period // by limit and end
	grants   []grant
	used     []int64 // by limit: granted, minus given back, and forced; for shards that are gone, negative
}

// grant is a grant at an instant, or a give-back: negative costs. Or it is an operator's gift, then
// negative too, or the limits in force from then on.
type grant struct {
	at     int64
	costs  []table.Cost
	gift   bool
	limits []bucket.Limit
}

// process is one process: for each shard the last image and the held tokens.
type process struct {
	skew    int64
	images  map[int]table.Shard
	holds   map[int]*Holding
	ahead   bool
	life    int64
	granted [][]table.Cost
}

func (w *world) process() *process {
	p := &process{images: map[int]table.Shard{}, holds: map[int]*Holding{}, ahead: w.Float64() < .75}
	p.life = max(1, int64(float64(w.life)*[]float64{1, 1, .5, .2}[w.IntN(4)]))
	p.skew = w.Skew(w.skew)
	return p
}

func (p *process) hold(shard int) *Holding {
	if p.holds[shard] == nil {
		p.holds[shard] = &Holding{}
	}
	return p.holds[shard]
}

func newWorld(seed uint64, d string, skew int64) *world {
	w := &world{World: loadchecktest.New(seed, 11), d: d, skew: skew}
	w.Now, w.Late, w.Refuses, w.Changed = began, w.late, w.setsBack, w.written
	fill := math.Inf(1)
	for i := range 1 + w.IntN(3) {
		l := bucket.Limit{Name: string(rune('a' + i)), Capacity: 1000 * (2 + w.Int64N(40)), Period: 1 + w.Int64N(3000)}
		l.Amount = max(1, int64(math.Exp(w.Float64()*6-2)*float64(l.Period)))
		w.limits = append(w.limits, l)
		fill = min(fill, float64(l.Capacity)/float64(l.Amount)*float64(l.Period))
	}
	w.life = min(20_000, max(4, int64((.1+w.Float64())*min(10_000, fill))))
	w.steps, w.returns, w.tidy = w.IntN(3) == 0, w.IntN(3) == 0, w.IntN(4) == 0 && skew == 0
	w.changes = d == "" && !w.steps && skew == 0 && w.IntN(3) == 0
	if kind := w.IntN(6); d == "" && !w.steps && !w.changes {
		w.deletes, w.foreign, w.turns = kind == 0, kind == 1, kind == 2
	}
	w.quota(seed)
	if !w.tidy {
		w.Lost = 20
	}
	w.began, w.stored, w.used, w.held = w.limits, w.limits, make([]int64, len(w.limits)), make([]int64, len(w.limits))
	w.gaveBack = make([]int64, len(w.limits))
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(w.limits),
		Now: w.Now, Draw: seed})
	w.Write(put)
	for range 1 + w.IntN(4) {
		w.ps = append(w.ps, w.process())
	}
	return w
}

func (w *world) late() int64 {
	return int64(-math.Log(1-w.Float64()) * float64(w.life) * []float64{0, 0, .01, .1, .1, 1}[w.IntN(6)])
}

// grant records a grant or a give-back at an instant.
func (w *world) grant(at int64, costs []table.Cost) {
	w.grants = append(w.grants, grant{at: at, costs: costs})
	for i, c := range costs {
		w.used[i] += c.Milli
	}
}

// grantSince records a grant at an unknown instant between at and now: for each limit at the first
// one, but not before its tokens came back.
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

// clock returns a process's reading at now.
func (w *world) clock(p *process) Instant { return Instant{Wall: w.Now + p.skew, Mono: w.Now - began} }

// see records an image from an answer.
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

// Step lets some time pass, and a process act.
func (w *world) Step() {
	ms := int64(-math.Log(1-w.Float64()) * []float64{0, .01, .1, .3}[w.IntN(4)] * float64(w.life))
	if w.OneIn(100) {
		ms = 3 * w.life
	}
	w.Pass(ms)
	w.move(w.ps[w.IntN(len(w.ps))])
}

// shard returns an existing shard.
func (w *world) shard() int {
	var all []int
	for k := range 4 {
		if w.Items[key(k)] != nil {
			all = append(all, k)
		}
	}
	return all[w.IntN(len(all))]
}

func key(shard int) item.Key { return layout.BucketKey("ns", "e", "r", shard) }

// move makes a process act.
func (w *world) move(p *process) {
	k := w.shard()
	if w.quotas != nil && w.IntN(3) == 0 {
		w.unspent(p, k)
	}
	image, known := p.images[k]
	switch x := w.Float64(); {
	case x < .08 || !known && x < .5:
		w.After(w.late(), func() {
			if it := w.Items[key(k)]; it != nil {
				w.After(w.late(), func() { w.see(p, it) })
			}
		})
	case !known:
		w.cold(p, k)
	case x < .40:
		for range 1 + w.IntN(4) {
			w.takes(p, k, w.small())
		}
	case x < .45:
		w.takes(p, k, w.all(p, k))
	case x < .80:
		w.charge(p, image, w.some(image.State.At(w.Now+p.skew)), false)
	case x < .82:
		w.charge(p, image, w.small(), true)
	case x < .84:
		c := table.Charge{Image: w.seen(image), Now: w.Now + p.skew, Slack: int64(w.IntN(2) * 25)}
		w.send(c.Plan().Update, func() {})
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
		if w.OneIn(2) {
			w.close(p)
		}
		w.ended = append(w.ended, p)
		w.ps[slices.Index(w.ps, p)] = w.process()
	}
}

// close makes a process give up all its held tokens, some of them just granted, and others take the
// rest. For a shard that is gone, they are lost.
func (w *world) close(p *process) {
	for _, k := range slices.Sorted(maps.Keys(p.holds)) {
		h := p.holds[k]
		if w.OneIn(2) {
			w.takes(p, k, w.all(p, k))
		}
		granted := h.declared.costs()
		r := h.Release(w.clock(p))
		if w.d == grantedToo {
			r.Declared = granted
		}
		if len(r.Back)+len(r.Declared)+len(r.Ended) == 0 || w.Items[key(k)] == nil {
			continue
		}
		w.Count("closed")
		if !w.Write(table.Release(key(k), r)) {
			r.Declared = nil
			w.Write(table.Release(key(k), r))
		}
		q := w.ps[w.IntN(len(w.ps))]
		image, err := table.DecodeShard(w.Items[key(k)])
		if err != nil {
			panic(err)
		}
		w.charge(q, image, w.some(image.State.At(w.Now+q.skew)), false)
	}
}

func (w *world) small() []table.Cost {
	out := table.Costs(w.limits)
	for i := range out {
		out[i].Milli = 1000 * w.Int64N(3)
	}
	return out
}

// some returns a cost: a few tokens, all tokens of the state, or any number.
func (w *world) some(s bucket.State) []table.Cost {
	out := w.small()
	n := w.IntN(5)
	for i, l := range w.limits {
		switch j := s.Index(l.Name); {
		case n == 0 && j >= 0:
			out[i].Milli = max(0, s.Slots[j].Tokens/1000*1000)
		case n == 1:
			out[i].Milli = 1000 * w.Int64N(l.Capacity/1000+1)
		}
	}
	return out
}

// all returns all that a process holds of a shard.
func (w *world) all(p *process, k int) []table.Cost {
	out := table.Costs(w.limits)
	for i, l := range w.limits {
		out[i].Milli = p.hold(k).Left(l.Name, w.clock(p))
	}
	return out
}

// takes makes a process grant from its held tokens.
func (w *world) takes(p *process, k int, costs []table.Cost) {
	if p.hold(k).Take(costs, w.clock(p)) {
		w.Count("local")
		w.grant(w.Now, costs)
		p.granted = append(p.granted, w.spends(k, w.Items[key(k)], p.images[k].State, costs, true))
	}
}

// seen returns the image as a process sees it with a defect.
func (w *world) seen(image table.Shard) table.Shard {
	if w.d == notCounted || w.d == heldNow && image.State.HeldUntil <= w.Now {
		image.State.HeldUntil = 0
	}
	return image
}

// setsBack reports whether a write sets the refill instant back. Such a write is refused, unless
// clocks differ: up to table.MaxLag it is accepted, and costs that refill, with or without
// prefetched tokens.
func (w *world) setsBack(before, after item.Item) bool {
	return before != nil && after != nil && rf(after) < rf(before)-2*w.skew
}

func rf(it item.Item) int64 {
	n, _ := item.Saturated(it["rf"])
	return n
}

// cold is a process's first write to a shard.
func (w *world) cold(p *process, k int) {
	b, _ := table.DecodeShard(w.Items[key(k)])
	costs := w.small()
	add := table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shard: k, Shards: b.State.Count(), Costs: costs,
		Now: w.Now + p.skew, Room: 50}
	if w.Write(add.Plan()) {
		after := w.Items[key(k)]
		w.grant(w.Now, costs)
		w.spends(k, after, bucket.State{}, costs, false)
		w.After(w.late(), func() { w.see(p, after) })
	}
}

// giveBack gives granted tokens back: into a process's held tokens, or into the table.
func (w *world) giveBack(p *process, k int) {
	if len(p.granted) == 0 {
		return
	}
	i := w.IntN(len(p.granted))
	costs := p.granted[i]
	p.granted = slices.Delete(p.granted, i, i+1)
	back, into := slices.Clone(costs), slices.Clone(costs)
	for i := range back {
		back[i].Milli = -costs[i].Milli
		if w.d == anyPeriod {
			back[i].End, into[i].End = 0, p.images[k].State.PeriodEnd()
		}
	}
	if w.IntN(2) == 0 && p.hold(k).Settle(into, w.clock(p)) {
		w.grant(w.Now, back)
		w.refund(costs)
		return
	}
	w.send(table.Adjust(key(k), back), func() {
		w.grant(w.Now, back)
		w.refund(costs)
		for i, c := range costs {
			if c.Milli > 0 {
				w.gaveBack[i] = w.Now
			}
		}
	})
}

// reshard splits the shard of an image, or merges it with its sibling.
func (w *world) reshard(p *process, image table.Shard) {
	n, k := image.State.Count(), image.State.Shard
	now := w.Now + p.skew
	var writes []item.Write
	if n < 4 && image.State.CanSplit(4) && w.IntN(2) == 0 {
		writes = table.Split(w.seen(image), now)
	} else if n > 1 && k < n/2 {
		other, ok := p.images[k+n/2]
		if !ok || other.State.Count() != n {
			return
		}
		writes = table.Merge(w.seen(image), w.seen(other), n/2, now)
	}
	w.Send(loadchecktest.Call{Writes: writes, Arrived: func(held bool) {
		if held && len(writes) > 0 {
			w.Count("reshards")
		}
	}})
}

// raise makes an operator, with a current image, add tokens.
func (w *world) raise(p *process, image table.Shard) {
	gifts, given, now := map[string]bucket.Gift{}, table.Costs(w.limits), w.Now+p.skew
	at := image.State.At(now)
	for i, c := range w.small() {
		if w.IntN(2) == 0 { // a reset
			c.Milli = c.Limit.Capacity
		}
		if j := at.Index(c.Limit.Name); j >= 0 {
			gifts[c.Limit.Name] = bucket.Gift{Milli: c.Milli}
			given[i].Milli = -c.Milli
		}
	}
	sent := w.Now
	w.send(table.Raise(image, gifts, now), func() {
		w.grants = append(w.grants, grant{at: sent, costs: given, gift: true})
		w.Count("raises")
	})
}

// change puts other limits in force, with the next charge of any process.
func (w *world) change() {
	w.limits = slices.Clone(w.limits)
	l := &w.limits[w.IntN(len(w.limits))]
	l.Capacity = 1000 * (2 + w.Int64N(40))
	l.Amount = max(1, int64(float64(l.Amount)*(.5+w.Float64())))
}

// written records the last state of a shard that ends. A refill instant that is set back costs that
// refill.
func (w *world) written(before, after item.Item) {
	if before == nil {
		return
	}
	b, _ := table.DecodeShard(before)
	given := table.Costs(w.limits)
	for i, l := range w.limits {
		j := b.State.Index(l.Name)
		switch {
		case j >= 0 && after == nil:
			w.used[i] -= b.State.Slots[j].Spent()
		case j >= 0 && rf(after) < b.State.RF:
			r := b.State.Rate(j)
			given[i].Milli = -((b.State.RF-rf(after))*r.Amount + r.Period - 1) / r.Period
		}
	}
	if after != nil && rf(after) < b.State.RF {
		w.grants = append(w.grants, grant{at: w.Now, costs: given, gift: true})
		w.Count("set back")
	}
}

// changed records that a charge, sent at an instant, has put other limits in force.
func (w *world) changed(after item.Item, sent int64) {
	b, _ := table.DecodeShard(after)
	if is := b.State.Limits(); w.changes && !slices.Equal(w.stored, is) {
		w.grants = append(w.grants, grant{at: sent, limits: is})
		w.stored = is
		w.Count("rules")
	}
}

// send sends a write whose answer is not needed.
func (w *world) send(u item.Update, held func()) {
	w.Send(loadchecktest.Call{Writes: []item.Write{u}, Arrived: func(ok bool) {
		if ok {
			held()
		}
	}})
}
