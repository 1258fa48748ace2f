package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// reads are all that only tells.
func reads(w *world) map[string]func(ctx context.Context) error {
	day := time.UnixMilli(start)
	return map[string]func(ctx context.Context) error{
		"version":    func(ctx context.Context) error { _, err := w.table.Version(ctx); return err },
		"lookup":     func(ctx context.Context) error { _, err := w.table.Lookup(ctx, "prod"); return err },
		"namespaces": func(ctx context.Context) error { return firstError(w.table.Namespaces(ctx)) },
		"orphans":    func(ctx context.Context) error { return firstError(w.table.Orphans(ctx)) },
		"access": func(ctx context.Context) error {
			_, err := w.ns.Access(ctx, Scope{"acme", "gpt-4"})
			return err
		},
		"config":  func(ctx context.Context) error { _, err := w.ns.Config(ctx, Scope{"acme", "gpt-4"}); return err },
		"configs": func(ctx context.Context) error { return firstError(w.ns.Configs(ctx, Scope{})) },
		"of one":  func(ctx context.Context) error { return firstError(w.ns.Configs(ctx, Scope{Entity: "acme"})) },
		"of many": func(ctx context.Context) error { return firstError(w.ns.Configs(ctx, Scope{Resource: "gpt-4"})) },
		"entity":  func(ctx context.Context) error { _, err := w.ns.Entity(ctx, "acme"); return err },
		"children": func(ctx context.Context) error {
			return firstError(w.ns.Children(ctx, "org"))
		},
		"events": func(ctx context.Context) error { return firstError(w.ns.Events(ctx, Scope{Entity: "acme"}, "")) },
		"all events": func(ctx context.Context) error {
			return firstError(w.ns.AllEvents(ctx, time.Time{}, day.AddDate(1, 0, 0)))
		},
		"peek":    func(ctx context.Context) error { _, err := w.ns.Peek(ctx, "acme", "gpt-4"); return err },
		"buckets": func(ctx context.Context) error { return firstError(w.ns.Buckets(ctx, Scope{})) },
		"of a resource": func(ctx context.Context) error {
			return firstError(w.ns.Buckets(ctx, Scope{Resource: "gpt-4"}))
		},
		"capacity": func(ctx context.Context) error {
			_, err := w.ns.Capacity(ctx, "gpt-4", "rpm", false)
			return err
		},
		"resolve":    func(ctx context.Context) error { _, err := w.ns.Resolve(ctx, "acme", "gpt-4"); return err },
		"thresholds": func(ctx context.Context) error { return firstError(w.ns.Thresholds(ctx, Scope{Entity: "acme"})) },
	}
}

// Whichever call of a listing or a look-up fails, the operator is told that it did: none ends early as
// if that were all.
func TestReadsTellThatACallFailed(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	for _, at := range []Scope{{}, {Resource: "gpt-4"}, {Entity: "acme"}, {"acme", "gpt-4"}, {"org", "gpt-4"}} {
		w.set(at, rpm10)
	}
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	for name, read := range reads(w) {
		if err := read(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		calls := 0
		for fail := 1; fail == 1 || fail <= calls; fail++ {
			calls = 0
			w.db.SetHook(func(memdb.Op) (bool, error) {
				if calls++; calls == fail {
					return false, memdb.Fail(store.Unavailable)
				}
				return true, nil
			})
			err := read(t.Context())
			w.db.SetHook(nil)
			if calls >= fail && !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("%s: call %d fails: %v", name, fail, err)
			}
		}
	}
}
