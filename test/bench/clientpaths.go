package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
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

// course is an acquire that is billed once for each of some entities, after a set-up and some time.
type course struct {
	Row
	prefix     string // of the entities
	pass       time.Duration
	setUp, run func(ctx context.Context, entity string) error
}

// clientPaths measures an acquire in all its courses.
func clientPaths(ctx context.Context, w *world) ([]Row, error) {
	f, err := newFleet(ctx, w)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, path := range []func(context.Context) (Row, error){f.warm, f.wide, f.mixed, f.cascade, f.keys, f.cold} {
		row, err := path(ctx)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", row.Path, err)
		}
		rows = append(rows, row)
	}
	for _, c := range f.courses() {
		if c.Measured, err = f.path(ctx, c.prefix, c.pass, c.setUp, c.run); err == nil {
			err = f.took(ctx, c.prefix)
		}
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.Path, err)
		}
		rows = append(rows, c.Row)
	}
	flood := Row{Path: "denial, repeated"} // of the last course
	flood.Measured, err = f.w.billed(warmRuns, func(int) error { return denied(ctx, f.b, "denial-0", 400) })
	return append(rows, flood), err
}

// courses are the acquires from a bucket in some state.
func (f fleet) courses() []course {
	takes := func(l *limiter.Limiter, n int64) func(context.Context, string) error {
		return func(ctx context.Context, e string) error { return taken(ctx, l, e, n) }
	}
	// The first request of a process for a full bucket that others have used, limits in cache or read too.
	meets := func(own ...limiter.Limit) func(context.Context, string) error {
		return func(ctx context.Context, e string) error {
			_, err := f.b.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Limits: own,
				Costs: limiter.Costs{"rpm": 1, "tpm": 100}})
			return err
		}
	}
	met := Bill{Calls: map[string]float64{"UpdateItem": 1, "BatchGetItem": 1}, Read: 3, Write: 1}
	create := Row{
		Path:   "acquire, first of a new bucket",
		Budget: Bill{Calls: map[string]float64{"BatchGetItem": 1, "PutItem": 1}, Read: 1, Write: 4},
		Note: "a consistent read of shard 1, which is not there, then a put into the table and its " +
			"indexes GSI2, GSI3 and GSI4; limits in cache, and that there is no bucket",
	}
	several := Row{
		Path: "acquire, taken from two shards",
		Budget: Bill{
			Calls: map[string]float64{"BatchGetItem": 1, "TransactWriteItems": 1}, Read: 2, Write: 2 * 2,
		},
		Note: "a consistent read unit for every shard of the bucket, and twice the price of a write for every one that pays",
	}
	if f.w.direct.Kind == engine.DynamoDBLocal {
		create.Budget.Read = 0
		create.Note += "; this engine does not count reads of what is not there, AWS does"
		several.Budget.Write = 2
		several.Note += "; this engine does not double updates, AWS does"
	}
	return []course{
		{Row{Path: "acquire, refill due and foreseen", Budget: updates(1)}, foreseen, 6 * time.Second,
			takes(f.a, 1000), takes(f.a, 50)},
		{Row{Path: "acquire, refill due and not foreseen", Budget: updates(1)}, "unforeseen", 3 * time.Second,
			f.stale, takes(f.b, 40)},
		{Row{Path: "acquire that counts a denial before", Budget: updates(1)}, counting, 6 * time.Second,
			func(ctx context.Context, e string) error {
				return errors.Join(taken(ctx, f.a, e, 1000), denied(ctx, f.a, e, 1))
			}, takes(f.a, 50)},
		{Row{Path: "acquire, bucket not met, limits in code", Budget: met, AtMost: true,
			Note: "the bucket is read with what else is stored of the entity; then one charge"}, "met-own", time.Hour,
			takes(f.a, 1), meets(limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 100_000))},
		{Row{Path: "acquire, bucket not met, limits stored", Budget: met, AtMost: true,
			Note: "half a read unit for each of five records, and for the bucket, in one call; then one charge"}, "met",
			time.Hour, takes(f.a, 1), meets()},
		{several, "several", 35 * time.Second, f.halves, takes(f.a, 600)},
		{create, "create", 0, func(ctx context.Context, e string) error { // fills the cache of limits and writes nothing
			_, err := f.a.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Costs: limiter.Costs{"other": 1}})
			if !errors.Is(err, limiter.ErrInvalid) {
				return fmt.Errorf("got %w, want invalid", err)
			}
			return nil
		}, takes(f.a, 1)},
		{Row{Path: "denial, first", Budget: updates(1), Note: "a failed condition"}, "denial", 0,
			f.stale, func(ctx context.Context, e string) error { return denied(ctx, f.b, e, 400) }},
	}
}

// The courses that leave a trace.
const foreseen, counting = "foreseen", "counts"

// took returns an error if a course left no trace: then it was another one.
func (f fleet) took(ctx context.Context, prefix string) error {
	b, err := f.stored(ctx, prefix+"-0")
	switch {
	case err != nil:
		return err
	case prefix == foreseen && b.State.RF != f.w.clock.Load():
		return errors.New("the acquire has not refilled the bucket")
	case prefix == counting && b.Denied != bucket.Milli:
		return fmt.Errorf("the acquire counts %d thousandths of a denial", b.Denied)
	}
	return nil
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
	return f.again(r, func(n int64) error { return taken(ctx, f.a, "child", n) })
}

func (f fleet) warm(ctx context.Context) (Row, error) {
	return f.again(Row{Path: "acquire, warm", Budget: updates(1)},
		func(n int64) error { return taken(ctx, f.a, "warm", n) })
}

// keys is warm for a request that takes of two keys.
func (f fleet) keys(ctx context.Context) (Row, error) {
	return f.again(Row{Path: "acquire of two keys, warm", Budget: updates(2)}, func(n int64) error {
		costs := limiter.Costs{"rpm": n, "tpm": 100 * n}
		_, err := f.a.Acquire(ctx, limiter.Request{Entity: "caller", Resource: resource, Costs: costs,
			Also: []limiter.Part{{Entity: "everybody", Resource: resource, Costs: costs}}})
		return err
	})
}

// again measures single requests after half of the bucket was taken.
func (f fleet) again(r Row, take func(requests int64) error) (_ Row, err error) {
	if err = take(500); err != nil {
		return r, err
	}
	r.Measured, err = f.w.billed(warmRuns, func(int) error {
		f.w.advance(17 * time.Millisecond)
		return take(1)
	})
	return r, err
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
