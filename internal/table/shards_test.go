package table

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The clocks of the shards may differ. A merge adds up both levels as of the later clock, otherwise
// the earlier shard's time would refill again with the other's tokens.
func TestMergesAddLevelsAtTheLaterClock(t *testing.T) {
	rpm := newRate("rpm", 60_000, 60_000) // half a token a second each
	for _, ahead := range []struct{ kept, other int64 }{{0, 0}, {2_000, 0}, {0, 2_000}} {
		b := imageOf(1, []bucket.Limit{rpm}, 0, 2, sampleNow+ahead.kept)
		other := b
		other.State = bucket.New([]bucket.Limit{rpm}, 1, 2, sampleNow+ahead.other)
		b.State.Slots[0].Tokens, other.State.Slots[0].Tokens = 3_000, 4_000
		after := applied(t, Merge(b, other, 1, sampleNow)[1], b.Item())
		late := max(ahead.kept, ahead.other)
		want := 7_000 + (late-ahead.kept)/2 + (late-ahead.other)/2
		if got := decode(t, after).State; got.RF != sampleNow+late || got.Slots[0].Tokens != want {
			t.Errorf("%+v: %v, want %d millitokens", ahead, got, want)
		}
	}
}

// A merge adds a new quota with its calendar and the end of its first period. Otherwise later
// charges would take tokens without a look. The bucket's own quotas lose nothing.
func TestMergesAddNewQuotas(t *testing.T) {
	rpm := newRate("rpm", 60_000, 60_000)
	day := newQuota("day", 80_000, "m0h0@UTC")
	for name, own := range map[string][]bucket.Limit{"new": {rpm}, "its own": {rpm, day}} {
		b := imageOf(1, own, 0, 2, sampleNow)
		other := b
		other.State = bucket.New([]bucket.Limit{rpm, day}, 1, 2, sampleNow)
		other.State.Slots[other.State.Index("day")].Tokens = 10_000
		keep := decode(t, b.Item())
		got := decode(t, applied(t, Merge(keep, other, 1, sampleNow)[1], b.Item()))
		j, end := got.State.Index("day"), other.State.Slots[other.State.Index("day")].End
		if j < 0 || got.State.Slots[j].Limit != day || got.State.Slots[j].End != end || got.Calendars.Until != end {
			t.Errorf("%s: %v, %+v, want a quota until %d", name, got.State, got.Calendars, end)
		}
	}
}

// Slots of the deleted shard are kept, unless another process has added them meanwhile: its slots
// in use must not be lost.
func TestMergesAddNewSlots(t *testing.T) {
	rpm := newRate("rpm", 60_000, 60_000)
	fly := bucket.Limit{Name: "fly", Capacity: 20_000, Period: 30_000, InFlight: true}
	keep := imageOf(1, []bucket.Limit{rpm}, 0, 2, sampleNow)
	gone := keep
	gone.State = bucket.New([]bucket.Limit{rpm, fly}, 1, 2, sampleNow)
	gone.State = gone.State.Take([]int64{4_000, 0, 0}) // by slot, in order of name
	merge := Merge(keep, gone, 1, sampleNow)[1]
	b := decode(t, applied(t, merge, keep.Item()))
	if i := b.State.Index("fly"); i < 0 || b.State.Slots[i].Limit != fly || b.State.Slots[i].Tokens != 20_000 {
		t.Errorf("%v, want 20 slots", b.State)
	}
	both := keep
	both.State = bucket.New([]bucket.Limit{rpm, fly}, 0, 2, sampleNow)
	check.Equal(t, holds(t, merge, both.Item()), false, "held although the slots were added meanwhile")
}

// A late split, or one with a clock that is behind, must not move the refill instant back before
// later takes: the time between would refill twice.
func TestLateSplitDoesNotRefillTwice(t *testing.T) {
	limits := []bucket.Limit{{Name: "rpm", Capacity: 10_000, Amount: 1_000, Period: 1_000}}
	for _, late := range []int64{0, 500, 1_000, 1_001, 10_000} {
		_, image := create(sampleNow, Costs(limits))
		split := Split(image, sampleNow)
		costs := Costs(limits, 5_000)
		zero := applied(t, Charge{Image: image, Costs: costs, Now: sampleNow + late}.Plan().Update, image.Item())
		after, held, err := split[0].Apply(zero)
		check.Must(t, err)
		check.Equal(t, held, late <= MaxLag, "split of %d ms ago held", late)
		if !held {
			continue
		}
		sum := int64(0)
		for _, it := range []item.Item{after, applied(t, split[1], nil)} {
			sum += slotIn(decode(t, it).State.At(sampleNow+late), "rpm").Tokens
		}
		t.Logf("split of %d ms ago: %s tokens left of 5", late, bucket.Tokens(sum))
		if sum > 5_000+late {
			t.Errorf("split of %d ms ago leaves %s tokens, want 5 and what is refilled in that time", late, bucket.Tokens(sum))
		}
	}
}

