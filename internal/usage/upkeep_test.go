package usage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var conf = Config{Windows: []Window{Hourly, Daily}, SnapshotTTLDays: 90, MaxShards: 32, MergeAfter: 600_000,
	Percents: map[string][]int{"": {50, 80, 100}}}

func limits() []bucket.Limit {
	return []bucket.Limit{
		{Name: "rpm", Capacity: 600_000, Amount: 600_000, Period: 60_000},
		{Name: "tpm", Capacity: 40_000_000, Amount: 40_000_000, Period: 60_000},
	}
}

// spends returns a change that takes rpm tokens from a full bucket at t0.
func spends(shard, shards int, rpm int64) stream.Change {
	c := change(shard, "5", t0, rpm)
	c.OldShards = shards
	c.New.State = bucket.New(limits(), shard, shards, t0)
	c.New.State.Slots[0].Tokens -= rpm * 1000
	c.New.State.Slots[0].Used += rpm * 1000
	c.New.State.Slots[2].Tokens -= 1000
	return c
}

func decide(now int64, changes ...stream.Change) Upkeep { return Decide(Fold(changes), now, conf) }

func TestBucketsRefillIfTheBatchWouldNotFitAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		rpm  int64
		now  int64
		want int
	}{
		{"fits once more", 300, t0 + 1000, 0},
		{"does not fit once more", 301, t0 + 1000, 1},
		{"nothing to credit yet", 301, t0, 0},
		{"less than a token to credit", 301, t0 + 99, 0},
		{"one token to credit", 301, t0 + 100, 1},
		{"gives back", -5, t0 + 1000, 0},
	} {
		p := decide(c.now, spends(0, 1, c.rpm))
		check.Equal(t, len(p.Refills), c.want, "%s: refills", c.name)
	}
	back := spends(0, 1, -5)
	back.New.State.Slots[0].Tokens = -10 * bucket.Milli
	check.Equal(t, len(decide(t0+1000, back).Refills), 0, "gives back to a debt: refills")
}

// A refill's image is as old as the stream is late. If others took up to 2 % of a full limit's
// capacity since, the limit gets that much less. If they took more, the refill is refused.
func TestRefillTakesLittleFromAFullLimit(t *testing.T) {
	c := spends(0, 1, 400) // rpm is low, and all 40,000 tokens of tpm are left
	r := decide(t0+500, c).Refills[0]
	for taken, want := range map[int64]bool{0: true, 800: true, 801: false} {
		b := c.New
		b.State.Slots = slices.Clone(b.State.Slots)
		b.State.Slots[1].Tokens -= taken * bucket.Milli
		b.State.Slots[1].Used += taken * bucket.Milli
		if _, held, err := r.Update.Apply(b.Item()); err != nil || held != want {
			t.Errorf("%d tokens taken since: held %v, %v, want %v", taken, held, err, want)
		}
	}
}

// A meter below half is refilled before it seems empty. Otherwise other clients, which never refill
// it, split the bucket.
func TestRefillKeepsTheWriteMeterAboveHalf(t *testing.T) {
	for tokens, want := range map[int64]int{499_999: 1, 500_000: 0} {
		c := spends(0, 1, 1)
		c.New.State.Slots[2].Tokens = tokens
		p := decide(t0+100, c)
		check.MustEqual(t, len(p.Refills), want, "meter at %s", bucket.Tokens(tokens))
		if want == 0 {
			continue
		}
		r := p.Refills[0]
		b, err := table.DecodeShard(applied(t, r.Update, c.New.Item()))
		if err != nil || b.State.Slots[2].Tokens != tokens+100_000 {
			t.Errorf("%v, the meter shows %s", err, b.State)
		}
	}
	for taken, want := range map[int64]int{500_000: 0, 500_001: 1} { // above half, it covers the batch once more
		c := spends(0, 1, 1)
		c.New.State.Slots[2].Tokens, c.Metered = 500_000, taken
		check.Equal(t, len(decide(t0+100, c).Refills), want, "%d of the meter taken: refills", taken)
	}
}

func TestIncompleteLimitsAreCountedButNotRefilled(t *testing.T) {
	c := spends(0, 1, 500)
	c.New.Partial = []table.PartialLimit{{Name: "x"}}
	p := decide(t0+1000, c)
	check.Equal(t, len(p.Refills)+len(p.Reshardings)+len(p.Lifetimes), 0, "plan %+v", p)
}

// A removed shard needs nothing, whatever its earlier records in the batch show.
func TestRemovedShardsNeedNothing(t *testing.T) {
	hot := spends(0, 1, 400)
	hot.New.State.Slots[2].Tokens = 999
	hot.New.TTL = t0/1000 + 1
	removed := spends(0, 1, 400)
	removed.New.State.Slots[2].Tokens, removed.New.TTL = 999, t0/1000+1
	removed.Operation, removed.Sequence = stream.Remove, "6"
	if p := decide(t0+900, hot); len(p.Reshardings)+len(p.Refills) == 0 {
		t.Errorf("an existing shard needs nothing: %+v", p)
	}
	if p := decide(t0+900, hot, removed); len(p.Reshardings)+len(p.Refills)+len(p.Lifetimes)+len(p.Spendings) != 0 {
		t.Errorf("plan %+v", p)
	}
}

