package table_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Python's operator resets or credits a bucket without a generation, and sets vu to 0. A process with an earlier
// image does not take that back, whichever client charges first after it: its charge is refused, or it adds up. Only
// the trace at a rate is lost with Python's next request.
func TestEarlierImagesKeepWhatPythonGives(t *testing.T) {
	limits := map[string]bucket.Limit{
		"rate":           {Name: "q", Capacity: 10_000, Amount: 1, Period: 1 << 40},
		"quota":          {Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"},
		"from first use": {Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"},
	}
	// Each changes the item as Python does, and returns what it gives.
	operations := map[string]func(l bucket.Limit, it item.Item) int64{
		"top-up": func(l bucket.Limit, it item.Item) int64 {
			add(it, "b_q_tk", 3_000)
			if l.Renews() {
				add(it, "b_q_tu", 3_000)
			}
			return 3_000
		},
		"reset": func(l bucket.Limit, it item.Item) int64 {
			add(it, "b_q_tk", 4_000)
			if l.Renews() {
				add(it, "b_q_rn", 1)
				delete(it, "b_q_tu")
			}
			return 4_000
		},
	}
	for kind, l := range limits {
		for operation, give := range operations {
			for _, next := range []string{"nothing", "ours", "Python's", "Python's and ours"} {
				if kind != "quota" && operation == "reset" && l.Renews() || kind == "rate" && next[0] == 'P' {
					continue // a window from the first use ends with a reset; a rate has no trace
				}
				name := fmt.Sprint(operation, " of a ", kind, ", then ", next)
				if level, want := afterOperation(t, l, give, next); level != want {
					t.Errorf("%s: level %d, want %d", name, level, want)
				}
			}
		}
	}
}

// afterOperation has Python operate on a bucket of 10 less 4, then the next clients take 1 each, and at last a process
// that remembers the bucket from before. It returns the level and what the naive sum says.
func afterOperation(
	t *testing.T, l bucket.Limit, give func(bucket.Limit, item.Item) int64, next string,
) (level, want int64) {
	t.Helper()
	const later = noon + 1000
	put, _ := create(noon, table.Costs([]bucket.Limit{l}, 4_000))
	earlier := decode(t, put.Item)
	it := maps.Clone(put.Item)
	want = 6_000 + give(l, it)
	until := it["vu"]
	it["vu"], it["rf"] = item.N(0), item.N(later)
	if next[0] == 'P' {
		add(it, "b_q_tk", -1_000)
		add(it, "b_q_tc", 1_000)
		it["vu"] = until
		want -= 1_000
	}
	if next == "ours" || next == "Python's and ours" {
		it, _ = chargeOf(t, it, 1_000, later)
		want -= 1_000
	}
	costs := table.Costs(earlier.State.Limits(), 1_000)
	after, held, err := table.Charge{Image: earlier, Costs: costs, Now: later}.Plan().Update.Apply(it)
	check.Must(t, err)
	if !held {
		after, held = chargeOf(t, it, 1_000, later)
	}
	check.MustEqual(t, held, true, "granted")
	b := decode(t, after)
	return b.State.Slots[b.State.Index("q")].Tokens, want - 1_000
}

func add(it item.Item, attr string, by int64) {
	n, _, _ := item.Int(it, attr)
	it[attr] = item.N(n + by)
}