// A shard is restored together with a change of shard 0, which gives up the tokens that it holds
// for it. If the shard was split from another one, the transaction checks that one, too. Shard 0
// and the other one must be as they were read. The new generation is later than the copied shard's,
// by any clock. The shard has no denials, and does not expire.
func TestRestoredShardsTakeFromShard0(t *testing.T) {
	limits := []bucket.Limit{newRate("rpm", 16_000, 60_000)}
	for _, c := range []struct{ like, shard, count int }{{0, 1, 2}, {0, 2, 4}, {0, 3, 4}, {1, 3, 4}, {2, 5, 8}} {
		like := Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: (sampleNow + 5000) << 12,
			State: bucket.New(limits, c.like, c.count, sampleNow), TTL: sampleNow/1000 + 9, Denied: 7}
		of := []int{c.shard, 0}
		if parent := bucket.SplitParent(c.shard); parent != 0 {
			of = append(of, parent)
		}
		writes := Restore(like, c.shard, c.count, sampleNow, 3)
		check.MustEqual(t, len(writes), len(of), "%+v: writes", c)
		for i, w := range writes {
			check.Equal(t, w.Target(), layout.BucketKey("ns", "e", "r", of[i]), "%+v: write %d", c, i)
		}
		b := decode(t, writes[0].(item.Put).Item)
		check.Equal(t, Began(b.Generation), sampleNow+5001, "%+v: began", c)
		check.Equal(t, b.TTL, 0, "%+v: expires at", c)
		check.Equal(t, b.Denied, 0, "%+v: denied", c)
	}
}

// If only one shard has a limit, because the limit came into force after the split, the other has
// its whole share. The merge has both parts: not only one of them, and not a full bucket.
func TestMergeOfALimitThatOneShardLacks(t *testing.T) {
	old := newRate("rpm", 60_000, 60_000)
	added := newRate("tpm", 10_000, 3_600_000)
	const lacks, full = math.MinInt64, 5_000
	shard := func(k int, tokens int64) Shard {
		b := imageOf(sampleNow, []bucket.Limit{old}, k, 2, sampleNow)
		if tokens != lacks {
			b.State, _ = b.State.Adopt(added)
			sl := &b.State.Slots[b.State.Index("tpm")]
			sl.Tokens, sl.Used = tokens, 5_000-tokens
		}
		return b
	}
	for _, tt := range []struct {
		name        string
		kept, other int64
		part        int // a shard that has only a part of the limit; -1: none
		count       int
		want        int64
	}{
		{"the kept one lacks it", lacks, 1_000, -1, 1, 6_000},
		{"the kept one lacks it, the other owes", lacks, -2_000, -1, 1, 3_000},
		{"the other lacks it", 1_000, lacks, -1, 1, 6_000},
		{"the other lacks it, the kept one owes", -7_000, lacks, -1, 1, -2_000},
		{"the other lacks it and should not be there", 1_000, lacks, -1, 2, 1_000},
		{"the kept one lacks it, the other should not be there", lacks, 1_000, -1, 2, 5_000},
		{"both have it", 1_000, 2_000, -1, 1, 3_000},
		{"the kept one lacks it, the other is full", lacks, full, -1, 1, lacks},
		{"the kept one has it in part", lacks, 1_000, 0, 1, lacks},
		{"the other has it in part", 1_000, lacks, 1, 1, 1_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			images := []Shard{shard(0, tt.kept), shard(1, tt.other)}
			items := []item.Item{images[0].Item(), images[1].Item()}
			if tt.part >= 0 {
				items[tt.part]["b_tpm_tk"] = item.N(0)
				images[tt.part] = decode(t, items[tt.part])
			}
			writes := Merge(images[0], images[1], tt.count, sampleNow)
			applied(t, writes[0], items[1])
			b := decode(t, applied(t, writes[1], items[0]))
			i := b.State.Index("tpm")
			switch {
			case i < 0 && tt.want != lacks:
				t.Errorf("tpm is not stored, want %d", tt.want)
			case i >= 0 && (b.State.Slots[i].Limit != added || b.State.Slots[i].Tokens != tt.want):
				t.Errorf("%v, want %d millitokens of tpm", b.State, tt.want)
			}
		})
	}
}

