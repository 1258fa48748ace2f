package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// stored are the shards of a bucket, by key.
type stored map[item.Key]item.Item

// shardsOf returns a bucket whose shards have these counts.
func shardsOf(counts map[int]int) stored {
	out := stored{}
	for k, n := range counts {
		out[bucketKey(k)] = table.Shard{Namespace: namespace, Entity: entity, Resource: resource, Generation: 1,
			State: bucket.New([]bucket.Limit{{Name: "rpm", Capacity: 64_000, Amount: 64_000, Period: 60_000}}, k, n, 1)}.Item()
	}
	return out
}

func (s stored) image(t *testing.T, k int) table.Shard {
	t.Helper()
	b, err := table.DecodeShard(s[bucketKey(k)])
	check.Must(t, err)
	return b
}

// counts formats the counts: "0:2 1:2" for two shards of two.
func (s stored) counts(t *testing.T) string {
	var out []string
	for k := range 16 {
		if s[bucketKey(k)] != nil {
			out = append(out, fmt.Sprintf("%d:%d", k, s.image(t, k).State.Shards))
		}
	}
	return strings.Join(out, " ")
}

// walk carries out a plan and returns its steps, refused ones in parentheses.
func (s stored) walk(t *testing.T, p *shard.Plan) (steps []string) {
	t.Helper()
	for range 30 {
		step, ok := p.Next(2, 7)
		if !ok {
			return steps
		}
		after, reasons := stored{}, make([]store.Reason, len(step.Writes))
		for i, w := range step.Writes {
			it, held, err := w.Apply(s[w.Target()])
			check.Must(t, err)
			if !held {
				reasons[i] = store.Reason{Refused: true, Old: s[w.Target()]}
			}
			after[w.Target()] = it
		}
		if slices.ContainsFunc(reasons, func(r store.Reason) bool { return r.Refused }) {
			if steps = append(steps, step.String()); step.Action != shard.Look {
				steps[len(steps)-1] = "(" + step.String() + ")"
			}
			p.Refused(step, reasons)
			continue
		}
		for k, it := range after {
			s[k] = it
		}
		steps = append(steps, step.String())
		p.Applied(step, after[step.Writes[0].Target()])
	}
	t.Fatalf("the plan does not end: %v", steps)
	return nil
}

// A count falls by merges. Unknown shards are looked up. Missing ones have nothing to merge, so the
// count falls at once past all of them.
func TestCountsFallByMerges(t *testing.T) {
	for _, c := range []struct {
		name    string
		counts  map[int]int
		known   []int
		count   int
		steps   string
		becomes string
	}{
		{"two become one", map[int]int{0: 2, 1: 2}, []int{1}, 1, "merge 0", "0:1"},
		{"unknown shards are looked up", map[int]int{0: 2, 1: 2}, nil, 1, "look 1, merge 0", "0:1"},
		{"no shard has split: the count falls at once, further than planned", map[int]int{0: 8}, nil, 4,
			"look 4, look 2, look 1, discount 0", "0:1"},
		{"while siblings are missing", map[int]int{0: 8, 1: 2}, nil, 4, "look 4, look 2, look 1, discount 0", "0:2 1:2"},
		{"the first sibling found ends the search", map[int]int{0: 8, 2: 4}, nil, 4, "look 4, look 2, discount 0",
			"0:4 2:4"},
		{"a sibling that has split since merges first", map[int]int{0: 2, 1: 4, 3: 4}, []int{1}, 1,
			"look 3, merge 1, merge 0", "0:1"},
		{"even if its own sibling is missing", map[int]int{0: 2, 1: 4}, []int{1}, 1, "look 3, discount 1, merge 0", "0:1"},
	} {
		s := shardsOf(c.counts)
		var known []table.Shard
		for _, k := range c.known {
			known = append(known, s.image(t, k))
		}
		p := shard.Shrink(s.image(t, 0), c.count, known...)
		steps := s.walk(t, p)
		if got := strings.Join(steps, ", "); got != c.steps || s.counts(t) != c.becomes || !p.Changed() {
			t.Errorf("%s: %s: %s\nwant %s: %s", c.name, got, s.counts(t), c.steps, c.becomes)
		}
	}
}

