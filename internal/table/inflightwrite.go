package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// epochs is the form of in-flight limits, see inflight.go.
type epochs struct{}

func (epochs) put(it item.Item, sl bucket.Slot) {
	for _, a := range slotsAttrs(sl) {
		it[a.Name] = a.Value
	}
}

func (epochs) names(l bucket.Limit) (out []string) {
	for _, a := range slotsAttrs(bucket.Slot{Limit: l}) {
		out = append(out, a.Name)
	}
	return out
}

func (epochs) is(l bucket.Limit) []item.Cond { return asTaken(slotsParameters(l)) }

func (epochs) untouched(b Shard, i int) item.Cond {
	return item.All(asTaken(slotsTaken(b.State.Slots[i]))...)
}

func (epochs) untaken(p *planned, sl bucket.Slot) item.Cond { return p.c.Image.Untouched(sl.Name) }

func (epochs) add(a *adding, c Cost) {
	a.cond = append(a.cond, storedAs(c.Limit)...)
	if c.Milli <= 0 {
		return
	}
	k := c.Limit.EpochAt(a.Now)
	a.cond = append(a.cond, room2(c.Limit, k, bucket.SubSat(a.s.RateOf(c.Limit).Capacity, c.Need(a.s)), 0)...)
	a.u.Set = append(a.u.Set, begins(c.Limit, k)...)
	a.u.Add = append(a.u.Add, item.Attr{Name: takenAttr(c.Limit.Name, k), Value: item.N(c.Milli)})
}

// adjust gives back; only a charge takes more.
func (epochs) adjust(u *item.Update, c Cost) []item.Cond {
	if c.Milli > 0 {
		return nil
	}
	u.Add = append(u.Add, item.Attr{Name: takenAttr(c.Limit.Name, c.Limit.Epoch(c.End)), Value: item.N(c.Milli)})
	return c.countsYet()
}

// resize leaves slots on shard 0, unchanged.
func (epochs) resize(r *resized, i int) {
	if sl := r.stored.Slots[i]; r.b.State.Index(sl.Name) < 0 {
		r.u.Set = append(r.u.Set, slotsAttrs(sl)...)
		r.cond = append(r.cond, item.Absent(namesOf(sl.Name).epoch))
	}
}

func (epochs) charge(p *planned, i int) {
	sl, after := p.before.Slots[i], p.after.Slots[i]
	j := p.c.Image.State.Index(sl.Name)
	if j < 0 || hasLevel(p.c.Image.State.Slots[j].Limit) { // new to the item
		p.replace(j)
		p.cond = append(p.cond, item.Absent(namesOf(sl.Name).epoch))
		p.u.Set = append(p.u.Set, slotsAttrs(after)...)
		return
	}
	was := p.c.Image.State.Slots[j]
	p.cond = append(p.cond, storedAs(was.Limit)...)
	if was.Limit != sl.Limit {
		p.u.Set = append(p.u.Set, slotsParameters(sl.Limit)...)
	}
	if was.Period != sl.Period || was.Astray(p.c.Now) { // other epochs: no slots may have been taken since
		p.cond = append(p.cond, asTaken(slotsTaken(was))...)
		p.u.Set = append(p.u.Set, slotsTaken(after)...)
		return
	}
	switch cost := p.costs[i]; {
	case cost > 0:
		p.takeSlots(sl, was, cost)
	case cost < 0:
		c, _ := Find(p.c.Costs, sl.Name)
		p.cond = append(p.cond, c.countsYet()...)
		p.add(takenAttr(sl.Name, sl.Limit.Epoch(c.End)), cost)
	}
}

