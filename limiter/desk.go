package limiter

import (
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/slots"
)

// desk is where the requests of this process for one bucket meet. It owns all that this process
// has of the bucket: what is known of it, the requests that wait and their calls, those that wait
// for tokens, the slots of its leases, the configuration in force, the share of PolicyLocal,
// and the breaker.
type desk struct {
	*decide.Bucket
	name      decide.Name
	valid     atomic.Pointer[valid]
	warm      [2]atomic.Pointer[warm] // see warmFor
	throttled breaker                 // of requests that were throttled: a hot bucket is its own trouble
	local     *localBucket            // guarded by locals.mu; nil is none; the desk is pinned while there is one
	room      queue.Room              // the desk is pinned while somebody is in it
	shelf     slots.Shelf             // the desk is pinned while leases hold slots of it
	growing   atomic.Bool             // its shards are being changed; the desk is pinned meanwhile
	position  position                // among the desks
}

// valid are limits that requests have brought, as they were passed and as they are stored.
// Neither is changed any more.
type valid struct {
	limits []Limit
	stored []bucket.Limit
}
