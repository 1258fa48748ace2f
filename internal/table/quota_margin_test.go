package table_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// marginLimits are a quota and two rates beside it, one of which fills up in less than a
// second.
var marginLimits = []bucket.Limit{
	{Name: "fast", Capacity: 3 * bucket.Milli, Amount: 7 * bucket.Milli, Period: 1300},
	{Name: "q", Capacity: 500 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"},
	{Name: "slow", Capacity: 40 * bucket.Milli, Amount: 3 * bucket.Milli, Period: 7001},
}

// around returns an instant near an edge, later than another.
func around(r *rand.Rand, now int64) int64 {
	switch edge := (now/periodMs + 1) * periodMs; {
	case r.IntN(12) == 0:
		return now + r.Int64N(3*periodMs)
	case edge-now > 3000 && now%periodMs > 3000:
		return edge - r.Int64N(2000)
	default:
		return now + r.Int64N(400)
	}
}

// One process charges, refills, gives back and adds at random around edges. Its rates are
// those of a naive version that knows nothing of edges: a rational level that refills by the
// true time. Denials come true to the millisecond.
func TestRatesGoOnBehindAnEdge(t *testing.T) {
	granted, inMargin, told := 0, 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 20))
		now := theEdge + r.Int64N(periodMs)
		put, b := create(now, table.Costs(marginLimits))
		it, at := item.Item(put.Item), now
		naive := map[string]*big.Rat{"fast": buckettest.Milli(3000), "slow": buckettest.Milli(40_000)}
		refill := func(to int64) {
			for name, l := range naive {
				i := b.State.Index(name)
				naive[name] = buckettest.Exact{Level: l, Rate: b.State.Rate(i)}.After(to - at).Level
			}
			at = to
		}
		for range 300 {
			now = around(r, now)
			refill(now)
			costs := table.Costs(marginLimits, r.Int64N(3)*bucket.Milli, r.Int64N(2)*bucket.Milli, r.Int64N(4)*bucket.Milli)
			c := table.Charge{Image: b, Costs: costs, Now: now, Refill: r.IntN(6) == 0, Force: r.IntN(9) == 0}
			plan := c.Plan()
			if v := plan.Verdict; !v.Granted {
				told++
				for _, off := range []int64{-1, 0} { // of the limit that takes longest
					if is := (table.Charge{Image: b, Costs: costs, Now: v.At + off}).Plan().Verdict.Granted; is != (off == 0) {
						t.Fatalf("seed %d at %d: told to come at %d by %s, %d ms from then: granted is %t",
							seed, now, v.At, plan.Short, off, is)
					}
				}
				if !c.Force {
					continue
				}
			}
			after := applied(t, plan.Update, it)
			if it = after; !c.Refill {
				for _, cost := range costs {
					if l := naive[cost.Limit.Name]; l != nil {
						naive[cost.Limit.Name] = new(big.Rat).Sub(l, buckettest.Milli(cost.Milli))
					}
				}
				granted++
			}
			b = decode(t, it)
			if b.State.RF%periodMs == periodMs-1 && now > b.State.RF {
				inMargin++
			}
			for name, want := range naive {
				i := b.State.Index(name)
				tokens, rest := b.State.LevelAt(i, now)
				if got := buckettest.NewExact(tokens, rest, b.State.Rate(i)).Level; got.Cmp(want) != 0 {
					t.Fatalf("seed %d at %d: %s holds %s, want %s: %s", seed, now, name, got.FloatString(6),
						want.FloatString(6), b.State)
				}
			}
			if r.IntN(20) == 0 {
				it, b = splitAndMerge(t, it, b, now)
			}
		}
	}
	if granted < 1000 || inMargin < 300 || told < 150 {
		t.Errorf("%d granted, %d writes behind an edge, %d denials, want more", granted, inMargin, told)
	}
}

// splitAndMerge doubles the bucket and makes it whole again. That loses nothing.
func splitAndMerge(t *testing.T, it item.Item, b table.Shard, now int64) (item.Item, table.Shard) {
	t.Helper()
	whole := b.State.At(now)
	writes := table.Split(b, now)
	it = applied(t, writes[0].(item.Update), it)
	keep := decode(t, it)
	moved := decode(t, writes[1].(item.Put).Item)
	merged := table.Merge(keep, moved, 1, now)
	it = applied(t, merged[1].(item.Update), it)
	b = decode(t, it)
	for i, sl := range b.State.At(now).Slots {
		want := whole.Slots[i]
		if sl.Name != bucket.WCU && (sl.Tokens != want.Tokens || sl.Rest != want.Rest || sl.End != want.End) {
			t.Fatalf("split and merged at %d: %+v, want %+v", now, sl, want)
		}
	}
	return it, b
}

// A period from the first use is over, and nothing is taken of the next one yet. What was given
// back to it meanwhile, as long as nobody has moved the item on, ends with it: a write that
// takes nothing, planned from an image before that, finds the quota whole and no more.
func TestWhatWasGivenBackToAPeriodEndsWithIt(t *testing.T) {
	const start = theEdge
	try := bucket.Limit{Name: "try", Capacity: 10 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "+60"}
	_, b := create(start, table.Costs([]bucket.Limit{try}, 9000))
	late := table.Costs([]bucket.Limit{try}, -8000)
	late[0].End = start + 60_000
	it := applied(t, table.Adjust(b.Key(), late), b.Item())
	idle := table.Charge{Image: b, Costs: table.Costs([]bucket.Limit{try}), Now: start + 62_000}
	after, held, err := idle.Plan().Update.Apply(it)
	if err != nil {
		t.Fatal(err)
	}
	is := decode(t, after)
	if sl := is.State.Slots[0]; sl.Tokens > 10_000 {
		t.Errorf("held %v: %d of 10 tokens", held, sl.Tokens/1000)
	}
	if whole := is.State.At(start + 63_000).Slots[0]; whole.Tokens != 10_000 {
		t.Errorf("held %v: %d of 10 tokens in the next period", held, whole.Tokens/1000)
	}
}
