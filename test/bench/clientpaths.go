package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// updates is a budget of update calls that write a unit each.
func updates(n float64) Bill { return Bill{Calls: map[string]float64{"UpdateItem": n}, Write: n} }

// fleet is two processes that share a table but not their caches.
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

// asks returns a request, with a hundred times as many tokens, which keeps both limits equally full.
func asks(entity string, requests int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: resource,
		Costs: limiter.Costs{"rpm": requests, "tpm": 100 * requests}}
}

// stale leaves b with an image that shows half a bucket, although a has taken the rest since.
func (f fleet) stale() act { return then(takes(f.a, 1), takes(f.b, 499), takes(f.a, 500)) }

// acquires measures all the ways in which an acquire can end.
func (f fleet) acquires(ctx context.Context) ([]Row, error) {
	return f.measure(ctx, slices.Concat(f.warm(), f.courses()))
}

// warm returns acquires by a process with an image of the bucket, half of which is taken.
func (f fleet) warm() []course {
	two := func(n int64) act { // its own bucket, and a bucket shared by all entities
		return func(ctx context.Context, e string) error {
			req := asks(e, n)
			req.Also = []limiter.Part{{Entity: "everybody", Resource: resource, Costs: req.Costs}}
			_, err := f.a.Acquire(ctx, req)
			return err
		}
	}
	return []course{
		{Row: Row{Path: "acquire, warm", Budget: updates(1)}, prefix: "warm", warm: true,
			setUp: takes(f.a, 500), run: f.later(takes(f.a, 1))},
		f.wide(), f.mixed(),
		{Row: Row{Path: "acquire with cascade, warm", Budget: updates(2)}, warm: true,
			setUp: then(f.couple, takes(f.a, 500)), run: f.later(takes(f.a, 1))},
		{Row: Row{Path: "acquire of two keys, warm", Budget: updates(2)}, warm: true,
			setUp: two(500), run: f.later(two(1))},
		{Row: Row{Path: "acquire, warm, limits not in cache", AtMost: true,
			Budget: Bill{Calls: map[string]float64{"UpdateItem": 1, "BatchGetItem": 1}, Read: 3, Write: 1},
			Note: "half a read unit per record, also for those that do not exist, which DynamoDB Local does not count; " +
				"five, and the namespace's, which is read once for all entities"}, prefix: "warm", warm: true,
			run: func(ctx context.Context, e string) error {
				f.a.ForgetConfig()
				return takes(f.a, 1)(ctx, e)
			}},
	}
}

// courses returns acquires from buckets in various states.
func (f fleet) courses() []course {
	// A process's first request for a full bucket that others have used, with limits in the cache
	// or read too.
	meets := func(own ...limiter.Limit) act {
		return func(ctx context.Context, e string) error {
			req := asks(e, 1)
			req.Limits = own
			_, err := f.b.Acquire(ctx, req)
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
	create.local(f.w, -1, 0, "does not count reads of what is not there, AWS does")
	several.local(f.w, 0, -2, "does not double updates, AWS does")
	return []course{
		{Row: Row{Path: "acquire, refill due and foreseen", Budget: updates(1)}, pass: 6 * time.Second,
			setUp: takes(f.a, 1000), run: takes(f.a, 50), left: f.refilled},
		{Row: Row{Path: "acquire, refill due and not foreseen", Budget: updates(1)}, pass: 3 * time.Second,
			setUp: f.stale(), run: takes(f.b, 40)},
		{Row: Row{Path: "acquire that counts a denial before", Budget: updates(1)}, pass: 6 * time.Second,
			setUp: then(takes(f.a, 1000), denies(f.a, 1)), run: takes(f.a, 50), left: f.counted},
		{Row: Row{Path: "acquire, bucket not met, limits in code", Budget: met, AtMost: true,
			Note: "the bucket is read with what else is stored of the entity; then one charge"}, pass: time.Hour,
			setUp: takes(f.a, 1), run: meets(limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 100_000))},
		{Row: Row{Path: "acquire, bucket not met, limits stored", Budget: met, AtMost: true,
			Note: "half a read unit for each of five records, and for the bucket, in one call; then one charge"},
			pass: time.Hour, setUp: takes(f.a, 1), run: meets()},
		{Row: several, pass: 35 * time.Second, setUp: f.halves(), run: takes(f.a, 600)},
		{Row: create, setUp: func(ctx context.Context, e string) error { // fills the cache of limits and writes nothing
			_, err := f.a.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Costs: limiter.Costs{"other": 1}})
			if !errors.Is(err, limiter.ErrInvalid) {
				return fmt.Errorf("got %w, want invalid", err)
			}
			return nil
		}, run: takes(f.a, 1)},
		{Row: Row{Path: "denial, first", Budget: updates(1), Note: "a failed condition"}, prefix: "denial",
			setUp: f.stale(), run: denies(f.b, 400)},
		{Row: Row{Path: "denial, repeated"}, prefix: "denial", warm: true, run: denies(f.b, 400)},
	}
}

// refilled and counted return an error if an acquire left no trace, because it took another course.
func (f fleet) refilled(ctx context.Context, e string, _ *Row) error {
	b, err := f.stored(ctx, e, 0)
	if err == nil && b.State.RF != f.w.clock.Load() {
		err = errors.New("the acquire has not refilled the bucket")
	}
	return err
}

func (f fleet) counted(ctx context.Context, e string, _ *Row) error {
	b, err := f.stored(ctx, e, 0)
	if err == nil && b.Denied != bucket.Milli {
		err = fmt.Errorf("the acquire counts %d thousandths of a denial", b.Denied)
	}
	return err
}

// wide returns a warm acquire with an item as large as the design fits into a write unit: eight
// limits with names of three letters, an entity id of 40 characters, and the remainders of a
// refill.
func (f fleet) wide() course {
	var limits []limiter.Limit
	for _, name := range []string{"rpm", "rph", "rpd", "tpm", "tph", "tpd", "ipm", "opm"} {
		limits = append(limits, limiter.Limit{Name: name, Capacity: 100_000, Refill: 99_991, Period: 599 * time.Second})
	}
	return f.large(Row{Path: "acquire, warm, 8 limits, id of 40 characters", Budget: updates(1)}, "e", limits)
}

// mixed is wide with rates and quotas, whose calendars need space too.
func (f fleet) mixed() course {
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
	return f.large(r, "m", limits)
}

// large returns a warm acquire of a hundredth of each limit. The entity's id repeats a letter.
func (f fleet) large(r Row, letter string, limits []limiter.Limit) course {
	acquire := func(ctx context.Context, e string) error {
		req := limiter.Request{Entity: e, Resource: resource, Limits: limits, Costs: limiter.Costs{}}
		for _, l := range limits {
			req.Costs[l.Name] = l.Capacity / 100
		}
		_, err := f.a.Acquire(ctx, req)
		return err
	}
	return course{Row: r, prefix: strings.Repeat(letter, 38), pass: time.Millisecond, run: acquire,
		setUp: func(ctx context.Context, e string) error { // refills, and leaves remainders
			err := acquire(ctx, e)
			f.w.advance(time.Second)
			return errors.Join(err, acquire(ctx, e))
		},
		left: func(ctx context.Context, e string, r *Row) error {
			it, err := f.w.item(ctx, e, 0)
			r.Note = fmt.Sprintf("the item has %d bytes, counted as AWS does", item.Size(it))
			return err
		}}
}

func (f fleet) stored(ctx context.Context, entity string, shard int) (table.Shard, error) {
	it, err := f.w.item(ctx, entity, shard)
	if err != nil {
		return table.Shard{}, err
	}
	return table.DecodeShard(it)
}
