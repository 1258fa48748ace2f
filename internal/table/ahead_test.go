package table

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

var tenLimit = bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 1_000, Period: 1_000}

// tenAt returns a bucket of 10 tokens, 1 per second, full at now, with a counter of 100.
func tenAt(now int64) Shard {
	_, b := create(now, tenCosts(0))
	b.State.Slots[0].Used = 100_000
	return b
}

// tenCosts are costs of the limit of ten.
func tenCosts(milli int64) []Cost { return Costs([]bucket.Limit{tenLimit}, milli) }

// charged returns a stored shard after a charge, which must hold.
func charged(t *testing.T, stored Shard, c Charge) Shard {
	t.Helper()
	return decode(t, applied(t, c.Plan().Update, stored.Item()))
}

// heldOf formats the held tokens of a shard's first limit, and how long after sampleNow they are held.
func heldOf(b Shard) string {
	sl := b.State.Slots[0]
	return fmt.Sprintf("level %d, held %d, expired %d, until %d", sl.Tokens, sl.Held, sl.Ended,
		max(b.State.HeldUntil-sampleNow, 0))
}

// written applies a charge to a stored shard, and returns the new one.
func written(t *testing.T, stored Shard, c Charge) (Shard, bool) {
	t.Helper()
	after, held, err := c.Plan().Update.Apply(stored.Item())
	check.Must(t, err)
	return decode(t, after), held
}

// The example of Ahead, in numbers.
func TestTakingAheadByExample(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	c := Charge{Image: full, Costs: tenCosts(5_000), Now: at, Ahead: &Ahead{Life: 5_000, Take: tenCosts(4_000)}}
	b := charged(t, full, c)
	check.MustEqual(t, heldOf(b), "level 5000, held 4000, expired 0, until 5000")
	check.Equal(t, b.State.Slots[0].Used, 105_000)
	check.Deep(t, b.Item()["o_rpm"], item.N(-4_000))
	for after, want := range map[int64]int64{1_000: 6_000, 5_000: 6_000, 7_000: 8_000, 20_000: 10_000} {
		level, _ := b.State.LevelAt(0, at+after)
		check.Equal(t, level, want, "level after %d ms", after)
	}
	denied := Charge{Image: b, Costs: tenCosts(7_000), Now: at + 4_999}.Plan()
	if denied.Verdict.Granted || denied.Verdict.At != at+6_000 {
		t.Errorf("7 of 6, with 4 held: %+v", denied.Verdict)
	}

	// The process has 1 left. It declares the 1 and takes 3 more, so 4 are held again.
	c = Charge{Image: b, Costs: tenCosts(3_000), Now: at + 1_000,
		Ahead: &Ahead{Life: 5_000, Take: tenCosts(3_000), Left: tenCosts(1_000), Declared: tenCosts(4_000),
			Ended: tenCosts(500)}}
	next := charged(t, b, c)
	check.MustEqual(t, heldOf(next), "level 3000, held 4000, expired 500, until 6250")
	check.Equal(t, next.Generation, b.Generation)
	// The process ends without a write. When its time is over, a mended item holds none of its
	// tokens.
	c = Charge{Image: next, Costs: tenCosts(2_000), Now: at + 6_250,
		Ahead: &Ahead{Life: 1_000, Take: tenCosts(1_000), Mend: true}}
	mended := charged(t, next, c)
	check.MustEqual(t, heldOf(mended), "level 4000, held 1000, expired 500, until 7250")
	check.Equal(t, mended.Generation == next.Generation, false, "the same generation")
	// A process with an earlier image can mend before that: its hu has passed, so all growth of the
	// counter since was spent, except for tokens taken ahead since.
	c.Image, c.Now, c.Ahead.Spent = next, at+5_500, &b
	check.MustEqual(t, charged(t, next, c).State.Slots[0].Held, 3_000+1_000)
	c.Now = at + 4_999 // too early: 4 of the counter of b may be held
	check.MustEqual(t, charged(t, next, c).State.Slots[0].Held, 4_000+1_000)
	// Tokens that others take between the image and the mending write count as held.
	other := charged(t, next, Charge{Image: next, Costs: tenCosts(1_000), Now: at + 6_250})
	c.Now, c.Ahead.Spent = at+6_250, nil
	check.MustEqual(t, charged(t, other, c).State.Slots[0].Held, 1_000+1_000)
}

