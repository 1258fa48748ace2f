package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// fails returns a hook that lets n calls pass and then fails all.
func fails(n int) memdynamo.Hook {
	return func(memdynamo.Op) (bool, error) {
		if n--; n < 0 {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	}
}

// failOn fails the calls that which picks: they are applied all the same, or not.
func (w *world) failOn(kind store.Kind, apply bool, which func(memdynamo.Op) bool) {
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if which(op) {
			return apply, memdynamo.Fail(kind)
		}
		return true, nil
	})
}

// transactionFaults are the ways in which transactions fail: refused or applied, once or until the fault is over.
var transactionFaults = []struct {
	apply   bool
	kind    store.Kind
	forever bool
}{
	{false, store.Throttled, false}, {false, store.Conflict, false}, {true, store.Unknown, false},
	{false, store.Unavailable, false}, {true, store.Unknown, true}, {false, store.Unknown, true},
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

// change is one way to change something, and a way to see that it was done, once.
type change struct {
	name    string
	prepare func(w *world)
	do      func(w *world, ctx context.Context) error
	done    func(w *world) error
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

func changes() []change {
	acme := Scope{Entity: "acme"}
	at := Scope{"acme", "gpt-4"}
	return []change{
		{
			"set limits", func(*world) {},
			func(w *world, ctx context.Context) error { return w.ns.SetLimits(ctx, at, rpm10) },
			func(w *world) error {
				w.registered(at, true)
				_, err := w.ns.Config(w.Context(), at)
				return errors.Join(err, countEvents(w, acme, "limits_set", 1))
			},
		},
		{
			"delete limits", func(w *world) { w.set(at, rpm10) },
			func(w *world, ctx context.Context) error { return w.ns.DeleteLimits(ctx, at) },
			func(w *world) error {
				w.registered(at, false)
				return countEvents(w, acme, "limits_deleted", 1)
			},
		},
		{
			"set limits of a resource", func(*world) {},
			func(w *world, ctx context.Context) error {
				return w.ns.SetLimits(ctx, Scope{Resource: "gpt-4"}, rpm10)
			},
			func(w *world) error {
				w.registered(Scope{Resource: "gpt-4"}, true)
				return countEvents(w, Scope{Resource: "gpt-4"}, "limits_set", 1)
			},
		},
		{
			"disable", func(w *world) { w.set(Scope{}, rpm10); w.take("acme", "gpt-4", limiter.Costs{"rpm": 1}) },
			func(w *world, ctx context.Context) error {
				_, err := w.ns.SetAccess(ctx, at, AccessDisabled)
				return err
			},
			func(w *world) error {
				w.registered(at, true)
				_, err := w.ns.SetAccess(w.Context(), at, AccessDisabled) // tells buckets that were not reached
				return errors.Join(err, w.access(at, AccessDisabled), w.stamped(true), countEvents(w, acme, "limits_set", 1))
			},
		},
		{
			"enable again", func(w *world) {
				w.set(Scope{}, rpm10)
				w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
				_, err := w.ns.SetAccess(w.Context(), at, AccessDisabled)
				w.must(err)
			},
			func(w *world, ctx context.Context) error {
				_, err := w.ns.SetAccess(ctx, at, AccessInherited)
				return err
			},
			func(w *world) error {
				w.registered(at, false)
				_, err := w.ns.SetAccess(w.Context(), at, AccessInherited)
				return errors.Join(err, w.access(at, AccessInherited), w.stamped(false), countEvents(w, acme, "limits_set", 2))
			},
		},
		{
			"set policy", func(w *world) { w.set(Scope{}, rpm10) },
			func(w *world, ctx context.Context) error {
				return w.ns.Configure(ctx, Settings{OnUnavailable: new(limiter.PolicyAllow)})
			},
			func(w *world) error {
				c, err := w.ns.Config(w.Context(), Scope{})
				if c.OnUnavailable != limiter.PolicyAllow || len(c.Limits) != 1 {
					err = fmt.Errorf("stored %+v", c)
				}
				return errors.Join(err, countEvents(w, Scope{}, "limits_set", 2))
			},
		},
		{
			"create entity", func(w *world) { w.create(Entity{ID: "org"}) },
			func(w *world, ctx context.Context) error {
				_, err := w.ns.CreateEntity(ctx, Entity{ID: "acme", Parent: "org", Cascade: true})
				return err
			},
			func(w *world) error {
				_, err := w.ns.Entity(w.Context(), "acme")
				return errors.Join(err, countEvents(w, acme, "entity_created", 1))
			},
		},
		{
			"update entity", func(w *world) { w.create(Entity{ID: "acme"}) },
			func(w *world, ctx context.Context) error {
				_, err := w.ns.UpdateEntity(ctx, Entity{ID: "acme", Name: "Acme"})
				return err
			},
			func(w *world) error {
				e, err := w.ns.Entity(w.Context(), "acme")
				if e.Name != "Acme" {
					err = fmt.Errorf("stored %+v", e)
				}
				return errors.Join(err, countEvents(w, acme, "entity_updated", 1))
			},
		},
		{
			"move entity", func(w *world) {
				w.set(Scope{}, rpm10)
				w.create(Entity{ID: "org"})
				w.create(Entity{ID: "acme", Parent: "org", Cascade: true, Name: "Acme"})
				w.create(Entity{ID: "other"})
				w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
				w.split("acme", "gpt-4", 1)
			},
			func(w *world, ctx context.Context) error {
				_, err := w.ns.MoveEntity(ctx, "acme", "other")
				return err
			},
			func(w *world) error {
				e, err := w.ns.Entity(w.Context(), "acme")
				if e.Name != "Acme" || e.Parent != "other" || !e.Cascade {
					err = fmt.Errorf("stored %+v", e)
				}
				for shard := range 2 {
					if b := w.bucket("acme", "gpt-4", shard); b.Parent != "other" || !b.Cascade {
						err = fmt.Errorf("shard %d: %+v", shard, b)
					}
				}
				return errors.Join(err, countEvents(w, acme, "entity_updated", 1))
			},
		},
		{
			"credit", func(w *world) {
				w.set(Scope{}, limiter.PerHour("rpm", 80))
				w.split("acme", "gpt-4", 2)
				for k := range 4 {
					w.spoil("acme", k, item.Item{"b_rpm_tk": item.N(0)})
				}
			},
			func(w *world, ctx context.Context) error {
				_, err := w.ns.Credit(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 8})
				return err
			},
			func(w *world) (err error) {
				if n := w.left(); n != 8 {
					err = fmt.Errorf("%d left", n)
				}
				return errors.Join(err, countEvents(w, acme, "bucket_credited", 1))
			},
		},
		{
			"raise", func(w *world) {
				w.set(Scope{}, limiter.PerHour("rpm", 80))
				w.split("acme", "gpt-4", 1)
			},
			func(w *world, ctx context.Context) error {
				_, err := w.ns.RaiseFor(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 8}, 1)
				return err
			},
			func(w *world) error {
				b, err := w.ns.Peek(w.Context(), "acme", "gpt-4")
				if err == nil && b[0].Levels[0].Capacity != 88 {
					err = fmt.Errorf("it is %+v", b[0].Levels[0])
				}
				return errors.Join(err, countEvents(w, acme, "limits_raised", 1))
			},
		},
		{
			"reset what cannot be read", func(w *world) {
				w.set(Scope{}, rpm10)
				w.split("acme", "gpt-4", 1)
				w.spoil("acme", 0, odd["a clock of text"])
			},
			func(w *world, ctx context.Context) error { _, err := w.ns.Reset(ctx, "acme", "gpt-4"); return err },
			func(w *world) (err error) {
				if n := w.drained(w.limiter()); n != 10 {
					err = fmt.Errorf("%d granted afterwards", n)
				}
				return errors.Join(err, countEvents(w, acme, "bucket_reset", 1))
			},
		},
		{
			"register namespace", func(*world) {},
			func(w *world, ctx context.Context) error { _, err := w.table.Register(ctx, "new"); return err },
			func(w *world) error {
				if n := len(collect(w.T, w.table.Namespaces(w.Context()))); n != 2 {
					return fmt.Errorf("%d namespaces", n)
				}
				return nil
			},
		},
		{
			"recover namespace", func(w *world) { w.must(w.table.DeleteNamespace(w.Context(), "prod")) },
			func(w *world, ctx context.Context) error {
				_, err := w.table.RecoverNamespace(ctx, w.ns.ID())
				return err
			},
			func(w *world) error { _, err := w.table.Namespace(w.Context(), "prod"); return err },
		},
		{
			"delete namespace", func(*world) {},
			func(w *world, ctx context.Context) error { return w.table.DeleteNamespaceID(ctx, w.ns.ID()) },
			func(w *world) error {
				if n := len(collect(w.T, w.table.Orphans(w.Context()))); n != 1 {
					return fmt.Errorf("%d namespaces are deleted", n)
				}
				return nil
			},
		},
	}
}

