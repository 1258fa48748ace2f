package prefetch

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardOf returns the image of a full bucket of three tokens, in a generation that began after
// milliseconds after the worlds did.
func shardOf(generation, after int64) table.Shard {
	return table.Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: (began + generation) << 12,
		State: bucket.New([]bucket.Limit{three}, 0, 1, began+after)}
}

func at(ms int64) Instant { return Instant{Wall: began + ms, Mono: ms} }

func threes(milli int64) []table.Cost { return table.Costs([]bucket.Limit{three}, milli) }

// holds returns a process that has prefetched two tokens, for two seconds.
func holds(t *testing.T) *Holding {
	h := &Holding{}
	image := shardOf(0, 0)
	if a := h.Ask(image, threes(2000), 2000, at(0)); a == nil || a.Left != nil || a.Declared != nil || a.Mend {
		t.Fatalf("asked %+v", a)
	}
	h.Done(Written, image)
	return h
}

// Held tokens are granted to requests with the limits under which they were taken, completely or
// not at all, until they are over by either clock.
func TestTake(t *testing.T) {
	wider := three
	wider.Capacity *= 2
	for name, c := range map[string]struct {
		costs []table.Cost
		now   Instant
		want  bool
		left  int64
	}{
		"all of it":                 {threes(2000), at(0), true, 0},
		"over by the steady clock":  {threes(1), Instant{Wall: began, Mono: 2000}, false, 0},
		"over by the clock on wall": {threes(1), Instant{Wall: began + 2000}, false, 0},
		"other limits":              {table.Costs([]bucket.Limit{wider}, 1), at(0), false, 2000},
		"one limit more":            {table.Costs([]bucket.Limit{three, requests}, 1), at(0), false, 2000},
		"for nothing when it is over, there is no allotment": {threes(0), at(2000), false, 0},
	} {
		h := holds(t)
		if got := h.Take(c.costs, c.now); got != c.want || h.Left("a", c.now) != c.left {
			t.Errorf("%s: %v, %d left, want %v, %d", name, got, h.Left("a", c.now), c.want, c.left)
		}
	}
	h := holds(t) // and three tokens more, a second later
	h.Ask(shardOf(0, 0), threes(3000), 2000, at(1000))
	h.Done(Written, shardOf(0, 0))
	if !h.Take(threes(4000), at(1500)) || h.Left("a", at(1500)) != 1000 {
		t.Errorf("4 of 2 + 3 tokens: %d left", h.Left("a", at(1500)))
	}
	check.Equal(t, h.Left("a", at(2000)), 1000, "the older ones are not granted first")
}

// Tokens are put back among the held ones up to the declared amount, and taken from them as far as
// they suffice. This applies to the last allotment.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		back int64
		now  Instant
		want bool
		left int64
	}{
		"what was granted":        {1500, at(0), true, 2000},
		"more than was told":      {1501, at(0), false, 500},
		"takes more":              {-500, at(0), true, 0},
		"takes more than is held": {-501, at(0), false, 500},
		"when it is over":         {1, at(2000), false, 0},
	} {
		h := holds(t)
		if !h.Take(threes(1500), at(0)) {
			t.Fatal("not granted")
		}
		if got := h.Settle(threes(c.back), c.now); got != c.want || h.Left("a", c.now) != c.left {
			t.Errorf("%s: %v, %d left, want %v, %d", name, got, h.Left("a", c.now), c.want, c.left)
		}
	}
	h := holds(t)
	h.Take(threes(1500), at(0))
	a := h.Ask(shardOf(1, 0), threes(0), 2000, at(0)) // the shard has begun again, and has no declarations
	if a.Left != nil || a.Declared != nil {
		t.Errorf("a new generation gets %+v", a)
	}
	if h.Settle(threes(1000), at(0)) {
		t.Error("tokens of an earlier generation came back")
	}
	h = holds(t)
	h.Take(threes(1500), at(0))
	h.Ask(shardOf(1, 0), threes(1000), 500, at(0))
	h.Done(Written, shardOf(1, 0))
	if h.Settle(threes(1000), at(600)) { // the tokens of the new one are over
		t.Error("tokens came back to an earlier generation")
	}
}

