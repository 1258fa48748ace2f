package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// read is one way to read: it is left after so many entries, 0 for never, and tells how many came.
type read func(ctx context.Context, leave int) (n int, err error)

func single(f func(ctx context.Context) error) read {
	return func(ctx context.Context, _ int) (int, error) { return 0, f(ctx) }
}

func listing[T any](f func(ctx context.Context) iter.Seq2[T, error]) read {
	return func(ctx context.Context, leave int) (n int, err error) {
		var failed error
		for _, err := range f(ctx) {
			if failed != nil {
				return n, fmt.Errorf("it went on after an error: %v", failed)
			}
			if failed = err; err != nil {
				continue
			}
			if n++; n == leave {
				break
			}
		}
		return n, failed
	}
}

// reads are all that only tells.
func reads(w *world) map[string]read {
	day := time.UnixMilli(start)
	configs := func(at Scope) read {
		return listing(func(ctx context.Context) iter.Seq2[Config, error] { return w.ns.Configs(ctx, at) })
	}
	buckets := func(at Scope) read {
		return listing(func(ctx context.Context) iter.Seq2[Bucket, error] { return w.ns.Buckets(ctx, at) })
	}
	usage := func(q UsageQuery) read {
		return listing(func(ctx context.Context) iter.Seq2[Usage, error] { return w.ns.Usage(ctx, q) })
	}
	return map[string]read{
		"version":    single(func(ctx context.Context) error { _, err := w.table.Version(ctx); return err }),
		"lookup":     single(func(ctx context.Context) error { _, err := w.table.Lookup(ctx, "prod"); return err }),
		"namespaces": listing(w.table.Namespaces),
		"orphans":    listing(w.table.Orphans),
		"config": single(func(ctx context.Context) error {
			_, err := w.ns.Config(ctx, Scope{"acme", "gpt-4"})
			return err
		}),
		"all configs": configs(Scope{}), "configs of one": configs(Scope{Entity: "acme"}),
		"its configs there": configs(Scope{"acme", "gpt-4"}),
		"configs of many":   configs(Scope{Resource: "gpt-4"}),
		"entity":            single(func(ctx context.Context) error { _, err := w.ns.Entity(ctx, "acme"); return err }),
		"children": listing(func(ctx context.Context) iter.Seq2[Entity, error] {
			return w.ns.Children(ctx, "org")
		}),
		"events": listing(func(ctx context.Context) iter.Seq2[Event, error] {
			return w.ns.Events(ctx, Scope{Entity: "acme"}, "")
		}),
		"all events": listing(func(ctx context.Context) iter.Seq2[Event, error] {
			return w.ns.AllEvents(ctx, time.Time{}, day.AddDate(1, 0, 0))
		}),
		"peek":        single(func(ctx context.Context) error { _, err := w.ns.Peek(ctx, "acme", "gpt-4"); return err }),
		"all buckets": buckets(Scope{}), "buckets of one": buckets(Scope{Entity: "acme"}),
		"buckets of a resource": buckets(Scope{Resource: "gpt-4"}), "bucket": buckets(Scope{"acme", "gpt-4"}),
		"resolve": single(func(ctx context.Context) error { _, err := w.ns.Resolve(ctx, "acme", "gpt-4"); return err }),
		"thresholds": listing(func(ctx context.Context) iter.Seq2[Threshold, error] {
			return w.ns.Thresholds(ctx, Scope{Entity: "acme"})
		}),
		"usage": usage(UsageQuery{Entity: "acme"}), "usage of a resource": usage(UsageQuery{Resource: "gpt-4"}),
		"usage since":               usage(UsageQuery{Entity: "acme", Resource: "gpt-4", From: day.AddDate(0, 1, 0)}),
		"usage until":               usage(UsageQuery{Entity: "acme", Resource: "gpt-4", To: day.AddDate(0, 0, -1)}),
		"usage of a resource since": usage(UsageQuery{Resource: "gpt-4", From: day.AddDate(0, 1, 0)}),
		"usage of a resource until": usage(UsageQuery{Resource: "gpt-4", To: day.Add(-4 * time.Hour)}),
		"live hours":                usage(UsageQuery{Entity: "acme", Window: Hourly, Live: true}),
		"live days":                 usage(UsageQuery{Resource: "gpt-4", Window: Daily, Live: true}),
		"live months":               usage(UsageQuery{Resource: "gpt-4", Window: Monthly, Live: true}),
		"summary": single(func(ctx context.Context) error {
			_, err := w.ns.UsageSummary(ctx, UsageQuery{Entity: "acme", Window: Daily, Live: true})
			return err
		}),
		"plan": single(func(ctx context.Context) error { _, err := w.ns.Plan(ctx, declare()); return err }),
	}
}

