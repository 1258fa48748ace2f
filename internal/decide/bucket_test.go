package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// After all shards were read, the existing ones are remembered, and the others as missing.
func TestAllShardsAreSeen(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	images, err := b.SeeAll([]item.Item{imageOf(0, 2, 3).Item(), nil}, noon)
	if err != nil || len(images) != 1 || images[0].State.Shard != 0 {
		t.Fatalf("%+v, %v", images, err)
	}
	if zero, one := b.Seen(0), b.Seen(1); zero.Absent || zero.Image.Entity != "acme" || !one.Absent {
		t.Errorf("remembered %+v and %+v", zero, one)
	}
	images, err = b.SeeAll([]item.Item{nil, imageOf(1, 4, 3).Item(), nil, imageOf(3, 4, 3).Item()}, noon)
	if err != nil || len(images) != 2 || !b.Seen(0).Absent || b.Seen(1).Absent || !b.Seen(2).Absent || b.Seen(3).Absent {
		t.Errorf("of four: %+v, %v", images, err)
	}
	broken := imageOf(0, 1, 3).Item()
	broken["rf"] = item.S("x")
	if _, err := b.SeeAll([]item.Item{broken}, noon); err == nil {
		t.Error("an item that cannot be read is no error")
	}
}

// A bucket has as many shards as an image shows, up to the maximum, and after a merge as many as
// shard 0 shows.
func TestHowManyShardsThereAre(t *testing.T) {
	for _, c := range []struct {
		name   string
		images []table.Shard
		want   int
	}{
		{"one of four", []table.Shard{imageOf(3, 4, 1)}, 4},
		{"as many as there may be", []table.Shard{imageOf(3, bucket.MaxShards, 1)}, bucket.MaxShards},
		{"more than there may be", []table.Shard{imageOf(3, 2*bucket.MaxShards, 1)}, 1},
		{"fewer, by another shard", []table.Shard{imageOf(3, 4, 1), imageOf(1, 2, 1)}, 4},
		{"fewer, by shard 0", []table.Shard{imageOf(3, 4, 1), imageOf(0, 2, 1)}, 2},
		{"none, by shard 0", []table.Shard{imageOf(3, 4, 1), imageOf(0, 0, 1)}, 1},
	} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		for _, image := range c.images {
			b.See(image, noon, Unsent)
		}
		check.Equal(t, b.facts.count, c.want, c.name)
	}
}

// Two images show the same state of a shard if they are of one write of it.
func TestSame(t *testing.T) {
	written := func(b table.Shard, writes int64) table.Shard {
		b.State.Slots[b.State.Index(bucket.WCU)].Used = writes
		return b
	}
	for _, c := range []struct {
		a, b table.Shard
		want bool
	}{
		{written(imageOf(1, 4, 3), 7), written(imageOf(1, 4, 3), 7), true},
		{written(imageOf(1, 4, 3), 7), written(imageOf(1, 4, 3), 8), false},
		{written(imageOf(1, 4, 3), 8), written(imageOf(1, 4, 3), 7), false},
		{imageOf(1, 4, 3), imageOf(2, 4, 3), false},
		{imageOf(1, 4, 3), imageOf(1, 2, 3), false},
		{imageOf(1, 4, 3), imageOf(2, 2, 3), false},
	} {
		check.Equal(t, Same(c.a, c.b), c.want, "%v and %v", c.a.State, c.b.State)
	}
}

// Two shards with four and a half tokens each hold nine, of which one request can have eight: each
// pays in whole tokens. An unseen shard counts as equally full.
func TestLevelsOfTwoShards(t *testing.T) {
	half := bucket.Limit{Name: "rps", Capacity: 20_000, Amount: 1000, Period: 1000}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	for shard := range 2 {
		image := imageOf(shard, 2, 0)
		image.State = bucket.New([]bucket.Limit{half}, shard, 2, noon)
		image.State.Slots[image.State.Index("rps")].Tokens = 4500
		b.See(image, noon, Unsent)
		if l := b.Levels(asks(1, half), noon)[0]; l.Milli != 9000 || l.Estimated != (shard == 0) {
			t.Errorf("with shard %d seen: %+v, want 9 tokens", shard, l)
		}
	}
	if l := b.Levels(asks(1, half), noon)[0]; l.Remaining != 8 {
		t.Errorf("%+v, want 8 for one request", l)
	}
	merged := imageOf(0, 1, 0)
	merged.Generation++
	merged.State = bucket.New([]bucket.Limit{half}, 0, 1, noon)
	merged.State.Slots[merged.State.Index("rps")].Tokens = 9000
	b.See(merged, noon, Unsent)
	if l := b.Levels(asks(1, half), noon)[0]; l.Milli != 9000 || l.Remaining != 9 || l.Estimated {
		t.Errorf("%+v, want 9 tokens of the shard that is left", l)
	}
}

// The parts of a step, separately, for the tests of a decision.

func (b *Bucket) Decide(w Want, a *Attempt, clock func() Now) Decision {
	k := b.lock()
	defer b.mu.Unlock()
	return k.choose(w, a, clock())
}

func (b *Bucket) Begin(c Choice, w Want, now int64) {
	k := b.lock()
	defer b.mu.Unlock()
	k.at(c.Shard).begin(w)
	if c.Do == Look || c.Asks {
		k.lookedAt = now
	}
	if c.Do == Adopt {
		k.adoptedAt = now
	}
}

func (b *Bucket) Plan(c Choice, group []Want, hurried int, clock func() Now) (n int, p Planned) {
	k := b.lock()
	defer b.mu.Unlock()
	return k.planFor(c, group, hurried, clock())
}

func (b *Bucket) Took(image table.Shard, p Planned, w Want, group []Want, now int64) []Level {
	k := b.lock()
	defer b.mu.Unlock()
	defer func() { b.holds.Store(k.holds()) }()
	return k.took(image, p, w, group, now)
}

func (b *Bucket) Refused(image table.Shard, p Planned, now int64) bool {
	k := b.lock()
	defer b.mu.Unlock()
	return k.refused(image, p, now)
}

func (b *Bucket) Outbid(p Planned) (answered, lost bool) {
	k := b.lock()
	defer b.mu.Unlock()
	return k.outbid(p)
}

func (b *Bucket) Unanswered(p Planned, written bool) {
	k := b.lock()
	defer b.mu.Unlock()
	k.unanswered(p, written)
}

func (b *Bucket) End(shard int, group ...Want) {
	k := b.lock()
	defer b.mu.Unlock()
	k.at(shard).end(group...)
}

// askMany makes n requests at one instant.
func askMany(b *Bucket, n int, w Want, a Attempt, ms int64) (e Effects) {
	for range n {
		b.Ask(&Waiter{Want: w, Attempt: a}, true, clock(ms), &e)
	}
	return e
}

// Mind is mind: whether the caller must handle expiring tokens of a shard, and after how many ms.
func (b *Bucket) Mind(shard int, clock func() Now) (ms int64, ok bool) {
	k := b.lock()
	defer b.mu.Unlock()
	var e Effects
	if k.mind(shard, clock(), &e); len(e.Minded) == 0 {
		return 0, false
	}
	return e.Minded[0].In.Milliseconds(), true
}
