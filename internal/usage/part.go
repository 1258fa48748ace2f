package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Bucket identifies a bucket. Lists of buckets are sorted by its fields.
type Bucket struct{ Namespace, Resource, Entity string }

func bucketOf(b table.Shard) Bucket { return Bucket{b.Namespace, b.Resource, b.Entity} }

// place returns where the bucket's usage is counted in a window, except for the lifetime.
func (b Bucket) place(w Window, start int64) ledger.Place {
	return ledger.Place{Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource,
		Window: string(w), Start: layout.Timestamp(start), Part: w.Part(start)}
}

// Compare returns -1, 0 or 1 if b is before, equal to or after o.
func (b Bucket) Compare(o Bucket) int {
	return cmp.Or(strings.Compare(b.Namespace, o.Namespace), strings.Compare(b.Resource, o.Resource),
		strings.Compare(b.Entity, o.Entity))
}

// Part is the runs of one bucket shard within one window of the finest kind.
type Part struct {
	Bucket
	Shard  int
	Start  int64 // of the window, epoch milliseconds
	Oldest int64 // when its first record was created, epoch milliseconds

	// Clock is the refill instant of the shard before the first record, epoch milliseconds. If it
	// is in a window, the shard was charged in that window before, so its snapshot has counted the
	// shard.
	Clock int64
	// Follows is the start of the part before this one, which is written first and counts
	// everything up to here. 0: there is none.
	Follows int64
	// Birth is the start of the window, of the kind by which parts are cut, in which the shard was
	// created; 0: unknown.
	Birth int64
	Runs  []Run // in order, not empty
}

func (p *Part) last() *Run { return &p.Runs[len(p.Runs)-1] }

// SortParts orders parts as Extend returns them: by bucket, shard and window.
func SortParts(parts []Part) {
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Start, b.Start))
	})
}
