package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// NewBucket describes a bucket to create.
type NewBucket struct {
	Namespace, Entity, Resource string
	Cascade                     bool
	Parent                      string
	Costs                       []Cost                 // of all limits in force
	Gifts                       map[string]bucket.Gift // an operator's initial gifts, by limit
	Lifetime                    Lifetime
	Now                         int64
	Draw                        uint64 // random; distinguishes lives that began in the same millisecond
}

// Covered reports whether a full bucket covers the costs. A schedule may make its limits smaller
// than their largest.
func (n NewBucket) Covered() bool {
	s := bucket.New(LimitsOf(n.Costs), 0, 1, n.Now)
	return s.Decide(needsBySlot(nil, s, InForce(n.Costs, n.Now)), n.Now).Granted
}

// Create stores a full bucket, less the costs, if there is none.
func Create(n NewBucket) (item.Put, Shard) {
	s := bucket.New(LimitsOf(n.Costs), 0, 1, n.Now).Give(n.Gifts)
	costs := costsBySlot(nil, s, n.Costs, true)
	b := n.bucket(s.Begin(costs).Take(costs))
	if n.Lifetime == Expires {
		b.TTL = freshTTL(b.State, n.Now)
	}
	return item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}, b
}

// CreateEmpty stores an empty shard 0 of a bucket with the given count, if there is none. It
// replaces a shard that was deleted while its siblings remain: its level is unknown, so it must not
// create tokens.
func CreateEmpty(n NewBucket, shards int) (item.Put, Shard) {
	b := n.bucket(bucket.New(LimitsOf(n.Costs), 0, shards, n.Now).Emptied())
	return item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}, b
}

// bucket returns the first generation of a bucket with a state, in stored form.
func (n NewBucket) bucket(s bucket.State) Shard {
	b := Shard{
		Namespace: n.Namespace, Entity: n.Entity, Resource: n.Resource, Cascade: n.Cascade, Parent: n.Parent,
		State: s.Stored(), Generation: begin(n.Draw, n.Now), Born: n.Now / 1000,
	}
	b.Calendars.Zone = b.zone(s)
	b.Calendars.Until, b.Calendars.Has = validUntil(s)
	return b
}
