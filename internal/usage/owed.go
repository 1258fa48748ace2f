package usage

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Owed is a snapshot of the finest kind of window that has counted what those of
// longer windows have not. They catch up once for all that comes in it.
type Owed struct {
	Namespace, Resource, Entity string
	Start                       int64 // of the window, epoch milliseconds
	Events                      int64 // records that the longer windows have not counted
}

// sibling reports whether both are of the same bucket.
func (o Owed) sibling(p Owed) bool {
	return o.Entity == p.Entity && o.Resource == p.Resource && o.Namespace == p.Namespace
}

func (o Owed) compare(p Owed) int {
	return cmp.Or(strings.Compare(o.Namespace, p.Namespace), strings.Compare(o.Resource, p.Resource),
		strings.Compare(o.Entity, p.Entity), cmp.Compare(o.Start, p.Start))
}

// MergeOwed returns all that is owed, sorted, one for each snapshot. It takes
// owed over.
func MergeOwed(owed []Owed) []Owed {
	slices.SortFunc(owed, Owed.compare)
	out := owed[:0]
	for _, o := range owed {
		if n := len(out); n > 0 && out[n-1].compare(o) == 0 {
			out[n-1].Events += o.Events
			continue
		}
		out = append(out, o)
	}
	return out
}

// Owed returns what longer windows owe once the total is counted: nothing that
// they have not counted, if that is so, costs them a read and no write.
func (t *Total) Owed() Owed {
	o := Owed{Namespace: t.Namespace, Resource: t.Resource, Entity: t.Entity, Start: t.Start}
	for _, c := range t.Chains {
		for _, r := range c.Runs {
			o.Events += r.Events
		}
	}
	return o
}

// Key returns the key of the snapshot that is ahead.
func (o Owed) Key(finest Window) item.Key {
	return table.UsageKey(o.Namespace, o.Entity, o.Resource, finest.Part(o.Start))
}

// OwedChunks cuts sorted lists of what is owed into parts of at most n, or of one
// bucket, never within a bucket.
func OwedChunks(owed []Owed, n int) iter.Seq[[]Owed] {
	return func(yield func([]Owed) bool) {
		for from := 0; from < len(owed); {
			cut, to := from, from
			for to < len(owed) && (to-from < n || cut == from) {
				if to++; to == len(owed) || !owed[to].sibling(owed[to-1]) {
					if cut > from && to-from > n {
						break
					}
					cut = to
				}
			}
			if !yield(owed[from:cut]) {
				return
			}
			from = cut
		}
	}
}

// OwedTotals returns what a longer kind of window owes: to count as far
// as the snapshots do that are ahead, in the order of owed, which is sorted. Nil
// ones say nothing.
func OwedTotals(owed []Owed, ahead []item.Item, w Window) []Total {
	var parts []Part
	for i, o := range owed {
		marks := table.MarksOf(ahead[i])
		events := o.Events // of all shards together
		for _, shard := range marks.Shards() {
			m, ok := marks.Shard(shard)
			if !ok || len(m.Used) == 0 && !m.Gone {
				continue
			}
			parts = append(parts, Part{
				Namespace: o.Namespace, Resource: o.Resource, Entity: o.Entity, Shard: shard, Start: o.Start,
				Runs: []Run{markRun(m)},
			})
			parts[len(parts)-1].Runs[0].Events = events
			events = 0
		}
	}
	SortParts(parts)
	var out []Total
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].Sibling(&parts[0]) {
			n++
		}
		out = append(out, Totals(parts[:n], w, false)...)
		parts = parts[n:]
	}
	return out
}