// Steps that change shards or limits either keep the held tokens or end them.
func TestShardAndLimitChangesKeepHeldTokens(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	full.State.Slots[0].Held, full.State.Slots[0].Ended, full.State.HeldUntil = 4_000, 700, at+5_000
	b := charged(t, full, Charge{Image: full, Costs: tenCosts(0), Now: at})
	apply := func(w item.Write, to item.Item) Shard {
		t.Helper()
		return decode(t, applied(t, w, to))
	}
	split := Split(b, at)
	keep, moved := apply(split[0], b.Item()), apply(split[1], nil)
	check.Equal(t, heldOf(keep), "level 1000, held 4000, expired 700, until 5000", "kept of 6 tokens and 4 held")
	check.Equal(t, heldOf(moved), "level 5000, held 0, expired 0, until 0", "moved of 6 tokens and 4 held")
	check.Equal(t, moved.State.HeldUntil, 0)
	moved.State.Slots[0].Held, moved.State.HeldUntil = 500, at+6_000
	merge := Merge(keep, moved, 1, at+10)
	check.Equal(t, heldOf(apply(merge[1], keep.Item())), "level 5500, held 4500, expired 700, until 6000", "merged")
	longer := keep
	longer.State.HeldUntil = at + 7_000
	check.Equal(t, holds(t, merge[1], longer.Item()), false, "a merge moved hu back")
	raised := apply(Raise(b, map[string]bucket.Gift{"rpm": {Milli: 10_000}}, at), b.Item())
	check.Equal(t, heldOf(raised), "level 6000, held 4000, expired 700, until 5000", "raised with 4 held")
	low := tenLimit
	low.Capacity = 3_000
	lowered := apply(Charge{Image: b, Costs: Costs([]bucket.Limit{low}), Now: at, Refill: true}.Plan().Update, b.Item())
	check.Equal(t, heldOf(lowered), "level 0, held 3000, expired 700, until 5000", "lowered to 3 with 4 held")
	gone := apply(Restore(keep, 1, 2, at, 1)[0], nil)
	check.Equal(t, heldOf(gone), "level 0, held 0, expired 0, until 0", "restored")
	check.Equal(t, gone.State.HeldUntil, 0, "restored")
}

// Whatever other writers leave in the attributes of held tokens, decisions use at most the bucket's
// capacity, or the bucket is unreadable.
func TestHostileHeldTokensAreBounded(t *testing.T) {
	good := tenAt(sampleNow).Item()
	for _, tt := range []struct {
		attr string
		v    item.Value
		held int64 // -1: unreadable
	}{
		{"o_rpm", num("7000"), 0}, {"o_rpm", num("-7000"), 7_000}, {"o_rpm", num("-1e30"), 10_000},
		{"o_rpm", num("99999999999999999999"), 0}, {"o_rpm", num("-9223372036854775808"), 10_000},
		{"o_rpm", num("-0.5"), -1}, {"o_rpm", item.S("7"), -1}, {"o_rpm", item.Null(), -1},
		{"x_rpm", num("-5"), 0}, {"x_rpm", num("1e30"), 0}, {"x_rpm", item.S("7"), -1}, {"x_rpm", num("0.1"), -1},
		{"hu", num("1e30"), -1}, {"hu", item.S("7"), -1}, {"hu", num("-5"), 0}, {"hu", num("9223372036854775807"), 0},
		{"o_wcu", num("-1e30"), 0}, {"o_other", item.S("x"), 0},
	} {
		it := maps.Clone(good)
		it[tt.attr] = tt.v
		if tt.attr != "hu" {
			it["hu"] = item.N(sampleNow + 1000)
		}
		name := fmt.Sprintf("%s %v", tt.attr, tt.v)
		b, err := DecodeShard(it)
		if tt.held < 0 {
			check.Says(t, err, tt.attr, name)
			continue
		}
		check.Must(t, err, name)
		check.Equal(t, b.State.Slots[0].Held, tt.held, name)
		check.Equal(t, b.State.Slots[1].Held, 0, name)
		level, _ := b.State.LevelAt(0, sampleNow+50_000)
		check.Equal(t, level, 10_000, "%s: the level comes to", name)
		c := Charge{Image: b, Costs: tenCosts(0), Now: sampleNow, Ahead: &Ahead{Take: tenCosts(0), Mend: true}}
		check.Equal(t, holds(t, c.Plan().Update, it), true, "%s: mended", name)
		c = Charge{Image: b, Costs: tenCosts(1_000), Now: sampleNow + 20_000}
		c.Ahead = &Ahead{Life: 500, Take: tenCosts(1_000)}
		after := applied(t, c.Plan().Update, it)
		if until, _ := item.Saturated(after["hu"]); until < sampleNow+20_500 || until > sampleNow+20_563 {
			t.Errorf("%s: hu %v", name, after["hu"])
		}
	}
}

