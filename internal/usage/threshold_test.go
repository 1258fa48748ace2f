package usage

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// budget is a calendar quota with a period of two hours.
var budget = bucket.Limit{Name: "budget", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h*/2@UTC"}

// left returns an image of shard k of n with the rest of a quota.
func left(l bucket.Limit, k, n int, milli int64) table.Shard {
	b := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", State: bucket.New([]bucket.Limit{l}, k, n, t0)}
	b.State.Slots[b.State.Index(l.Name)].Tokens = milli
	return b
}

func shows(b table.Shard, sequence int) stream.Change {
	return stream.Change{Operation: stream.Modify, Sequence: fmt.Sprint(sequence), Created: t0, New: b}
}

// reported returns the thresholds that a batch reports, as "limit percent spent/quota".
func reported(changes ...stream.Change) (out []string) {
	for _, s := range Decide(Fold(changes), t0, conf).Spendings {
		for _, these := range s.Thresholds(t0, conf) {
			if len(these) == 0 {
				out = append(out, "nothing") // an invalid report
			}
			for _, t := range these {
				out = append(out, fmt.Sprintf("%s %d %d/%d", t.Limit, t.Percent, t.Spent, t.Quota))
			}
		}
	}
	return out
}

func TestBatchesReportReachedThresholds(t *testing.T) {
	soft, first, short, often, hourly, rate := budget, budget, budget, budget, budget, limits()[0]
	soft.Soft = true
	first.Reset, short.Reset, often.Reset, hourly.Reset = "+3600", "+3599", "m*/30@UTC", "m0@UTC"
	credited := left(budget, 0, 1, 5_000)
	credited.State.Slots[0].Extra = 10_000
	begun := left(first, 0, 1, 2_000)
	begun.State.Slots[0].End = t0 + 1000
	brief := left(short, 0, 1, 2_000)
	brief.State.Slots[0].End = t0 + 1000
	nextAt := func(milli int64) table.Shard {
		next := left(budget, 0, 1, milli)
		next.State.Slots[0].End += 2 * hourMillis
		return next
	}
	long := budget
	long.Name = strings.Repeat("b", 1100)
	removed := shows(left(budget, 0, 1, 0), 1)
	removed.Operation = stream.Remove
	for _, c := range []struct {
		name    string
		changes []stream.Change
		want    []string
	}{
		{"none", []stream.Change{shows(left(budget, 0, 1, 5_001), 1)}, nil},
		{"half", []stream.Change{shows(left(budget, 0, 1, 5_000), 1)}, []string{"budget 50 5/10"}},
		{"just below 80", []stream.Change{shows(left(budget, 0, 1, 2_001), 1)}, []string{"budget 50 7/10"}},
		{"both", []stream.Change{shows(left(budget, 0, 1, 2_000), 1)}, []string{"budget 50 8/10", "budget 80 8/10"}},
		{"all", []stream.Change{shows(left(budget, 0, 1, 0), 1)},
			[]string{"budget 50 10/10", "budget 80 10/10", "budget 100 10/10"}},
		{"debt of a soft one", []stream.Change{shows(left(soft, 0, 1, -90_000), 1)},
			[]string{"budget 50 100/10", "budget 80 100/10", "budget 100 100/10"}},
		{"given back since", []stream.Change{shows(left(budget, 0, 1, 2_500), 1), shows(left(budget, 0, 1, 9_000), 2)},
			[]string{"budget 50 7/10"}},
		{"credited", []stream.Change{shows(credited, 1)}, []string{"budget 50 15/20"}},
		{"at the end of a period, and the next one",
			[]stream.Change{shows(left(budget, 0, 1, 2_500), 1), shows(nextAt(9_000), 2)}, []string{"budget 50 7/10"}},
		{"more of the next period than of the one that ends, in several changes", []stream.Change{
			shows(left(budget, 0, 1, 2_000), 1), shows(nextAt(5_000), 2), shows(nextAt(0), 3)},
			[]string{"budget 50 8/10", "budget 80 8/10", "budget 50 10/10", "budget 80 10/10", "budget 100 10/10"}},
		{"from the first use", []stream.Change{shows(begun, 1)}, []string{"budget 50 8/10", "budget 80 8/10"}},
		{"not used yet", []stream.Change{shows(left(first, 0, 1, 2_000), 1)}, nil},
		{"less than an hour", []stream.Change{shows(brief, 1)}, nil},
		{"each hour", []stream.Change{shows(left(hourly, 0, 1, 5_000), 1)}, []string{"budget 50 5/10"}},
		{"each half hour", []stream.Change{shows(left(often, 0, 1, 0), 1)}, nil},
		{"a name too long for a key", []stream.Change{shows(left(long, 0, 1, 0), 1)}, nil},
		{"a rate", []stream.Change{shows(left(rate, 0, 1, 0), 1)}, nil},
		{"gone", []stream.Change{removed}, nil},
		{"a shard without a count", []stream.Change{shows(left(budget, 3, 1, 0), 1)}, nil},
		{"a share alone shows nothing", []stream.Change{shows(left(budget, 0, 2, 0), 1)}, nil},
	} {
		check.Slices(t, reported(c.changes...), c.want, c.name)
	}
}

// A bucket above a threshold is checked again when it reaches the next one, when an hour begins,
// and when it was divided.
func TestBucketsLookOnlyForTheNextThreshold(t *testing.T) {
	grows := func(left0, milli int64, edit func(*stream.Change)) stream.Change {
		c := shows(left(budget, 0, 1, left0), 1)
		c.OldShards, c.OldRF = 1, t0
		c.Used, c.Metered = []stream.Used{{Limit: "another", Milli: 1000}, {Limit: "budget", Milli: milli}}, 1000
		edit(&c)
		return c
	}
	same := func(*stream.Change) {}
	for _, c := range []struct {
		name   string
		change stream.Change
		told   int
	}{
		{"from 40 to 60 %", grows(4_000, 2_000, same), 1},
		{"from 60 to 70 %", grows(3_000, 1_000, same), 0},
		{"from 70 to 80 %", grows(2_000, 1_000, same), 2},
		{"from 79.99 to 80 %", grows(2_000, 1, same), 2},
		{"given back, from 90 to 85 %", grows(1_500, -500, same), 0},
		{"from nothing to 100 %", grows(0, 10_000, same), 3},
		{"the first charge of a period takes half", grows(5_000, 5_000, func(c *stream.Change) { c.OldRF = t0 }), 1},
		{"nothing taken, in the next hour", grows(4_000, 0, func(c *stream.Change) { c.OldRF -= hourMillis }), 1},
		{"nothing taken, the second before", grows(4_000, 0, func(c *stream.Change) { c.OldRF -= 1000 }), 0},
		{"just merged", grows(4_000, 0, func(c *stream.Change) { c.OldShards = 2 }), 1},
		{"just created", grows(4_000, 6_000, func(c *stream.Change) { c.OldShards, c.Operation = 0, stream.Insert }), 1},
	} {
		got := reported(c.change)
		check.Equal(t, len(got), c.told, "%s: %q", c.name, got)
	}
}

// The record outlives its period as long as snapshots outlive their window. Its key has the period
// and the percentage.
func TestThresholdOutlivesItsPeriod(t *testing.T) {
	b := left(budget, 0, 1, 2_000)
	p := Decide(Fold([]stream.Change{shows(b, 7)}), t0, conf)
	if len(p.Spendings) != 1 {
		t.Fatalf("%+v", p.Spendings)
	}
	of := p.Spendings[0].Thresholds(t0, conf)[0]
	end := b.State.Slots[0].End
	if got := of[1]; got.TTL != end/1000+90*86_400 || got.End != end || got.At != layout.Timestamp(t0) ||
		got.Key().PK != layout.UsageKey("ns", "e", "r", "").PK || got.Entity != "e" || got.Resource != "r" ||
		got.Key().SK != fmt.Sprintf("#QUOTA#r#%d#budget#080", end) || got.Key() == of[0].Key() {
		t.Errorf("%+v %v", got, got.Key())
	}
}

// A divided bucket is added up: if 4 and 1 were taken from two shares of 5, half of the quota is
// spent, which neither image shows.
func TestSharesAreAddedUp(t *testing.T) {
	of := func(a, b table.Shard) (out []string) {
		s := Decide(Fold([]stream.Change{shows(a, 9), shows(b, 8)}), t0, conf).Spendings
		if len(s) != 1 || s[0].Shards != 2 || len(s[0].Keys()) != 2 || s[0].Keys()[1] != b.Key() {
			t.Fatalf("%+v", s)
		}
		for _, these := range s[0].Sum([]table.Shard{a, b}).Thresholds(t0, conf) {
			for _, t := range these {
				out = append(out, fmt.Sprintf("%d %d/%d", t.Percent, t.Spent, t.Quota))
			}
		}
		return out
	}
	late := left(budget, 1, 2, 0)
	late.State.Slots[0].End -= 2 * hourMillis
	raised := budget
	raised.Capacity = 20_000
	topped := left(budget, 1, 2, 9_000)
	topped.State.Slots[0].Extra = 5_000
	bare := left(limits()[0], 1, 2, 0)
	for _, c := range []struct {
		name string
		a, b table.Shard
		want []string
	}{
		{"half", left(budget, 0, 2, 1_000), left(budget, 1, 2, 4_000), []string{"50 5/10"}},
		{"less", left(budget, 0, 2, 1_000), left(budget, 1, 2, 4_001), nil},
		{"debt", left(budget, 0, 2, -3_000), left(budget, 1, 2, 5_000), []string{"50 8/10", "80 8/10"}},
		{"above its share", left(budget, 0, 2, 0), left(budget, 1, 2, 7_000), nil},
		{"in the period before", left(budget, 0, 2, 1_000), late, nil},
		{"credited", left(budget, 0, 2, 1_000), topped, nil}, // 5 of 15
		{"being raised", left(budget, 0, 2, 0), left(raised, 1, 2, 7_000), nil},
		{"being raised, shard 0 first", left(raised, 0, 2, 7_000), left(budget, 1, 2, 0), nil}, // 8 of 20
		{"raised", left(raised, 0, 2, 1_000), left(raised, 1, 2, 9_000), []string{"50 10/20"}},
		{"without the limit", left(budget, 0, 2, 0), bare, []string{"50 5/10"}},
	} {
		check.Slices(t, of(c.a, c.b), c.want, c.name)
	}
}

// Shards read during a split prove nothing. Shards with different counts are fine if no change is
// under way.
func TestShardsReadDuringASplitProveNothing(t *testing.T) {
	for _, c := range []struct {
		shards string // shard/count, and so on
		fit    bool
	}{
		{"0/1", true},
		{"0/2 1/2", true},
		{"0/2", false},     // shard 1 was read before it existed, or is lost
		{"0/1 1/2", false}, // shard 0 was read before it was divided
		{"1/2", false},
		{"0/4 1/2 2/4", true},
		{"0/2 1/4 3/4", true},
		{"0/4 1/4 2/4 3/4", true},
		{"0/2 1/4 2/4", false}, // 0 and 3 before, 1 and 2 after
		{"0/4 1/2 2/8 6/8", true},
		{"0/4 1/2 2/8", false},
		{"0/2 1/1048576", false},
		{"", false},
	} {
		var shards []table.Shard
		for _, f := range strings.Fields(c.shards) {
			var k, n int
			check.Must(t, check.Err(fmt.Sscanf(f, "%d/%d", &k, &n)))
			shards = append(shards, left(budget, k, n, 0))
		}
		s := Spending{}.Sum(shards)
		if fit := len(s.Spent) == 1; fit != c.fit || fit && s.Spent[0].Spent != budget.Capacity {
			t.Errorf("%q: %+v", c.shards, s.Spent)
		}
	}
}

func TestAllShardsOfALargeBucketAreAddedUp(t *testing.T) {
	for n, want := range map[int]bool{1024: true, 2048: false} {
		var shards []table.Shard
		for k := range n {
			shards = append(shards, left(budget, k, n, 0))
		}
		check.Equal(t, len((Spending{}).Sum(shards).Spent) == 1, want, "%d shards", n)
	}
}

// A count beyond our configurations is not followed: it would mean reading a million keys.
func TestForeignCountsAreNotRead(t *testing.T) {
	b := left(budget, 0, 1, 0)
	b.State.Shards = 1 << 20
	if p := Decide(Fold([]stream.Change{shows(b, 1)}), t0, conf); len(p.Spendings) != 0 {
		t.Errorf("%+v", p.Spendings[0].Shards)
	}
	b.State.Shards = 1024
	if p := Decide(Fold([]stream.Change{shows(b, 1)}), t0, conf); len(p.Spendings) != 1 || p.Spendings[0].Shards != 1024 {
		t.Errorf("1024 shards: %+v", p.Spendings)
	}
	both := []table.Shard{left(budget, 0, 4, 0), left(budget, 1, 2, 0)}
	for range 2 {
		if wider, ok := (Spending{Shards: 2}).Wider(both); !ok || wider.Shards != 4 {
			t.Errorf("of 2 and 4 shards: %d", wider.Shards)
		}
		slices.Reverse(both)
	}
	for count, ok := range map[int]bool{2: false, 4: true, 1024: true, 2048: false} {
		if wider, got := (Spending{Shards: 2}).Wider([]table.Shard{left(budget, 1, count, 0)}); got != ok ||
			ok && wider.Shards != count {
			t.Errorf("%d shards: %v %v", count, got, wider.Shards)
		}
	}
}

// Percentages of every size are exact, compared with rational numbers.
func TestPercentsAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		percents := []int{1 + r.IntN(33), 34 + r.IntN(33), 67 + r.IntN(34)}
		of := r.Int64N(math.MaxInt64)>>r.IntN(63) + 1
		spent := r.Int64N(math.MaxInt64) >> r.IntN(63)
		if r.IntN(2) == 0 { // near a threshold
			spent = max(0, bucket.AddSat(of/100*int64(percents[r.IntN(3)]), r.Int64N(201)-100))
		}
		var want []int
		for _, p := range percents {
			if new(big.Rat).SetFrac(big.NewInt(spent), big.NewInt(of)).Cmp(big.NewRat(int64(p), 100)) >= 0 {
				want = append(want, p)
			}
		}
		if got := (Spent{Spent: spent, Of: of}).reached(percents); !slices.Equal(got, want) {
			t.Fatalf("%d of %d: %v, want %v", spent, of, got, want)
		}
	}
}

