package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A client that stood still may write from a very old image. That shows a full limit lower by
// exactly the tokens that others have taken since, however many.
func TestAWriteFromAnOldImageIsNoLoss(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 10_000, Period: 1000}
	for _, c := range []struct {
		tokens int64 // after 20 others took 1 each, a minute passed, and 50 were taken from the first image
		broken string
	}{{50_000, ""}, {30_000, ""}, {29_000, "lost 21000"}, {51_000, "minted 1000"}} {
		old := table.Shard{Entity: "acme", Resource: "gpt", State: bucket.New([]bucket.Limit{limit}, 0, 1, 0)}
		exact := map[level]*good{}
		write := func(to table.Shard) string {
			i := to.State.Index("rpm")
			s := step{at: change{sequence: fmt.Sprint(len(exact)), old: &old, new: &to}}
			broken := s.unfaithful(i, exact, usual)
			old = to
			return broken
		}
		next := func(taken, tokens, at int64) table.Shard {
			to := old
			to.State.Slots = slices.Clone(old.State.Slots)
			sl := &to.State.Slots[to.State.Index("rpm")]
			sl.Used, sl.Tokens, to.State.RF = sl.Used+taken, tokens, at
			return to
		}
		for n := range int64(20) {
			check.MustEqual(t, write(next(1000, (99-n)*1000, 0)), "")
		}
		if got := write(next(50_000, c.tokens, 60_000)); !strings.Contains(got, c.broken) || got != "" && c.broken == "" {
			t.Errorf("%d millitokens are left: %q, want %q", c.tokens, got, c.broken)
		}
	}
}

// A full limit was shown lower once, as far as allowed, and is full again when its shard splits.
// The halves lack nothing.
func TestASplitHalvesWhatMayBeMissing(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 10_000, Period: 1000}
	old := table.Shard{Entity: "acme", Resource: "gpt", State: bucket.New([]bucket.Limit{limit}, 0, 1, 0)}
	exact := map[level]*good{}
	write := func(to bucket.State, sibling *table.Shard) {
		t.Helper()
		next := old
		next.State = to
		s := step{at: change{sequence: "1", old: &old, new: &next}, sibling: sibling}
		check.Equal(t, s.unfaithful(to.Index("rpm"), exact, usual), "")
		old = next
	}
	charged := func(taken, tokens, at int64) bucket.State {
		to := old.State
		to.Slots = slices.Clone(to.Slots)
		sl := &to.Slots[to.Index("rpm")]
		sl.Used, sl.Tokens, to.RF = sl.Used+taken, tokens, at
		return to
	}
	write(charged(1000, 94_000, 0), nil) // 5,000 lower
	write(charged(1000, 99_000, 60_000), nil)
	keep, moved := old.State.Split()
	sibling := old
	sibling.State = moved
	write(keep, &sibling)
	write(charged(1000, keep.Slots[keep.Index("rpm")].Tokens-1000, 60_000), nil)
}
