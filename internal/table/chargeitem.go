package table

import (
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// plans holds planned charges for reuse. The write and the earlier state outlive them, so they are
// allocated separately.
var plans = sync.Pool{New: func() any { return new(planned) }}

// planned is a charge while it is being planned.
type planned struct {
	c       Charge
	image   bucket.State // as stored, with partly stored limits completed
	before  bucket.State // at the instant of the charge, before the costs
	after   bucket.State // after the costs
	stored  bucket.State // after, as stored in the item
	costs   []int64      // by slot
	full    []bool       // by slot: the capacity bounds the level, not the line
	settled []int64      // settlements by slot; nil: none
	begins  bool         // the write begins a new generation
	u       item.Update
	cond    []item.Cond

	numbers item.Numbers
	slots   []bucket.Slot // memory for the slots of after
}

// done returns p to the pool.
func (p *planned) done() {
	clear(p.slots)
	*p = planned{costs: p.costs, full: p.full, slots: p.slots}
	plans.Put(p)
}

// makeLists allocates the lists of the write, in one piece for a charge of a few limits.
func (p *planned) makeLists() {
	few := &struct {
		set, add [4]item.Attr
		less     [3]item.Less
		remove   [2]string
		cond     [15]item.Cond
	}{}
	p.u.Set, p.u.Add, p.u.SetLess, p.u.Remove = few.set[:0], few.add[:0], few.less[:0], few.remove[:0]
	p.cond = few.cond[:0]
}

// finish adds the attributes and conditions of the item as a whole.
func (p *planned) finish() {
	image := p.c.Image
	p.u.Key = image.Key()
	p.set(layout.AttrRF, p.numbers.N(p.stored.RF))
	p.cond = sameLife(p.cond, &p.numbers, image, p.stored.RF)
	p.cond = image.calendars(p.cond, &p.u, p.after)
	if p.begins {
		p.set(AttrGeneration, item.N(nextGeneration(image, p.after.RF)))
	}
	if image.NoShardCount {
		p.set(AttrShardCount, item.N(1))
		p.identify()
	}
	remember(&p.u, p.stored)
	live(&p.u, &p.numbers, p.c.Lifetime, image, p.after, p.c.Now)
	p.u.If = item.All(p.cond...)
}

// brokenClock reports whether the item has no usable refill instant. The levels are then taken as
// stored, and the clock starts at now.
func (p *planned) brokenClock() bool {
	return p.image.NoClock || bucket.SubSat(p.image.RF, p.c.Now) > bucket.MaxSkew
}

// adopt puts a limit in force. If it was not in force, that begins a generation.
func (p *planned) adopt(l bucket.Limit) {
	before, changed := p.before.Adopt(l)
	p.before, p.begins = before, p.begins || changed
}

// identify adds missing attributes that other clients and the indexes need to find the item.
func (p *planned) identify() {
	image := p.c.Image
	image.State.Slots = nil
	whole := image.Item()
	for _, attr := range identity {
		if v, ok := whole[attr]; ok {
			p.u.SetIfAbsent = append(p.u.SetIfAbsent, item.Attr{Name: attr, Value: v})
		}
	}
}

func (p *planned) set(attr string, v item.Value) {
	p.u.Set = append(p.u.Set, item.Attr{Name: attr, Value: v})
}

func (p *planned) add(attr string, milli int64) {
	if milli != 0 {
		p.u.Add = append(p.u.Add, item.Attr{Name: attr, Value: p.numbers.N(milli)})
	}
}

// settles returns the settlements of slot i.
func (p *planned) settles(i int) int64 {
	if p.settled == nil {
		return 0
	}
	return p.settled[i]
}

// become adds the parameters of a limit; was is the stored limit.
func (p *planned) become(sl bucket.Slot, was bucket.Limit) {
	p.u.Set = append(p.u.Set, parameters(sl)...)
	if was.Soft && !sl.Soft {
		p.u.Remove = append(p.u.Remove, namesOf(sl.Name).soft)
	}
}

// parameters are the attributes that define a limit.
func parameters(sl bucket.Slot) []item.Attr {
	n, own := namesOf(sl.Name), sl.Own()
	out := []item.Attr{
		{Name: n.capacity, Value: item.N(own.Capacity)}, {Name: n.amount, Value: item.N(own.Amount)},
		{Name: n.period, Value: item.N(own.Period)},
	}
	if sl.Soft {
		out = append(out, item.Attr{Name: namesOf(sl.Name).soft, Value: item.N(0)})
	}
	return out
}

// give applies an operator's gifts, if any.
func (p *planned) give() (given bool) {
	if given = p.c.Gifts != nil; given {
		p.before = p.before.Give(p.c.Gifts)
	}
	return given
}

// moved reports whether a quota is in another period than in the image.
func (p *planned) moved(sl bucket.Slot) bool {
	_, moved := p.c.Image.moved(sl)
	return moved
}

// changed reports whether a schedule has changed the limit since the image, even if it has changed
// back: a capacity in between may have bounded the level instead of the line.
func (p *planned) changed(sl bucket.Slot) bool {
	if sl.Plan == "" {
		return false
	}
	j := p.image.Index(sl.Name)
	return j >= 0 && p.image.Slots[j].End != sl.End
}

// indexes finds a limit by name in the mended image and among the fully stored limits; -1 means not
// found. A stored limit of another form is replaced.
func (p *planned) indexes(name string) (image, stored int) {
	stored = p.c.Image.State.Index(name)
	if stored < 0 || hasLevel(p.c.Image.State.Slots[stored].Limit) {
		return p.image.Index(name), stored
	}
	p.cond = append(p.cond, p.c.Image.Untouched(name))
	p.replace(stored)
	return -1, -1
}

// replace removes limit j of the image, whose kind has changed.
func (p *planned) replace(j int) {
	if j < 0 {
		return
	}
	was := p.c.Image.State.Slots[j]
	p.cond = append(p.cond, storedAs(was.Limit)...)
	p.u.Remove = append(p.u.Remove, LimitAttrs(was.Limit)...)
}
