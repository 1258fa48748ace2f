package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// How slots are stored. A limit of 10 slots with epochs of 30 s, of which 4 were taken in
// epoch 60000001 and 2 in the one before and not given back, is
//
//	s_fly_cp 10000  s_fly_rp 30000  s_fly_ep 60000001  s_fly_0 2000  s_fly_1 4000  s_fly_2 0
//
// in millislots; the counts go by the epoch modulo 3. There is no other counter: an epoch is
// forgotten by no longer being looked at. With h(e), what was taken in epoch e and not given
// back, and A(e), what those hold who took or moved their slots in e and still work,
//
//	h(ep) >= A(ep), h(ep-1) >= A(ep-1)    because a taking, a move and a giving back change both alike
//	A(e) = 0 for e < ep-1                 because their holders know that they have lost them
//	h(ep+1) = 0                           because each write that moves ep sets it
//
// so a request of c gets its slots if h(ep) + h(ep-1) + c <= capacity. DynamoDB adds nothing
// up in a condition. So the write says of each of the two how much it may be. In epoch k:
//
//	image of epoch k     IF ep = k AND h(k) <= capacity - c - the image's h(k-1)
//	                     in epoch k nothing adds to h(k-1)
//	an older image       IF h(k-1) <= x AND h(k) <= capacity - c - x, for any x
//	                     AND (ep is k-1 or k, OR ep < k-1 AND both are 0)
//	the dead in the way  IF ep < k-1
//	                     SET h(k) = c, h(k-1) = 0
//	all                  SET ep = k, h(k+1) = 0, ADD h(k) c
//
// The second is one write, no matter who has begun the epoch, and needs no image. It is refused only
// if a share of the slots is at work, or if a holder died before the bucket was left alone.
// Giving back and moving ask whether the epoch of the slots still counts:
//
//	give back  ADD h(e) -c                               IF ep is e or e+1, AND h(e) >= c
//	move       ADD h(k-1) -c, h(k) c, SET ep, h(k+1)     IF ep is k-1 or k, AND h(k-1) >= c
//
// Example: 2 slots, one taken in epoch 7 by somebody who dies, ep=7 h(7)=1. In epoch 8 a
// request of 1 finds h(7) <= 1, h(8) <= 0: granted, ep=8 h(8)=1. Another one is refused: h(8)
// is 1. In epoch 9 it finds h(8) <= 1, h(9) <= 0, and is granted: h(7) does not count any more.
//
// Python clients pass over all of this: limits of theirs begin with "b_".
const (
	prefixSlots = "s_"
	fieldEpoch  = "ep"
)

func slotsAttr(limit, field string) string { return prefixSlots + limit + "_" + field }

// takenAttr is the attribute that counts what was taken in an epoch.
func takenAttr(limit string, epoch int64) string {
	return slotsAttr(limit, strconv.Itoa(bucket.EpochSlot(epoch)))
}

// limitOfEpoch returns the limit of slots whose present epoch the attribute holds.
func limitOfEpoch(attr string) (string, bool) {
	name, ok := strings.CutSuffix(attr, "_"+fieldEpoch)
	name, has := strings.CutPrefix(name, prefixSlots)
	return name, ok && has && name != ""
}

// HasSlots reports whether an attribute is one that an item has for a limit of slots.
func HasSlots(attr []byte) bool {
	return len(attr) > 5 && string(attr[:2]) == prefixSlots && string(attr[len(attr)-3:]) == "_"+fieldEpoch
}

// slotsAttrs are all attributes of a limit of slots.
func slotsAttrs(sl bucket.Slot) []item.Attr {
	return append(slotsParameters(sl.Limit), slotsTaken(sl)...)
}

func slotsParameters(l bucket.Limit) []item.Attr {
	return []item.Attr{
		{Name: slotsAttr(l.Name, fieldCapacity), Value: item.N(l.Capacity)},
		{Name: slotsAttr(l.Name, fieldPeriod), Value: item.N(l.Period)},
	}
}

