package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
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

// coupled is couple with buckets of which both processes have the images.
func (f fleet) coupled(ctx context.Context, child string) error {
	return errors.Join(f.couple(ctx, child), taken(ctx, f.a, child, 500), taken(ctx, f.b, child, 1))
}

// cascadePaths measures charges to an entity and its parent.
func cascadePaths(ctx context.Context, w *world) ([]Row, error) {
	f, err := newFleet(ctx, w)
	if err != nil {
		return nil, err
	}
	first := Row{
		Path: "acquire with cascade, first of both buckets",
		Budget: Bill{Calls: map[string]float64{"TransactWriteItems": 1, "BatchGetItem": 3}, Read: 7 + 2,
			Write: 2 * (2 + 3)},
		AtMost: true,
		Note: "a consistent read of shard 1 of both, then both buckets in one transaction: two " +
			"units and three indexes each; up to six records of configuration are read for each, and the bucket",
	}
	if f.w.direct.Kind == engine.DynamoDBLocal {
		first.Budget.Write = 2 * (1 + 3)
		first.Note += "; this engine does not double puts, AWS does"
	}
	first.Measured, err = f.path(ctx, "first", 0, f.couple,
		func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 1) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", first.Path, err)
	}
	back := Row{
		Path: "denial by the parent, not foreseen", Budget: updates(3),
		Note: "the child is charged, the parent fails, the child is given back",
	}
	back.Measured, err = f.path(ctx, "back", 0,
		func(ctx context.Context, e string) error {
			return errors.Join(f.coupled(ctx, e), taken(ctx, f.b, e, 1), taken(ctx, f.a, e+"-parent", 450))
		},
		func(ctx context.Context, e string) error { return denied(ctx, f.b, e, 100) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", back.Path, err)
	}
	foreseen := Row{Path: "denial by the parent, foreseen"}
	foreseen.Measured, err = f.w.billed(entities, func(i int) error {
		return denied(ctx, f.b, fmt.Sprintf("back-%d", i), 100)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", foreseen.Path, err)
	}
	settled := Row{Path: "settle or rollback with cascade", Budget: updates(2)}
	var leases []*limiter.Lease
	for i := range entities {
		lease, err := take(ctx, f.a, fmt.Sprintf("first-%d", i), 1)
		if err != nil {
			return nil, err
		}
		leases = append(leases, lease)
	}
	settled.Measured, err = f.w.billed(entities, func(i int) error {
		if i%2 == 0 {
			return leases[i].Rollback(ctx)
		}
		return errors.Join(leases[i].Settle(limiter.Costs{"tpm": 250}), leases[i].Commit(ctx))
	})
	return []Row{first, back, foreseen, settled}, err
}

// waitPaths measures acquires that wait, leases that take more while they run, and releases that
// disagree.
func waitPaths(ctx context.Context, w *world) ([]Row, error) {
	f, err := newFleet(ctx, w)
	if err != nil {
		return nil, err
	}
	ask := func(e string, n int64) limiter.Request {
		return limiter.Request{Entity: e, Resource: resource, Costs: limiter.Costs{"rpm": n, "tpm": 100 * n}}
	}
	drained := func(ctx context.Context, e string) error { return taken(ctx, f.a, e, 1000) }
	rows := []Row{
		{Path: "reserve, into debt", Budget: updates(1)},
		{Path: "reserve and give back", Budget: updates(2)},
		{Path: "wait that the deadline does not allow"},
		{Path: "charge of a lease, warm", Budget: updates(1)},
		{Path: "acquire, under limits of another release", Budget: updates(1)},
		{Path: "drain of two shards", Note: "a consistent read unit and a write for each, none if others have drained it",
			Budget: Bill{Calls: map[string]float64{"BatchGetItem": 1, "UpdateItem": 2}, Read: 2, Write: 2}},
	}
	runs := []struct {
		setUp, run func(context.Context, string) error
	}{
		{drained, func(ctx context.Context, e string) error {
			_, _, err := f.a.Reserve(ctx, ask(e, 10))
			return err
		}},
		{drained, func(ctx context.Context, e string) error {
			lease, _, err := f.a.Reserve(ctx, ask(e, 10))
			if err != nil {
				return err
			}
			return lease.Rollback(ctx)
		}},
		{drained, func(ctx context.Context, e string) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			_, err := f.a.Wait(ctx, ask(e, 500)) // half a minute
			if errors.Is(err, limiter.ErrLimited) {
				return nil
			}
			return fmt.Errorf("got %w, want a denial", err)
		}},
		{},
		{f.disputed, func(ctx context.Context, e string) error { return f.release(ctx, f.a, e, 1000) }},
		{f.halves, func(ctx context.Context, e string) error {
			return f.a.Drain(ctx, e, resource, 20*time.Second)
		}},
	}
	for i := range rows {
		if runs[i].run == nil {
			rows[i].Measured, err = f.charge(ctx)
		} else {
			rows[i].Measured, err = f.path(ctx, fmt.Sprint("wait-", i), 0, runs[i].setUp, runs[i].run)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rows[i].Path, err)
		}
	}
	return rows, nil
}

// charge bills the charges of a lease while work goes on.
func (f fleet) charge(ctx context.Context) (Bill, error) {
	lease, err := take(ctx, f.a, "stream", 500)
	if err != nil {
		return Bill{}, err
	}
	return f.w.billed(warmRuns, func(int) error { return lease.Charge(ctx, limiter.Costs{"tpm": 100}) })
}

// release is an acquire with limits of a release's own.
func (f fleet) release(ctx context.Context, l *limiter.Limiter, entity string, n int64) error {
	_, err := l.Acquire(ctx, limiter.Request{Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", n)}})
	return err
}

// disputed leaves a bucket whose limits the second process has replaced, which the
// first has found out.
func (f fleet) disputed(ctx context.Context, entity string) error {
	return errors.Join(
		f.release(ctx, f.a, entity, 1000), f.release(ctx, f.b, entity, 2000), f.release(ctx, f.a, entity, 1000),
	)
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
