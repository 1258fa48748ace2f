package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Add takes costs with a plain ADD, which needs no image and moves no clock. It holds if every
// level covers its cost and cannot have overflowed since the refill instant. Otherwise it is
// refused and returns the image. Processes use it for a nearly full bucket that is so busy that
// every image is too old to charge from, and for a shard whose image could not be read.
//
// If a level overflowed between the refill instant and now, an add would spend tokens that never
// existed. So the refill instant must be recent, and the level must leave room for the refill
// since.
type Add struct {
	Namespace, Entity, Resource string
	Shard, Shards               int
	Costs                       []Cost // of all limits in force; they must be stored exactly like this
	Now                         int64
	Room                        int64 // percent of the capacities, 1 to 100, that may have refilled since
}

// maxAddAge bounds the age of the refill that an add accepts, in milliseconds.
const maxAddAge = 24 * 3600 * 1000

// maxAddConds is the greatest number of conditions of an add. DynamoDB accepts 300 operators. A
// condition takes two: its own, and the AND before it; the few with an OR take two more. An add
// with more conditions, for many limits with schedules or raises, is always refused, and returns
// the image.
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
		// A level that is full only with its held tokens may have overflowed below its capacity.
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
	if !c.Limit.Refills() { // its amount is 0 over any period; one write must be able to name 32 of them
		stored = stored[:2]
	}
	a.cond = append(a.cond, stored...)
	tk := namesOf(c.Limit.Name).tokens
	if c.Limit.Soft && (c.Milli == 0 || !c.Limit.Refills()) {
		a.cond = append(append(a.cond, a.isSoft(c.Limit)...), item.Exists(tk))
		a.u.Add = append(a.u.Add, spend(tk, c)...)
		return
	}
	if c.Milli == 0 { // debt denies; a level that loses nothing may overflow
		a.cond = append(a.cond, item.Compare(tk, item.Ge, item.N(0)))
		return
	}
	if !c.Limit.Refills() { // it cannot overflow
		a.cond = append(a.cond, item.Compare(tk, item.Ge, item.N(c.Need(a.s))))
		a.u.Add = append(a.u.Add, spend(tk, c)...)
		return
	}
	r := a.s.RateOf(c.Limit)
	// The stored remainder is unknown: it is less than one period, and may add a fraction to the
	// refill.
	top := bucket.SubSat(r.Capacity, bucket.AddSat(bucket.Potential(r.Period-1, r, a.age), 1))
	if c.Limit.Soft {
		a.cond = append(append(a.cond, a.isSoft(c.Limit)...), item.Compare(tk, item.Le, item.N(top)))
	} else {
		a.cond = append(a.cond, item.Between(tk, item.N(c.Need(a.s)), item.N(max(c.Need(a.s), top))))
	}
	a.u.Add = append(a.u.Add, spend(tk, c)...)
}

// isSoft holds while a limit is stored as a soft one; otherwise its debt would last when the limit
// is changed to deny. With more limits than usual it is left out, to save conditions.
func (a Add) isSoft(l bucket.Limit) []item.Cond {
	if len(a.Costs) > maxLimitsNamed {
		return nil
	}
	return []item.Cond{item.Exists(namesOf(l.Name).soft)}
}

// maxLimitsNamed is the greatest number of limits that may each have one more condition.
const maxLimitsNamed = 16

// calendars holds while no quota period and no schedule window is over, every limit has a calendar
// or schedule of its own, as in all our items, and the item has no shared schedule, as Python
// stores it.
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
	if _, edges := s.NextEdge(); !edges { // but another process may know an edge, such as the end of a raise
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

// oldest returns the greatest age, in milliseconds, that the refill instant may have.
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
