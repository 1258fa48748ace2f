package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// book is the clients' own bookkeeping. It is safe for concurrent use.
type book struct {
	loadcheck.Book
	mu   sync.Mutex
	errs []error // what nothing explains

	settled atomic.Int64 // leases that settle was given

	granted, denied, unavailable, unknown, adjusted, rolledBack int
}

// tenant is an entity on a resource.
type tenant struct {
	entity, resource string
	limits           []limiter.Limit
	most             int64 // tokens of tpm that a request takes at most
}

// call is one thing a client asked for: costs are tokens by limit, positive ones
// are taken, negative ones given back.
type call struct {
	tenant         tenant
	costs          limiter.Costs
	sent, answered int64
}

// account is what the tenant has of a limit.
func (tn tenant) account(limit string) loadcheck.Account {
	return loadcheck.Account{Entity: tn.entity, Resource: tn.resource, Limit: limit}
}

// grant books what was granted.
func (l *book) grant(c call) {
	l.count(&l.granted)
	for _, lim := range c.tenant.limits {
		l.Granted(c.tenant.account(lim.Name), loadcheck.Rule{From: c.sent, To: c.answered, Capacity: lim.Capacity,
			Amount: lim.Refill, Period: lim.Period.Milliseconds()}, c.costs[lim.Name])
	}
}

func (l *book) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

func (l *book) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// load is what clients do.
type load struct {
	clients int
	tenants []tenant
	calls   int // of each client
	seed    uint64
	settle  bool // some requests are adjusted or rolled back
}

// play lets clients with caches of their own make requests, and returns what
// they know.
func (r *rig) play(w load) *book {
	r.t.Helper()
	l := new(book)
	r.playOn(l, w)
	return l
}

// playOn is play, with the same bookkeeping.
func (r *rig) playOn(l *book, w load) {
	r.t.Helper()
	var wg sync.WaitGroup
	for i := range w.clients {
		lim := r.open()
		random := rand.New(rand.NewPCG(w.seed, uint64(i)))
		wg.Go(func() {
			for n := range w.calls {
				l.one(r.t.Context(), lim, w, w.tenants[(i+n)%len(w.tenants)], random)
			}
		})
	}
	wg.Wait()
}

// calm ends what disturbs functions and clients, and uses the hot bucket until none of its
// shards is behind the count of shard 0. Trouble may make whoever splits give up half-way:
// a client takes up what was left once it serves requests there. Nobody writes any more
// when it returns.
func (r *rig) calm(l *book) {
	r.t.Helper()
	r.Proxy.Clear()
	r.clients.Clear()
	for begin := time.Now(); ; {
		if err := r.clients.Up(); err != nil {
			r.t.Fatal(err)
		}
		lim := r.open()
		for n := 0; n < 400 && r.behind(hot) != ""; n++ {
			l.touch(r.t.Context(), lim, hot)
		}
		r.clients.Down() // a split that it cuts off leaves a shard behind once more
		r.rest()
		behind := r.behind(hot)
		switch {
		case behind == "":
			return
		case time.Since(begin) > patience:
			r.t.Errorf("%s, whoever uses it", behind)
			return
		}
	}
}

// behind names a shard that is not at the count of shard 0, "" for none.
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

// touch takes a token of each limit and gives them back.
func (l *book) touch(ctx context.Context, lim *limiter.Limiter, tn tenant) {
	c := call{tenant: tn, costs: limiter.Costs{"rpm": 1, "tpm": 1}}
	lease := l.take(ctx, lim, &c)
	if lease == nil {
		return
	}
	l.giveBack(ctx, lease, tn, limiter.Costs{"rpm": -1, "tpm": -1}, lease.Rollback, &l.rolledBack)
}

// one plays one request: acquire and, in some cases, settle.
func (l *book) one(ctx context.Context, lim *limiter.Limiter, w load, tn tenant, random *rand.Rand) {
	c := call{tenant: tn, costs: limiter.Costs{"rpm": 1}}
	if tn.most > 0 {
		c.costs["tpm"] = 1 + random.Int64N(tn.most)
	}
	if lease := l.take(ctx, lim, &c); lease != nil && w.settle {
		l.settle(ctx, lease, tn, c.costs, random)
	}
}

