package decide

import (
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Bucket is this process's knowledge of one bucket. It is safe for concurrent use.
type Bucket struct {
	mu    sync.Mutex
	facts facts // reached by lock only
	holds atomic.Bool
}

// Drain makes the process grant nothing from tokens at hand before an instant, epoch ms.
func (b *Bucket) Drain(until int64) {
	k := b.lock()
	defer b.mu.Unlock()
	k.drained = max(k.drained, until)
}

// NewBucket returns a bucket of which nothing is known yet.
func NewBucket(s *Settings) *Bucket { return &Bucket{facts: facts{Settings: s, count: 1}} }

// lock locks the bucket, until the caller unlocks mu.
func (b *Bucket) lock() *facts {
	b.mu.Lock()
	return &b.facts
}

// see remembers an image. own are the costs of the write that returned it. since is the serial
// number of the image that was known when that write was sent: if that is still the known one, the
// new one replaces it. Otherwise answers of concurrent calls have overtaken each other, and an
// older image is dropped. It reports whether others have taken tokens since the image before.
func (k *facts) see(b table.Shard, now int64, since int, own []table.Cost) (others bool) {
	s := k.at(b.State.Shard)
	if s.serial != since && s.imaged() && older(b, s.image) {
		return false
	}
	if s.imaged() && s.image.Generation == b.Generation {
		others = s.others.learn(s.image.State, b.State, own, now-s.at)
	}
	if s.imaged() && raised(s.image.State, b.State, now) {
		k.raisedAt = now
	}
	if !s.imaged() || !s.image.State.SameLimits(b.State) { // a shard that merges keeps those that it has
		s.rules = table.Began(b.Generation)
		if b.State.Shard > 0 && !s.imaged() && s.rules/1000 == b.Born { // split off, with the limits of its parent
			s.rules = 0
		}
	}
	s.image, s.at, s.absent = b, now, false
	s.serial++
	if s.holding != nil {
		s.holding.See(b, k.ahead)
	}
	if n := b.State.Shards; n <= bucket.MaxShards && (n > k.count || b.State.Shard == 0) {
		k.count = max(n, 1) // what shard 0 says is the truth, also when shards have merged
	}
	k.denied = nil
	return others
}

// missing remembers that a shard does not exist. If it is shard 0 of an unsplit bucket, the bucket
// does not exist.
func (k *facts) missing(shard int, now int64) {
	s := k.at(shard)
	if s.holding != nil {
		s.held() // further grants are from the last image
	}
	s.image, s.at, s.absent = table.Shard{}, now, true
	s.serial++
	k.denied = nil
}

// Unsent is the serial number for an image that does not answer a write on its shard.
const Unsent = -1

// See remembers an image that came with the answer to a call that took nothing. since is the serial
// number of the image that was known when the call was sent, or Unsent.
func (b *Bucket) See(image table.Shard, now int64, since int) {
	k := b.lock()
	defer b.mu.Unlock()
	k.look(image, now, since)
}

// look remembers an image that does not answer a write of this process, and yields if its limits
// are new here. It reports whether others have replaced limits of this process.
func (k *facts) look(image table.Shard, now int64, since int) (displaced bool) {
	s := k.at(image.State.Shard)
	changed := !s.imaged() || !s.image.State.SameLimits(image.State)
	k.see(image, now, since, nil)
	return changed && k.displace(s, now)
}

// Missing remembers that shards do not exist.
func (b *Bucket) Missing(now int64, shards ...int) {
	k := b.lock()
	defer b.mu.Unlock()
	for _, shard := range shards {
		k.missing(shard, now)
	}
}

// Seen is a copy of the knowledge of one shard.
type Seen struct {
	Image  table.Shard // the last one; without a key if there is none
	Serial int         // counts the images seen
	Absent bool        // the item was not there
	Idle   bool        // nothing of this process is under way
}

// Seen returns the knowledge of a shard.
func (b *Bucket) Seen(shard int) Seen {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.shards[shard]
	if s == nil {
		return Seen{Idle: true}
	}
	return Seen{Image: s.image, Serial: s.serial, Absent: s.absent, Idle: len(s.underWay) == 0 && s.call == nil}
}

// Survives remembers a shard of a bucket whose shard 0 is missing, and returns the count that shard
// 0 had. If there is no such shard, it had not been split off yet; otherwise the count follows from
// the shard. An item left behind by a late settlement of another client is not a shard. If the item
// cannot be read, the tokens in it and in the others are unknown.
func (b *Bucket) Survives(shard int, it item.Item, now int64) (count int, err error) {
	k := b.lock()
	defer b.mu.Unlock()
	count = shard
	if it != nil {
		image, err := table.DecodeShard(it)
		if err != nil {
			return 0, err
		}
		if !(image.State.NoClock && image.NoShardCount) {
			k.see(image, now, Unsent, nil)
			count = max(bucket.CountWith(shard), min(image.State.Shards, bucket.MaxShards))
		}
	}
	if zero := k.shards[0]; zero != nil && zero.absent { // nobody has seen it meanwhile
		k.count = count
	}
	return count, nil
}

// ReadAll notes that all shards are about to be read, and returns their number.
func (b *Bucket) ReadAll(now int64) (count int) {
	k := b.lock()
	defer b.mu.Unlock()
	k.readAt, k.raisedAt = now, min(k.raisedAt, now) // the clock may have been set back since
	return k.count
}

// SeeAll remembers the items of all shards that were read, and returns the images of existing ones.
func (b *Bucket) SeeAll(items []item.Item, now int64) ([]table.Shard, error) {
	k := b.lock()
	defer b.mu.Unlock()
	var images []table.Shard
	for i, it := range items {
		if it == nil {
			k.missing(i, now)
			continue
		}
		image, err := table.DecodeShard(it)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
		k.look(image, now, k.at(i).serial)
	}
	return images, nil
}
