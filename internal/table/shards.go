package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Split renders the doubling of one shard as a transaction of two writes: shard
// k of n hands half of what it holds to the new shard k+n, and both have the
// count 2n from then on. It is conditional on the refill instant and the count
// of the image, because shares and remainders derive from them. Spending that
// happened since the image is charged to shard k, unless that would put it into
// debt: the sibling could spend at once what shard k would have to earn first.
// Tokens given back since the image, or any change to a level above the share,
// need a newer image too, because half of them would not be what moves. The
// sibling must not exist. Split buckets do not expire.
func Split(b Bucket) []item.Write {
	keep, moved := b.State.Split()
	cond := unchanged(b)
	u := item.Update{Key: b.Key()}
	u.Set = append(u.Set, item.Attr{Name: attrShardCount, Value: item.N(int64(keep.Shards))})
	for i, sl := range keep.Slots {
		tk := attrLimit(sl.Name, fieldTokens)
		if sl.Name == bucket.WCU {
			u.Set = append(u.Set, item.Attr{Name: tk, Value: item.N(sl.Tokens)})
			continue
		}
		m := moved.Slots[i].Tokens
		if m != 0 {
			u.Add = append(u.Add, item.Attr{Name: tk, Value: item.N(-m)})
		}
		switch held := b.State.Slots[i].Tokens; {
		case held > b.State.Rate(i).Capacity:
			cond = append(cond, item.Compare(tk, item.Eq, item.N(held)))
		case m > 0:
			cond = append(cond, item.Between(tk, item.N(m), item.N(held)))
		default:
			cond = append(cond, item.Compare(tk, item.Le, item.N(held)))
		}
	}
	if rr := remainders(keep); rr != nil {
		u.Set = append(u.Set, item.Attr{Name: attrRemainders, Value: rr})
	} else {
		u.Remove = append(u.Remove, attrRemainders)
	}
	u.Remove = append(u.Remove, AttrTTL)
	u.If = item.All(cond...)

	sibling := b
	sibling.State, sibling.TTL, sibling.Partial = moved, 0, nil
	return []item.Write{u, item.Put{Item: sibling.Item(), If: item.Absent(item.AttrPK)}}
}

// unchanged holds while the clock, the count and the limits are those of the image.
func unchanged(b Bucket) []item.Cond {
	c := append([]item.Cond{item.Exists(item.AttrPK)}, storedLimits(b.State)...)
	if b.State.NoClock {
		c = append(c, item.Absent(attrRF))
	} else {
		c = append(c, item.Compare(attrRF, item.Eq, item.N(b.State.RF)))
	}
	if b.NoShardCount {
		return append(c, item.Absent(attrShardCount))
	}
	return append(c, item.Compare(attrShardCount, item.Eq, item.N(int64(b.State.Shards))))
}

// Recount sets the doubled count on a shard whose sibling exists already; only
// foreign hands lead to it. The sibling has tokens of its own, so what the shard
// holds above its new share is dropped: its capacity has been lowered.
func Recount(b Bucket) item.Update {
	halved := b.State
	halved.Shards = 2 * max(halved.Shards, 1)
	u := item.Update{
		Key:    b.Key(),
		Set:    []item.Attr{{Name: attrShardCount, Value: item.N(int64(halved.Shards))}},
		Remove: []string{AttrTTL},
	}
	cond := unchanged(b)
	for i, sl := range halved.Slots {
		share := halved.Rate(i).Capacity
		tk := attrLimit(sl.Name, fieldTokens)
		switch drop := bucket.SubSat(sl.Tokens, share); {
		case sl.Name == bucket.WCU:
		case drop > 0:
			u.Add = append(u.Add, item.Attr{Name: tk, Value: item.N(-drop)})
			cond = append(cond, item.Between(tk, item.N(drop), item.N(sl.Tokens)))
		default:
			cond = append(cond, item.Compare(tk, item.Le, item.N(share)))
		}
	}
	if rr := remainders(below(halved)); rr != nil {
		u.Set = append(u.Set, item.Attr{Name: attrRemainders, Value: rr})
	} else {
		u.Remove = append(u.Remove, attrRemainders)
	}
	u.If = item.All(cond...)
	return u
}

