package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
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

// A waiting request takes from a full bucket into debt, even if others have taken since.
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

func (p *process) demand() float64 {
	k := p.lock()
	defer p.mu.Unlock()
	return k.shards[0].holding.demand.Of("rps")
}

// In a crowd a charge is still sent if its refusal would deny a request, or if adds cannot hold,
// unless others have taken more than the capacity of ten since the image; and after a refused add.
func TestChargesInACrowd(t *testing.T) {
	for name, c := range map[string]struct {
		hurried int
		held    int64
		taken   float64
		adds    bool
	}{
		"an add":                {1, 0, 10_000, true},
		"the last write":        {0, 0, 10_000, false},
		"or it is refused":      {0, 0, 26_000, true},
		"others hold some":      {1, noon + 9000, 10_000, false},
		"others have held some": {1, noon - 5999, 10_000, false},
		"long ago":              {1, noon - 6000, 10_000, true},
		"and took much since":   {1, noon - 5999, 26_000, true},
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
		b.Refused(image, p, noon+4000) // the rate of others is unchanged
		b.facts.shards[0].others = others{taken: map[string]float64{"rps": c.taken}, elapsed: 10_000}
		if _, p = b.Plan(Choice{Do: Take}, []Want{w}, c.hurried, clock(noon+8000)); c.adds && p.adds {
			t.Errorf("%s: an add after an add that was refused", name)
		}
	}
}

// Every creation begins a separate generation.
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

// Before a denial, the last write for a request is refused only if the tokens are gone, even if it
// may show a full limit too low.
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
