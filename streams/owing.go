package streams

import (
	"context"
	"errors"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// errOwed fails an invocation that counted more than its lists could hold.
var errOwed = errors.New("list of what longer windows are owed not stored")

// closeAttempts is how often a throttled list is sent; normally the time ends first.
const closeAttempts = 64

// listBytes is the approximate size at which a list is stored. Lists are stored while the rest is
// counted, so little is left when the time ends. It is 64 write units, well below DynamoDB's 400
// KB.
const listBytes = 64 << 10

// owing collects in lists which longer windows lack the usage counted by one invocation. It is safe
// for concurrent use.
type owing struct {
	mu     sync.Mutex
	from   []*counting // not yet on a list
	bytes  int         // of their list
	found  []*counting // counted by an earlier attempt, and most likely on its lists
	stored int64       // number of windows on stored lists
}

// add records which longer windows are owed now, and stores a list when it is large enough. A list
// that cannot be stored is kept for the end. Buckets that were found counted wait until all are
// counted: storing them with every attempt would take the units that the rest needs.
func (o *owing) add(ctx context.Context, a *Aggregator, c *counting, found bool) {
	if len(c.owed) == 0 {
		return
	}
	o.mu.Lock()
	if found {
		o.found = append(o.found, c)
		o.mu.Unlock()
		return
	}
	o.from, o.bytes = append(o.from, c), o.bytes+c.owedBytes()
	if o.bytes < listBytes {
		o.mu.Unlock()
		return
	}
	from := o.from
	o.from, o.bytes = nil, 0
	o.mu.Unlock()
	if err := o.store(ctx, a, from, attempts); err != nil {
		o.mu.Lock()
		o.from = append(o.from, from...)
		o.mu.Unlock() // no longer part of bytes, so that not every add retries it
	}
}

// owedBytes returns the approximate size of the owed windows in a list.
func (c *counting) owedBytes() (n int) {
	for _, o := range c.owed {
		n += len(o.Namespace) + len(o.Resource) + len(o.Entity) + 16
	}
	return n
}

// storeAll stores everything that is not on a list yet. Anything that cannot be stored is not done:
// it must be counted again, which finds it counted and owes it again.
func (o *owing) storeAll(ctx context.Context, a *Aggregator, from []*counting) error {
	for len(from) > 0 {
		n, bytes := 0, 0
		for n < len(from) && bytes < listBytes {
			bytes += from[n].owedBytes()
			n++
		}
		if err := o.store(ctx, a, from[:n], closeAttempts); err != nil {
			for _, c := range from {
				c.done = false
			}
			return err
		}
		from = from[n:]
	}
	return nil
}

// store stores a list of owed windows. A list that is stored long after its creation time could be
// missed when the next windows are updated, so it is not sent then.
func (o *owing) store(ctx context.Context, a *Aggregator, from []*counting, attempts int) error {
	ctx, cancel := context.WithTimeout(ctx, owedGrace/2)
	defer cancel()
	var owed []usage.Owed
	for _, c := range from {
		owed = append(owed, c.owed...)
	}
	owed = usage.MergeOwed(owed)
	list := ledger.OwedList{Created: a.now(), Packed: usage.PackOwed(owed), TTL: a.now()/1000 + owedDays*86_400}
	put := list.Put()
	err := store.Retry(ctx, attempts, pause, func() error {
		_, err := a.store.Write(ctx, put)
		return err
	})
	if err != nil {
		return errors.Join(errOwed, err)
	}
	o.mu.Lock()
	o.stored += int64(len(owed))
	o.mu.Unlock()
	return nil
}
