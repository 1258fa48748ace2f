package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// failOn fails the calls that which picks: they are applied all the same, or not.
func (w *world) failOn(kind store.Kind, apply bool, which func(memdynamo.Op) bool) {
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if which(op) {
			return apply, memdynamo.Fail(kind)
		}
		return true, nil
	})
}

// failTransactions has the first transaction fail, or all of them.
func (w *world) failTransactions(kind store.Kind, apply, all bool) {
	failed := false
	w.failOn(kind, apply, func(op memdynamo.Op) bool {
		fails := op.Name == memdynamo.TransactWriteItems && (!failed || all)
		failed = failed || fails
		return fails
	})
}

// countEvents returns an error unless there are as many events of the action about
// a subject.
func countEvents(w *world, about Scope, action string, want int) error {
	n := 0
	for _, e := range w.events(about) {
		if e.Action == action {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d events %s, want %d", n, action, want)
	}
	return nil
}

// Every call of every operation fails in every way. What is only delayed or lost is made up for, with the outcome
// of an operation that met no fault. Else the error says so, and the operation makes up for it when it is carried
// out again. The call that removes a zero from the counts, call 0 here, may fail without an error.
func TestOperationsUnderFaults(t *testing.T) {
	for name := range operations(t.Context()) {
		base := changeable(t, name)
		ran := func(t *testing.T, fault func(call int) (apply bool, err error)) (w *world, calls int, err error) {
			w = base.copy(t)
			w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.UpdateItem && op.Writes[0].Target() == layout.EntityConfigsKey(w.ns.ID()) {
					return fault(0)
				}
				calls++
				return fault(calls)
			})
			err = operations(t.Context())[name](w)
			w.db.SetHook(nil)
			return w, calls, err
		}
		var want []string
		events := 0
		synctest.Test(t, func(t *testing.T) { // a purge waits for the index
			w, _, err := ran(t, func(int) (bool, error) { return true, nil })
			w.must(err)
			want, events = w.everything(), len(collect(t, w.ns.AllEvents(t.Context(), time.Time{}, time.Time{})))
		})
		for _, f := range []struct {
			apply   bool
			kind    store.Kind
			forever bool
		}{{false, store.Throttled, false}, {false, store.Conflict, false}, {false, store.Unknown, false},
			{true, store.Unknown, false}, {false, store.Unavailable, false}, {true, store.Unknown, true}} {
			for nth, more := 0, true; more; nth += 1 + nth/12 {
				synctest.Test(t, func(t *testing.T) {
					w, calls, err := ran(t, func(call int) (bool, error) {
						if call == nth || f.forever && call > nth && nth > 0 {
							return f.apply, memdynamo.Fail(f.kind)
						}
						return true, nil
					})
					if more = calls >= nth; !more {
						return
					}
					lasts := nth > 0 && (f.forever || f.kind == store.Unavailable)
					told := errors.Is(err, limiter.ErrUnavailable) ||
						(f.forever || name == "register a namespace") && errors.Is(err, limiter.ErrUnknown)
					switch {
					case err != nil && (!lasts || !told || !inWords(err)), err == nil && lasts && !f.forever:
						t.Errorf("%s, %+v, call %d: %v", name, f, nth, err)
					case err == nil:
						check.Equal(t, len(collect(t, w.ns.AllEvents(t.Context(), time.Time{}, time.Time{}))), events,
							"%s, %+v, call %d", name, f, nth)
					default:
						_ = operations(t.Context())[name](w)
						_, _ = w.ns.Reach(t.Context(), Scope{})
					}
					check.Equal(t, differences(w.everything(), want), "", "%s, %+v, call %d, %v", name, f, nth, err)
				})
			}
		}
	}
}

