package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// tenant is an entity on a resource.
type tenant struct {
	entity, resource string
	limits           []limiter.Limit
	most             int64 // the largest request, in tokens of tpm
}

// call is a request of the tenant.
func (tn tenant) call(costs limiter.Costs) clients.Call {
	return clients.Call{
		Request: limiter.Request{Entity: tn.entity, Resource: tn.resource, Costs: costs, Limits: tn.limits}}
}

// load is the clients' workload.
type load struct {
	clients int
	tenants []tenant
	calls   int // of each client
	seed    uint64
	settle  bool // some requests are adjusted or rolled back
}

// play lets clients, each with its own caches, make requests. It returns what they know.
func (r *rig) play(w load) *clients.Book {
	r.t.Helper()
	l := new(clients.Book)
	r.playOn(l, w)
	return l
}

// playOn is play, with an existing book.
func (r *rig) playOn(l *clients.Book, w load) {
	r.t.Helper()
	var wg sync.WaitGroup
	for i := range w.clients {
		lim := r.open()
		random := rand.New(rand.NewPCG(w.seed, uint64(i)))
		wg.Go(func() {
			for n := range w.calls {
				err := l.Make(r.t.Context(), lim, w.call(w.tenants[(i+n)%len(w.tenants)], random))
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					time.Sleep(min(denied.RetryAfter, 20*time.Millisecond)) // the advised wait, or until the next request
				}
			}
		})
	}
	wg.Wait()
}

// call returns a request. Of eight requests, one is rolled back and three are adjusted.
func (w load) call(tn tenant, random *rand.Rand) clients.Call {
	c := tn.call(limiter.Costs{"rpm": 1})
	if tn.most > 0 {
		c.Costs["tpm"] = 1 + random.Int64N(tn.most)
	}
	switch n := random.IntN(8); {
	case !w.settle:
	case n == 0:
		c.Fails = true
	case n < 4:
		c.Settle = limiter.Costs{"tpm": random.Int64N(c.Costs["tpm"] + 20)}
	}
	return c
}

// calm ends all trouble, and uses the hot bucket until each of its shards has the count of shard 0.
// After trouble, a split may be incomplete; clients that use the shards complete it. When calm
// returns, there are no more writes.
func (r *rig) calm(l *clients.Book) {
	r.t.Helper()
	r.Proxy.Clear()
	r.Clients.Clear()
	for begin := time.Now(); ; {
		check.Must(r.t, r.Clients.Up())
		lim := r.open()
		for n := 0; n < 400 && r.behind(hot) != ""; n++ {
			c := hot.call(limiter.Costs{"rpm": 1, "tpm": 1})
			c.Fails = true // gives them back
			_ = l.Make(r.t.Context(), lim, c)
		}
		r.Clients.Down() // a split that is cut off leaves a shard behind again
		r.rest()
		behind := r.behind(hot)
		switch {
		case behind == "":
			return
		case time.Since(begin) > patience:
			r.t.Errorf("%s, although it is used", behind)
			return
		}
	}
}

// behind names a shard without the count of shard 0, or returns "".
func (r *rig) behind(tn tenant) string {
	r.t.Helper()
	zero, ok := r.shard(tn.entity, tn.resource, 0)
	for k := 1; ok && k < zero.State.Shards; k++ {
		if b, _ := r.shard(tn.entity, tn.resource, k); b.State.Shards != zero.State.Shards {
			return fmt.Sprintf("%s/%s: shard %d is at the count %d, shard 0 at %d", tn.entity, tn.resource, k,
				b.State.Shards, zero.State.Shards)
		}
	}
	return ""
}

// seeded returns a tenant's full bucket, with a write meter of so many writes per second; zero
// means DynamoDB's.
func (r *rig) seeded(tn tenant, meter int64) table.Shard {
	return clients.Full(r.ns(), tn.entity, tn.resource, tn.limits, meter, now())
}
