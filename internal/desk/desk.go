package desk

import (
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Desk is where the requests of this process for one bucket meet. It owns everything that this process
// has of the bucket: its images, requests with a call under way, requests that wait for tokens, the slots of
// leases, the local share, and the breaker.
type Desk struct {
	*decide.Bucket
	Name      decide.Name
	Notes     any            // made by Options.Notes
	Throttled Breaker        // of requests that were throttled: a hot bucket is its own trouble
	local     *localBucket   // guarded by Locals.mu; nil is none; the desk is pinned while there is one
	room      waitqueue.Room // the desk is pinned while somebody is in it
	shelf     inflight.Shelf // the desk is pinned while leases hold slots of it
	drain     draining
	growing   atomic.Bool // its shards are being changed; the desk is pinned meanwhile
	position  position    // among the desks
}
