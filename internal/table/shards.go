package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Split renders the doubling of one shard as a transaction of two writes. Shard k of n hands half
// of its tokens at now to the new shard k+n, and both have the count 2n from then on. Like a
// charge, it depends only on the image's generation. It writes a bound on the counter of shard k,
// so shard k bears everything that others took or gave back since the image. That must not put one
// of the two into debt while the other holds tokens: those could be spent at once, while the debt
// must be earned first. The sibling must not exist. Split buckets do not expire.
func Split(b Shard, now int64) []item.Write {
	at := b.State.At(now)
	keep, moved := at.Split()
	var cond []item.Cond
	for i, sl := range keep.Slots {
		switch {
		case moved.Slots[i].Tokens > 0:
			at.Slots[i].Tokens -= moved.Slots[i].Tokens // it must have the tokens that it hands over
		case moved.Slots[i].Tokens < 0: // it must still be in debt
			cond = append(cond, item.Compare(namesOf(sl.Name).used, item.Ge, b.counter(nil, sl, sl.Tokens)))
		}
	}
	next := nextGeneration(b, keep.RF)
	u := becomes(b, at, keep, next)
	u.If = item.All(u.If, item.All(cond...))
	sibling := b
	sibling.State, sibling.TTL, sibling.Partial, sibling.Outgrown, sibling.Denied = moved, 0, nil, nil, 0
	sibling.Generation, sibling.Born = Began(next)<<drawBits|int64(scatter(next)), now/1000
	return []item.Write{u, item.Put{Item: sibling.Item(), If: item.Absent(item.AttrPK)}}
}

// Merge renders the merging of two shards as a transaction of two writes. Shard b gets the
// tokens of the other, and has count shards from then on; the other is deleted. Merge is refused
// if tokens were taken from the other since its image, or given to it; tokens taken from b are
// charged to b. If count is half of both counts, and b has split off other, this reverses Split.
//
// If only one shard has a limit, the limit came into force after the split, or was dropped when
// full: the other shard has its whole share. Example: one shard has 1 token left of a new limit of
// 10, and the other was not yet charged for it: together 6. A shard beyond the count has no share,
// and adds only the tokens it has.
func Merge(b, other Shard, count int, now int64) []item.Write {
	now = max(now, b.State.RF, other.State.RF)
	at, from := b.State.At(now), other.State.At(now)
	for i, sl := range from.Slots {
		if !from.Full(i) { // otherwise it is full once merged, and need not be stored
			at = b.with(at, sl.Limit)
		}
	}
	if count < b.State.Count() {
		for _, sl := range at.Slots {
			from = other.with(from, sl.Limit)
		}
	}
	for _, sl := range at.Slots { // tokens that the other spent of its own limit are spent of this one
		if i := from.Index(sl.Name); i >= 0 && !from.Slots[i].Returns() {
			from, _ = from.Adopt(sl.Limit)
		}
	}
	u := becomes(b, at, at.Merge(from, count), nextGeneration(b, now, other))
	gone := other.notOperated(append(sameLife(nil, nil, other, now), sameLimits(other)...))
	for _, sl := range other.State.Slots {
		if sl.Name != bucket.WCU && !sl.Returns() {
			gone = append(gone, item.Compare(namesOf(sl.Name).used, item.Eq, other.counter(nil, sl, 0)))
		}
	}
	return []item.Write{item.Delete{Key: other.Key(), If: item.All(gone...)}, u}
}

// with returns the state with the whole share of a limit, if the shard does not store the limit and
// one write can still name it.
func (b Shard) with(s bucket.State, l bucket.Limit) bucket.State {
	_, partial := b.partial(l.Name)
	if s.Index(l.Name) < 0 && !partial && l.Name != bucket.WCU && len(s.Slots) < bucket.MaxSlots {
		s, _ = s.Adopt(l)
	}
	return s
}

// Counts is a check that holds while shard 0 of the bucket has the count.
func Counts(b Shard, count int) item.Check {
	return item.Check{
		Key: layout.BucketKey(b.Namespace, b.Entity, b.Resource, 0),
		If:  counted(item.Eq, count),
	}
}

