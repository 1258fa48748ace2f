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

// written applies a charge to a stored shard, and returns the new one.
func written(t *testing.T, stored Shard, c Charge) (Shard, bool) {
	t.Helper()
	after, held, err := c.Plan().Update.Apply(stored.Item())
	check.Must(t, err)
	b := decode(t, after)
	return b, held
}

// The example of Ahead, in numbers.
func TestTakingAheadByExample(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	c := Charge{Image: full, Costs: tenCosts(5_000), Now: at, Ahead: &Ahead{Life: 5_000, Take: tenCosts(4_000)}}
	b, held := written(t, full, c)
	sl := b.State.Slots[0]
	if !held || sl.Tokens != 5_000 || sl.Used != 105_000 || sl.Held != 4_000 || b.State.HeldUntil != at+5_000 {
		t.Fatalf("held %v: %+v until %d", held, sl, b.State.HeldUntil-at)
	}
	if got := b.Item()["o_rpm"]; !item.Equal(got, item.N(-4_000)) {
		t.Errorf("o_rpm is %v", got)
	}
	for after, want := range map[int64]int64{1_000: 6_000, 5_000: 6_000, 7_000: 8_000, 20_000: 10_000} {
		if got, _ := b.State.LevelAt(0, at+after); got != want {
			t.Errorf("level after %d ms is %d, want %d", after, got, want)
		}
	}
	denied := Charge{Image: b, Costs: tenCosts(7_000), Now: at + 4_999}.Plan()
	if denied.Verdict.Granted || denied.Verdict.At != at+6_000 {
		t.Errorf("7 of 6, with 4 held: %+v", denied.Verdict)
	}

	// The process has 1 left. It declares the 1 and takes 3 more, so 4 are held again.
	c = Charge{Image: b, Costs: tenCosts(3_000), Now: at + 1_000,
		Ahead: &Ahead{Life: 5_000, Take: tenCosts(3_000), Left: tenCosts(1_000), Declared: tenCosts(4_000),
			Ended: tenCosts(500)}}
	next, held := written(t, b, c)
	if sl := next.State.Slots[0]; !held || sl.Held != 4_000 || sl.Ended != 500 || next.State.HeldUntil != at+6_250 ||
		next.Generation != b.Generation {
		t.Fatalf("held %v: %+v until %d", held, sl, next.State.HeldUntil-at)
	}
	// The process ends without a write. When its time is over, a mended item holds none of its
	// tokens.
	c = Charge{Image: next, Costs: tenCosts(2_000), Now: at + 6_250,
		Ahead: &Ahead{Life: 1_000, Take: tenCosts(1_000), Mend: true}}
	mended, held := written(t, next, c)
	if sl := mended.State.Slots[0]; !held || sl.Held != 1_000 || mended.Generation == next.Generation ||
		mended.State.HeldUntil != at+7_250 {
		t.Fatalf("held %v: %+v until %d", held, sl, mended.State.HeldUntil-at)
	}
	// A process with an earlier image can mend before that: its hu has passed, so all growth of the
	// counter since was spent, except for tokens taken ahead since.
	c.Image, c.Now, c.Ahead.Spent = next, at+5_500, &b
	if mended, held = written(t, next, c); !held || mended.State.Slots[0].Held != 3_000+1_000 {
		t.Fatalf("held %v: %+v", held, mended.State.Slots[0])
	}
	c.Now = at + 4_999 // too early: 4 of the counter of b may be held
	if mended, held = written(t, next, c); !held || mended.State.Slots[0].Held != 4_000+1_000 {
		t.Fatalf("held %v: %+v", held, mended.State.Slots[0])
	}
	// Tokens that others take between the image and the mending write count as held.
	other, _ := written(t, next, Charge{Image: next, Costs: tenCosts(1_000), Now: at + 6_250})
	c.Now, c.Ahead.Spent = at+6_250, nil
	if mended, held = written(t, other, c); !held || mended.State.Slots[0].Held != 1_000+1_000 {
		t.Fatalf("held %v: %+v", held, mended.State.Slots[0])
	}
}

