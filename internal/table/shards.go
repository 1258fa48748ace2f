package table

import "github.com/zeroae/zae-limiter-go/internal/bucket"

// Split renders the doubling of one shard as a transaction of two writes: shard
// k of n hands half of what it holds to the new shard k+n, and both have the
// count 2n from then on. It is conditional on the refill instant and the count
// of the image, because shares and remainders derive from them. Spending that
// happened since the image is charged to shard k, unless that would put it into
// debt: the sibling could spend at once what shard k would have to earn first.
// Tokens given back since the image, or any change to a level above the share,
// need a newer image too, because half of them would not be what moves. The
// sibling must not exist. Split buckets do not expire.
func Split(b Bucket) []Write {
	keep, moved := b.State.Split()
	cond := unchanged(b)
	u := Update{Key: b.Key()}
	u.Set = append(u.Set, Attr{attrShardCount, N(int64(keep.Shards))})
	for i, sl := range keep.Slots {
		tk := attrLimit(sl.Name, fieldTokens)
		if sl.Name == bucket.WCU {
			u.Set = append(u.Set, Attr{tk, N(sl.Tokens)})
			continue
		}
		m := moved.Slots[i].Tokens
		if m != 0 {
			u.Add = append(u.Add, Attr{tk, N(-m)})
		}
		switch held := b.State.Slots[i].Tokens; {
		case held > b.State.Rate(i).Capacity:
			cond = append(cond, Compare(tk, Eq, N(held)))
		case m > 0:
			cond = append(cond, Between(tk, N(m), N(held)))
		default:
			cond = append(cond, Compare(tk, Le, N(held)))
		}
	}
	if rr := remainders(keep); rr != nil {
		u.Set = append(u.Set, Attr{attrRemainders, rr})
	} else {
		u.Remove = append(u.Remove, attrRemainders)
	}
	u.Remove = append(u.Remove, AttrTTL)
	u.If = All(cond...)

	sibling := b
	sibling.State, sibling.TTL, sibling.Partial = moved, 0, nil
	return []Write{u, Put{Item: sibling.Item(), If: Absent(AttrPK)}}
}

// unchanged holds while the clock and the count are those of the image.
func unchanged(b Bucket) []Cond {
	c := []Cond{Exists(AttrPK)}
	if b.State.NoClock {
		c = append(c, Absent(attrRF))
	} else {
		c = append(c, Compare(attrRF, Eq, N(b.State.RF)))
	}
	if b.NoShardCount {
		return append(c, Absent(attrShardCount))
	}
	return append(c, Compare(attrShardCount, Eq, N(int64(b.State.Shards))))
}

// Recount sets the doubled count on a shard whose sibling exists already: all
// that the sibling could have been given stays here. It conserves tokens; only
// a count changed by foreign hands leads to it.
func Recount(b Bucket) Update {
	return Update{
		Key:    b.Key(),
		Set:    []Attr{{attrShardCount, N(2 * int64(max(b.State.Shards, 1)))}},
		Remove: []string{AttrTTL},
		If:     All(unchanged(b)...),
	}
}

// OpenEmpty renders the opening of a shard that is missing although its parent
// has split it off, as a transaction: nobody knows what the shard held, so it
// starts empty and mints nothing. like is any shard of the bucket; shards is the
// count of shard 0, which must still be that when it is written: a missing shard
// opened with too small a count would have too large a share.
func OpenEmpty(like Bucket, shard, shards int, now int64) []Write {
	b := like
	b.TTL, b.Partial = 0, nil
	b.State = emptied(bucket.State{Shard: shard, Shards: shards, RF: now, Slots: like.State.Slots})
	return []Write{
		Put{Item: b.Item(), If: Absent(AttrPK)},
		Check{
			Key: BucketKey(b.Namespace, b.Entity, b.Resource, 0),
			If:  Compare(attrShardCount, Eq, N(int64(shards))),
		},
	}
}

// Probe changes nothing. It fails, and a failed condition brings the item back,
// unless the shard exists with at least the given count; then it succeeds and
// brings the item back too. It costs one write unit either way.
func Probe(key Key, shards int) Update {
	return Update{Key: key, If: All(Exists(AttrPK), Compare(attrShardCount, Ge, N(int64(shards))))}
}

// KeepForever removes the ttl that another client has put on a split bucket.
func KeepForever(key Key) Update {
	return Update{
		Key:    key,
		Remove: []string{AttrTTL},
		If:     All(Exists(AttrTTL), Compare(attrShardCount, Gt, N(1))),
	}
}

// Prolong extends the ttl of an unsplit bucket so that it outlives the time the
// image needs to be full. ok is false when the ttl is long enough already or
// there is none.
func Prolong(b Bucket, now int64) (u Update, ok bool) {
	if b.TTL == 0 || b.State.Shards > 1 {
		return Update{}, false
	}
	full := b.State.FullAt(now)
	if full == bucket.Never || b.TTL >= ceilSeconds(full)+ttlMargin {
		return Update{}, false
	}
	fresh := freshTTL(b.State, now)
	return Update{
		Key: b.Key(),
		Set: []Attr{{AttrTTL, N(fresh)}},
		If:  Compare(AttrTTL, Lt, N(fresh)),
	}, fresh > 0
}