// Only tokens of shard 0 above its share, at the current count, move to a restored shard. Limits
// are independent: the first has less than its share, the second more.
func TestRestoresMoveLimitsIndependently(t *testing.T) {
	limits := []bucket.Limit{{Name: "a", Capacity: 10_000, Amount: 1_000, Period: 60_000},
		{Name: "b", Capacity: 10_000, Amount: 1_000, Period: 60_000}}
	for _, c := range []struct {
		counts, shards int // of shard 0: the stored count, and the one to write
		want           int64
	}{{2, 2, 2_000}, {2, 4, 0}} {
		zero := imageOf(sampleNow, limits, 0, c.counts, sampleNow)
		zero.State.Slots[0].Tokens, zero.State.Slots[1].Tokens = 4_000, 7_000
		put := applied(t, Restore(zero, 1, c.shards, sampleNow, 3)[0], nil)
		if got := decode(t, put).State; got.Slots[0].Tokens != 0 || got.Slots[1].Tokens != c.want {
			t.Errorf("%+v: %s, want %d of b", c, got, c.want)
		}
	}
}

// A merge adds limits of the other shard while one write has room for them.
func TestMergesAddOnlyLimitsThatFit(t *testing.T) {
	for own, want := range map[int]int{30: 32, 31: 32, 32: 32} { // without the meter
		b := imageOf(sampleNow, newRates(0, own), 0, 2, sampleNow)
		other := imageOf(sampleNow, newRates(50, 3), 1, 2, sampleNow)
		for i := range other.State.Slots {
			other.State.Slots[i].Tokens = 1_000
		}
		writes := Merge(b, other, 1, sampleNow)
		after := applied(t, writes[1], b.Item())
		check.Equal(t, len(decode(t, after).State.Slots)-1, want, "%d limits and 3 others", own)
	}
}

// A merge stores a new limit of the other shard completely: level, parameters, a counter from zero,
// and held tokens.
func TestMergesStoreNewLimitsCompletely(t *testing.T) {
	rpm := newRate("rpm", 60_000, 60_000)
	tpm := bucket.Limit{Name: "tpm", Capacity: 80_000, Amount: 8_000, Period: 60_000}
	for _, held := range []int64{0, 7_000} {
		b := imageOf(1, []bucket.Limit{rpm}, 0, 2, sampleNow)
		other := b
		other.State = bucket.New([]bucket.Limit{rpm, tpm}, 1, 2, sampleNow)
		i := other.State.Index("tpm")
		other.State.Slots[i].Tokens, other.State.Slots[i].Held = 10_000, held
		if held > 0 {
			other.State.HeldUntil = sampleNow + 5000
		}
		sl := slotNamed(decode(t, applied(t, Merge(b, other, 1, sampleNow)[1], b.Item())), "tpm")
		if sl.Limit != tpm || sl.Tokens != 50_000 || sl.Used != 0 || sl.Held != held { // its own 40, and 10
			t.Errorf("%+v, want 50 tokens, none taken, and %d held", sl, held)
		}
	}
}

// A shard without a refill instant, as another client may leave it, is split into two without one.
// With an instant of zero, the new shard would refill since 1970.
func TestSplitWithoutClockMintsNothing(t *testing.T) {
	limits := []bucket.Limit{newRate("rpm", 60_000, 60_000)}
	b := imageOf(0, limits, 0, 1, sampleNow)
	b.State.NoClock, b.State.RF = true, 0
	b.State.Slots[b.State.Index("rpm")].Tokens = 10_000
	writes := Split(b, sampleNow)
	held := int64(0)
	before := b.Item()
	delete(before, "rf")
	for i, it := range []item.Item{before, nil} {
		held += slotIn(decode(t, applied(t, writes[i], it)).State.At(sampleNow), "rpm").Tokens
	}
	check.Equal(t, held, 10_000, "the halves hold")
}