// The hold time is stored whichever limit it belongs to. One of two limits may have none.
func TestHoldTimesAreStoredForAnyLimit(t *testing.T) {
	limits := []bucket.Limit{tenLimit, newRate("tpm", 10_000, 60_000)}
	put, b := create(sampleNow, Costs(limits))
	for _, take := range [][]int64{{1_000, 0}, {0, 1_000}, {0, 0}} {
		u := Charge{Image: b, Costs: Costs(limits, 2_000, 2_000), Now: sampleNow,
			Ahead: &Ahead{Life: 5_000, Take: Costs(limits, take...)}}.Plan().Update
		until := applied(t, u, put.Item)[AttrHeldUntil]
		check.Equal(t, until != nil, take[0]+take[1] > 0, "%v: until %v", take, until)
	}
}

// A mend knows how much was spent since an earlier image whose hold has passed: all growth of the
// counter since then, up to the held tokens.
func TestMendedHoldsCountSpentTokens(t *testing.T) {
	const at = sampleNow
	for name, c := range map[string]struct {
		edit func(image, spent *Shard)
		want int64 // held
	}{
		"3 since":                   {func(_, _ *Shard) {}, 3_000},
		"more than is held":         {func(_, s *Shard) { s.State.Slots[0].Used -= 9_000 }, 5_000},
		"fewer, as some came back":  {func(_, s *Shard) { s.State.Slots[0].Used += 9_000 }, 0},
		"of another generation":     {func(_, s *Shard) { s.Generation++ }, 5_000},
		"its hold has not passed":   {func(_, s *Shard) { s.State.HeldUntil = at + 1 }, 5_000},
		"its hold has just passed":  {func(_, s *Shard) { s.State.HeldUntil = at }, 3_000},
		"without the limit":         {func(_, s *Shard) { s.State.Slots = s.State.Slots[1:] }, 5_000},
		"there is no earlier image": {func(_, s *Shard) { *s = Shard{} }, 5_000},
		"nothing is held now":       {func(b, _ *Shard) { b.State.HeldUntil = at }, 0},
	} {
		image := tenAt(at)
		image.State.Slots[0].Tokens, image.State.Slots[0].Held, image.State.HeldUntil = 2_000, 5_000, at+3_000
		spent := image
		spent.State.Slots = []bucket.Slot{image.State.Slots[0], image.State.Slots[1]}
		spent.State.Slots[0].Used, spent.State.HeldUntil = 97_000, at-1
		c.edit(&image, &spent)
		charge := Charge{Image: image, Costs: tenCosts(1_000), Now: at,
			Ahead: &Ahead{Life: 1_000, Take: tenCosts(500), Mend: true, Spent: &spent}}
		check.Equal(t, charged(t, image, charge).State.Slots[0].Held, c.want+500, name)
	}
}

