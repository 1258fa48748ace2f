package desk

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// meet reads an unknown shard, and shard 0 with it, which has the number of shards. The images may
// deny, so the read is consistent if a denial must rest on nothing older than the request.
func (d *Desks) meet(ctx context.Context, k *Desk, shard int) (*table.Shard, error) {
	items, err := d.Store.Read(ctx, d.Settings.DenyFor == 0, d.Key(k.Name, shard), d.Key(k.Name, 0))
	if err != nil {
		return nil, err
	}
	if zero, err := imageOf(items[1]); shard > 0 && zero != nil && err == nil {
		k.See(*zero, d.Now(), decide.Unsent)
	}
	return imageOf(items[0])
}

// Unmet reports whether nothing is known of a bucket, so that a read of it saves a write.
func (d *Desks) Unmet(n decide.Name) bool {
	k := d.Peek(n)
	return k == nil || k.Unmet()
}

// Met remembers the result of an eventually consistent read of the first shard of a bucket, nil if
// that does not exist.
func (d *Desks) Met(n decide.Name, it item.Item) {
	if image, err := imageOf(it); err == nil { // else a charge will find out
		d.Of(n).Met(image, d.Now())
	}
}

// imageOf returns the image of an item, nil if that is not there.
func imageOf(it item.Item) (*table.Shard, error) {
	if it == nil {
		return nil, nil
	}
	b, err := table.DecodeShard(it)
	return &b, err
}

// A bucket without a shard 0 is new, has expired or was deleted. Or shard 0 alone was deleted, by a
// person or by another client, and the other shards live on. Created full, shard 0 would grant
// their tokens again. So a process that is about to create a bucket reads its shard 1 first. Shard
// 0 splits that off first and merges it last, so every bucket of several shards has it.

// siblings looks for living shards of buckets whose shard 0 is missing, before they are created. It
// remembers them with the count that shard 0 had. It costs a consistent read unit for each bucket,
// in one call. If shard 1 is found, siblings looks for others that shard 0 may have split off
// before shard 1 was split.
//
// No process can create shard 0 unnoticed after the read: the write that creates it has the
// condition that it is missing.
func (d *Desks) siblings(ctx context.Context, all ...*Desk) error {
	shards := make([]int, len(all)) // to be read next
	for i := range shards {
		shards[i] = 1
	}
	for len(all) > 0 {
		keys := make([]item.Key, len(all))
		for i, k := range all {
			keys[i] = d.Key(k.Name, shards[i])
		}
		items, err := d.Store.Read(ctx, true, keys...)
		if err != nil {
			return err
		}
		var more []*Desk
		var next []int
		for i, k := range all {
			count, err := k.Survives(shards[i], items[i], d.Now())
			if err != nil {
				return err
			}
			if count > shards[i] && count < bucket.MaxShards {
				more, next = append(more, k), append(next, count)
			}
		}
		all, shards = more, next
	}
	return nil
}

// readShards reads the images of all known shards, the first so many, and remembers them.
func (d *Desks) readShards(ctx context.Context, k *Desk) (images []table.Shard, count int, err error) {
	keys := make([]item.Key, k.ReadAll(d.Now()))
	for i := range keys {
		keys[i] = d.Key(k.Name, i)
	}
	var items []item.Item
	for part := range slices.Chunk(keys, item.MaxReadKeys) {
		some, err := d.Store.Read(ctx, true, part...)
		if err != nil {
			return nil, 0, err
		}
		items = append(items, some...)
	}
	images, err = k.SeeAll(items, d.Now())
	return images, len(keys), err
}

// explain finds out why DynamoDB has rejected a write to a bucket: it does that if the write adds
// to an attribute that is not a number. Then the error is the bucket's ErrUnreadable, and not that
// the table is not set up. If a number is missing altogether, the image is returned without an
// error, to decide again: the next charge repairs it. That explains one write, as mended says, and
// no other.
func (d *Desks) explain(ctx context.Context, err error, w item.Write, mended *bool) (table.Shard, error) {
	if store.KindOf(err) != store.Setup {
		return table.Shard{}, err
	}
	items, failed := d.Store.Read(ctx, true, w.Target())
	if failed != nil || items[0] == nil {
		return table.Shard{}, err
	}
	if b, odd := table.DecodeShard(items[0]); odd != nil || len(b.Partial) > 0 && !*mended {
		*mended = true
		return b, odd
	}
	return table.Shard{}, err
}
