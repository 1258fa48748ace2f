package limiter

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// name identifies a bucket within a namespace.
type name struct{ entity, resource string }

// images remembers what was seen of a bounded number of buckets. It is safe for
// concurrent use.
type images struct{ cache *lru.Cache[name, *known] }

func newImages(size int) *images {
	cache, err := lru.New[name, *known](size)
	if err != nil {
		panic("bug: " + err.Error()) // the size is validated
	}
	return &images{cache: cache}
}

// of returns what is known of a bucket, to be read and changed under its lock.
func (im *images) of(n name) *known {
	if k, ok := im.cache.Get(n); ok {
		return k
	}
	k := &known{count: 1}
	if old, ok, _ := im.cache.PeekOrAdd(n, k); ok {
		return old
	}
	return k
}

// peek is of, without making room for a bucket of which nothing is known: then nil.
func (im *images) peek(n name) *known {
	k, _ := im.cache.Peek(n)
	return k
}

// known is what this process knows of one bucket. No lock is held during I/O.
type known struct {
	mu        sync.Mutex
	count     int // largest shard count seen, at least 1
	shards    map[int]*seen
	home      home
	lookedAt  int64            // when the last look went out, epoch ms
	raisedAt  int64            // when an image last showed more than refill explains, epoch ms
	readAt    int64            // when all shards were last read because of that, epoch ms
	adoptedAt int64            // when limits were last brought in force for a denial, epoch ms
	largest   map[string]int64 // by limit: the largest cost seen
	denied    *denied          // the last denial, for as long as nothing new is seen
	yields    []yield          // limits of this process that others have replaced
	throttled breaker          // of requests that were throttled: a hot bucket is its own trouble
}

// seen is what this process knows of one shard.
type seen struct {
	image    table.Shard // the last one seen; without a key if there is none
	at       int64       // when it was seen, epoch ms
	serial   int         // counts the images seen
	absent   bool        // the item was not there
	added    bool        // a plain add has just been refused
	others   others      // what other processes take
	underWay underWay
	flight   *flight // the write that is under way and takes others along
	// confirmed are limits of this process that were seen in force, of some calls.
	confirmed [][]bucket.Limit
}

// imaged reports whether there is an image.
func (s *seen) imaged() bool { return s != nil && s.image.Entity != "" }

// clockless reports whether the image has no refill instant that can be used.
func (s *seen) clockless(now int64) bool {
	return s.image.State.NoClock || bucket.SubSat(s.image.State.RF, now) > bucket.MaxSkew
}

// verdict reports whether the image covers the costs at now, beside what this
// process has under way.
func (s *seen) verdict(w want, now int64) (bucket.Verdict, string) {
	image := s.image
	if len(s.underWay) > 0 {
		image.State.Slots = append([]bucket.Slot(nil), image.State.Slots...)
		for i := range image.State.Slots {
			sl := &image.State.Slots[i]
			sl.Tokens = bucket.SubSat(sl.Tokens, s.underWay.of(sl.Name))
		}
	}
	if !w.stored(image.State) || len(image.Partial) > 0 || s.clockless(now) {
		plan := table.Charge{Image: image, Costs: w.costs, Now: now, Life: w.life}.Plan()
		return plan.Verdict, plan.Short
	}
	var few [16]int64
	needs := few[:0]
	if len(image.State.Slots) > len(few) {
		needs = make([]int64, 0, len(image.State.Slots))
	}
	i := 0
	for _, sl := range image.State.Slots { // both are in order of name
		need := int64(-1) // not asked for
		if i < len(w.costs) && w.costs[i].Limit.Name == sl.Name {
			need = w.costs[i].Milli
			i++
		}
		needs = append(needs, need)
	}
	v := image.State.Decide(needs, now)
	if v.Slot < 0 {
		return v, ""
	}
	return v, image.State.Slots[v.Slot].Name
}

func (k *known) at(shard int) *seen {
	s := k.shards[shard]
	if s == nil {
		s = &seen{}
		if k.shards == nil {
			k.shards = make(map[int]*seen, 1)
		}
		k.shards[shard] = s
	}
	return s
}

// see remembers an image, of which own was taken by the write that brought it. An
// answer to a write that was sent after the image known was seen, when that had
// the serial number since, replaces it. Answers of concurrent calls overtake each
// other: then the image that is older is dropped.
func (k *known) see(b table.Shard, now int64, since int, own []table.Cost) {
	s := k.at(b.State.Shard)
	if s.serial != since && s.imaged() && older(b, s.image) {
		return
	}
	if s.imaged() && s.image.Generation == b.Generation {
		s.others.learn(s.image.State, b.State, own, now-s.at)
	}
	if s.imaged() && raised(s.image.State, b.State, now) {
		k.raisedAt = now
	}
	s.image, s.at, s.absent = b, now, false
	s.serial++
	if n := b.State.Shards; n <= bucket.MaxShards && (n > k.count || b.State.Shard == 0) {
		k.count = max(n, 1) // what shard 0 says is the truth, also when shards have merged
	}
	k.denied = nil
}

// raised reports whether a newer image shows more of some limit than the older one and
// refill explain, by a tenth of a share or more: somebody has given back, reset the
// bucket or credited it, so what is known of its other shards may be too low. Example:
// capacity 100, 3 tokens a second ago, refilled by 10 a second: 13 by now. An image with
// 25 tokens shows 12 more, and 12 is more than 10.
func raised(old, newer bucket.State, now int64) bool {
	old, newer = old.At(now), newer.At(now)
	for i, sl := range newer.Slots {
		j := old.Index(sl.Name)
		if sl.Name != bucket.WCU && j >= 0 && old.Shards == newer.Shards && old.Slots[j].Limit == sl.Limit &&
			bucket.SubSat(sl.Tokens, old.Slots[j].Tokens) > max(newer.Rate(i).Capacity/10, bucket.Milli) {
			return true
		}
	}
	return false
}

// older reports whether an image was certainly taken before another.
func older(a, b table.Shard) bool {
	if a.Generation != b.Generation && a.Generation != 0 && b.Generation != 0 {
		return a.Generation < b.Generation
	}
	i, j := a.State.Index(bucket.WCU), b.State.Index(bucket.WCU)
	if i >= 0 && j >= 0 && a.State.Slots[i].Used != b.State.Slots[j].Used {
		return a.State.Slots[i].Used < b.State.Slots[j].Used // the meter counts every write
	}
	return a.State.RF < b.State.RF
}

// same reports whether two images of a shard show the same state of it.
func same(a, b table.Shard) bool {
	return a.State.Shard == b.State.Shard && a.State.Shards == b.State.Shards && !older(a, b) && !older(b, a)
}

// missing remembers that a shard was not there. When it is shard 0 of an
// unsplit bucket, there is no bucket.
func (k *known) missing(shard int, now int64) {
	s := k.at(shard)
	s.image, s.at, s.absent = table.Shard{}, now, true
	s.serial++
	k.denied = nil
}

// gone is known.missing for shards of a bucket, under the lock.
func (im *images) gone(n name, shards []int, now int64) {
	k := im.of(n)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, shard := range shards {
		k.missing(shard, now)
	}
}

// see is known.see under the lock, for answers to calls that took nothing.
func (im *images) see(b table.Shard, now int64, since int) {
	k := im.of(name{b.Entity, b.Resource})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.see(b, now, since, nil)
}

// unsent is the serial number for an image that answers no write on its shard.
const unsent = -1
