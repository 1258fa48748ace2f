package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Slots are stored like this. A limit of 10 slots with epochs of 30 s, of which 4 were taken in
// epoch 60000001, and 2 in the epoch before that, and none given back, is
//
//	s_fly_cp 10000  s_fly_rp 30000  s_fly_ep 60000001  s_fly_0 2000  s_fly_1 4000  s_fly_2 0
//
// in millislots; the epoch modulo 3 selects the counter. There are no others: an old epoch is not
// needed any more. With h(e), the slots taken in epoch e and not given back, and A(e), the slots of
// holders that took or moved them in e and are still working,
//
//	h(ep) >= A(ep), h(ep-1) >= A(ep-1)    because taking, moving and giving back change both alike
//	A(e) = 0 for e < ep-1                 because their holders have lost the slots, and notice it
//	h(ep+1) = 0                           because each write that moves ep sets it
//
// so a request of c gets its slots if h(ep) + h(ep-1) + c <= capacity. A DynamoDB condition cannot
// add attributes, so the write bounds each of the two. In epoch k:
//
//	image of epoch k     IF ep = k AND h(k) <= capacity - c - the image's h(k-1)
//	                     in epoch k nothing adds to h(k-1)
//	an older image       IF h(k-1) <= x AND h(k) <= capacity - c - x, for any x
//	                     AND (ep is k-1 or k, OR ep < k-1 AND both are 0)
//	the dead in the way  IF ep < k-1
//	                     SET h(k) = c, h(k-1) = 0
//	all                  SET ep = k, h(k+1) = 0, ADD h(k) c
//
// The second is one write, whether or not the epoch has begun, and needs no image. It is refused
// only if a share of the slots is in use, or if a holder died before a time in which no request
// came. Giving back and moving check that the epoch of the slots still counts:
//
//	give back  ADD h(e) -c                               IF ep is e or e+1, AND h(e) >= c
//	move       ADD h(k-1) -c, h(k) c, SET ep, h(k+1)     IF ep is k-1 or k, AND h(k-1) >= c
//
// Example: 2 slots, one taken in epoch 7 by a process that dies, ep=7 h(7)=1. In epoch 8 a request
// of 1 finds h(7) <= 1, h(8) <= 0: granted, ep=8 h(8)=1. Another request is refused: h(8) is 1. In
// epoch 9 it finds h(8) <= 1, h(9) <= 0, and is granted: h(7) does not count any more.
//
// Python clients ignore these attributes: attributes of their limits begin with "b_".

// takenAttr names the counter of the slots taken in an epoch.
func takenAttr(limit string, epoch int64) string {
	return slotsAttr(limit, strconv.Itoa(bucket.EpochSlot(epoch)))
}

// limitOfEpoch returns the in-flight limit whose current epoch an attribute stores.
func limitOfEpoch(attr string) (string, bool) {
	name, ok := strings.CutSuffix(attr, "_"+fieldEpoch)
	name, has := strings.CutPrefix(name, prefixSlots)
	return name, ok && has && name != ""
}

// HasSlots reports whether an attribute belongs to an in-flight limit of an item.
func HasSlots(attr []byte) bool {
	return len(attr) > 5 && string(attr[:2]) == prefixSlots && string(attr[len(attr)-3:]) == "_"+fieldEpoch
}

// slotsAttrs returns all attributes of an in-flight limit.
func slotsAttrs(sl bucket.Slot) []item.Attr {
	return append(slotsParameters(sl.Limit), slotsTaken(sl)...)
}

func slotsParameters(l bucket.Limit) []item.Attr {
	return []item.Attr{
		{Name: slotsAttr(l.Name, layout.FieldCapacity), Value: item.N(l.Capacity)},
		{Name: slotsAttr(l.Name, layout.FieldPeriod), Value: item.N(l.Period)},
	}
}

func slotsTaken(sl bucket.Slot) []item.Attr {
	out := []item.Attr{{Name: namesOf(sl.Name).epoch, Value: item.N(sl.Epoch())}}
	for i, n := range sl.Taken {
		out = append(out, item.Attr{Name: takenAttr(sl.Name, int64(i)), Value: item.N(n)})
	}
	return out
}

// asTaken holds while the attributes have these values.
func asTaken(attrs []item.Attr) (cond []item.Cond) {
	for _, a := range attrs {
		cond = append(cond, item.Compare(a.Name, item.Eq, a.Value))
	}
	return cond
}

// decodeSlots decodes an in-flight limit.
func (b *Shard) decodeSlots(it item.Item, name string) (sl bucket.Slot, err error) {
	sl.Limit = bucket.Limit{Name: name, InFlight: true}
	epoch := int64(0)
	to := map[string]*int64{layout.FieldCapacity: &sl.Capacity, layout.FieldPeriod: &sl.Period, fieldEpoch: &epoch}
	for i := range sl.Taken {
		to[strconv.Itoa(i)] = &sl.Taken[i]
	}
	for field, n := range to {
		attr := slotsAttr(name, field)
		v, ok, err := item.Int(it, attr)
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
