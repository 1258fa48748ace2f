package admin

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Limits that are not wanted any more are dropped from a bucket when they are full, or when
// they were stored before, and the meter never is.
func TestUnwantedLimitsAreDroppedWhenFull(t *testing.T) {
	limit := func(name string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: 10_000, Amount: 10_000, Period: 60_000}
	}
	image := table.Shard{State: bucket.New([]bucket.Limit{limit("full"), limit("kept"), limit("spent"), limit("stored")},
		0, 1, start)}
	for _, name := range []string{"kept", "spent", "stored"} {
		image.State.Slots[image.State.Index(name)].Tokens = 0
	}
	image.Partial = []table.PartialLimit{{Name: "half"}, {Name: "kept"}}
	b := bringing{want: []bucket.Limit{limit("kept")}, before: []string{"stored", "kept"}}
	got := b.dropped(image, start)
	check.Slices(t, got, []string{"full", "stored", "half"}, "dropped")
	for i := range 2 * maxDropped { // one write names so many, the next one others
		image.Partial = append(image.Partial, table.PartialLimit{Name: fmt.Sprint("p", i)})
	}
	check.Equal(t, len(b.dropped(image, start)), maxDropped)
}

// What is half of a limit, with no numbers to go by, leaves a bucket with all its attributes, and the rest
// stays as it is.
func TestHalfALimitLeaves(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 4})
	w.spoil("acme", 0, item.Item{"b_half_tk": item.N(5), "b_half_tc": item.N(7)})
	if b := w.bucket("acme", "gpt-4", 0); len(b.Partial) != 1 || b.Partial[0].Name != "half" {
		t.Fatalf("partial: %+v", b.Partial)
	}
	got, err := w.ns.Reach(t.Context(), Scope{})
	w.must(err)
	check.Equal(t, got, Reached{Buckets: 1, Changed: 1}, "reached")
	w.holds("acme", "gpt-4", 1, rpm10)
	check.Equal(t, w.left(), 6)
}