// Every call of every change meets every fault. What is only delayed or lost is
// made up for, and the change is made once, with one event; when it cannot be made
// the error says whether it may have been.
func TestChangesUnderFaults(t *testing.T) {
	for _, c := range changes() {
		for _, f := range []struct {
			name    string
			apply   bool
			kind    store.Kind
			forever bool
			ok      bool
			want    error
		}{
			{"throttled once", false, store.Throttled, false, true, nil},
			{"conflict once", false, store.Conflict, false, true, nil},
			{"lost, not applied", false, store.Unknown, false, true, nil},
			{"lost, applied", true, store.Unknown, false, true, nil},
			{"refused for good", false, store.Unavailable, true, false, limiter.ErrUnavailable},
			{"throttled for ever", false, store.Throttled, true, false, limiter.ErrUnavailable},
			{"lost for ever", true, store.Unknown, true, false, limiter.ErrUnknown},
		} {
			for nth := range 6 {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					c.prepare(w)
					calls := 0
					w.db.SetSerialHook(func(memdynamo.Op) (bool, error) {
						calls++
						if calls-1 == nth || f.forever && calls > nth {
							return f.apply, memdynamo.Fail(f.kind)
						}
						return true, nil
					})
					err := c.do(w, t.Context())
					w.db.SetHook(nil)
					if calls <= nth {
						return // the change needs fewer calls
					}
					half := errors.Is(err, ErrReach)
					switch {
					case f.ok && err != nil:
						t.Fatalf("%s, %s, call %d: %v", c.name, f.name, nth, err)
					case !f.ok && err != nil && !half && !errors.Is(err, f.want) && !errors.Is(err, limiter.ErrUnavailable) &&
						c.done(w) != nil: // what is done, and cannot be read back, is unknown
						t.Fatalf("%s, %s, call %d: %v", c.name, f.name, nth, err)
					case err != nil && !half:
						return
					}
					if err := c.done(w); err != nil {
						t.Fatalf("%s, %s, call %d: %v", c.name, f.name, nth, err)
					}
				})
			}
		}
	}
}