// readable is a world in which each listing has several entries.
func readable(t *testing.T) *world {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	for _, id := range []string{"acme", "beta", "gone"} {
		w.create(Entity{ID: id, Parent: "org", Cascade: true})
		_, err := w.table.Register(t.Context(), id)
		w.must(err)
	}
	w.deleteNamespace("gone")
	w.deleteNamespace("beta")
	for _, at := range []Scope{{}, {Resource: "gpt-4"}, {Resource: "o3"}, {Entity: "acme"}, {"acme", "gpt-4"},
		{"org", "gpt-4"}} {
		w.set(at, rpm10)
	}
	for i, resource := range []string{"gpt-4", "o3"} {
		w.take("acme", resource, limiter.Costs{"rpm": 1})
		w.take("beta", resource, limiter.Costs{"rpm": 1})
		w.db.Store(ledger.Threshold{Namespace: w.ns.ID(), Entity: "acme", Resource: resource, Limit: "rpm", End: start,
			Percent: 50, At: "2026-11-20T10:00:00Z"}.Item())
		for _, entity := range []string{"acme", "beta", "hours"} {
			at := fmt.Sprintf("2023-11-14T2%d:00:00Z", i)
			w.snapshot(entity, resource, "hourly", at, at, map[string]int64{"rpm": 5})
		}
	}
	w.snapshot("acme", "gpt-4", "hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z", map[string]int64{"rpm": 1})
	w.snapshot("acme", "gpt-4", "daily", "2023-11-14T00:00:00Z", "2023-11-14", map[string]int64{"rpm": 6})
	w.snapshot("acme", "gpt-4", "daily", "2023-11-13T00:00:00Z", "2023-11-13", map[string]int64{"rpm": 7})
	w.snapshot("acme", "gpt-4", "monthly", "2023-11-01T00:00:00Z", "2023-11", map[string]int64{"rpm": 13})
	return w
}

// Who leaves a listing after any entry is not told any more: the language would panic.
func TestListingsCanBeLeft(t *testing.T) {
	w := readable(t)
	for name, read := range reads(w) {
		all, err := read(t.Context(), 0)
		w.must(err)
		for leave := 1; leave <= all; leave++ {
			if n, err := read(t.Context(), leave); n != leave || err != nil {
				t.Errorf("%s: left after %d of %d, not %d: %v", name, n, all, leave, err)
			}
		}
	}
}

// Whichever call of a listing or a look-up fails, the operator is told that it did: none ends early as
// if that were all.
func TestReadsReportFailedCalls(t *testing.T) {
	w := readable(t)
	for name, read := range reads(w) {
		for fail, more := 1, true; more; fail++ {
			var calls atomic.Int64
			w.failOn(store.Unavailable, false, func(memdynamo.Op) bool { return calls.Add(1) == int64(fail) })
			_, err := read(t.Context(), 0)
			w.db.SetHook(nil)
			if more = calls.Load() >= int64(fail); more && (!errors.Is(err, limiter.ErrUnavailable) || !inWords(err)) {
				t.Errorf("%s: call %d fails: %v", name, fail, err)
			}
		}
	}
}
