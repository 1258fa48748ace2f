package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const (
	warmRuns = 50 // acquires by one warm client
	entities = 5  // buckets of a path that can be run once per bucket
)

// updates is a budget of update calls that write a unit each.
func updates(n float64) Bill { return Bill{Calls: map[string]float64{"UpdateItem": n}, Write: n} }

// fleet is two processes that share a table, not their caches.
type fleet struct {
	w    *world
	a, b *limiter.Limiter
}

func newFleet(ctx context.Context, w *world) (f fleet, err error) {
	f.w = w
	if f.a, err = w.client(ctx); err != nil {
		return f, err
	}
	if err = w.defaults(ctx); err != nil {
		return f, err
	}
	f.b, err = w.client(ctx)
	return f, err
}

// take acquires requests (and a hundred times as many tokens, so that both
// limits stand alike).
func take(ctx context.Context, l *limiter.Limiter, entity string, requests int64) (*limiter.Lease, error) {
	return l.Acquire(ctx, limiter.Request{Entity: entity, Resource: resource,
		Costs: limiter.Costs{"rpm": requests, "tpm": 100 * requests}})
}

func taken(ctx context.Context, l *limiter.Limiter, entity string, requests int64) error {
	_, err := take(ctx, l, entity, requests)
	return err
}

// denied acquires and wants to be denied.
func denied(ctx context.Context, l *limiter.Limiter, entity string, requests int64) error {
	err := taken(ctx, l, entity, requests)
	if errors.Is(err, limiter.ErrLimited) {
		return nil
	}
	return fmt.Errorf("entity %q: got %v, want a denial", entity, err)
}

// stale leaves b with an image that shows half a bucket, of which a has taken
// the rest since.
func (f fleet) stale(ctx context.Context, entity string) error {
	return errors.Join(taken(ctx, f.a, entity, 1), taken(ctx, f.b, entity, 499), taken(ctx, f.a, entity, 500))
}

// clientPaths measures an acquire in all its courses.
func clientPaths(ctx context.Context, w *world) ([]Row, error) {
	f, err := newFleet(ctx, w)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, path := range []func(context.Context) (Row, error){f.warm, f.wide, f.mixed, f.cascade, f.keys,
		f.foreseen, f.unforeseen, f.denial, f.flood, f.denialCounted, f.several, f.cold, f.met, f.first, f.create} {
		row, err := path(ctx)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", row.Path, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// cascade is warm for an entity that is charged together with its parent.
func (f fleet) cascade(ctx context.Context) (r Row, err error) {
	r = Row{Path: "acquire with cascade, warm", Budget: updates(2)}
	for _, e := range []config.Entity{{ID: "parent"}, {ID: "child", Parent: "parent", Cascade: true}} {
		e.Namespace = f.a.NamespaceID()
		if _, err = f.w.store.Write(ctx, e.Create()); err != nil {
			return r, err
		}
	}
	if err = taken(ctx, f.a, "child", 500); err != nil {
		return r, err
	}
	r.Measured, err = f.w.billed(warmRuns, func(int) error {
		f.w.advance(17 * time.Millisecond)
		return taken(ctx, f.a, "child", 1)
	})
	return r, err
}

func (f fleet) warm(ctx context.Context) (r Row, err error) {
	r = Row{Path: "acquire, warm", Budget: updates(1)}
	if err = taken(ctx, f.a, "warm", 500); err != nil {
		return r, err
	}
	r.Measured, err = f.w.billed(warmRuns, func(int) error {
		f.w.advance(17 * time.Millisecond)
		return taken(ctx, f.a, "warm", 1)
	})
	if err != nil {
		return r, err
	}
	return r, nil
}

// wide is warm with an item as large as the design says fits into a write unit:
// eight limits with names of three letters, an entity id of 40 characters, and
// the remainders of a refill.
func (f fleet) wide(ctx context.Context) (Row, error) {
	var limits []limiter.Limit
	for _, name := range []string{"rpm", "rph", "rpd", "tpm", "tph", "tpd", "ipm", "opm"} {
		limits = append(limits, limiter.Limit{Name: name, Capacity: 100_000, Refill: 99_991, Period: 599 * time.Second})
	}
	r := Row{Path: "acquire, warm, 8 limits, id of 40 characters", Budget: updates(1)}
	return f.large(ctx, r, strings.Repeat("e", 40), limits)
}

// mixed is wide with rates and quotas, whose calendars need room too.
func (f fleet) mixed(ctx context.Context) (Row, error) {
	var limits []limiter.Limit
	for _, name := range []string{"rpm", "rph", "tpm", "tph"} {
		limits = append(limits, limiter.Limit{Name: name, Capacity: 4_000_000, Refill: 3_999_991, Period: 599 * time.Second})
	}
	for name, calendar := range map[string]limiter.Calendar{"rpd": limiter.Daily("Asia/Tokyo"), "tpw": limiter.Weekly(
		time.Monday, "Asia/Tokyo"), "usd": limiter.Monthly(1, "Asia/Tokyo"), "ses": limiter.FromFirstUse(5 * time.Hour)} {
		limits = append(limits, limiter.Quota(name, 900_000_000, calendar))
	}
	r := Row{Path: "acquire, warm, 8 limits of mixed kinds", Budget: updates(1)}
	r.Budget.Write = 2
	return f.large(ctx, r, strings.Repeat("m", 40), limits)
}

// large measures warm acquires of a hundredth of each limit.
func (f fleet) large(ctx context.Context, r Row, entity string, limits []limiter.Limit) (_ Row, err error) {
	req := limiter.Request{Entity: entity, Resource: resource, Limits: limits, Costs: limiter.Costs{}}
	for _, l := range limits {
		req.Costs[l.Name] = l.Capacity / 100
	}
	acquire := func(int) error {
		_, err := f.a.Acquire(ctx, req)
		return err
	}
	if err = acquire(0); err != nil {
		return r, err
	}
	f.w.advance(time.Second)
	if err = acquire(0); err != nil { // refills, and leaves remainders
		return r, err
	}
	f.w.advance(time.Millisecond)
	if r.Measured, err = f.w.billed(entities, acquire); err != nil {
		return r, err
	}
	it, err := f.w.item(ctx, req.Entity)
	r.Note = fmt.Sprintf("the item has %d bytes, counted as AWS does", item.Size(it))
	return r, err
}

func (f fleet) stored(ctx context.Context, entity string) (table.Shard, error) {
	it, err := f.w.item(ctx, entity)
	if err != nil {
		return table.Shard{}, err
	}
	return table.DecodeShard(it)
}

// path sets up entities, lets some time pass, and bills one run for each.
func (f fleet) path(ctx context.Context, prefix string, pass time.Duration, setUp,
	run func(ctx context.Context, entity string) error) (Bill, error) {
	if err := each(ctx, entities, prefix, setUp); err != nil {
		return Bill{}, err
	}
	f.w.advance(pass)
	return f.w.billed(entities, func(i int) error { return run(ctx, fmt.Sprintf("%s-%d", prefix, i)) })
}

func (f fleet) foreseen(ctx context.Context) (r Row, err error) {
	r = Row{Path: "acquire, refill due and foreseen", Budget: updates(1)}
	r.Measured, err = f.path(ctx, "foreseen", 6*time.Second,
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 1000) },
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 50) })
	if err != nil {
		return r, err
	}
	if b, err := f.stored(ctx, "foreseen-0"); err != nil || b.State.RF != f.w.clock.Load() {
		return r, fmt.Errorf("the acquire has not refilled the bucket (%w)", err)
	}
	return r, nil
}