// changesWithin are the changes of what is in a namespace.
func changesWithin() []change {
	return slices.DeleteFunc(changes(), func(c change) bool { return strings.Contains(c.name, "namespace") })
}

// Nothing is written into a namespace that was deleted, by whoever still has it.
func TestNothingIsChangedInADeletedNamespace(t *testing.T) {
	for _, c := range changesWithin() {
		w := newWorld(t)
		c.prepare(w)
		w.must(w.table.DeleteNamespace(t.Context(), "prod"))
		before := w.db.Snapshot()
		w.wants(c.do(w, t.Context()), limiter.ErrNamespace)
		for _, it := range w.db.Items() {
			if !item.EqualItems(it, before.Item(item.KeyOf(it))) {
				t.Errorf("%s: %q was written", c.name, item.KeyOf(it))
			}
		}
	}
}

// A change whose context ends says so, and is not tried any longer.
func TestChangesEndWithTheirContext(t *testing.T) {
	for _, c := range changes() {
		w := newWorld(t)
		c.prepare(w)
		before := w.db.Snapshot()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.do(w, ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("%s: %v", c.name, err)
		}
		if w.db.Len() != before.Len() {
			t.Errorf("%s: something was written", c.name)
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

// before calls f once, when the first call of that name is on its way.
func (w *world) before(op memdynamo.OpName, f func()) {
	done := false
	w.db.SetHook(func(o memdynamo.Op) (bool, error) {
		if o.Name == op && !done {
			done = true
			f()
		}
		return true, nil
	})
}

// What somebody else changes at the same scope at the same time is not undone by a
// change of something else.
func TestChangesAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	rival := w.rival()
	w.before(memdynamo.TransactWriteItems, func() { w.must(rival.SetLimits(context.Background(), Scope{}, rpm20)) })
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyAllow)}))
	w.db.SetHook(nil)
	c, err := w.ns.Config(t.Context(), Scope{})
	if err != nil || len(c.Limits) != 1 || c.Limits[0] != rpm20 || c.OnUnavailable != limiter.PolicyAllow {
		t.Errorf("stored %+v, %v", c, err)
	}
	// Two create or delete limits of the same scope: it is counted once.
	at := Scope{"acme", "gpt-4"}
	w.before(memdynamo.TransactWriteItems, func() { w.must(rival.SetLimits(context.Background(), at, rpm20)) })
	w.set(at, rpm10)
	w.registered(at, true)
	w.before(memdynamo.TransactWriteItems, func() { w.must(rival.DeleteLimits(context.Background(), at)) })
	w.must(w.ns.DeleteLimits(t.Context(), at))
	w.registered(at, false)
}
