package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Lifetime is the effect of a write on the bucket's expiry.
type Lifetime int

const (
	// KeepLifetime leaves a bucket without ttl alone, and extends a ttl that would end too early.
	KeepLifetime Lifetime = iota
	// Expires sets a new ttl.
	Expires
	// NeverExpires removes the ttl.
	NeverExpires
)

const (
	// ttlMultiplier times the longest fill time is the lifetime of an idle bucket (the Python
	// client's default).
	ttlMultiplier = 7
	// ttlFloor is the least time, in seconds, that a bucket lives beyond its fill time, so fast
	// limits are not rewritten all the time.
	ttlFloor = 60
	// ttlMargin is how many seconds before its expiry a bucket must be full. It allows for clocks
	// that differ.
	ttlMargin = 5
)

// safeTTL returns the least ttl, in epoch seconds, with which a write at now may spend from an item
// and leave the ttl alone. An idle item is full again before that ttl, so a deleted bucket and a
// full bucket are equivalent.
func safeTTL(costs []Cost, now int64) int64 {
	longest := int64(0)
	for _, c := range costs {
		l := c.Limit.Slowest()
		longest = max(longest, bucket.Wait(0, 0, l.WholeAt(now, 0), l.Capacity))
	}
	return ceilSeconds(bucket.AddSat(now, longest)) + ttlMargin
}

func ceilSeconds(ms int64) int64 { return (ms-1)/1000 + 1 }

// freshTTL returns the new ttl of a bucket in state s at now.
func freshTTL(s bucket.State, now int64) int64 {
	full := s.FullAt(now)
	if full == bucket.Never || full > 1<<53 {
		return 0
	}
	return max(now/1000+s.TTLSeconds(ttlMultiplier), ceilSeconds(full)+ttlFloor)
}

// live adds a write's effect on the ttl of a bucket that is in state after at now.
func live(u *item.Update, n *item.Numbers, life Lifetime, image Shard, after bucket.State, now int64) {
	if after.Shards > 1 {
		life = NeverExpires // a split bucket has siblings that rely on it
	}
	for _, sl := range image.State.Slots { // a limit that the write does not name keeps its level
		if after.Index(sl.Name) < 0 {
			after.Slots = append(after.Slots[:len(after.Slots):len(after.Slots)], sl)
		}
	}
	fresh := freshTTL(after, now)
	if fresh == 0 {
		life = NeverExpires // it is full only after the last date that can be stored
	}
	switch {
	case life == Expires,
		life == KeepLifetime && image.TTL > 0 && fresh > image.TTL:
		u.Set = append(u.Set, item.Attr{Name: layout.AttrTTL, Value: n.N(fresh)})
	case life == NeverExpires && image.TTL != 0:
		u.Remove = append(u.Remove, layout.AttrTTL)
	}
}

// KeepForever removes a ttl that another client set on a split bucket.
func KeepForever(key item.Key) item.Update {
	return item.Update{
		Key:    key,
		Remove: []string{layout.AttrTTL},
		If:     item.All(item.Exists(layout.AttrTTL), counted(item.Gt, 1)),
	}
}

// Prolong extends the ttl of an unsplit bucket beyond the time at which the image is full. ok is
// false if the ttl is long enough, or there is none.
func Prolong(b Shard, now int64) (u item.Update, ok bool) {
	if b.TTL == 0 || b.State.Shards > 1 {
		return item.Update{}, false
	}
	if b.TTL >= ceilSeconds(b.State.FullAt(now))+ttlMargin {
		return item.Update{}, false
	}
	fresh := freshTTL(b.State, now)
	if fresh == 0 { // full only after the last date that can be stored
		return item.Update{Key: b.Key(), Remove: []string{layout.AttrTTL}, If: item.Exists(layout.AttrTTL)}, true
	}
	return item.Update{
		Key: b.Key(),
		Set: []item.Attr{{Name: layout.AttrTTL, Value: item.N(fresh)}},
		If:  item.Compare(layout.AttrTTL, item.Lt, item.N(fresh)),
	}, true
}
