package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// maxAttempts bounds the writes of one Acquire. Every refused write brings
	// the image that explains it, so more than a few mean that others take what
	// there is.
	maxAttempts = 24
	// contentionPause is the base of the jittered pause after DynamoDB slowed us
	// down or a transaction held the item.
	contentionPause = 2 * time.Millisecond
)

// Acquire takes the costs from all limits of an entity and resource, all or
// nothing, and returns a lease on what it took. Warm, it sends one UpdateItem
// and reads nothing; a request that the last image of the bucket cannot cover
// is denied without any call until that image is older than Options.DenyFor.
//
// It blocks for as long as the calls take, bounded by ctx and Options.Timeout,
// and never waits for tokens. Errors are one of ErrLimited (a *LimitError),
// ErrUnavailable, ErrUnknown, ErrInvalid, ErrTooLarge, ErrNoLimits and
// ErrCascade. Under policy Allow, ErrUnavailable and ErrUnknown become a lease
// that has charged nothing, unless the caller itself canceled ctx.
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	own, err := req.validate()
	if err != nil {
		return nil, err
	}
	n := name{req.Entity, req.Resource}
	bounded, cancel := l.bounded(ctx)
	defer cancel()
	cfg, err := l.configs.resolve(bounded, n, own, l.now())
	if err != nil {
		return l.unresolved(ctx, req, n, cfg, err)
	}
	if cfg.cascade {
		return nil, &opError{"acquire", n.entity, n.resource, ErrCascade, fmt.Errorf("its parent is %q", cfg.parent)}
	}
	costs, err := price(req.Costs, cfg.limits)
	if err != nil {
		return nil, err
	}
	w := want{namespace: l.namespace, name: n, limits: cfg.limits, costs: costs, life: table.Expires, parent: cfg.parent}
	if cfg.own {
		w.life = table.NeverExpires
	}
	lease, err := l.take(bounded, w)
	if store.KindOf(err) != 0 {
		return l.undecided(ctx, req, n, cfg.policy, err)
	}
	return lease, err
}

// unresolved turns a failed resolution into the caller's error or policy.
func (l *Limiter) unresolved(ctx context.Context, req Request, n name, cfg resolved, err error) (*Lease, error) {
	switch {
	case errors.Is(err, errNoLimits):
		return nil, &opError{"acquire", n.entity, n.resource, ErrNoLimits, nil}
	case errors.Is(err, ErrInvalid):
		return nil, &opError{"acquire", n.entity, n.resource, ErrInvalid, err}
	case errors.Is(err, ErrNamespace):
		return nil, &opError{"acquire", n.entity, n.resource, ErrNamespace, err}
	}
	return l.undecided(ctx, req, n, cfg.policy, err)
}

// undecided applies the policy to a call that got no decision or no answer.
func (l *Limiter) undecided(ctx context.Context, req Request, n name, stored Policy, err error) (*Lease, error) {
	err = outcome("acquire", n, err)
	l.opts.Observer.failed(n, err)
	policy := req.OnUnavailable
	if policy == PolicyDefault {
		policy = stored
	}
	if policy == PolicyDefault {
		policy = l.opts.OnUnavailable
	}
	if policy == Allow && !errors.Is(ctx.Err(), context.Canceled) {
		return &Lease{limiter: l, name: n, cause: err}, nil
	}
	return nil, err
}

// outcome names what is known after a call failed.
func outcome(op string, n name, err error) error {
	kind := ErrUnavailable
	if store.KindOf(err) == store.Unknown {
		kind = ErrUnknown
	}
	return &opError{op, n.entity, n.resource, kind, err}
}

// take runs the loop of deciding from the last image and writing until a write
// holds, the request is denied, or a call fails.
func (l *Limiter) take(ctx context.Context, w want) (*Lease, error) {
	begin := l.now()
	info := func(calls int) AcquireInfo {
		return AcquireInfo{w.name.entity, w.name.resource, calls, time.Duration(l.now()-begin) * time.Millisecond}
	}
	asked := map[int]bool{}
	for calls := 0; ; {
		c := chooser{
			view: l.images.view(w.name), want: w, now: l.now(),
			denyFor: l.opts.DenyFor.Milliseconds(), asked: asked, pick: random(),
		}
		decide := c.choose
		if calls >= maxAttempts {
			decide = c.giveUp
		}
		got := decide()
		switch got.action {
		case never:
			return nil, l.tooLarge(c, got)
		case deny:
			l.opts.Observer.denied(info(calls))
			return nil, denial(c, got)
		}
		leave, err := l.enter(ctx, w.name, got)
		if err != nil {
			return nil, err
		}
		if leave == nil {
			continue // somebody else moved the clock meanwhile: decide again
		}
		calls++
		asked[got.shard] = true
		item, err := l.write(ctx, got.write, leave)
		if err == nil {
			lease, ok := l.taken(ctx, w, got, item)
			if !ok {
				continue // nothing is taken yet
			}
			l.opts.Observer.acquired(info(calls))
			return lease, nil
		}
		if err := l.refused(ctx, w, got, err, calls); err != nil {
			return nil, err
		}
	}
}