// take acquires the costs of a call and books what came of it. It returns nil if they were
// not granted for certain.
func (l *book) take(ctx context.Context, lim *limiter.Limiter, c *call) *limiter.Lease {
	c.sent = now()
	lease, err := lim.Acquire(ctx,
		limiter.Request{Entity: c.tenant.entity, Resource: c.tenant.resource, Costs: c.costs, Limits: c.tenant.limits})
	c.answered = now()
	denied, isDenied := errors.AsType[*limiter.LimitError](err)
	switch {
	case isDenied:
		l.count(&l.denied)
		time.Sleep(min(denied.RetryAfter, 20*time.Millisecond)) // as told, or until the next request
	case errors.Is(err, limiter.ErrUnavailable):
		l.count(&l.unavailable)
	case errors.Is(err, limiter.ErrUnknown):
		l.count(&l.unknown)
		for limit, n := range c.costs {
			l.Settled(c.tenant.account(limit), c.sent, c.answered, n, false)
		}
	case err != nil:
		l.fail(err)
	default:
		l.grant(*c)
		return lease
	}
	return nil
}

// settle ends a lease: of eight in a row one is rolled back, three are adjusted.
func (l *book) settle(ctx context.Context, lease *limiter.Lease, tn tenant, costs limiter.Costs, random *rand.Rand) {
	back := limiter.Costs{}
	switch l.settled.Add(1) % 8 {
	case 1:
		for limit, n := range costs {
			back[limit] = -n
		}
		l.giveBack(ctx, lease, tn, back, lease.Rollback, &l.rolledBack)
	case 2, 4, 6:
		back["tpm"] = random.Int64N(costs["tpm"]+20) - costs["tpm"]
		if err := lease.Settle(limiter.Costs{"tpm": costs["tpm"] + back["tpm"]}); err != nil {
			l.fail(err)
			return
		}
		l.giveBack(ctx, lease, tn, back, lease.Commit, &l.adjusted)
	}
}

// giveBack ends a lease by act, which changes what was taken by costs, and books that.
func (l *book) giveBack(ctx context.Context, lease *limiter.Lease, tn tenant, costs limiter.Costs,
	act func(context.Context) error, count *int) {
	back := call{tenant: tn, costs: costs, sent: now()}
	err := act(ctx)
	for try := 0; errors.Is(err, limiter.ErrUnavailable) && try < 10; try++ {
		err = act(ctx)
	}
	back.answered = now()
	switch {
	case errors.Is(err, limiter.ErrUnknown):
		count = &l.unknown
	case err != nil:
		l.fail(err)
		return
	}
	l.count(count)
	for limit, n := range back.costs {
		l.Settled(tn.account(limit), back.sent, back.answered, n, err == nil)
	}
}

// stored are limits in the units of the table.
func stored(limits []limiter.Limit) []bucket.Limit {
	out := make([]bucket.Limit, 0, len(limits))
	for _, l := range limits {
		out = append(out, bucket.Limit{Name: l.Name, Capacity: l.Capacity * bucket.Milli, Amount: l.Refill * bucket.Milli,
			Period: l.Period.Milliseconds()})
	}
	return out
}

// seeded returns a tenant's bucket, full, with a write meter of so many writes per second; zero is
// DynamoDB's own.
func (r *rig) seeded(tn tenant, meter int64) table.Shard {
	b := table.Shard{Namespace: r.ns(), Entity: tn.entity, Resource: tn.resource,
		State: bucket.New(stored(tn.limits), 0, 1, now())}
	if i := b.State.Index(bucket.WCU); meter > 0 {
		sl := &b.State.Slots[i]
		sl.Capacity, sl.Amount, sl.Period, sl.Tokens = meter*bucket.Milli, meter*bucket.Milli, 1000, meter*bucket.Milli
	}
	return b
}