// The next charge reports expired tokens, and once: again if it is refused, and never if its answer
// is lost, because it may have been written.
func TestExpiredTokensAreReportedOnce(t *testing.T) {
	for o, again := range map[Outcome]int64{Refused: 500, Unknown: 0, Written: 0} {
		h := holds(t)
		h.Take(threes(1500), at(0))
		if !h.Some() || h.Asking() {
			t.Errorf("some %v, asking %v", h.Some(), h.Asking())
		}
		for range 2 { // the second time it has expired before
			if !h.MustReport(at(2000)) {
				t.Error("expired tokens need not be reported")
			}
		}
		if h.Some() {
			t.Error("expired tokens are held")
		}
		a := h.Ask(shardOf(0, 0), threes(0), 2000, at(2000))
		if ended, _ := table.Find(a.Ended, "a"); ended.Milli != 500 || a.Left != nil {
			t.Errorf("%+v, want that 500 ended", a)
		}
		if told, _ := table.Find(a.Declared, "a"); told.Milli != 2000 {
			t.Errorf("%+v, want 2000 declared", a)
		}
		if h.MustReport(at(2000)) || h.Ask(shardOf(0, 0), threes(0), 2000, at(2000)) != nil || !h.Asking() {
			t.Error("a declaration is made twice at once")
		}
		h.Done(o, shardOf(0, 0))
		h.Done(Refused, shardOf(0, 0)) // of no charge
		check.Equal(t, h.MustReport(at(2000)), o == Refused, "outcome %d: must report", o)
		a = h.Ask(shardOf(0, 0), threes(0), 2000, at(2000))
		told, _ := table.Find(a.Declared, "a")
		if ended, _ := table.Find(a.Ended, "a"); ended.Milli != again || told.Milli != 4*again {
			t.Errorf("outcome %d: %+v, want %d ended and %d declared", o, a, again, 4*again)
		}
	}
}

// Expired tokens are reported even if nothing is declared in the shard's present generation.
func TestExpiredTokensAreReportedInANewGeneration(t *testing.T) {
	h := holds(t)
	h.Ask(shardOf(1, 0), threes(0), 2000, at(0))
	h.Done(Written, shardOf(1, 0))
	if h.MustReport(at(1999)) {
		t.Error("tokens are reported before they have expired")
	}
	if !h.MustReport(at(2000)) {
		t.Error("expired tokens need not be reported")
	}
}

// Images are kept an eighth of a life apart, twenty of one generation.
func TestMarks(t *testing.T) {
	h := &Holding{}
	for after := int64(0); after < 30*125; after++ {
		h.See(shardOf(0, after), 1000)
		check.MustEqual(t, len(h.marks), min(20, int(after/125)+1), "images after %d ms", after)
	}
	if n := len(h.marks); n != 20 || h.marks[0].State.RF != began+10*125 || h.marks[19].State.RF != began+29*125 {
		t.Errorf("%d images, of %d to %d", n, h.marks[0].State.RF-began, h.marks[n-1].State.RF-began)
	}
	held := h.marks[5]
	for i := range h.marks {
		h.marks[i].State.HeldUntil = began + int64(i)
	}
	if m := h.spent(began<<12, began+5); m == nil || m.State.RF != held.State.RF {
		t.Errorf("%+v is the last one of which all is spent, want %+v", m, held)
	}
	if h.spent(began<<12, began-1) != nil || h.spent((began+1)<<12, began+5) != nil {
		t.Error("spent before it may be, or in another generation")
	}
	h.See(shardOf(1, 0), 1000)
	check.Equal(t, len(h.marks), 1, "images of two generations")
}