func TestHotShardZeroDoubles(t *testing.T) {
	c := spends(0, 1, 1)
	c.New.State.Slots[2].Tokens = 999
	c.Created = t0 + 900 // creation times are in seconds: nothing is credited
	p := decide(t0+5000, c)
	if len(p.Reshardings) != 1 || !p.Reshardings[0].double || p.Reshardings[0].Count != 2 || len(p.Refills) != 0 {
		t.Fatalf("plan %+v", p)
	}
	if step, ok := p.Reshardings[0].Steps.Next(t0, 3); !ok || step.Action != shard.Split || step.Shard != 0 {
		t.Errorf("step %v %v", step, ok)
	}
	c.New.State.Shard = 1
	if p := decide(t0+5000, c); len(p.Reshardings) != 0 {
		t.Errorf("shard 1 alone doubles: %+v", p.Reshardings)
	}
	c.New.State.Shard, c.New.State.Shards, c.OldShards = 0, 32, 32
	if p := decide(t0+5000, c); len(p.Reshardings) != 0 {
		t.Errorf("doubles beyond the maximum: %+v", p.Reshardings)
	}
	c.New.State.Shards, c.OldShards = 1, 1
	c.New.State.Slots[0].Capacity = 1999
	if p := decide(t0+5000, c); len(p.Reshardings) != 0 {
		t.Errorf("share below a token: %+v", p.Reshardings)
	}
}

func TestLifetimes(t *testing.T) {
	split := spends(0, 2, 1)
	split.New.TTL = t0/1000 + 9
	short := spends(0, 1, 200)
	short.New.TTL = t0/1000 + 10 // full only in 20 s
	fine := spends(0, 1, 200)
	fine.New.TTL = t0/1000 + 100
	never := spends(0, 1, 200)
	for _, c := range []struct {
		name   string
		change stream.Change
		want   int
	}{{"split bucket with ttl", split, 1}, {"ends too early", short, 1}, {"long enough", fine, 0}, {"none", never, 0}} {
		p := decide(t0, c.change)
		check.Equal(t, len(p.Lifetimes), c.want, c.name)
	}
	l := decide(t0, split).Lifetimes[0]
	check.Equal(t, l.Update.Key, split.New.Key(), "it extends")
	if ttl, ok := applied(t, l.Update, split.New.Item())[layout.AttrTTL]; ok {
		t.Errorf("ttl %v", ttl)
	}
}

// A count that no configuration allows, or that leaves a share without a token, is a mistake.
// Following it would cost at least a write per shard, a million for one wrong attribute. Instead
// shard 0 merges at once.
func TestAbsurdCountsAreNotFollowed(t *testing.T) {
	for _, c := range []struct {
		rpm        int64 // capacity and refill
		count, fit int
	}{
		{600_000, 512, 512}, {600_000, 1024, 512}, {600_000, 1025, 512}, {600_000, 1 << 20, 512},
		{1 << 40, 1024, 1024}, {1 << 40, 1025, 1024}, {1 << 40, 1 << 20, 1024}, {1999, 2, 1}, {600_000, 3, 2},
	} {
		zero := spends(0, 1, 1)
		zero.New.State.Shards = c.count
		zero.New.State.Slots[0].Capacity, zero.New.State.Slots[0].Amount = c.rpm, c.rpm
		zero.New.State.Slots[1].Capacity, zero.New.State.Slots[1].Amount = 1<<40, 1<<40
		behind := spends(1, 2, 1)
		behind.Sequence = "6"
		for _, was := range []int{1, c.count} {
			zero.OldShards = was
			p := decide(t0+1000, zero, behind)
			if len(p.Reshardings) > 1 || len(p.Reshardings) == 0 && c.count != 2 {
				t.Errorf("count %d: splits %+v", c.count, p.Reshardings)
				continue
			}
			if merge := p.Reshardings[0].merge; merge != (c.fit < c.count) || merge && p.Reshardings[0].Count != c.fit {
				t.Errorf("count %d with a capacity of %d: splits %+v, want a count of %d", c.count, c.rpm, p.Reshardings, c.fit)
			}
		}
	}
}

// A key at DynamoDB's limit never exhausts a meter that refills as fast, because further writes are
// refused and not in the stream. It is split nevertheless.
func TestKeyAtItsCeilingIsSplit(t *testing.T) {
	atCeiling := func(perSecond int, spread int64) []stream.Change {
		var out []stream.Change
		for i := range 2 * perSecond {
			c := spends(0, 1, 1)
			c.Sequence = fmt.Sprint(1000 + i)
			c.Created = t0 + int64(i/perSecond)*1000
			c.New.State.RF = t0 + int64(i)*spread*1000/int64(perSecond)
			for j := range c.New.State.Slots {
				c.New.State.Slots[j].Tokens = c.New.State.Slots[j].Capacity
			}
			out = append(out, c)
		}
		return out
	}
	for _, tt := range []struct {
		perSecond int
		spread    int64 // seconds over which the writes of one rounded instant spread
		splits    int
	}{{1000, 1, 1}, {800, 1, 1}, {799, 1, 0}, {100, 1, 0}, {1000, 60, 0}} {
		got := decide(t0+2500, atCeiling(tt.perSecond, tt.spread)...)
		check.Equal(t, len(got.Reshardings), tt.splits, "%d writes a second over %d s: splits", tt.perSecond, tt.spread)
	}
}