// write performs a write and leaves the gate, also when a DynamoDB client of the
// caller's panics.
func (l *Limiter) write(ctx context.Context, w item.Write, leave func()) (item.Item, error) {
	defer leave()
	return l.store.Write(ctx, w)
}

// refused takes in why a write did not hold and pauses where that helps. The
// error it returns ends the call.
func (l *Limiter) refused(ctx context.Context, w want, got choice, err error, calls int) error {
	now := l.now()
	if r, ok := errors.AsType[*store.Refused](err); ok {
		if r.Old == nil {
			l.images.missing(w.name, got.shard, now)
			if got.shard > 0 {
				l.open(ctx, w, got.shard)
			}
			return nil
		}
		b, err := table.DecodeBucket(r.Old)
		if err != nil {
			return &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: err}
		}
		if got.asks {
			l.images.see(b, now, got.from)
			return nil
		}
		l.images.seeAfter(b, now, got.from, false)
		if got.from != nil {
			l.opts.Observer.lost(w.name)
		}
		return nil // decide again at once: the image is as fresh as it will ever be
	}
	switch store.KindOf(err) {
	case store.Conflict, store.Throttled:
		if calls >= maxAttempts {
			return err
		}
		if store.Sleep(ctx, store.Jitter(calls, 5*contentionPause, 100*contentionPause)) != nil {
			return err
		}
		return nil
	}
	return err
}

// taken makes the lease of a write that held. From here on the tokens are
// taken, whatever else goes wrong.
func (l *Limiter) taken(ctx context.Context, w want, got choice, item item.Item) (*Lease, bool) {
	now := l.now()
	b, err := table.DecodeBucket(item)
	known := err == nil
	if known {
		if got.asks {
			got.from = nil // nothing was planned from it
		}
		l.images.seeAfter(b, now, got.from, true)
	}
	if got.action == reopen || got.action == mend {
		return nil, false
	}
	lease := &Lease{limiter: l, name: w.name, items: []leaseItem{{
		key:   table.BucketKey(w.namespace, w.name.entity, w.name.resource, got.shard),
		shard: got.shard,
		taken: w.costs,
	}}}
	for _, lim := range w.limits {
		lease.limits = append(lease.limits, lim.Name)
	}
	if known {
		lease.learn(b)
		l.grow(ctx, w, b, got.hot)
	}
	return lease, true
}

// denial explains why no shard covers the request.
func denial(c chooser, got choice) *LimitError {
	e := &LimitError{
		Entity: c.want.name.entity, Resource: c.want.name.resource,
		Limit:      got.short,
		RetryAfter: wait(c.now, max(got.at, c.now+1)),
	}
	remaining := c.remaining()
	state := c.view.shards[got.shard].bucket.State
	for i, lim := range c.want.limits {
		cost := c.want.costs[i]
		s := Status{Limit: lim.Name, Capacity: lim.Capacity / bucket.Milli, Remaining: remaining[i]}
		if at := slotAt(state, cost, c.now); at == bucket.Never {
			s.RetryAfter = -1
		} else {
			s.RetryAfter = wait(c.now, at)
		}
		if lim.Name == got.short {
			e.Wanted, e.Remaining = cost.Milli/bucket.Milli, s.Remaining
		}
		e.Statuses = append(e.Statuses, s)
	}
	return e
}

// wait returns the time from one instant to a later one, at most what a Duration
// holds: 292 years.
func wait(from, to int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(bucket.SubSat(to, from), most)) * time.Millisecond
}

// slotAt returns from when on one limit of the state covers its cost.
func slotAt(s bucket.State, cost table.Cost, now int64) int64 {
	needs := make([]int64, len(s.Slots))
	for i := range needs {
		needs[i] = -1
	}
	if i := s.Index(cost.Limit); i >= 0 {
		needs[i] = cost.Milli
	}
	return s.Decide(needs, now).At
}

// tooLarge explains a request that no shard can ever hold.
func (l *Limiter) tooLarge(c chooser, got choice) error {
	for i, lim := range c.want.limits {
		if lim.Name != got.short {
			continue
		}
		count := max(c.view.count, c.view.shards[0].bucket.State.Shards)
		share := bucket.Share(lim.Capacity, 0, count)
		return &opError{"acquire", c.want.name.entity, c.want.name.resource, ErrTooLarge,
			fmt.Errorf("Costs[%q] is %d, want at most the %s tokens that one of %d shards holds",
				lim.Name, c.want.costs[i].Milli/bucket.Milli, bucket.Tokens(share), count)}
	}
	return &opError{"acquire", c.want.name.entity, c.want.name.resource, ErrTooLarge, nil}
}