// Recount sets the doubled count on a shard whose sibling already exists, because another client
// has made it. The sibling has tokens of its own, so tokens above the shard's new share are
// dropped, as when a capacity is lowered.
func Recount(b Shard, now int64) item.Update {
	at := b.State.At(now)
	after := at
	after.Shards = 2 * after.Count()
	return becomes(b, at, after.At(now), nextGeneration(b, at.RF))
}

// Discount lowers the count of a shard whose siblings above the new count are all missing, in a
// transaction that checks it. Their levels are unknown, so nothing is added. Nothing is cut either,
// if the level was not written since the image. A shard with more than its share may have got the
// count from another client, which did not remove the siblings' part.
func Discount(b Shard, count int, now int64) []item.Write {
	at := b.State.At(now)
	var uncut []string
	for i, sl := range b.State.Slots {
		if sl.Tokens > at.Slots[i].Tokens {
			at.Slots[i].Tokens = sl.Tokens
			uncut = append(uncut, sl.Name)
		}
	}
	after := at
	after.Shards = count
	writes := []item.Write{becomes(b, at, after, nextGeneration(b, at.RF), uncut...)}
	for ; count < b.State.Shards; count *= 2 {
		sibling := layout.BucketKey(b.Namespace, b.Entity, b.Resource, b.State.Shard+count)
		writes = append(writes, item.Check{Key: sibling, If: item.Absent(item.AttrPK)})
	}
	return writes
}

// becomes renders a shard that becomes after, computed from its image: a new count, a new
// generation and matching levels. Others may have taken tokens since, but not more than at holds:
// otherwise the level would show a debt where there is none, or the tokens handed over would be
// gone. The levels of uncut limits must still equal the image's.
func becomes(b Shard, at, after bucket.State, generation int64, uncut ...string) item.Update {
	r := &resized{b: b, at: at, after: after, stored: after.Stored(), uncut: uncut}
	r.u = item.Update{Key: b.Key(), Set: []item.Attr{
		{Name: AttrShardCount, Value: item.N(int64(after.Shards))},
		{Name: layout.AttrRF, Value: item.N(r.stored.RF)},
		{Name: AttrGeneration, Value: item.N(generation)},
	}}
	r.cond = append(sameLife(nil, nil, b, r.stored.RF), sameLimits(b)...)
	r.cond = b.calendars(r.cond, &r.u, after)
	for i, sl := range r.stored.Slots {
		formOf(sl.Limit).resize(r, i)
	}
	if after.HeldUntil > b.State.HeldUntil {
		r.u.Set = append(r.u.Set, item.Attr{Name: AttrHeldUntil, Value: item.N(after.HeldUntil)})
		r.cond = append(r.cond, heldNotAfter(after.HeldUntil))
	}
	remember(&r.u, r.stored)
	r.u.Remove = append(r.u.Remove, layout.AttrTTL)
	r.u.If = item.All(r.cond...)
	return r.u
}