// An item is mended if it declares of a limit more held tokens than there can be, by 5 % of its
// capacity, 150 of 3000, and a quarter of the possible ones, once its generation is three lives
// old.
func TestWrongHeldTokensAreMended(t *testing.T) {
	for name, c := range map[string]struct {
		held, told, left int64
		since            int64 // used since an image of which all is spent; -1: there is none
		after            int64 // the instant of the image
		want             bool
	}{
		"nobody holds it":                {751, 0, 0, 600, 3000, true},
		"5 % of what there is":           {750, 0, 0, 600, 3000, false},
		"more than a quarter":            {1251, 0, 0, 1000, 3000, true},
		"a quarter of what can be held":  {1250, 0, 0, 1000, 3000, false},
		"the generation is young":        {1251, 0, 0, 1000, 2999, false},
		"without an image all may be":    {3000, 0, 0, -1, 3000, false},
		"this process told it":           {1400, 150, 0, 1000, 3000, false},
		"it told that, and holds a part": {1400, 150, 1, 1000, 3000, true},
		"less was counted than before":   {150, 0, 0, -100, 3000, false},
	} {
		h := &Holding{declared: amounts{{"a", c.told}}}
		if c.since != -1 {
			earlier := shardOf(0, 100)
			earlier.State.Slots[earlier.State.Index("a")].Used = 5000
			h.See(earlier, 1000)
		}
		image := shardOf(0, c.after)
		sl := &image.State.Slots[image.State.Index("a")]
		sl.Held, sl.Used = c.held, 5000+c.since
		check.Equal(t, h.mends(image, amounts{{"a", c.left}}, 1000), c.want, name)
	}
}

// mends returns a holding that has taken 1000 with a mend, which left others tokens for others
// until 5 s.
func mends(t *testing.T, others int64) *Holding {
	h := &Holding{}
	h.See(shardOf(0, 0), 1000)
	image := shardOf(0, 3000)
	image.State.Slots[image.State.Index("a")].Held = 3000
	if a := h.Ask(image, threes(1000), 1000, at(3000)); a == nil || !a.Mend {
		t.Fatalf("asked %+v, want a mend", a)
	}
	h.Done(Written, mended(others))
	return h
}

func mended(others int64) table.Shard {
	image := shardOf(3000, 3000)
	image.State.HeldUntil = began + 5000
	image.State.Slots[image.State.Index("a")].Held = 1000 + others
	image.State.Slots[image.State.Index(bucket.WCU)].Held = 1 // held by an unknown process
	return image
}

// After a mend the process declares the tokens of others, too, and grants nothing from them, until
// nobody can hold them any more. If a mend left nothing to others, it holds its own.
func TestAMendDeclaresOthersTokens(t *testing.T) {
	for _, others := range []int64{700, 0} {
		h, mended := mends(t, others), mended(others)
		check.Equal(t, h.Left("a", at(3000)), 1000, "grantable tokens")
		for _, c := range []struct{ now, told, left int64 }{
			{3999, 1000 + others, 1000 + others}, {4000, 1000 + others, others}, {5000, others, 0},
		} {
			a := h.Ask(mended, threes(0), 1000, at(c.now))
			h.Done(Written, mended)
			told, _ := table.Find(a.Declared, "a")
			left, _ := table.Find(a.Left, "a")
			if told.Milli != c.told || left.Milli != c.left || len(a.Declared) > 1 || len(a.Left) > 1 {
				t.Errorf("%d of others, at %d: %v, left %v, want %d and %d", others, c.now, a.Declared, a.Left, c.told, c.left)
			}
			if others == 0 && c.now == 4000 && h.Some() {
				t.Error("something is held of nothing")
			}
		}
	}
}

// A process that gives up all its tokens goes on to declare those of others. Its own tokens of a
// rate have expired.
func TestReleaseKeepsOthersTokensDeclared(t *testing.T) {
	h := mends(t, 700)
	r := h.Release(at(3500))
	ended, _ := table.Find(r.Ended, "a")
	told, _ := table.Find(r.Declared, "a")
	if ended.Milli != 1000 || told.Milli != 1000 || len(r.Back) > 0 || r.Generation != shardOf(3000, 3000).Generation {
		t.Errorf("%v ended, %v goes back, %v less declared of %d, want 1000", r.Ended, r.Back, r.Declared, r.Generation)
	}
	if again := h.Release(at(3500)); len(again.Back)+len(again.Declared)+len(again.Ended) > 0 {
		t.Errorf("once more: %+v", again)
	}
}

