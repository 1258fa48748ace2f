package limiter

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/internal/known"
)

// What the records of one entity and resource come to is kept until the first of them has
// to be read again: a busy process asks for nothing else.

// warmKey is whose configuration it is; calls that bring limits along need fewer records.
type warmKey struct {
	name known.Name
	own  bool
}

// warm is configuration that holds from one instant until before another, epoch ms.
type warm struct {
	cfg         resolved
	from, until int64
}

func newWarm(size int) *simplelru.LRU[warmKey, warm] {
	cache, err := simplelru.NewLRU[warmKey, warm](size, nil)
	if err != nil {
		panic("bug: " + err.Error()) // the size is validated
	}
	return cache
}

// ready returns the configuration in force for n, as resolve does, if it is known without
// I/O and without looking at each record. A call with limits of its own has to set them.
func (c *configs) ready(n known.Name, own bool, now int64) (resolved, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.warm.Get(warmKey{n, own})
	if !ok || now < w.from || now >= w.until {
		return resolved{}, false
	}
	return w.cfg, true
}

// keep notes what records come to that are all fresh. forgotten is how often the cache had
// been dropped when they were taken from it.
func (c *configs) keep(n known.Name, own bool, w warm, forgotten int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.until <= w.from || forgotten != c.forgotten {
		return
	}
	if own {
		w.cfg.limits = nil // those of the call
	}
	c.warm.Add(warmKey{n, own}, w)
}

// forget drops all cached configuration.
func (c *configs) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Purge()
	c.warm.Purge()
	c.forgotten++
}
