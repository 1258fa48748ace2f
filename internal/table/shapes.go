package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Cost is what a write takes from one limit, in millitokens. Public costs are
// whole tokens, so it is a multiple of 1000.
type Cost struct {
	Limit string
	Milli int64
}

// Lifetime tells what a write does to the bucket's expiry.
type Lifetime int

const (
	// KeepLifetime leaves a bucket without ttl alone and extends one that is
	// there when it would end too early.
	KeepLifetime Lifetime = iota
	// Expires sets the ttl anew.
	Expires
	// NeverExpires removes the ttl.
	NeverExpires
)

const (
	// ttlMultiplier times the longest fill time is how long an idle bucket
	// lives (the Python client's default).
	ttlMultiplier = 7
	// ttlFloor is how much longer than its fill time, in seconds, a bucket
	// lives at least, so that fast limits are not rewritten all the time.
	ttlFloor = 60
	// ttlMargin is how many seconds before its expiry a bucket must be full.
	// It covers clocks that disagree.
	ttlMargin = 5
)

// SafeTTL returns the least ttl, in epoch seconds, with which an item may be
// spent from at now without touching the ttl: an item that is then left alone
// is full again before it can be deleted, so that a deleted bucket and a full
// bucket are the same thing.
func SafeTTL(limits []bucket.Limit, now int64) int64 {
	longest := int64(0)
	for _, l := range limits {
		longest = max(longest, bucket.Wait(0, 0, bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}, l.Capacity))
	}
	return ceilSeconds(bucket.AddSat(now, longest)) + ttlMargin
}

func ceilSeconds(ms int64) int64 { return (ms-1)/1000 + 1 }

// freshTTL returns the ttl to give a bucket in state s at now.
func freshTTL(s bucket.State, now int64) int64 {
	limits := make([]bucket.Limit, 0, len(s.Slots))
	for _, sl := range s.Slots {
		if sl.Name != bucket.WCU {
			limits = append(limits, sl.Limit)
		}
	}
	full := s.FullAt(now)
	if full == bucket.Never || full > 1<<53 {
		return 0
	}
	return max(now/1000+bucket.TTLSeconds(limits, ttlMultiplier), ceilSeconds(full)+ttlFloor)
}

// Adjust settles costs on one item, whatever it holds: negative gives back,
// positive takes more. It never creates an item, so a bucket that has expired
// meanwhile stays what it is: full. Taking more from a bucket that has filled up
// since its refill instant would be forgiven by the next refill; use a [Charge]
// by force for that, which needs an image.
//
// The write is counted by the meter, which the item must have; one that lacks it
// is refused, and settled by [AdjustUnmetered].
func Adjust(key item.Key, costs []Cost) item.Update {
	u := adjust(key, costs)
	u.Add = appendWCU(u.Add)
	u.If = item.All(u.If, item.Exists(attrLimit(bucket.WCU, fieldTokens)))
	return u
}

// AdjustUnmetered is [Adjust] for an item without a write meter, as foreign
// clients leave it; adding to one that is not there would store half a limit.
func AdjustUnmetered(key item.Key, costs []Cost) item.Update { return adjust(key, costs) }

func adjust(key item.Key, costs []Cost) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	for _, c := range costs {
		if c.Milli == 0 {
			continue
		}
		tk := attrLimit(c.Limit, fieldTokens)
		cond = append(cond, item.Exists(tk))
		u.Add = append(u.Add, item.Attr{Name: tk, Value: item.N(-c.Milli)}, item.Attr{Name: attrLimit(c.Limit, fieldUsed), Value: item.N(c.Milli)})
	}
	u.If = item.All(cond...)
	return u
}

// NewBucket describes a bucket about to be created.
type NewBucket struct {
	Namespace, Entity, Resource string
	Cascade                     bool
	Parent                      string
	Limits                      []bucket.Limit
	Costs                       []Cost
	Life                        Lifetime
	Now                         int64
}

// Create stores a full bucket, less the costs, if there is none.
func Create(n NewBucket) (item.Put, Bucket) {
	b := Bucket{Namespace: n.Namespace, Entity: n.Entity, Resource: n.Resource, Cascade: n.Cascade, Parent: n.Parent}
	b.State = bucket.New(n.Limits, 0, 1, n.Now)
	b.State = b.State.Take(costsBySlot(b.State, n.Costs, true))
	if n.Life == Expires {
		b.TTL = freshTTL(b.State, n.Now)
	}
	return item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}, b
}

// CreateEmpty stores shard 0 of a bucket with the given count, holding nothing,
// if there is none. It stands for a shard that was deleted while its siblings
// live on: what it held is unknown, so it mints nothing.
func CreateEmpty(n NewBucket, shards int) (item.Put, Bucket) {
	b := Bucket{Namespace: n.Namespace, Entity: n.Entity, Resource: n.Resource, Cascade: n.Cascade, Parent: n.Parent}
	b.State = emptied(bucket.New(n.Limits, 0, shards, n.Now))
	return item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}, b
}

// emptied returns the state holding nothing but a full write meter.
func emptied(s bucket.State) bucket.State {
	s.Slots = append([]bucket.Slot(nil), s.Slots...)
	for i := range s.Slots {
		sl := &s.Slots[i]
		sl.Tokens, sl.Rest, sl.Used = 0, 0, 0
		if sl.Name == bucket.WCU {
			sl.Tokens = sl.Capacity
		}
	}
	return s
}

// costsBySlot spreads costs over the slots of a state; slots without a cost get
// zero. With a write to pay for, wcu is charged.
func costsBySlot(s bucket.State, costs []Cost, write bool) []int64 {
	out := make([]int64, len(s.Slots))
	for _, c := range costs {
		if i := s.Index(c.Limit); i >= 0 {
			out[i] = c.Milli
		}
	}
	if i := s.Index(bucket.WCU); i >= 0 && write {
		out[i] = bucket.WCUPerWrite
	}
	return out
}

// needsBySlot is costsBySlot for a decision: only the limits with a cost are
// looked at (a cost of zero included), everything else is -1.
func needsBySlot(s bucket.State, costs []Cost) []int64 {
	out := make([]int64, len(s.Slots))
	for i := range out {
		out[i] = -1
	}
	for _, c := range costs {
		if i := s.Index(c.Limit); i >= 0 {
			out[i] = c.Milli
		}
	}
	return out
}