// A limit has its own percentages, or the default ones. With none it reports nothing, and a divided
// bucket that has only such limits is not read.
func TestLimitsHaveTheirOwnPercentages(t *testing.T) {
	own := conf
	own.Percents = map[string][]int{"": {90}, "budget": {20, 60}, "silent": {}}
	named := func(name string) bucket.Limit {
		l := budget
		l.Name = name
		return l
	}
	for name, want := range map[string][]string{
		"budget": {"20", "60"}, "other": {"90"}, "silent": nil,
	} {
		var got []string
		for _, s := range Decide(Fold([]stream.Change{shows(left(named(name), 0, 1, 1_000), 1)}), t0, own).Spendings {
			for _, these := range s.Thresholds(t0, own) {
				for _, th := range these {
					got = append(got, fmt.Sprint(th.Percent))
				}
			}
		}
		check.Slices(t, got, want, name)
		divided := Decide(Fold([]stream.Change{shows(left(named(name), 0, 2, 0), 1)}), t0, own).Spendings
		check.Equal(t, len(divided) > 0, want != nil, "%s, divided: read", name)
	}
}

// A bucket with more limits than any of ours reports nothing: its quotas could be thousands.
func TestBucketsOfTooManyQuotasReportNothing(t *testing.T) {
	for n, want := range map[int]int{mostLimits - 1: mostLimits - 1, mostLimits: 0} { // and the write meter
		var limits []bucket.Limit
		for i := range n {
			l := budget
			l.Name = fmt.Sprint("budget", i)
			limits = append(limits, l)
		}
		b := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", State: bucket.New(limits, 0, 1, t0)}
		for i := range b.State.Slots {
			b.State.Slots[i].Tokens = 5_000
		}
		check.Equal(t, len(reported(shows(b, 1))), want, "%d quotas", n)
	}
}