// takeSlots takes slots in the epoch of sl; was is the slot of the image.
func (p *planned) takeSlots(sl, was bucket.Slot, cost int64) {
	k := sl.Epoch()
	c, _ := Find(p.c.Costs, sl.Name)
	room := bucket.SubSat(p.before.Rate(p.before.Index(sl.Name)).Capacity, c.Need(p.before))
	ep := namesOf(sl.Name).epoch
	switch n := k - was.Epoch(); {
	case n == 0:
		p.cond = append(p.cond, item.Compare(ep, item.Eq, item.N(k)),
			item.Compare(takenAttr(sl.Name, k), item.Le, item.N(room-was.Taken.Of(k-1))))
		p.add(takenAttr(sl.Name, k), cost)
		return
	case n > 1 && (was.Taken.Of(k) != 0 || was.Taken.Of(k-1) != 0): // slots of dead holders
		p.cond = append(p.cond, item.Compare(ep, item.Lt, item.N(k-1)))
		p.set(takenAttr(sl.Name, k), item.N(cost))
		p.set(takenAttr(sl.Name, k-1), item.N(0))
	default:
		p.cond = append(p.cond, room2(sl.Limit, k, room, was.Taken.Of(k-1))...)
		p.add(takenAttr(sl.Name, k), cost)
	}
	p.u.Set = append(p.u.Set, begins(sl.Limit, k)...)
}

// begins moves the item into an epoch, or leaves it there.
func begins(l bucket.Limit, epoch int64) []item.Attr {
	return []item.Attr{
		{Name: namesOf(l.Name).epoch, Value: item.N(epoch)},
		{Name: takenAttr(l.Name, epoch+1), Value: item.N(0)},
	}
}

// room2 holds while there is room in epoch k, whether or not the epoch has begun. Two epochs count;
// in each, others may have taken half of the room that the image shows.
func room2(l bucket.Limit, k, room, seen int64) []item.Cond {
	ep, now, before := namesOf(l.Name).epoch, takenAttr(l.Name, k), takenAttr(l.Name, k-1)
	x := seen + (room-seen)/2
	return []item.Cond{
		item.Compare(now, item.Le, item.N(room-x)),
		item.Compare(before, item.Le, item.N(x)),
		item.Any(item.Between(ep, item.N(k-1), item.N(k)), item.All(item.Compare(ep, item.Lt, item.N(k-1)),
			item.Compare(now, item.Eq, item.N(0)), item.Compare(before, item.Eq, item.N(0)))),
	}
}

// countsYet holds while the slots to give back still count.
func (c Cost) countsYet() []item.Cond {
	e := c.Limit.Epoch(c.End)
	return []item.Cond{
		item.Between(namesOf(c.Limit.Name).epoch, item.N(e), item.N(e+1)),
		item.Compare(takenAttr(c.Limit.Name, e), item.Ge, item.N(-c.Milli)),
	}
}

// Renew moves slots into the next epoch. costs are the slots taken in one epoch, positive, with its
// End. Renew takes and creates nothing. It is refused if the holders are too late, or if a later
// epoch has begun. Slots count until their epochs end, so the item must not expire earlier: ttl is
// its expiry, 0 for never.
func Renew(key item.Key, ttl int64, costs []Cost) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	expires := int64(0)
	for _, c := range costs {
		e := c.Limit.Epoch(c.End)
		ep, before := namesOf(c.Limit.Name).epoch, takenAttr(c.Limit.Name, e)
		cond = append(cond, item.Between(ep, item.N(e), item.N(e+1)), item.Compare(before, item.Ge, item.N(c.Milli)))
		u.Add = append(u.Add, item.Attr{Name: before, Value: item.N(-c.Milli)},
			item.Attr{Name: takenAttr(c.Limit.Name, e+1), Value: item.N(c.Milli)})
		u.Set = append(u.Set, begins(c.Limit, e+1)...)
		expires = max(expires, ceilSeconds(c.Limit.EndOf(e+2)+bucket.EdgeMargin)+ttlFloor)
	}
	if ttl > 0 && ttl < expires {
		u.Set = append(u.Set, item.Attr{Name: layout.AttrTTL, Value: item.N(expires)})
		cond = append(cond, item.Any(item.Absent(layout.AttrTTL), item.Compare(layout.AttrTTL, item.Le, item.N(expires))))
	}
	u.Add = appendWCU(u.Add)
	u.If = item.All(append(cond, item.Exists(namesOf(bucket.WCU).tokens))...)
	return u
}
