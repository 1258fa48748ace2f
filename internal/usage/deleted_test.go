package usage

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Notes of deletions are read for a life that has ended, or that has no mark and an unseen
// beginning. The life is dropped if a note of the entity or of the whole namespace requires it, but
// not from ten minutes later. A life whose beginning was seen is dropped if it began before the
// note, to the millisecond.
func TestDeletedUsageIsDropped(t *testing.T) {
	plain, born, gone := ran("1", "2", 3, 5), ran("3", "4", 0, 2), ran("5", "6", 2, 2)
	born.Born, gone.Gone = true, true
	unmarked := Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true}
	here, before := unmarked, unmarked
	here.Current, before.Previous = marked(0, "1", 3), []item.Item{marked(1, "1", 3)}
	note := func(at int64) item.Item { return applied(t, config.Deleted("n", "e", at), nil) }
	for name, c := range map[string]struct {
		runs  []Run
		known Snapshots
		notes []item.Item
		asks  bool
		left  int // runs
		over  bool
	}{
		"deleted":                   {[]Run{plain}, unmarked, []item.Item{note(t0), nil}, true, 0, false},
		"the whole namespace":       {[]Run{plain}, unmarked, []item.Item{nil, note(t0)}, true, 0, false},
		"the later note":            {[]Run{plain}, unmarked, []item.Item{note(1), note(t0)}, true, 0, false},
		"a while before":            {[]Run{plain}, unmarked, []item.Item{note(t0 - deletersClock)}, true, 0, false},
		"longer before":             {[]Run{plain}, unmarked, []item.Item{note(t0 - deletersClock - 1)}, true, 1, false},
		"no note":                   {[]Run{plain}, unmarked, nil, true, 1, false},
		"an unreadable note":        {[]Run{plain}, unmarked, []item.Item{{"deleted_until": item.S("x")}}, true, 1, false},
		"an invalid instant":        {[]Run{plain}, unmarked, []item.Item{note(math.MaxInt64 / 2)}, true, 1, false},
		"the snapshot has a mark":   {[]Run{plain}, here, []item.Item{note(t0)}, false, 1, false},
		"an earlier one has a mark": {[]Run{plain}, before, []item.Item{note(t0)}, false, 1, false},
		"it begins":                 {[]Run{born, plain}, unmarked, nil, false, 2, false},
		"it began long ago":         {[]Run{born, plain}, unmarked, []item.Item{note(t0)}, true, 0, true},
		"it began after it":         {[]Run{born, plain}, unmarked, []item.Item{note(t0 - 1)}, true, 2, true},
		"a whole life":              {[]Run{born, gone}, unmarked, []item.Item{note(t0)}, true, 0, false},
		"a whole life after it":     {[]Run{born, gone}, unmarked, []item.Item{note(t0 - 1)}, true, 2, false},
		"deleted and created again": {[]Run{plain, gone, born}, unmarked, []item.Item{note(t0)}, true, 1, false},
		"created again, end lost":   {[]Run{plain, born}, unmarked, []item.Item{note(t0)}, true, 1, false},
		"created again and ended":   {[]Run{plain, gone, born, gone}, unmarked, []item.Item{note(t0)}, true, 2, false},
	} {
		total := hourOf(Part{Oldest: t0, Birth: Hourly.Start(t0), Runs: c.runs})
		total.BeginningsCounted, total.Over = true, c.over
		check.Equal(t, total.Next(c.known).Action == ReadNotes, c.asks, name)
		notes := map[item.Key]item.Item{}
		for i, it := range c.notes {
			notes[total.NoteKeys()[i]] = it
		}
		total.Forget(c.known, notes, t0)
		left := 0
		for _, chain := range total.Chains {
			left += len(chain.Runs)
		}
		step := total.Next(c.known)
		if left != c.left || step.Action == ReadNotes || (step.Action == Done) != (left == 0) ||
			(len(step.Behind) == 1) != (left == 0) {
			t.Errorf("%s: %d runs left, then %+v", name, left, step)
		}
	}
}