// A held-until instant beyond any sound clock is ignored and replaced, unless it was written since
// the image.
func TestImpossibleHoldTimesAreReplaced(t *testing.T) {
	const at, absurd = sampleNow, sampleNow + 1<<40
	image := tenAt(at)
	image.State.HeldUntil = absurd
	c := Charge{Image: image, Costs: tenCosts(1_000), Now: at, Ahead: &Ahead{Life: 8, Take: tenCosts(500)}}
	check.Equal(t, charged(t, image, c).State.HeldUntil, at+8)
	for _, until := range []int64{at + 3_000, absurd - 1, absurd + 1} {
		since := image
		since.State.HeldUntil = until
		check.Equal(t, holds(t, c.Plan().Update, since.Item()), false, "replaced %d, which was written since", until-at)
	}
}

// If held tokens bound a level, a forced settlement requires that others took no more than that
// level since the image. Of 10 with 4 held, 6 are available, however long the bucket fills.
func TestForcedSettlementsRespectHeldTokens(t *testing.T) {
	const at = sampleNow
	for _, c := range []struct {
		name               string
		held, until, after int64
		others             int64 // tokens taken since the image
		noClock            bool  // made by a client without held tokens: its level is exact
		want               bool
	}{
		{"bounded", 4_000, 20_000, 8_000, 6_000, false, true},
		{"bounded, and others took more", 4_000, 20_000, 8_000, 6_001, false, false},
		{"just not bounded yet", 4_000, 20_000, 5_000, 7_000, false, true},
		{"just bounded", 4_000, 20_000, 5_001, 7_000, false, false},
		{"nothing is held", 0, 20_000, 8_000, 7_000, false, true},
		{"the hold had passed at the image", 4_000, 0, 8_000, 7_000, false, true},
		{"full", 0, 20_000, 9_000, 10_001, false, false},
		{"without a clock", 4_000, 20_000, 8_000, 7_000, true, true},
	} {
		image := tenAt(at)
		sl := &image.State.Slots[0]
		sl.Tokens, sl.Held, image.State.HeldUntil = 1_000, c.held, at+c.until
		if c.noClock {
			image.State.RF, image.State.NoClock = 0, true
		}
		u := Charge{Image: image, Costs: tenCosts(1_000), Now: at + c.after, Force: true}.Plan().Update
		since := image
		since.State.Slots = []bucket.Slot{*sl, image.State.Slots[1]}
		since.State.Slots[0].Tokens -= c.others
		since.State.Slots[0].Used += c.others
		check.Equal(t, holds(t, u, since.Item()), c.want, c.name)
	}
}

// A process with shorter holds keeps the held-until instant of others. Every reader of the item
// respects it, however long tokens are held.
func TestALongerHoldStays(t *testing.T) {
	image := tenAt(sampleNow)
	image.State.HeldUntil, image.State.Slots[0].Held, image.State.Slots[0].Tokens = sampleNow+5_000, 2_000, 3_000
	c := Charge{Image: image, Costs: tenCosts(1_000), Now: sampleNow, Ahead: &Ahead{Life: 100, Take: tenCosts(500)}}
	check.Equal(t, heldOf(charged(t, image, c)), "level 2000, held 2500, expired 0, until 5000")
	c.Image, c.Now, c.Ahead.Life = tenAt(sampleNow), sampleNow+1, 1<<40
	b := charged(t, c.Image, c)
	if until := b.State.HeldAfter(sampleNow + 1); until < sampleNow+1+bucket.MaxAhead {
		t.Errorf("held until %d", until-sampleNow)
	}
}

// A split hands over only existing tokens, even if the shard holds more than its share and is left
// with a negative level.
func TestSplitWithHeldTokensHandsOverTheLevel(t *testing.T) {
	full := tenAt(sampleNow)
	image := charged(t, full, Charge{Image: full, Costs: tenCosts(8_000), Now: sampleNow,
		Ahead: &Ahead{Life: 5_000, Take: tenCosts(8_000)}})
	split := Split(image, sampleNow)[0]
	check.Deep(t, applied(t, split, image.Item())["b_rpm_tk"], item.N(-3_000))
	other := charged(t, image, Charge{Image: image, Costs: tenCosts(1_000), Now: sampleNow})
	check.Equal(t, holds(t, split, other.Item()), false, "2 handed over, and only 1 is left")
}
