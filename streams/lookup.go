package streams

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// lookAfter is the number of buckets found already counted after which the snapshots of the
	// others are read first, because an earlier attempt got that far.
	lookAfter = 8

	// lookAtOnce is how many buckets one call looks up.
	lookAtOnce = item.MaxReadKeys / 2

	// lookBytes is the size up to which a snapshot is held until its bucket is counted. Few of ours
	// are larger, but another client's may have 400 KB.
	lookBytes = 16 << 10
)

// lookup finds out what an earlier attempt has already counted. A repeated invocation counts the
// same usage in the same order, and each bucket that is already counted would cost it a refused
// write. A first attempt pays nothing: it looks nothing up until it finds several buckets counted,
// and more of them than it has counted itself.
type lookup struct {
	agg          *Aggregator
	due          map[*counting]*looked
	found, wrote atomic.Int64
}

// looked are buckets looked up together.
type looked struct {
	claimed atomic.Bool
	read    chan struct{} // closed when items are set
	these   []*counting
	items   map[item.Key]item.Item
}

func newLookup(a *Aggregator, due []*counting) *lookup {
	l := &lookup{agg: a, due: make(map[*counting]*looked, len(due))}
	var group *looked
	for i, c := range due {
		if i%lookAtOnce == 0 {
			group = &looked{read: make(chan struct{})}
		}
		group.these = append(group.these, c)
		l.due[c] = group
	}
	return l
}

// learn records how many writes it took to count a bucket.
func (l *lookup) learn(writes int) {
	if writes == 0 {
		l.found.Add(1)
	} else {
		l.wrote.Add(1)
	}
}

// snapshots returns a bucket's finest snapshots that were looked up. A missing one is unknown or
// absent.
func (l *lookup) snapshots(ctx context.Context, c *counting) map[item.Key]item.Item {
	if found := l.found.Load(); found < lookAfter || found < l.wrote.Load() {
		return nil
	}
	group := l.due[c]
	if group.claimed.CompareAndSwap(false, true) {
		group.items = l.read(ctx, group.these)
		close(group.read)
	}
	<-group.read // the call is bounded
	return group.items
}

func (l *lookup) read(ctx context.Context, these []*counting) map[item.Key]item.Item {
	var all []usage.Total
	for _, c := range these {
		all = append(all, usage.Totals(c.parts, l.agg.kinds()[0])...)
	}
	keys := make([]item.Key, len(all))
	for i := range all {
		keys[i] = all[i].Key()
	}
	items, _ := l.agg.readAll(ctx, true, keys) // nil if it fails: counting reads the snapshots itself
	maps.DeleteFunc(items, func(_ item.Key, it item.Item) bool { return item.Size(it) > lookBytes })
	return items
}
