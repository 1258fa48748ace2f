package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Owed names a day that may lack counts of its hours since it was summed, and the month around it.
// In general: a window of the kind next to the finest, and the longer ones around it.
type Owed struct {
	Namespace, Resource, Entity string
	Start                       int64 // of the window, epoch milliseconds
}

// Sibling reports whether both are of the same bucket.
func (o Owed) Sibling(p Owed) bool {
	return o.Entity == p.Entity && o.Resource == p.Resource && o.Namespace == p.Namespace
}

func (o Owed) compare(p Owed) int {
	return cmp.Or(strings.Compare(o.Namespace, p.Namespace), strings.Compare(o.Resource, p.Resource),
		strings.Compare(o.Entity, p.Entity), cmp.Compare(o.Start, p.Start))
}

// MergeOwed returns all that is owed, sorted, each once. It takes owed over.
func MergeOwed(owed []Owed) []Owed {
	slices.SortFunc(owed, Owed.compare)
	return slices.Compact(owed)
}

// Owed returns the sum that is owed once a window of the bucket that begins at start is counted;
// next is the kind next to the finest.
func (t *Total) Owed(start int64, next Window) Owed {
	return Owed{Namespace: t.Namespace, Resource: t.Resource, Entity: t.Entity, Start: next.Start(start)}
}

// sum is the sum of a window that begins at start.
func (o Owed) sum(w Window, start int64) ledger.Sum {
	return ledger.Sum{
		Namespace: o.Namespace, Resource: o.Resource, Entity: o.Entity,
		Window: string(w), Start: layout.Timestamp(start), Part: w.Part(start),
	}
}