// Steps that change shards or limits either keep the held tokens or end them.
func TestShardAndLimitChangesKeepHeldTokens(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	full.State.Slots[0].Held, full.State.Slots[0].Ended, full.State.HeldUntil = 4_000, 700, at+5_000
	b, _ := written(t, full, Charge{Image: full, Costs: tenCosts(0), Now: at})
	apply := func(w item.Write, to item.Item) Shard {
		t.Helper()
		s := decode(t, applied(t, w, to))
		return s
	}
	split := Split(b, at)
	keep, moved := apply(split[0], b.Item()), apply(split[1], nil)
	if k, m := keep.State.Slots[0], moved.State.Slots[0]; k.Held != 4_000 || k.Ended != 700 || k.Tokens != 1_000 ||
		m.Held != 0 || m.Ended != 0 || m.Tokens != 5_000 || moved.State.HeldUntil != 0 {
		t.Errorf("6 tokens and 4 held split into %+v and %+v", k, m)
	}
	moved.State.Slots[0].Held, moved.State.HeldUntil = 500, at+6_000
	merge := Merge(keep, moved, 1, at+10)
	if back := apply(merge[1], keep.Item()); back.State.Slots[0].Held != 4_500 || back.State.HeldUntil != at+6_000 {
		t.Errorf("merged into %+v until %d", back.State.Slots[0], back.State.HeldUntil-at)
	}
	longer := keep
	longer.State.HeldUntil = at + 7_000
	if _, held, _ := merge[1].Apply(longer.Item()); held {
		t.Error("a merge moved hu back")
	}
	raised := apply(Raise(b, map[string]bucket.Gift{"rpm": {Milli: 10_000}}, at), b.Item())
	if sl := raised.State.Slots[0]; sl.Tokens != 6_000 || sl.Held != 4_000 {
		t.Errorf("raised with 4 held: %+v", sl)
	}
	low := tenLimit
	low.Capacity = 3_000
	lowered := apply(Charge{Image: b, Costs: Costs([]bucket.Limit{low}), Now: at, Refill: true}.Plan().Update, b.Item())
	if sl := lowered.State.Slots[0]; sl.Tokens != 0 || sl.Held != 3_000 {
		t.Errorf("lowered to 3 with 4 held: %+v", sl)
	}
	gone := apply(Restore(keep, 1, 2, at, 1)[0], nil)
	if sl := gone.State.Slots[0]; sl.Held != 0 || sl.Ended != 0 || gone.State.HeldUntil != 0 {
		t.Errorf("restored %+v", sl)
	}
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
		if err != nil || b.State.Slots[0].Held != tt.held || b.State.Slots[1].Held != 0 {
			t.Errorf("%s: %+v, %v", name, b.State.Slots, err)
			continue
		}
		if level, _ := b.State.LevelAt(0, sampleNow+50_000); level != 10_000 {
			t.Errorf("%s: the level comes to %d", name, level)
		}
		c := Charge{Image: b, Costs: tenCosts(0), Now: sampleNow, Ahead: &Ahead{Take: tenCosts(0), Mend: true}}
		if _, held, err := c.Plan().Update.Apply(it); err != nil || !held {
			t.Errorf("%s: mended %v, %v", name, held, err)
		}
		c = Charge{Image: b, Costs: tenCosts(1_000), Now: sampleNow + 20_000}
		c.Ahead = &Ahead{Life: 500, Take: tenCosts(1_000)}
		after, held, err := c.Plan().Update.Apply(it)
		until, _ := item.Saturated(after["hu"])
		if err != nil || !held || until < sampleNow+20_500 || until > sampleNow+20_563 {
			t.Errorf("%s: taken ahead %v, %v, hu %v", name, held, err, after["hu"])
		}
	}
}

