package decide

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// planned returns the write for one request on a shard.
func planned(t *testing.T, b *Bucket, c Choice, w Want, ms int64) Planned {
	t.Helper()
	b.Begin(c, w, ms)
	n, p := b.Plan(c, []Want{w}, 1, clock(ms))
	if n != 1 || p.Write == nil || p.Replaced {
		t.Fatalf("%d planned, %+v", n, p)
	}
	return p
}

// A look at a shard that was not seen yet goes by the number of shards that the bucket has.
func TestALookIsAtAShardOfSoMany(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(imageOf(0, 2, 5), noon, Unsent)
	p := planned(t, b, Choice{Do: Look, Shard: 1}, asks(1, perSecond), noon)
	if want := layout.BucketKey("ns", "acme", "gpt-4", 1); p.Write.Target() != want {
		t.Errorf("at %v, want %v", p.Write.Target(), want)
	}
	for shards, holds := range map[int]bool{2: true, 4: false} {
		if _, held, err := p.Write.Apply(imageOf(1, shards, 1).Item()); err != nil || held != holds {
			t.Errorf("a shard of %d: held %t, %v", shards, held, err)
		}
	}
}

// A request that waits takes from a full bucket into debt, also if others have taken since.
func TestWaitTakesIntoDebtFromAFullBucket(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	b.See(imageOf(0, 1, 10), noon, Unsent)
	p := planned(t, b, Choice{Do: Take, Owe: true}, asks(10, perSecond), noon)
	since := imageOf(0, 1, 10)
	i := since.State.Index("rps")
	since.State.Slots[i].Tokens, since.State.Slots[i].Used = 2*bucket.Milli, 8*bucket.Milli
	after, held, err := p.Write.Apply(since.Item())
	if err != nil || !held {
		t.Fatalf("held %t, %v", held, err)
	}
	image, err := table.DecodeShard(after)
	if err != nil || image.State.Slots[i].Tokens != -8*bucket.Milli {
		t.Errorf("%+v, %v, want a debt of 8", image.State.Slots[i], err)
	}
}

// A bucket whose shard 0 alone is gone comes back empty and takes nothing; one that is gone as a
// whole begins full, and the request takes from it.
func TestMissingBucketsAreCreated(t *testing.T) {
	for shards, takes := range map[int]bool{1: true, 4: false} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		if shards > 1 {
			b.See(imageOf(1, shards, 3), noon, Unsent)
		}
		b.Missing(noon, 0)
		p := planned(t, b, Choice{Do: Take}, asks(1, perSecond), noon)
		if !p.Creates || p.Takes != takes {
			t.Errorf("%d shards: %+v", shards, p)
		}
		it, _, err := p.Write.Apply(nil)
		image, odd := table.DecodeShard(it)
		if err != nil || odd != nil || image.State.Shards != shards {
			t.Fatalf("%d shards: %v, %v, %+v", shards, err, odd, image)
		}
		want := int64(0)
		if takes {
			want = 9 * bucket.Milli
		}
		if got := image.State.Slots[image.State.Index("rps")].Tokens; got != want {
			t.Errorf("%d shards: begins with %d, want %d", shards, got, want)
		}
	}
}

// What goes out alone does so whatever waits with it, and nothing is held where nothing is taken ahead.
func TestLoneWritesTakeNoneAlong(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	b.See(imageOf(0, 1, 10), noon, Unsent)
	group := []Want{asks(1, perSecond), asks(1, perSecond)}
	for _, w := range group {
		b.Begin(Choice{Do: Take, Owe: true}, w, noon)
	}
	n, p := b.Plan(Choice{Do: Take, Owe: true}, group, len(group), clock(noon))
	after, held, err := p.Write.Apply(imageOf(0, 1, 10).Item())
	image, odd := table.DecodeShard(after)
	looks := Choice{Do: Look}
	if n, _ := b.Plan(looks, group, len(group), clock(noon)); n != 1 {
		t.Errorf("%d look", n)
	}
	if n != 1 || !held || err != nil || odd != nil ||
		image.State.Slots[image.State.Index("rps")].Tokens != 9*bucket.Milli {
		t.Errorf("%d go out, held %t, %v, %+v", n, held, errors.Join(err, odd), image.State.Slots)
	}
	k := b.lock()
	defer b.mu.Unlock()
	if k.shards[0].holding != nil {
		t.Error("something is held for nobody")
	}
}

