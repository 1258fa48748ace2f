package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// couple stores a child and its parent, whose buckets do not exist yet.
func (f fleet) couple(ctx context.Context, child string) error {
	for _, e := range []config.Entity{
		{ID: child + "-parent"}, {ID: child, Parent: child + "-parent", Cascade: true},
	} {
		e.Namespace = f.a.NamespaceID()
		if _, err := f.w.store.Write(ctx, e.Create()); err != nil {
			return err
		}
	}
	return nil
}

// cascades measures charges to an entity and its parent.
func (f fleet) cascades(ctx context.Context) ([]Row, error) {
	first := Row{
		Path: "acquire with cascade, first of both buckets",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1, "BatchGetItem": 3}, Read: 7 + 2,
			Write: 2 * (2 + 3)},
		AtMost: true,
		Note: "a consistent read of shard 1 of both, then both buckets in one transaction: two " +
			"units and three indexes each; up to six records of configuration are read for each, and the bucket",
	}
	first.local(f.w, 0, -2, "does not double puts, AWS does")
	back := Row{Path: "denial by the parent, not foreseen", Budget: updates(3),
		Note: "the child is charged, the parent fails, the child is given back"}
	settled := course{Row: Row{Path: "settle or rollback with cascade", Budget: updates(2)}, prefix: "first"}
	turn := 0
	return f.measure(ctx, []course{
		{Row: first, prefix: "first", setUp: f.couple, run: takes(f.a, 1)},
		{Row: back, prefix: "back", run: denies(f.b, 100), // which has images of both buckets
			setUp: then(f.couple, takes(f.a, 500), takes(f.b, 1), takes(f.b, 1), func(ctx context.Context, e string) error {
				return takes(f.a, 450)(ctx, e+"-parent")
			})},
		{Row: Row{Path: "denial by the parent, foreseen"}, prefix: "back", run: denies(f.b, 100)},
		settled.ending(f.a, 1, func(ctx context.Context, le *limiter.Lease) error {
			if turn++; turn%2 == 0 {
				return le.Rollback(ctx)
			}
			return errors.Join(le.Settle(limiter.Costs{"tpm": 250}), le.Commit(ctx))
		}),
	})
}

// waits measures acquires that wait, leases that take more during the work, and releases whose
// limits differ.
func (f fleet) waits(ctx context.Context) ([]Row, error) {
	drained := takes(f.a, 1000)
	charge := course{Row: Row{Path: "charge of a lease, warm", Budget: updates(1)}, prefix: "charge", warm: true}
	return f.measure(ctx, []course{
		{Row: Row{Path: "reserve, into debt", Budget: updates(1)}, prefix: "wait", setUp: drained,
			run: func(ctx context.Context, e string) error {
				_, _, err := f.a.Reserve(ctx, asks(e, 10))
				return err
			}},
		{Row: Row{Path: "reserve and give back", Budget: updates(2)}, prefix: "back-again", setUp: drained,
			run: func(ctx context.Context, e string) error {
				lease, _, err := f.a.Reserve(ctx, asks(e, 10))
				if err != nil {
					return err
				}
				return lease.Rollback(ctx)
			}},
		{Row: Row{Path: "wait that the deadline does not allow"}, prefix: "in-vain", setUp: drained,
			run: func(ctx context.Context, e string) error {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				_, err := f.a.Wait(ctx, asks(e, 500)) // half a minute
				if errors.Is(err, limiter.ErrLimited) {
					return nil
				}
				return fmt.Errorf("got %w, want a denial", err)
			}},
		charge.ending(f.a, 500, func(ctx context.Context, le *limiter.Lease) error {
			return le.Charge(ctx, limiter.Costs{"tpm": 100})
		}),
		{Row: Row{Path: "acquire, under limits of another release", Budget: updates(1)}, prefix: "disputed",
			setUp: then(release(f.a, 1000), release(f.b, 2000), release(f.a, 1000)), run: release(f.a, 1000)},
		{Row: Row{Path: "drain of two shards",
			Note:   "a consistent read unit and a write for each, none if others have drained it",
			Budget: Bill{Calls: map[string]float64{"BatchGetItem": 1, "UpdateItem": 2}, Read: 2, Write: 2}}, prefix: "drained",
			setUp: f.halves(), run: func(ctx context.Context, e string) error {
				return f.a.Drain(ctx, e, resource, 20*time.Second)
			}},
	})
}

// release returns an act that acquires with the limits of another release.
func release(l *limiter.Limiter, n int64) act {
	return func(ctx context.Context, e string) error {
		_, err := l.Acquire(ctx, limiter.Request{Entity: e, Resource: resource, Costs: limiter.Costs{"rpm": 1},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", n)}})
		return err
	}
}

// ends measures the ends of a lease.
func (f fleet) ends(ctx context.Context) ([]Row, error) {
	end := func(r Row, end func(context.Context, *limiter.Lease) error) course {
		return course{Row: r, prefix: "settle"}.ending(f.a, 1, end)
	}
	return f.measure(ctx, []course{
		end(Row{Path: "commit of adjustments, per item", Budget: updates(1)},
			func(ctx context.Context, le *limiter.Lease) error {
				return errors.Join(le.Settle(limiter.Costs{"tpm": 250}), le.Settle(limiter.Costs{"tpm": 150}), le.Commit(ctx))
			}),
		end(Row{Path: "commit without adjustments"},
			func(ctx context.Context, le *limiter.Lease) error { return le.Commit(ctx) }),
		end(Row{Path: "rollback, per item", Budget: updates(1)},
			func(ctx context.Context, le *limiter.Lease) error { return le.Rollback(ctx) }),
	})
}