func slotsTaken(sl bucket.Slot) []item.Attr {
	out := []item.Attr{{Name: slotsAttr(sl.Name, fieldEpoch), Value: item.N(sl.Epoch())}}
	for i, n := range sl.Taken {
		out = append(out, item.Attr{Name: takenAttr(sl.Name, int64(i)), Value: item.N(n)})
	}
	return out
}

// asTaken holds while the attributes are as they are.
func asTaken(attrs []item.Attr) (cond []item.Cond) {
	for _, a := range attrs {
		cond = append(cond, item.Compare(a.Name, item.Eq, a.Value))
	}
	return cond
}

// decodeSlots reads a limit of slots.
func (b *Shard) decodeSlots(it item.Item, name string) (sl bucket.Slot, err error) {
	sl.Limit = bucket.Limit{Name: name, AtOnce: true}
	epoch := int64(0)
	to := map[string]*int64{fieldCapacity: &sl.Capacity, fieldPeriod: &sl.Period, fieldEpoch: &epoch}
	for i := range sl.Taken {
		to[strconv.Itoa(i)] = &sl.Taken[i]
	}
	for field, n := range to {
		attr := slotsAttr(name, field)
		v, ok, err := intAttr(it, attr)
		switch {
		case err != nil:
			return sl, err
		case !ok:
			return sl, fmt.Errorf("attribute %q is absent, want a number", attr)
		}
		*n = v
	}
	if sl.Capacity < 1 || sl.Period < bucket.MinEpoch || sl.Period > bucket.MaxEpoch ||
		epoch < 0 || epoch > 1<<53/sl.Period {
		return sl, fmt.Errorf("limit %q has %d slots in epoch %d of %d ms, want slots, and epochs of %d to %d ms",
			name, sl.Capacity, epoch, sl.Period, bucket.MinEpoch, bucket.MaxEpoch)
	}
	sl.End = sl.EndOf(epoch)
	return sl.Levelled(b.State), nil
}