// What a request that leaves a floor asks for is not taken ahead, so it is no demand.
func TestFlooredRequestsAreNoDemand(t *testing.T) {
	for floor, want := range map[int64]bool{0: true, 1: false, 10: false} {
		p := newProcess(t)
		p.charges(ten(), 0) // it holds something since
		was := p.demand()
		w := costing(1000, plenty)
		w.Costs[0].Floor = floor
		p.charges([]Want{w}, 1)
		if got := p.demand() > was; got != want {
			t.Errorf("with a floor of %d %%: a demand of %v, then %v", floor, was, p.demand())
		}
	}
}

func (p *process) demand() float64 {
	k := p.lock()
	defer p.mu.Unlock()
	return k.shards[0].holding.demand.Of("rps")
}

// A shard that is missing is looked for by an add: only shard 0 is created.
func TestOnlyShard0IsCreated(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	b.See(imageOf(0, 2, 0), noon, Unsent)
	b.Missing(noon, 1)
	p := planned(t, b, Choice{Do: Take, Shard: 1}, asks(1, perSecond), noon)
	if p.Creates || p.Charges || p.Write.Target() != layout.BucketKey("ns", "acme", "gpt-4", 1) {
		t.Errorf("%+v", p)
	}
}

// In a crowd a charge goes out all the same if somebody is denied for its refusal, or where adds do not
// hold, unless others have taken more than the capacity of ten since the image.
func TestChargesInACrowd(t *testing.T) {
	for name, c := range map[string]struct {
		hurried int
		held    int64
		taken   float64
		adds    bool
	}{
		"an add": {1, 0, 10_000, true}, "the last write": {0, 0, 10_000, false},
		"others hold some":      {1, noon + 9000, 10_000, false},
		"others have held some": {1, noon - 5999, 10_000, false}, "long ago": {1, noon - 6000, 10_000, true},
		"and took much since": {1, noon - 5999, 26_000, true},
	} {
		b, w := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), asks(1, perSecond)
		image := imageOf(0, 1, 10)
		image.State.HeldUntil = c.held
		b.See(image, noon, Unsent)
		b.facts.shards[0].others = others{taken: map[string]float64{"rps": c.taken}, elapsed: 10_000}
		b.Begin(Choice{Do: Take}, w, noon+4000)
		_, p := b.Plan(Choice{Do: Take}, []Want{w}, c.hurried, clock(noon+4000))
		if p.adds != c.adds || p.Charges == c.adds {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Every creation begins a generation of its own.
func TestCreationsDiffer(t *testing.T) {
	generation := func(random uint64) int64 {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		b.Missing(noon, 0)
		it, _, err := b.Create(asks(1, perSecond), Now{Ms: noon, Random: random}).Write.Apply(nil)
		image, odd := table.DecodeShard(it)
		if err != nil || odd != nil {
			t.Fatal(err, odd)
		}
		return image.Generation
	}
	if a, b := generation(1<<60|1), generation(7<<60|7); a == b || a == 0 {
		t.Errorf("generations %d and %d", a, b)
	}
}

// Before a denial, the last write for a request is refused only if the tokens are gone, however low it
// may show a full limit.
func TestTheLastWriteIsRefusedForTokensOnly(t *testing.T) {
	for hurried, holds := range map[int]bool{0: true, 1: false} {
		b, w := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), asks(1, perSecond)
		b.See(imageOf(0, 1, 10), noon, Unsent)
		b.Begin(Choice{Do: Take}, w, noon)
		_, p := b.Plan(Choice{Do: Take}, []Want{w}, hurried, clock(noon))
		since := imageOf(0, 1, 10)
		i := since.State.Index("rps")
		since.State.Slots[i].Tokens, since.State.Slots[i].Used = 2*bucket.Milli, 8*bucket.Milli
		if _, held, err := p.Write.Apply(since.Item()); err != nil || held != holds {
			t.Errorf("hurried from %d on: held %t, %v", hurried, held, err)
		}
	}
}
