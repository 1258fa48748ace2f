package table

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// When Python's operator resets or credits a bucket, it sets vu to 0 and begins no generation. A
// process with an earlier image does not undo that, whichever client charges first: its charge is
// refused, or adds to the new level. Only for a rate, Python's next request removes the trace.
func TestEarlierImagesKeepPythonsCredits(t *testing.T) {
	limits := map[string]bucket.Limit{
		"rate":           {Name: "q", Capacity: 10_000, Amount: 1, Period: 1 << 40},
		"quota":          newQuota("q", 10_000, "m0h0@UTC"),
		"from first use": newQuota("q", 10_000, "+3600"),
	}
	edge := newQuota("r", 10_000, "m30@UTC")
	// Each operation changes the item as Python does, and returns the tokens given.
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
			switch {
			case l.FirstUse() > 0: // ends its window, so the next use begins one
				add(it, "b_q_ws", -l.FirstUse())
				add(it, "b_q_wa", -l.FirstUse())
			case l.Renews():
				add(it, "b_q_rn", 1)
			}
			return 4_000
		},
	}
	for kind, l := range limits {
		for operation, give := range operations {
			for _, next := range []string{"nothing", "ours", "Python's", "Python's and ours"} {
				if kind == "rate" && next[0] == 'P' {
					continue // a rate has no trace
				}
				for with, all := range map[string][]bucket.Limit{"": {l}, " with an edge": {l, edge}} {
					name := fmt.Sprint(operation, " of a ", kind, with, ", then ", next)
					level, want := afterOperation(t, all, give, next)
					check.Equal(t, level, want, name)
				}
			}
		}
	}
}

// afterOperation runs an operation of Python on the first limit of a bucket, which has 10 minus 4
// tokens. Then other clients take 1 each, and last a process with an image from before. It returns
// the level, and the naive sum.
func afterOperation(
	t *testing.T, limits []bucket.Limit, give func(bucket.Limit, item.Item) int64, next string,
) (level, want int64) {
	t.Helper()
	const later = noon + 1000
	put, _ := create(noon, Costs(limits, 4_000))
	earlier := decode(t, put.Item)
	it := maps.Clone(put.Item)
	want = 6_000 + give(limits[0], it)
	until := it["vu"]
	it["vu"], it["rf"] = item.N(0), item.N(later)
	if next[0] == 'P' {
		add(it, "b_q_tk", -1_000)
		add(it, "b_q_tc", 1_000)
		if start, _, _ := item.Int(it, "b_q_ws"); start > 0 && start < noon {
			it["b_q_ws"], it["b_q_wa"] = item.N(later), item.N(later)
		}
		it["vu"] = until
		want -= 1_000
	}
	if next == "ours" || next == "Python's and ours" {
		it, _ = chargeOf(t, it, 1_000, later)
		want -= 1_000
	}
	costs := Costs(earlier.State.Limits(), 1_000)
	after, held, err := Charge{Image: earlier, Costs: costs, Now: later}.Plan().Update.Apply(it)
	check.Must(t, err)
	if !held {
		after, held = chargeOf(t, it, 1_000, later)
	}
	check.MustEqual(t, held, true, "granted")
	b := decode(t, after)
	return b.State.Slots[b.State.Index("q")].Tokens, want - 1_000
}

// Python begins the window of one quota, while another waits for its first use.
func TestEarlierImagesKeepTheWindowThatPythonBegins(t *testing.T) {
	q := newQuota("q", 10_000, "+3600")
	r := q
	r.Name = "r"
	put, _ := create(noon, Costs([]bucket.Limit{q, r}))
	costs, it := Costs([]bucket.Limit{q, r}, 1_000), maps.Clone(put.Item)
	it["b_q_ws"], it["b_q_wa"], it["b_q_tk"], it["b_q_tc"] = item.N(noon), item.N(noon), item.N(0), item.N(10_000)
	u := Charge{Image: decode(t, put.Item), Costs: costs, Now: noon + 1000}.Plan().Update
	check.Equal(t, u.If.Holds(put.Item), true, "nobody began it")
	check.Equal(t, u.If.Holds(it), false, "after Python began it and took everything")
}

// A merge is refused if Python has reset or credited the shard that it deletes.
func TestMergesKeepPythonsCredits(t *testing.T) {
	quota := newQuota("q", 10_000, "m0h0@UTC")
	rate := bucket.Limit{Name: "r", Capacity: 10_000, Amount: 1, Period: 1 << 40}
	put, _ := create(noon, Costs([]bucket.Limit{quota, rate}, 4_000, 4_000))
	split := Split(decode(t, put.Item), noon)
	whole, sibling := decode(t, applied(t, split[0].(item.Update), put.Item)), split[1].(item.Put).Item
	gone := Merge(whole, decode(t, sibling), 1, noon+1000)[0].(item.Delete).If
	check.Equal(t, gone.Holds(sibling), true, "nothing given")
	for attr, n := range map[string]int64{"vu": 0, "b_q_tu": 3_000, "b_q_rn": 1} {
		given := maps.Clone(sibling)
		given[attr] = item.N(n)
		check.Equal(t, gone.Holds(given), false, attr)
	}
}

func add(it item.Item, attr string, by int64) {
	n, _, _ := item.Int(it, attr)
	it[attr] = item.N(n + by)
}