// A refused discount learns from its first write what shard 0 is now, and goes on from that. Here
// another process has reduced the count to four, on the way to two.
func TestRefusedDiscountsGoOnFromShard0(t *testing.T) {
	s := shardsOf(map[int]int{0: 8, 2: 4})
	p := shard.Shrink(s.image(t, 0), 2)
	first, _ := p.Next(2, 7)
	for first.Action == shard.Look { // only shard 2 exists
		_, held, _ := first.Writes[0].Apply(s[first.Writes[0].Target()])
		if held {
			p.Applied(first, s[first.Writes[0].Target()])
		} else {
			p.Refused(first, []store.Reason{{Refused: true, Old: s[first.Writes[0].Target()]}})
		}
		first, _ = p.Next(2, 7)
	}
	now := shardsOf(map[int]int{0: 4})[bucketKey(0)]
	reasons := make([]store.Reason, len(first.Writes))
	reasons[0] = store.Reason{Refused: true, Old: now}
	p.Refused(first, reasons)
	step, ok := p.Next(2, 7)
	if first.Action != shard.Discount || !ok || step.Action != shard.Merge || step.Shard != 0 {
		t.Errorf("%v was refused by a shard 0 of four, then %v, want a merge of it", first, step)
	}
}

// A shard that is far behind may have split before. Then only its count changes. The next step is a
// split again, because the next sibling does not exist.
func TestShardsThatSplitBeforeAreRecounted(t *testing.T) {
	s := shardsOf(map[int]int{0: 8, 1: 2, 3: 4})
	steps := strings.Join(s.walk(t, shard.Follow(s.image(t, 1), 8)), ", ")
	if want := "(split 1), recount 1, split 1"; steps != want || s.counts(t) != "0:8 1:8 3:4 5:8" {
		t.Errorf("%s: %s, want %s", steps, s.counts(t), want)
	}
}

// A recount that held, but whose answer was lost, is refused when it is repeated. The refusal has
// the shard's present count, whose sibling does not exist. Another recount would give that sibling
// nothing.
func TestRecountsWithLostAnswersAreNotRepeated(t *testing.T) {
	s := shardsOf(map[int]int{0: 8, 1: 2, 3: 4})
	p := shard.Follow(s.image(t, 1), 8)
	split, _ := p.Next(2, 7)
	p.Refused(split, []store.Reason{{}, {Refused: true, Old: s[bucketKey(3)]}, {}})
	recount, _ := p.Next(2, 7)
	s[bucketKey(1)], _, _ = recount.Writes[0].Apply(s[bucketKey(1)])
	p.Refused(recount, []store.Reason{{Refused: true, Old: s[bucketKey(1)]}})
	steps := strings.Join(s.walk(t, p), ", ")
	if want := "split 1"; recount.Action != shard.Recount || steps != want || s.counts(t) != "0:8 1:8 3:4 5:8" {
		t.Errorf("%v, %s: %s, want %s", recount, steps, s.counts(t), want)
	}
}

// Another client has raised the count to four without a split. Of the 30 tokens of shard 0, the 14
// above its share of 16 move to the first restored shard. The next restore finds only the share in
// shard 0, and begins empty, without a refusal.
func TestRaisedCountsMoveTokensOnce(t *testing.T) {
	s := shardsOf(map[int]int{0: 4})
	zero := s.image(t, 0)
	rpm := zero.State.Index("rpm")
	zero.State.Slots[rpm].Tokens = 30_000
	s[bucketKey(0)] = zero.Item()
	steps := strings.Join(s.walk(t, shard.Propagate(s.image(t, 0))), ", ")
	check.Equal(t, steps, "look 1, restore 1, look 2, restore 2, look 3, restore 3")
	for k, want := range []int64{16_000, 14_000, 0, 0} {
		check.Equal(t, s.image(t, k).State.Slots[rpm].Tokens, want, "shard %d", k)
	}
}

// A shard that was left behind reads the count of shard 0, and follows it.
func TestShardsLeftBehindFollowShard0(t *testing.T) {
	s := shardsOf(map[int]int{0: 2, 1: 4, 3: 4})
	steps := strings.Join(s.walk(t, shard.FollowAsking(s.image(t, 1))), ", ")
	if want := "look 0, look 3, merge 1"; steps != want || s.counts(t) != "0:2 1:2" {
		t.Errorf("%s: %s, want %s", steps, s.counts(t), want)
	}
}

// If shard 0 is unreadable or incomplete, it has no count to follow.
func TestUnreadableShard0ChangesNothing(t *testing.T) {
	for _, attr := range []string{"b_rpm_cp", "b_rpm_ra"} {
		s := shardsOf(map[int]int{0: 2, 1: 4, 3: 4})
		if delete(s[bucketKey(0)], attr); attr == "b_rpm_cp" {
			s[bucketKey(0)][attr] = item.N(-1)
		}
		p := shard.FollowAsking(s.image(t, 1))
		check.Equal(t, strings.Join(s.walk(t, p), ", "), "look 0", "a strange %s", attr)
		check.Equal(t, p.Changed(), false, "a look at a strange %s changes shard 0", attr)
	}
}