// slots adds what happens to slot i, a limit of slots.
func (p *planned) slots(i int) {
	sl, after := p.before.Slots[i], p.after.Slots[i]
	j := p.c.Image.State.Index(sl.Name)
	if j < 0 || !p.c.Image.State.Slots[j].Lends() { // new to the item
		p.replace(j)
		p.cond = append(p.cond, item.Absent(slotsAttr(sl.Name, fieldEpoch)))
		p.u.Set = append(p.u.Set, slotsAttrs(after)...)
		return
	}
	was := p.c.Image.State.Slots[j]
	p.cond = append(p.cond, storedAs(was.Limit)...)
	if was.Limit != sl.Limit {
		p.u.Set = append(p.u.Set, slotsParameters(sl.Limit)...)
	}
	if was.Period != sl.Period || was.Astray(p.c.Now) { // other epochs: nobody may have taken any since
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

// indexes returns which limit of the image, with what is stored in part, and which limit that is
// stored in full has a name, -1 for none. Slots of that name are replaced.
func (p *planned) indexes(name string) (image, stored int) {
	stored = p.c.Image.State.Index(name)
	if stored < 0 || !p.c.Image.State.Slots[stored].Lends() {
		return p.image.Index(name), stored
	}
	p.cond = append(p.cond, p.c.Image.Untouched(name))
	p.replace(stored)
	return -1, -1
}

// replace removes limit j of the image, which is of another kind now.
func (p *planned) replace(j int) {
	if j < 0 {
		return
	}
	was := p.c.Image.State.Slots[j]
	p.cond = append(p.cond, storedAs(was.Limit)...)
	p.u.Remove = append(p.u.Remove, LimitAttrs(was.Limit)...)
}

// takeSlots adds the taking of slots in the epoch of sl, from what the image says in was.
func (p *planned) takeSlots(sl, was bucket.Slot, cost int64) {
	k := sl.Epoch()
	c, _ := Find(p.c.Costs, sl.Name)
	room := bucket.SubSat(p.before.Rate(p.before.Index(sl.Name)).Capacity, c.Need(p.before))
	ep := slotsAttr(sl.Name, fieldEpoch)
	switch n := k - was.Epoch(); {
	case n == 0:
		p.cond = append(p.cond, item.Compare(ep, item.Eq, item.N(k)),
			item.Compare(takenAttr(sl.Name, k), item.Le, item.N(room-was.Taken.Of(k-1))))
		p.add(takenAttr(sl.Name, k), cost)
		return
	case n > 1 && (was.Taken.Of(k) != 0 || was.Taken.Of(k-1) != 0): // the dead
		p.cond = append(p.cond, item.Compare(ep, item.Lt, item.N(k-1)))
		p.set(takenAttr(sl.Name, k), item.N(cost))
		p.set(takenAttr(sl.Name, k-1), item.N(0))
	default:
		p.cond = append(p.cond, room2(sl.Limit, k, room, was.Taken.Of(k-1)*max(2-n, 0))...)
		p.add(takenAttr(sl.Name, k), cost)
	}
	p.u.Set = append(p.u.Set, begins(sl.Limit, k)...)
}

// begins moves the item into an epoch, or leaves it there.
func begins(l bucket.Limit, epoch int64) []item.Attr {
	return []item.Attr{
		{Name: slotsAttr(l.Name, fieldEpoch), Value: item.N(epoch)},
		{Name: takenAttr(l.Name, epoch+1), Value: item.N(0)},
	}
}

// room2 holds while there is a room in epoch k, no matter who has begun it: half of what the image
// saw free for those who have taken since in each of the two epochs that count.
func room2(l bucket.Limit, k, room, seen int64) []item.Cond {
	ep, now, before := slotsAttr(l.Name, fieldEpoch), takenAttr(l.Name, k), takenAttr(l.Name, k-1)
	x := seen + (room-seen)/2
	return []item.Cond{
		item.Compare(now, item.Le, item.N(room-x)),
		item.Compare(before, item.Le, item.N(x)),
		item.Any(item.Between(ep, item.N(k-1), item.N(k)), item.All(item.Compare(ep, item.Lt, item.N(k-1)),
			item.Compare(now, item.Eq, item.N(0)), item.Compare(before, item.Eq, item.N(0)))),
	}
}

// countsYet holds while slots count that are given back.
func (c Cost) countsYet() []item.Cond {
	e := c.Limit.Epoch(c.End)
	return []item.Cond{
		item.Between(slotsAttr(c.Limit.Name, fieldEpoch), item.N(e), item.N(e+1)),
		item.Compare(takenAttr(c.Limit.Name, e), item.Ge, item.N(-c.Milli)),
	}
}

// Renew moves slots into the epoch that holds an instant: costs are what was taken of limits
// of slots in the epoch before, positive, with the End of that. It takes and creates nothing,
// and is refused if their holders were too late, or if somebody has begun a later epoch. The
// slots of an item that expires count until it would, so the item does not before that: ttl
// is when it does, 0 for never.
func Renew(key item.Key, ttl int64, costs []Cost) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	expires := int64(0)
	for _, c := range costs {
		e := c.Limit.Epoch(c.End)
		ep, before := slotsAttr(c.Limit.Name, fieldEpoch), takenAttr(c.Limit.Name, e)
		cond = append(cond, item.Between(ep, item.N(e), item.N(e+1)), item.Compare(before, item.Ge, item.N(c.Milli)))
		u.Add = append(u.Add, item.Attr{Name: before, Value: item.N(-c.Milli)},
			item.Attr{Name: takenAttr(c.Limit.Name, e+1), Value: item.N(c.Milli)})
		u.Set = append(u.Set, begins(c.Limit, e+1)...)
		expires = max(expires, ceilSeconds(c.Limit.EndOf(e+2)+bucket.EdgeMargin)+ttlFloor)
	}
	if ttl > 0 && ttl < expires {
		u.Set = append(u.Set, item.Attr{Name: AttrTTL, Value: item.N(expires)})
		cond = append(cond, item.Any(item.Absent(AttrTTL), item.Compare(AttrTTL, item.Le, item.N(expires))))
	}
	u.Add = appendWCU(u.Add)
	u.If = item.All(append(cond, item.Exists(attrLimit(bucket.WCU, fieldTokens)))...)
	return u
}
