package usage

import (
	"cmp"
	"slices"
	"strings"
)

// Part is the runs of one bucket shard that fall into one window of the finest
// kind.
type Part struct {
	Namespace, Entity, Resource string
	Shard                       int
	Start                       int64 // of the window, epoch milliseconds
	Oldest                      int64 // creation of its first record, epoch milliseconds

	// Clock is the refill instant of the shard before the first record, epoch
	// milliseconds. If it lies in a window, the shard was charged in that
	// before, so that the snapshot has counted it.
	Clock int64
	// Follows is the start of the part that this one follows: that is written first, and
	// counts everything up to here. 0: there was none.
	Follows int64
	// Birth is the start of the window in which the shard was created, of the kind
	// that parts are cut by; 0: not known.
	Birth int64
	Runs  []Run // in order, not empty
}

// compare orders parts by bucket, shard and window.
func (p *Part) compare(o *Part) int { return cmp.Or(p.compareShard(o), cmp.Compare(p.Start, o.Start)) }

func (p *Part) compareShard(o *Part) int {
	return cmp.Or(strings.Compare(p.Namespace, o.Namespace), strings.Compare(p.Resource, o.Resource),
		strings.Compare(p.Entity, o.Entity), cmp.Compare(p.Shard, o.Shard))
}

// Sibling reports whether both are of the same bucket.
func (p *Part) Sibling(o *Part) bool {
	return p.Entity == o.Entity && p.Resource == o.Resource && p.Namespace == o.Namespace
}

func (p *Part) last() *Run { return &p.Runs[len(p.Runs)-1] }

// SortParts orders parts as Extend returns them.
func SortParts(parts []Part) {
	slices.SortStableFunc(parts, func(a, b Part) int { return a.compare(&b) })
}
