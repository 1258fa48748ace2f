package table

import (
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Spend is the write shape that touches no clock: it takes the costs if every
// level covers its cost (a cost of zero still requires that there is no debt)
// and the partition's write meter has a write left.
//
// Spending without the clock is exact only while the bucket has not filled up
// since its refill instant: what overflowed from then until now would be
// credited to the room that the spend makes, and a bucket that idles full would
// pay twice. The write therefore holds only if, refilled from the image's
// instant to now, every level stays within its capacity. The stored instant may
// be later than the image's, which can only mean a smaller credit.
type Spend struct {
	Image     Bucket         // names the item; its count and refill instant are what the item must have
	Limits    []bucket.Limit // the limits in force; they must be stored like this
	Costs     []Cost         // one per limit in force
	Now       int64
	Unmetered bool // count the write, into debt, but do not let the meter stop it
	Force     bool // take the costs whether or not they are covered, into debt
}

// Plan renders the spend. ok is false if it would not be exact: a level of the
// image has overflowed by now, or no level could both cover its cost and not have
// overflowed. Then only a [Refill] can take the costs, and the update is one that
// is always refused, which brings the image.
func (s Spend) Plan() (u item.Update, ok bool) {
	u = item.Update{Key: s.Image.Key()}
	refused := item.Update{Key: u.Key, If: item.All(item.Exists(item.AttrPK), item.Absent(item.AttrPK))}
	if s.Image.State.NoClock || bucket.SubSat(s.Image.State.RF, s.Now) > bucket.MaxSkew {
		return refused, false
	}
	cond := unchangedCount(s.Image)
	cond = append(cond, item.Compare(attrRF, item.Ge, item.N(s.Image.State.RF)))
	for _, c := range s.Costs {
		tk := attrLimit(c.Limit, fieldTokens)
		top, bounded := s.top(c)
		if i := s.Image.State.Index(c.Limit); bounded && (top < c.Milli && !s.Force || i >= 0 && s.Image.State.Slots[i].Tokens > top) {
			return refused, false
		}
		switch {
		case s.Force && bounded:
			cond = append(cond, item.Compare(tk, item.Le, item.N(top)))
		case s.Force:
			cond = append(cond, item.Exists(tk))
		case bounded:
			cond = append(cond, item.Between(tk, item.N(c.Milli), item.N(top)))
		default:
			cond = append(cond, item.Compare(tk, item.Ge, item.N(c.Milli)))
		}
		if c.Milli != 0 {
			u.Add = append(u.Add, item.Attr{Name: tk, Value: item.N(-c.Milli)}, item.Attr{Name: attrLimit(c.Limit, fieldUsed), Value: item.N(c.Milli)})
		}
	}
	wcu := attrLimit(bucket.WCU, fieldTokens)
	if s.Unmetered {
		cond = append(cond, item.Exists(wcu))
	} else {
		cond = append(cond, item.Compare(wcu, item.Ge, item.N(bucket.WCUPerWrite)))
	}
	u.Add = appendWCU(u.Add)
	for _, l := range s.Limits {
		cond = append(cond, stored(l)...)
	}
	cond = append(cond, item.Any(item.Absent(AttrTTL), item.Compare(AttrTTL, item.Gt, item.N(s.safeTTL()))))
	u.If = item.All(cond...)
	return u, true
}

// safeTTL is [SafeTTL], or later by the time in which the debt that is taken by
// force is earned, whatever else is spent meanwhile.
func (s Spend) safeTTL() int64 {
	safe := SafeTTL(s.Limits, s.Now)
	if !s.Force {
		return safe
	}
	spent := s.Image.State.Take(costsBySlot(s.Image.State, s.Costs, false))
	for i := range spent.Slots {
		spent.Slots[i].Tokens = min(spent.Slots[i].Tokens, bucket.SubSat(spent.Slots[i].Tokens, s.Image.State.Slots[i].Tokens))
	}
	return max(safe, bucket.AddSat(ceilSeconds(spent.FullAt(s.Now)), ttlMargin))
}

// top returns the highest level from which the limit does not overflow by now.
// It does not matter if no time has passed or nothing is taken: tokens given back
// that overflow are not owed.
func (s Spend) top(c Cost) (level int64, bounded bool) {
	elapsed := bucket.SubSat(s.Now, s.Image.State.RF)
	if elapsed <= 0 || c.Milli <= 0 {
		return 0, false
	}
	for _, l := range s.Limits {
		if l.Name != c.Limit {
			continue
		}
		r := s.Image.State.RateOf(l)
		// The stored remainder is not known here; it is less than one period. What
		// it and the time yield together may leave a fraction more.
		return bucket.SubSat(r.Capacity, bucket.AddSat(bucket.Potential(r.Period-1, r, elapsed), 1)), true
	}
	return 0, false
}

// Unseen returns what to spend from when no image of a shard is known: a
// stand-in for one that was refilled so recently that half of the capacity of
// every limit, or what its cost leaves of it, cannot have overflowed since. If
// the item is different the spend is refused and brings the image.
func Unseen(ns, entity, resource string, shard, shards int, limits []bucket.Limit, costs []Cost, now int64) Bucket {
	b := Bucket{Namespace: ns, Entity: entity, Resource: resource}
	b.State = bucket.State{Shard: shard, Shards: shards}
	age := int64(maxUnseenAge)
	for _, l := range limits {
		r := b.State.RateOf(l)
		room := r.Capacity / 2
		for _, c := range costs {
			if c.Limit == l.Name {
				room = min(room, r.Capacity-c.Milli)
			}
		}
		age = min(age, max(bucket.Wait(0, 0, r, room)-2, 0))
	}
	b.State.RF = now - age
	return b
}

// maxUnseenAge bounds how old a refill an unseen spend accepts, in ms.
const maxUnseenAge = 24 * 3600 * 1000

// storedLimits holds while every limit of the state is stored as it is there.
func storedLimits(s bucket.State) []item.Cond {
	out := make([]item.Cond, 0, 3*len(s.Slots))
	for _, sl := range s.Slots {
		out = append(out, stored(sl.Limit)...)
	}
	return out
}

// stored holds while the limit is stored exactly like this. The conditions of the
// limits met first are kept, because every spend needs them.
func stored(l bucket.Limit) []item.Cond {
	if known, ok := storedConds.Load(l); ok {
		return known.([]item.Cond)
	}
	cond := []item.Cond{
		item.Compare(attrLimit(l.Name, fieldCapacity), item.Eq, item.N(l.Capacity)),
		item.Compare(attrLimit(l.Name, fieldAmount), item.Eq, item.N(l.Amount)),
		item.Compare(attrLimit(l.Name, fieldPeriod), item.Eq, item.N(l.Period)),
	}
	if storedCondCount.Add(1) <= maxKnownLimits {
		storedConds.Store(l, cond[:len(cond):len(cond)])
	}
	return cond
}

var (
	storedConds     sync.Map // bucket.Limit -> []Cond, never changed
	storedCondCount atomic.Int64
)

// unchangedCount holds while the count is that of the image.
func unchangedCount(b Bucket) []item.Cond {
	if b.NoShardCount {
		return []item.Cond{item.Exists(item.AttrPK), item.Absent(attrShardCount)}
	}
	return []item.Cond{item.Compare(attrShardCount, item.Eq, item.N(int64(max(b.State.Shards, 1))))}
}

var chargeWCU = []item.Attr{
	{Name: attrLimit(bucket.WCU, fieldTokens), Value: item.N(-bucket.WCUPerWrite)},
	{Name: attrLimit(bucket.WCU, fieldUsed), Value: item.N(bucket.WCUPerWrite)},
}

func appendWCU(add []item.Attr) []item.Attr { return append(add, chargeWCU...) }