// Nothing is written into a deleted namespace, also by a client that opened it before. An operation whose context has
// ended returns an error and is not tried again.
func TestNothingIsChanged(t *testing.T) {
	unchanged := []string{"configure what is so already", "delete an entity that does not exist",
		"delete limits that are not there", "reach"}
	for name, do := range operations(t.Context()) {
		w := changeable(t, name)
		before := w.everything()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := operations(ctx)[name](w)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, limiter.ErrUnavailable) ||
			!slices.Equal(w.everything(), before) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(name, "namespace") || strings.Contains(name, "that is") || strings.Contains(name, "purge") ||
			strings.Contains(name, "many shards") {
			continue
		}
		w = changeable(t, name)
		w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
		before = w.everything()
		if err = do(w); !errors.Is(err, limiter.ErrNamespace) && !slices.Contains(unchanged, name) ||
			!slices.Equal(w.everything(), before) {
			t.Errorf("%s in a deleted namespace: %v", name, err)
		}
	}
}

// What others keep in an item stays there, whatever ours changes of it.
func TestChangesKeepAttributesOfOtherClients(t *testing.T) {
	for name, do := range operations(t.Context()) {
		if removes := []string{"delete an", "namespace", "purge", "cannot be read"}; slices.ContainsFunc(removes,
			func(word string) bool { return strings.Contains(name, word) }) {
			continue
		}
		w := changeable(t, name)
		w.apply(declare(func(m *Manifest) { m.set(scope("", "o3", tpm500)) }))
		before := w.db.Items()
		for _, it := range before {
			it["x_others"] = item.S("kept")
			w.db.Store(it)
		}
		w.must(do(w))
		for _, it := range before {
			if now := w.db.Item(item.KeyOf(it)); !item.Equal(now["x_others"], it["x_others"]) {
				t.Errorf("%s: %v is now %v", name, it, now)
			}
		}
	}
}

// An operation that always loses against others gives up with an error in the end.
func TestChangesThatAreAlwaysRaced(t *testing.T) {
	for _, name := range []string{"set limits", "set limits of one", "change limits", "delete limits", "configure",
		"disable", "cascade", "create an entity", "update an entity", "move an entity", "credit", "raise twice with an id",
		"reset", "reset of what cannot be read"} {
		w := changeable(t, name)
		tries := 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name != memdynamo.TransactWriteItems {
				return true, nil
			}
			tries++
			return false, &store.Canceled{Reasons: make([]store.Reason, len(op.Writes))}
		})
		before := w.everything()
		err := operations(t.Context())[name](w)
		w.db.SetHook(nil)
		if w.wants(err, ErrBusy); tries%callAttempts != 0 || !slices.Equal(w.everything(), before) {
			t.Errorf("%s: %d attempts", name, tries)
		}
	}
}

// rival returns the same namespace as somebody else has it, whose calls pass the
// hook by.
func (w *world) rival() *Namespace {
	w.Helper()
	other, err := open(w.Context(), bareLister{w.db}, &Options{Now: w.table.opts.Now})
	w.must(err)
	ns, err := other.Namespace(w.Context(), "prod")
	w.must(err)
	return ns
}

// before runs do once, just before the nth call of an operation reaches the table.
func (w *world) before(op memdynamo.OpName, nth int, do func()) {
	calls := 0
	w.db.SetHook(func(o memdynamo.Op) (bool, error) {
		if o.Name == op {
			if calls++; calls == nth {
				w.db.SetHook(nil)
				do()
			}
		}
		return true, nil
	})
}

// read calls one of the functions that read, and counts the entries that came. It breaks off after so many; 0 is
// never.
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

// reads are all functions that only read, by name.
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
			return check.Err(w.ns.Config(ctx, Scope{"acme", "gpt-4"}))
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
			return check.Err(w.ns.UsageSummary(ctx, UsageQuery{Entity: "acme", Window: Daily, Live: true}))
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
		w.must(check.Err(w.table.Register(t.Context(), id)))
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

// A caller may break off a listing after any entry. A listing that went on then would panic.
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

// Whichever call fails, a listing or a look-up returns its error: none ends early, as if that were all.
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
