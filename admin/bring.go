package admin

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// maxDropped is how many limits one update takes out of a bucket, so that it stays
// within DynamoDB's bounds on expressions.
const maxDropped = 16

// bringing is limits on their way to one shard of a bucket.
type bringing struct {
	want     []bucket.Limit
	lifetime table.Lifetime
	before   []string // limits that were in force until now: they leave the shard whatever they hold
}

// onto returns the write that brings the limits to a shard, planned from its image; due is false if
// there is nothing to do. Limits that are not wanted leave with all their attributes. Those that
// were in force until now leave at once, others when they are full, because a limit that comes back
// starts full. Everything else is credited up to now under the old rules.
func (b bringing) onto(image table.Shard, now int64) (u item.Update, due bool) {
	drop := b.dropped(image, now)
	slim := image
	slim.State.Slots = slices.DeleteFunc(slices.Clone(image.State.Slots), func(sl bucket.Slot) bool {
		return slices.Contains(drop, sl.Name)
	})
	slim.Partial = slices.DeleteFunc(slices.Clone(image.Partial), func(p table.PartialLimit) bool {
		return slices.Contains(drop, p.Name)
	})
	u = table.Charge{Image: slim, Costs: table.Costs(b.want), Now: now, Lifetime: b.lifetime, Refill: true}.Plan().Update
	settled := len(drop) == 0 && image.State.Matches(b.want)
	if settled && (b.lives(image) || !touches(u, layout.AttrTTL)) {
		return u, false
	}
	for _, limit := range drop {
		u.Remove = append(u.Remove, table.LimitAttrs(limitNamed(image, limit))...)
		if !slices.Contains(b.before, limit) {
			u.If = item.All(u.If, image.Untouched(limit))
		}
	}
	return u, true
}

// touches reports whether an update sets or removes an attribute.
func touches(u item.Update, attr string) bool {
	return slices.Contains(u.Remove, attr) || slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == attr })
}

// lives reports whether the ttl is as it should be.
func (b bringing) lives(image table.Shard) bool {
	if image.State.Shards > 1 {
		return true // split buckets do not expire
	}
	return (image.TTL == 0) == (b.lifetime == table.NeverExpires)
}

func (b bringing) dropped(image table.Shard, now int64) []string {
	var drop []string
	full := image.State.At(now)
	wanted := func(name string) bool {
		return name == bucket.WCU || slices.ContainsFunc(b.want, func(l bucket.Limit) bool { return l.Name == name })
	}
	for i, sl := range full.Slots {
		if !wanted(sl.Name) && (full.Full(i) || slices.Contains(b.before, sl.Name)) {
			drop = append(drop, sl.Name)
		}
	}
	for _, p := range image.Partial {
		if !wanted(p.Name) {
			drop = append(drop, p.Name)
		}
	}
	return drop[:min(len(drop), maxDropped)]
}

// limitNamed returns a limit by its name, as the shard stores it.
func limitNamed(b table.Shard, name string) bucket.Limit {
	if i := b.State.Index(name); i >= 0 {
		return b.State.Slots[i].Limit
	}
	return bucket.Limit{Name: name}
}