// The hold time is stored whichever limit it belongs to. One of two limits may have none.
func TestHoldTimesAreStoredForAnyLimit(t *testing.T) {
	limits := []bucket.Limit{tenLimit, {Name: "tpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}}
	put, b := create(sampleNow, Costs(limits))
	for _, take := range [][]int64{{1_000, 0}, {0, 1_000}, {0, 0}} {
		u := Charge{Image: b, Costs: Costs(limits, 2_000, 2_000), Now: sampleNow,
			Ahead: &Ahead{Life: 5_000, Take: Costs(limits, take...)}}.Plan().Update
		after, held, err := u.Apply(put.Item)
		if some := take[0]+take[1] > 0; err != nil || !held || (after[AttrHeldUntil] != nil) != some {
			t.Errorf("%v: held %v, %v, until %v", take, held, err, after[AttrHeldUntil])
		}
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
		b, held := written(t, image, charge)
		if !held || b.State.Slots[0].Held != c.want+500 {
			t.Errorf("%s: held %v, %d may be held, want %d and what is taken", name, held, b.State.Slots[0].Held, c.want)
		}
	}
}

// A held-until instant beyond any sound clock is ignored and replaced, unless it was written since
// the image.
func TestImpossibleHoldTimesAreReplaced(t *testing.T) {
	const at, absurd = sampleNow, sampleNow + 1<<40
	image := tenAt(at)
	image.State.HeldUntil = absurd
	c := Charge{Image: image, Costs: tenCosts(1_000), Now: at, Ahead: &Ahead{Life: 8, Take: tenCosts(500)}}
	if b, held := written(t, image, c); !held || b.State.HeldUntil != at+8 {
		t.Errorf("held %v, until %d", held, b.State.HeldUntil-at)
	}
	for _, until := range []int64{at + 3_000, absurd - 1, absurd + 1} {
		since := image
		since.State.HeldUntil = until
		if _, held := written(t, since, c); held {
			t.Errorf("until %d was written since, but replaced", until-at)
		}
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
		if _, held, err := u.Apply(since.Item()); err != nil || held != c.want {
			t.Errorf("%s: held %v, %v", c.name, held, err)
		}
	}
}

// A process with shorter holds keeps the held-until instant of others. Every reader of the item
// respects it, however long tokens are held.
func TestALongerHoldStays(t *testing.T) {
	image := tenAt(sampleNow)
	image.State.HeldUntil, image.State.Slots[0].Held, image.State.Slots[0].Tokens = sampleNow+5_000, 2_000, 3_000
	c := Charge{Image: image, Costs: tenCosts(1_000), Now: sampleNow, Ahead: &Ahead{Life: 100, Take: tenCosts(500)}}
	if b, held := written(t, image, c); !held || b.State.HeldUntil != sampleNow+5_000 || b.State.Slots[0].Held != 2_500 {
		t.Errorf("held %v: %+v until %d", held, b.State.Slots[0], b.State.HeldUntil-sampleNow)
	}
	c.Image, c.Now, c.Ahead.Life = tenAt(sampleNow), sampleNow+1, 1<<40
	b, _ := written(t, c.Image, c)
	if until := b.State.HeldAfter(sampleNow + 1); until < sampleNow+1+bucket.MaxAhead {
		t.Errorf("held until %d", until-sampleNow)
	}
}

// A split hands over only existing tokens, even if the shard holds more than its share and is left
// with a negative level.
func TestSplitWithHeldTokensHandsOverTheLevel(t *testing.T) {
	full := tenAt(sampleNow)
	image, _ := written(t, full, Charge{Image: full, Costs: tenCosts(8_000), Now: sampleNow,
		Ahead: &Ahead{Life: 5_000, Take: tenCosts(8_000)}})
	split := Split(image, sampleNow)[0]
	after, held, err := split.Apply(image.Item())
	if err != nil || !held || !item.Equal(after["b_rpm_tk"], item.N(-3_000)) {
		t.Fatalf("held %v, %v: %v", held, err, after["b_rpm_tk"])
	}
	other, _ := written(t, image, Charge{Image: image, Costs: tenCosts(1_000), Now: sampleNow})
	if _, held, err := split.Apply(other.Item()); err != nil || held {
		t.Errorf("2 handed over, want only the 1 that is left: %v", err)
	}
}
