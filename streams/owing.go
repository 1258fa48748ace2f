package streams

import (
	"context"
	"errors"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// errOwed fails an invocation that counted more than it could list.
var errOwed = errors.New("list of what longer windows are owed not stored")

// closeAttempts is how often a list is sent that is throttled: until time is up.
const closeAttempts = 64

// listBytes is about how large a list grows before it is stored. Lists are stored while the rest is
// counted, so that little is left when time is up. It is 64 write units, well below DynamoDB's 400
// KB.
const listBytes = 64 << 10

// owing collects which longer windows lack what one invocation has counted, on the way into lists.
// It is safe for concurrent use.
type owing struct {
	mu     sync.Mutex
	from   []*counting // that no list says yet
	bytes  int         // of their list
	found  []*counting // that an attempt before had counted, and has said most likely
	stored int64       // in lists
}

// add notes which longer windows are owed now, and stores a list when there is enough for one. A
// list that cannot be stored is kept for the end. Buckets that were found counted wait until all
// are counted: storing them with every attempt would take the units that the rest needs.
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
		o.mu.Unlock() // not in bytes, so that it is not tried again with each one
	}
}

// owedBytes is about what the owed takes in a list.
func (c *counting) owedBytes() (n int) {
	for _, o := range c.owed {
		n += len(o.Namespace) + len(o.Resource) + len(o.Entity) + 16
	}
	return n
}

// storeAll stores what no list says yet. What cannot be stored is not done: it has to be
// counted again, which finds it counted and owes it anew.
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

// store keeps what longer windows are owed for later. A list that is stored long after the
// time that it says could be missed by the next catching up. So it is not sent then.
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