// A shard that reads shard 0 may find that it should merge. Then the plan does only that.
func TestShardsThatReadShard0MayMergeIt(t *testing.T) {
	for count, want := range map[int]string{
		2: "look 0, split 1: 0:4 1:4 2:4 3:4", // as many as it has: nothing falls, and shard 1 follows
		1: "look 0, look 2, merge 0: 0:2 1:2",
	} {
		s := shardsOf(map[int]int{0: 4, 1: 2, 2: 4})
		p := shard.FollowAsking(s.image(t, 1)).Shrinking(func(zero table.Shard, now int64) int {
			if zero.State.Shard != 0 || zero.State.Shards != 4 || now != 2 {
				t.Errorf("asked about %v at %d", zero.State, now)
			}
			return 2 * count
		})
		check.Equal(t, strings.Join(s.walk(t, p), ", ")+": "+s.counts(t), want, "to %d", 2*count)
	}
}

// A sweep looks for shards beyond the count, as many as there may have been.
func TestSweepsLookBeyondTheCount(t *testing.T) {
	for _, c := range []struct {
		beyond      int
		steps, left string
	}{
		{0, "look 1", "0:2 1:2 5:8 7:8"},
		{2, "look 1", "0:2 1:2 5:8 7:8"},
		{8, "look 1, look 2, look 3, look 4, look 5, look 6, look 7, merge 1, merge 1", "0:2 1:2"},
	} {
		s := shardsOf(map[int]int{0: 2, 1: 2, 5: 8, 7: 8})
		steps := strings.Join(s.walk(t, shard.Propagate(s.image(t, 0)).Sweep(c.beyond)), ", ")
		if steps != c.steps || s.counts(t) != c.left {
			t.Errorf("up to %d: %s: %s", c.beyond, steps, s.counts(t))
		}
	}
}

// The images of a plan may be old. It changes the count of shard 0 only if that is still the
// expected one, or goes on with what others have begun. Otherwise the plan ends.
func TestObsoletePlansEnd(t *testing.T) {
	four := shardsOf(map[int]int{0: 4, 1: 4, 2: 4, 3: 4, 4: 8, 6: 8})
	images := func(shards ...int) (out []table.Shard) {
		for _, k := range shards {
			out = append(out, four.image(t, k))
		}
		return out
	}
	zero := four.image(t, 0)
	for _, c := range []struct {
		name   string
		plan   *shard.Plan
		counts map[int]int
		steps  string
	}{
		{"merged meanwhile, which a stray shows", shard.Propagate(zero, images(1, 2, 3, 4, 6)...), map[int]int{0: 1},
			"(merge 2)"},
		{"merged meanwhile, which a missing shard shows", shard.Propagate(zero, images(1, 3)...).Without(2),
			map[int]int{0: 2, 1: 2}, "(restore 2)"},
		{"merged meanwhile, which its child shows", shard.Propagate(zero, images(1, 2)...).Without(3),
			map[int]int{0: 2, 1: 2}, "(restore 3)"},
		{"split meanwhile", shard.Propagate(zero, images(1, 3)...).Without(2),
			map[int]int{0: 8, 1: 4, 3: 4, 4: 8}, "(restore 2)"},
		{"gone", shard.Propagate(zero, images(1, 3)...).Without(2), nil, "(restore 2)"},
		{"does not double a shard that has merged", shard.Double(zero), map[int]int{0: 2, 1: 4, 3: 4}, "(split 0)"},
		{"does not double a shard that has split", shard.Double(zero), map[int]int{0: 16, 4: 8}, "(split 0)"},
		{"does not merge a shard that has split", shard.Shrink(zero, 2, images(2)...), map[int]int{0: 8, 2: 8, 4: 8, 6: 8},
			"(merge 0)"},
		{"does not split one that has merged", shard.Shrink(zero, 2, images(2)...), map[int]int{0: 1}, "(merge 0)"},
		{"a straggler", shard.Follow(four.image(t, 1), 8), map[int]int{0: 2, 1: 4, 3: 4}, "(split 1)"},
	} {
		s := shardsOf(c.counts)
		for k := range c.counts { // others have written to them since
			b := s.image(t, k)
			b.Generation += 1 << 40
			s[b.Key()] = b.Item()
		}
		before := s.counts(t)
		steps := strings.Join(s.walk(t, c.plan), ", ")
		if steps != c.steps || s.counts(t) != before || c.plan.Changed() {
			t.Errorf("%s: %s: %s, want %s: %s", c.name, steps, s.counts(t), c.steps, before)
		}
	}
}