// below returns the state without the remainders of levels that are not below
// their share.
func below(s bucket.State) bucket.State {
	s.Slots = append([]bucket.Slot(nil), s.Slots...)
	for i := range s.Slots {
		if s.Slots[i].Tokens >= s.Rate(i).Capacity {
			s.Slots[i].Rest = 0
		}
	}
	return s
}

// Open renders the opening of a shard that is missing although its parent has
// split it off, as a transaction: nobody knows what the shard held, so it starts
// empty and mints nothing. Only what shard 0 holds above its share moves to it,
// up to the new shard's share: another client has then raised the count without
// splitting, and shard 0 would hold that on top of what the new shard earns.
//
// like is shard 0, or any other shard if that is not known; shards is the count
// of shard 0, which must still be that when it is written: a missing shard opened
// with too small a count would have too large a share.
func Open(like Bucket, shard, shards int, now int64) []item.Write {
	b := like
	b.TTL, b.Partial = 0, nil
	b.State = emptied(bucket.State{Shard: shard, Shards: shards, RF: now, Slots: like.State.Slots})
	zero := item.Update{Key: BucketKey(b.Namespace, b.Entity, b.Resource, 0)}
	cond := []item.Cond{item.Compare(attrShardCount, item.Eq, item.N(int64(shards)))}
	if like.State.Shard == 0 && like.State.Shards == shards {
		for i, sl := range like.State.Slots {
			share := like.State.Rate(i).Capacity
			move := min(bucket.SubSat(sl.Tokens, share), b.State.Rate(i).Capacity)
			if sl.Name == bucket.WCU || move <= 0 {
				continue
			}
			tk := attrLimit(sl.Name, fieldTokens)
			b.State.Slots[i].Tokens = move
			zero.Add = append(zero.Add, item.Attr{Name: tk, Value: item.N(-move)})
			cond = append(cond, item.Compare(tk, item.Ge, item.N(bucket.AddSat(share, move))))
		}
	}
	put := item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}
	if len(zero.Add) == 0 {
		return []item.Write{put, item.Check{Key: zero.Key, If: item.All(cond...)}}
	}
	zero.If = item.All(cond...)
	return []item.Write{put, zero}
}

// Probe changes nothing. It fails, and a failed condition brings the item back,
// unless the shard exists with at least the given count; then it succeeds and
// brings the item back too. It costs one write unit either way.
func Probe(key item.Key, shards int) item.Update {
	return item.Update{Key: key, If: item.All(item.Exists(item.AttrPK), item.Compare(attrShardCount, item.Ge, item.N(int64(shards))))}
}

// KeepForever removes the ttl that another client has put on a split bucket.
func KeepForever(key item.Key) item.Update {
	return item.Update{
		Key:    key,
		Remove: []string{AttrTTL},
		If:     item.All(item.Exists(AttrTTL), item.Compare(attrShardCount, item.Gt, item.N(1))),
	}
}

// Prolong extends the ttl of an unsplit bucket so that it outlives the time the
// image needs to be full. ok is false when the ttl is long enough already or
// there is none.
func Prolong(b Bucket, now int64) (u item.Update, ok bool) {
	if b.TTL == 0 || b.State.Shards > 1 {
		return item.Update{}, false
	}
	if b.TTL >= ceilSeconds(b.State.FullAt(now))+ttlMargin {
		return item.Update{}, false
	}
	fresh := freshTTL(b.State, now)
	if fresh == 0 { // not full before any date that can be stored
		return item.Update{Key: b.Key(), Remove: []string{AttrTTL}, If: item.Exists(AttrTTL)}, true
	}
	return item.Update{
		Key: b.Key(),
		Set: []item.Attr{{Name: AttrTTL, Value: item.N(fresh)}},
		If:  item.Compare(AttrTTL, item.Lt, item.N(fresh)),
	}, true
}