// A charge that has begun a new generation without mending declares no tokens of others.
func TestANewGenerationDeclaresOwnTokensOnly(t *testing.T) {
	h := holds(t)
	h.Ask(shardOf(0, 0), threes(1000), 2000, at(100))
	anew := shardOf(100, 100)
	anew.State.HeldUntil = began + 9000
	anew.State.Slots[anew.State.Index("a")].Held = 2700
	h.Done(Written, anew)
	a := h.Ask(anew, threes(0), 2000, at(200))
	told, _ := table.Find(a.Declared, "a")
	if left, _ := table.Find(a.Left, "a"); told.Milli != 1000 || left.Milli != 1000 {
		t.Errorf("%v are declared and %v left, want 1000", a.Declared, a.Left)
	}
	h.Done(Unknown, table.Shard{})
	if h.Left("a", at(200)) != 3000 || h.MustReport(at(200)) != true {
		t.Errorf("%d are held, of two generations", h.Left("a", at(200)))
	}
}

// Tokens of others are not this process's: leases settle into its own tokens, and the life of these
// counts.
func TestLeasesSettleIntoOwnTokens(t *testing.T) {
	h := mends(t, 700)
	if !h.Take(threes(600), at(3000)) || !h.Settle(threes(500), at(3001)) || h.Left("a", at(3001)) != 900 {
		t.Errorf("%d are left, want 900", h.Left("a", at(3001)))
	}
	if h.Settle(threes(-901), at(3001)) || h.Settle(threes(101), at(3001)) {
		t.Error("settles with what others may hold")
	}
	check.Equal(t, h.lasts(at(3001)), 999, "what it took lasts ms")
	if h.Settle(threes(1), at(4000)) {
		t.Error("settles into what others may hold, once its own is over")
	}
}

// A refill instant that is later than the clock of the process proves that it is as late.
func TestSpentByTheClockOfOthers(t *testing.T) {
	h, early, late := &Holding{}, shardOf(0, 0), shardOf(0, 3000)
	early.State.HeldUntil = began + 2000
	h.See(early, 1000)
	if a := h.Ask(late, threes(0), 1000, at(1000)); a.Spent == nil {
		t.Error("tokens held until 2 s are not spent at 3 s")
	}
}

// A process has prefetched five of ten tokens, which refill one a second, and grants them in the
// last moment of their life. If it gives up its tokens right then, others get the five that a full
// bucket has left, not ten: the granted ones were held until then.
func TestReleaseKeepsJustGrantedTokensDeclared(t *testing.T) {
	ten := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 1000, Period: 1000}
	for name, granted := range map[string]int64{"all": 5000, "a part": 2000, "nothing": 0} {
		_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: began,
			Costs: table.Costs([]bucket.Limit{ten})})
		h := &Holding{}
		costs := table.Costs([]bucket.Limit{ten}, 5000)
		c := table.Charge{Image: b, Costs: costs, Now: began, Ahead: h.Ask(b, costs, 5000, at(0))}
		it, held, err := c.Plan().Update.Apply(b.Item())
		if err != nil || !held {
			t.Fatal(held, err)
		}
		image, _ := table.DecodeShard(it)
		h.Done(Written, image)
		h.Take(table.Costs([]bucket.Limit{ten}, granted), at(4999))
		if it, held, err = table.Release(b.Key(), h.Release(at(4999))).Apply(it); err != nil || !held {
			t.Fatal(held, err)
		}
		if image, err = table.DecodeShard(it); err != nil {
			t.Fatal(err)
		}
		level, _ := image.State.LevelAt(image.State.Index("a"), began+4999)
		if most := 10_000 - granted; level > most || level < most-1000 {
			t.Errorf("%s was granted: there are %d, want %d", name, level, most)
		}
	}
}
