package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Add takes the costs by a plain add, which needs no image and moves no clock. It holds if every
// level covers its cost and cannot have overflowed since the refill instant. Otherwise it is
// refused and returns the image. A crowd sends it to a bucket that is nearly full, where images are too
// old to charge from. A process sends it to a shard whose image it could not read.
//
// A level that overflowed between its refill instant and now would pay out tokens that never
// existed. So the refill instant must be recent, and the level must leave room for the refill
// since.
type Add struct {
	Namespace, Entity, Resource string
	Shard, Shards               int
	Costs                       []Cost // of all limits in force; they must be stored like this
	Now                         int64
	Room                        int64 // percent of the capacities, 1 to 100, that may have been refilled since
}

// maxAddAge bounds how old a refill an add accepts, in milliseconds.
const maxAddAge = 24 * 3600 * 1000

// maxAddConds is how many conditions an add may have. DynamoDB accepts 300 operators. Each condition takes two,
// its own and the AND before it; the few with an OR take two more. An add of more conditions, for many limits
// with schedules or raises, is always refused, and returns the image.
const maxAddConds = 136

// Plan renders the write. It is pure.
func (a Add) Plan() item.Update {
	a.Costs = InForce(a.Costs, a.Now)
	s := bucket.State{Shard: a.Shard, Shards: a.Shards}
	p := &adding{Add: a, s: s, age: a.oldest(s)}
	p.u.Key = layout.BucketKey(a.Namespace, a.Entity, a.Resource, a.Shard)
	p.cond = []item.Cond{
		counted(item.Eq, s.Count()),
		item.Compare(layout.AttrRF, item.Ge, item.N(a.Now-p.age)),
		item.Exists(namesOf(bucket.WCU).tokens),
		// A level that is full together with its held tokens may have overflowed below its capacity.
		heldNotAfter(a.Now - p.age),
	}
	p.cond = append(p.cond, a.calendars()...)
	for _, c := range a.Costs {
		formOf(c.Limit).add(p, c)
	}
	p.u.Add = appendWCU(p.u.Add)
	lives := item.Any(item.Absent(layout.AttrTTL), item.Compare(layout.AttrTTL, item.Gt, item.N(safeTTL(a.Costs, a.Now))))
	if p.cond = append(p.cond, lives); len(p.cond) > maxAddConds {
		p.cond = []item.Cond{item.Exists(item.AttrPK), item.Absent(item.AttrPK)}
	}
	p.u.If = item.All(p.cond...)
	return p.u
}

func (byLevel) add(a *adding, c Cost) {
	stored := storedAs(c.Limit)
	if !c.Limit.Refills() { // its amount is 0 over any period; one write has to name 32 of them
		stored = stored[:2]
	}
	a.cond = append(a.cond, stored...)
	tk := namesOf(c.Limit.Name).tokens
	if c.Limit.Soft && (c.Milli == 0 || !c.Limit.Refills()) {
		a.cond = append(append(a.cond, a.isSoft(c.Limit)...), item.Exists(tk))
		a.u.Add = append(a.u.Add, spend(tk, c)...)
		return
	}
	if c.Milli == 0 { // debt denies; a level that nothing is taken from may overflow
		a.cond = append(a.cond, item.Compare(tk, item.Ge, item.N(0)))
		return
	}
	if !c.Limit.Refills() { // it does not overflow
		a.cond = append(a.cond, item.Compare(tk, item.Ge, item.N(c.Need(a.s))))
		a.u.Add = append(a.u.Add, spend(tk, c)...)
		return
	}
	r := a.s.RateOf(c.Limit)
	// The stored remainder is not known: it is less than one period, and together with the time it
	// may yield a fraction more.
	top := bucket.SubSat(r.Capacity, bucket.AddSat(bucket.Potential(r.Period-1, r, a.age), 1))
	if c.Limit.Soft {
		a.cond = append(append(a.cond, a.isSoft(c.Limit)...), item.Compare(tk, item.Le, item.N(top)))
	} else {
		a.cond = append(a.cond, item.Between(tk, item.N(c.Need(a.s)), item.N(max(c.Need(a.s), top))))
	}
	a.u.Add = append(a.u.Add, spend(tk, c)...)
}

// isSoft holds while a limit is stored as a soft one. The debt of one that is not would stay
// when it is made to deny. Of more limits than usual it is left out, for the room that there
// is in a condition.
func (a Add) isSoft(l bucket.Limit) []item.Cond {
	if len(a.Costs) > maxLimitsNamed {
		return nil
	}
	return []item.Cond{item.Exists(namesOf(l.Name).soft)}
}

// maxLimitsNamed is how many limits may have one condition more each.
const maxLimitsNamed = 16

// calendars holds while no period of a quota and no window of a schedule is over, and all have calendars
// and schedules of their own, as in every item of ours, and the item has none for all as Python's.
func (a Add) calendars() (cond []item.Cond) {
	s := bucket.State{}
	for _, c := range a.Costs {
		s.Slots = append(s.Slots, bucket.Slot{Limit: c.Limit}.As(bucket.SubSat(a.Now, bucket.EdgeMargin)))
	}
	zone := Shard{}.zone(s)
	for _, sl := range s.Slots {
		for _, p := range clockParameters(sl, zone) {
			cond = append(cond, item.Compare(p.Name, item.Eq, p.Value))
		}
	}
	valid := item.Compare(attrValidUntil, item.Gt, item.N(a.Now))
	if _, edges := s.NextEdge(); !edges { // but another process may know of one, as of a raise
		valid = item.Any(item.Absent(attrValidUntil), valid)
	}
	if cond == nil {
		return []item.Cond{valid}
	}
	if zone != "" {
		cond = append(cond, item.Compare(layout.AttrZone, item.Eq, item.S(zone)))
	}
	cond = append(cond, valid, item.Absent(layout.FieldSchedule))
	first := int64(bucket.Never)
	for _, sl := range s.Slots {
		first = min(first, sl.Changes(a.Now))
	}
	if first != bucket.Never { // no other limit is in force
		cond = append(cond, item.Compare(attrValidUntil, item.Le, item.N(first-bucket.EdgeMargin)))
	}
	return cond
}

// oldest is how old, in milliseconds, the refill instant may be.
func (a Add) oldest(s bucket.State) int64 {
	age := int64(maxAddAge)
	for _, c := range a.Costs {
		if !c.Limit.Refills() {
			continue
		}
		r := s.RateOf(c.Limit)
		room := percent(a.Room, r.Capacity)
		if !c.Limit.Soft {
			room = min(room, r.Capacity-c.Need(s))
		}
		age = min(age, max(bucket.Wait(0, 0, r, room)-2, 0))
	}
	return age
}