func (f fleet) unforeseen(ctx context.Context) (r Row, err error) {
	r = Row{Path: "acquire, refill due and not foreseen", Budget: updates(1)}
	r.Measured, err = f.path(ctx, "unforeseen", 3*time.Second, f.stale,
		func(ctx context.Context, e string) error { return taken(ctx, f.b, e, 40) })
	return r, err
}

func (f fleet) cold(ctx context.Context) (r Row, err error) {
	r = Row{
		Path: "acquire, warm, limits not in cache", AtMost: true,
		Budget: Bill{Calls: map[string]float64{"UpdateItem": 1, "BatchGetItem": 1}, Read: 3, Write: 1},
		Note: "half a read unit per record, also for those that do not exist, which DynamoDB Local does not count; " +
			"five, and the namespace's, which is read once for all entities",
	}
	r.Measured, err = f.w.billed(warmRuns, func(int) error {
		f.a.ForgetConfig()
		return taken(ctx, f.a, "warm", 1)
	})
	return r, err
}

func (f fleet) create(ctx context.Context) (r Row, err error) {
	r = Row{
		Path:   "acquire, first of a new bucket",
		Budget: Bill{Calls: map[string]float64{"BatchGetItem": 1, "PutItem": 1}, Read: 1, Write: 4},
		Note: "a consistent read of shard 1, which is not there, then a put into the table and its " +
			"indexes GSI2, GSI3 and GSI4; limits in cache, and that there is no bucket",
	}
	if f.w.direct.Kind == engine.DynamoDBLocal {
		r.Budget.Read = 0
		r.Note += "; this engine does not count reads of what is not there, AWS does"
	}
	r.Measured, err = f.path(ctx, "create", 0,
		func(ctx context.Context, e string) error { // fills the cache of limits and writes nothing
			_, err := f.a.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Costs: limiter.Costs{"other": 1}})
			if !errors.Is(err, limiter.ErrInvalid) {
				return fmt.Errorf("got %v, want invalid", err)
			}
			return nil
		},
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 1) })
	return r, err
}

// settlePaths measures the ends of a lease.
func settlePaths(ctx context.Context, w *world) ([]Row, error) {
	l, err := w.client(ctx)
	if err != nil {
		return nil, err
	}
	rows := []Row{
		{Path: "commit of adjustments, per item", Budget: updates(1)},
		{Path: "commit without adjustments"},
		{Path: "rollback, per item", Budget: updates(1)},
	}
	settle := []func(*limiter.Lease) error{
		func(le *limiter.Lease) error {
			return errors.Join(le.Settle(limiter.Costs{"tpm": 250}), le.Settle(limiter.Costs{"tpm": 150}), le.Commit(ctx))
		},
		func(le *limiter.Lease) error { return le.Commit(ctx) },
		func(le *limiter.Lease) error { return le.Rollback(ctx) },
	}
	for i := range rows {
		var leases []*limiter.Lease
		for range entities {
			le, err := take(ctx, l, "settle", 1)
			if err != nil {
				return nil, err
			}
			leases = append(leases, le)
		}
		if rows[i].Measured, err = w.billed(entities, func(j int) error { return settle[i](leases[j]) }); err != nil {
			return nil, fmt.Errorf("%s: %w", rows[i].Path, err)
		}
	}
	return rows, nil
}