// resize counts from the image, like a charge.
func (byLevel) resize(r *resized, i int) {
	sl := r.stored.Slots[i]
	tk, tc := namesOf(sl.Name).tokens, namesOf(sl.Name).used
	if sl.Name == bucket.WCU {
		r.u.Set = append(r.u.Set, item.Attr{Name: tk, Value: item.N(sl.Tokens)})
		return
	}
	if slices.Contains(r.uncut, sl.Name) {
		is := r.b.State.Slots[r.b.State.Index(sl.Name)].Tokens
		r.u.Set = append(r.u.Set, item.Attr{Name: tk, Value: item.N(sl.Tokens)})
		r.cond = append(r.cond, item.Compare(tk, item.Eq, item.N(is)))
		return
	}
	if r.b.entered(r.after, i) {
		r.u.Set = append(r.u.Set, item.Attr{Name: tk, Value: item.N(sl.Tokens)})
		return
	}
	if r.b.State.Index(sl.Name) < 0 { // new to the item; a counter may exist
		r.u.Set = append(append(r.u.Set, item.Attr{Name: tk, Value: item.N(sl.Tokens)}), parameters(sl)...)
		r.u.Add = append(r.u.Add, item.Attr{Name: tc, Value: item.N(0)})
		if sl.Held > 0 {
			r.u.Set = append(r.u.Set, item.Attr{Name: namesOf(sl.Name).held, Value: item.N(-sl.Held)})
		}
		r.cond = append(r.cond, item.Absent(tk))
		return
	}
	r.u.SetLess = append(r.u.SetLess, item.Less{Name: tk, Value: r.b.counter(nil, sl, sl.Tokens), Minus: tc})
	if more := sl.Held - r.b.State.Slots[r.b.State.Index(sl.Name)].Held; more > 0 { // merged
		r.u.Add = append(r.u.Add, item.Attr{Name: namesOf(sl.Name).held, Value: item.N(-more)})
	}
	if most := r.at.Slots[i].Tokens; most >= 0 {
		r.cond = append(r.cond, item.Compare(tc, item.Le, r.b.counter(nil, sl, most)))
	}
}

// Restore renders, as a transaction, the restoring of a shard that is missing although its parent
// has split it off. Its level is unknown, so it starts empty and creates no tokens. It only gets
// the tokens that shard 0 holds above its own share, up to the new shard's share: another client
// has then raised the count without splitting, and shard 0 would hold them on top of the new
// shard's refill.
//
// like is shard 0, or any other shard if shard 0 is unknown. shards is the count of shard 0, and a
// condition of the write: with too small a count, the restored shard would have too large a share.
// Its parent must still have split it off, or both would have the same share. draw is random, see
// [Began], because earlier lives of the shard are unknown.
func Restore(like Shard, shard, shards int, now int64, draw uint64) []item.Write {
	b := like
	b.TTL, b.Partial, b.Outgrown, b.Denied = 0, nil, nil, 0
	at := like.State.At(now) // quotas are in the current period
	b.State = bucket.State{Shard: shard, Shards: shards, RF: at.RF, Slots: at.Slots}.Emptied()
	b.Generation, b.Born = begin(draw, now, like), now/1000
	zero := item.Update{Key: layout.BucketKey(b.Namespace, b.Entity, b.Resource, 0)}
	cond := []item.Cond{counted(item.Eq, shards)}
	if like.State.Shard == 0 && like.State.Shards == shards {
		for i, sl := range like.State.Slots {
			share := like.State.Rate(i).Capacity
			move := min(bucket.SubSat(sl.Tokens, share), b.State.Rate(i).Capacity)
			if sl.Name == bucket.WCU || move <= 0 {
				continue
			}
			tk := namesOf(sl.Name).tokens
			b.State.Slots[i].Tokens = move
			zero.Add = append(zero.Add, item.Attr{Name: tk, Value: item.N(-move)})
			cond = append(cond, item.Compare(tk, item.Ge, item.N(bucket.AddSat(share, move))))
		}
	}
	put := item.Put{Item: b.Item(), If: item.Absent(item.AttrPK)}
	zero.If = item.All(cond...)
	writes := []item.Write{put, zero}
	if len(zero.Add) == 0 {
		writes[1] = item.Check{Key: zero.Key, If: zero.If}
	}
	if parent := bucket.SplitParent(shard); parent != 0 {
		writes = append(writes, item.Check{
			Key: layout.BucketKey(b.Namespace, b.Entity, b.Resource, parent),
			If:  counted(item.Ge, bucket.CountWith(shard)),
		})
	}
	return writes
}

// Look changes nothing and returns the item: in the answer if the shard exists with at least the
// given count, otherwise with the refusal. Either way it costs one write unit per kilobyte of the
// item.
func Look(key item.Key, shards int) item.Update {
	return item.Update{Key: key, If: item.All(item.Exists(item.AttrPK), counted(item.Ge, shards))}
}
