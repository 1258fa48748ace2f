package limiter

import (
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// What the records of one entity and resource come to is kept at the desk of the bucket until the
// first of them has to be read again: a busy process asks for nothing else. Where there is no desk
// yet, it is worked out from the records each time.

// notes are what this package keeps at the desk of a bucket.
type notes struct {
	valid atomic.Pointer[valid]
	warm  [2]atomic.Pointer[warm] // see warmFor
}

// valid are limits that requests have brought, as they were passed and as they are stored.
// Neither is changed any more.
type valid struct {
	limits []Limit
	stored []bucket.Limit
}

// warm is configuration that holds from one instant until before another, epoch ms, and unless the
// records were dropped since it was worked out. It is not changed any more.
type warm struct {
	cfg         resolved
	from, until int64
	forgotten   int64 // how often the records had been dropped when they were taken
}

// warmFor returns where the configuration of a desk is kept: calls that bring limits along need
// fewer records.
func (n *notes) warmFor(own bool) *atomic.Pointer[warm] {
	if own {
		return &n.warm[1]
	}
	return &n.warm[0]
}

// ready returns the configuration in force for n, as resolve does, if it is known without
// I/O and without looking at each record. A call with limits of its own has to set them.
func (c *configs) ready(n decide.Name, own bool, now int64) (resolved, bool) {
	k := c.desks.Peek(n)
	if k == nil {
		return resolved{}, false
	}
	w := k.Notes.(*notes).warmFor(own).Load()
	if w == nil || w.forgotten != c.forgotten.Load() || now < w.from || now >= w.until {
		return resolved{}, false
	}
	return w.cfg, true
}

// keep notes what records come to that are all fresh.
func (c *configs) keep(n decide.Name, own bool, w warm) {
	k := c.desks.Peek(n)
	if k == nil || w.until <= w.from {
		return
	}
	if own {
		w.cfg.limits = nil // the call has them
	}
	k.Notes.(*notes).warmFor(own).Store(&w)
}

// forget drops all cached configuration.
func (c *configs) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Purge()
	c.forgotten.Add(1)
}
