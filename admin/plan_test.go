package admin

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func declare(change ...func(*Manifest)) Manifest {
	m := Manifest{
		Namespace: "prod",
		Scopes: []Config{{Limits: []limiter.Limit{rpm10}, OnUnavailable: limiter.PolicyAllow},
			scope("", "gpt-4", rpm20), scope("acme", "gpt-4", tpm500, rpm20), scope("acme", "", rpm10)},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

// scope declares limits.
func scope(entity, resource string, limits ...limiter.Limit) Config {
	return Config{Scope: Scope{entity, resource}, Limits: limits}
}

// set declares a scope, in place of an earlier declaration.
func (m *Manifest) set(c Config) {
	m.unset(c.Scope)
	m.Scopes = append(m.Scopes, c)
}

// unset declares nothing of scopes.
func (m *Manifest) unset(scopes ...Scope) {
	m.Scopes = slices.DeleteFunc(slices.Clone(m.Scopes), func(c Config) bool { return slices.Contains(scopes, c.Scope) })
}

func (w *world) plan(m Manifest) *Plan {
	w.Helper()
	p, err := w.ns.Plan(w.Context(), m)
	w.must(err)
	return p
}

// changesNothing requires that all of a manifest is stored.
func (w *world) changesNothing(m Manifest) {
	w.Helper()
	p := w.plan(m)
	check.Equal(w, p.Changes(), 0, "changes left by %s", actions(p))
}

func (w *world) apply(m Manifest) *Plan {
	w.Helper()
	p := w.plan(m)
	w.must(w.ns.Apply(w.Context(), p))
	return p
}

// actions returns what the steps do, in order.
func actions(p *Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, string(s.Action)+" "+s.Scope.String())
	}
	return strings.Join(out, ", ")
}

func (w *world) state() config.Provisioner {
	w.Helper()
	p, err := config.DecodeProvisioner(w.db.Item(layout.ProvisionerKey(w.ns.ID())))
	w.must(err)
	return p
}

// A manifest is created, found unchanged, changed and taken away, in an order in
// which nobody is without limits, and what it manages is recorded as the original
// does.
func TestManifest(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "foreign"}, rpm10)
	p := w.plan(declare())
	if got, want := actions(p), "create acme/gpt-4, create acme/*, create */gpt-4, create */*"; got != want ||
		p.Changes() != 4 {
		t.Errorf("plan %s, want %s", got, want)
	}
	check.Equal(t, len(w.db.Item(layout.ProvisionerKey(w.ns.ID()))), 0, "written by a plan")
	if p := w.apply(declare()); len(p.Steps) != 4 || p.failures() != nil {
		t.Errorf("applied %+v", p)
	}
	if got := w.state(); !got.System || !slices.Equal(got.Resources, []string{"gpt-4"}) || len(got.Entities) != 1 ||
		!slices.Equal(got.Entities["acme"], []string{"_default_", "gpt-4"}) || got.Hash != declare().hash() ||
		got.LastApplied == "" {
		t.Errorf("state %+v", got)
	}
	if e := w.events(Scope{Entity: "acme"}); len(e) != 2 || e[0].Action != "limits_set" {
		t.Errorf("events %+v", e)
	}
	if c := w.config(Scope{}); c.OnUnavailable != limiter.PolicyAllow || len(c.Limits) != 1 {
		t.Errorf("system %+v", c)
	}
	w.changesNothing(declare())
	events := len(w.events(Scope{Entity: "acme"}))
	w.apply(declare())
	check.Equal(t, len(w.events(Scope{Entity: "acme"})), events, "what is unchanged is changed")

	less := declare(func(m *Manifest) { m.Scopes = []Config{scope("", "gpt-4", rpm10)} })
	p = w.plan(less)
	check.Equal(t, actions(p), "update */gpt-4, delete acme/gpt-4, delete acme/*, delete */*", "plan")
	if s := p.Steps[0].String(); !strings.Contains(s, "20 per 1m0s") || !strings.Contains(s, "-> rpm: 10 per 1m0s") {
		t.Errorf("step %s", s)
	}
	w.apply(less)
	for _, s := range []Scope{{"acme", "gpt-4"}, {Entity: "acme"}, {}} {
		w.wants(check.Err(w.ns.Config(t.Context(), s)), ErrNotFound)
	}
	if got := w.state(); got.System || len(got.Entities) != 0 || !slices.Equal(got.Resources, []string{"gpt-4"}) {
		t.Errorf("state %+v", got)
	}
	check.Equal(t, len(w.config(Scope{Resource: "foreign"}).Limits), 1, "limits outside the manifest")
	w.hasNoOrphans()
}

// How long events are kept is declared nowhere, goes for those of a manifest and survives it, and what is
// declared again after somebody else has changed it is an update.
func TestManifestsAndChangesByHand(t *testing.T) {
	w := newWorld(t)
	w.must(w.ns.Configure(t.Context(), Settings{AuditRetention: new(30 * day)}))
	w.apply(declare())
	w.set(Scope{Resource: "gpt-4"}, tpm500)
	w.must(w.ns.DeleteLimits(t.Context(), Scope{Entity: "acme"}))
	const want = "unchanged acme/gpt-4, create acme/*, update */gpt-4, unchanged */*"
	check.Equal(t, actions(w.plan(declare())), want, "plan")
	w.apply(declare())
	for _, at := range []Scope{{Entity: "acme"}, {Resource: "gpt-4"}, {}} {
		if e := w.events(at)[0]; e.Action != "limits_set" || e.Expires.Sub(e.At) != 30*day {
			t.Errorf("%s: %s is kept for %s", at, e.Action, e.Expires.Sub(e.At))
		}
	}
	w.apply(declare(func(m *Manifest) { m.unset(Scope{}) }))
	if c := w.config(Scope{}); c.AuditRetention != 30*day || len(c.Limits) != 0 ||
		c.OnUnavailable != limiter.PolicyDefault {
		t.Errorf("system %+v", c)
	}
	w.changesNothing(declare(func(m *Manifest) { m.unset(Scope{}) }))
	// Items of the Python provisioner, which nobody can find, are made whole.
	it := w.db.Item(layout.ResourceConfigKey(w.ns.ID(), "gpt-4"))
	delete(it, item.AttrGSI4SK)
	w.db.Store(it)
	w.apply(declare())
	w.hasNoOrphans()
	// So is one that has a policy only, once.
	m := Manifest{Namespace: "prod", Scopes: []Config{{OnUnavailable: limiter.PolicyBlock}}}
	w.apply(m)
	it = w.db.Item(layout.SystemConfigKey(w.ns.ID()))
	delete(it, item.AttrGSI4SK)
	w.db.Store(it)
	check.Equal(t, w.apply(m).Changes(), 1, "applied")
	w.changesNothing(m)
	w.hasNoOrphans()
}

// Whatever call fails, and however, planning and applying again makes up for it, also in the buckets,
// and nothing that was created is ever forgotten.
func TestApplyUnderFaults(t *testing.T) {
	first := declare(func(m *Manifest) { m.Entities = []Entity{{ID: "acme"}, {ID: "other"}} })
	second := declare(func(m *Manifest) {
		gpt := scope("", "gpt-4", rpm20)
		gpt.Access, gpt.Cascade = AccessDisabled, CascadeOn
		m.Scopes = []Config{scope("other", "", rpm10), gpt}
		m.Entities = []Entity{{ID: "acme"}, {ID: "other", Parent: "acme"}}
	})
	for _, f := range []struct {
		apply   bool
		kind    store.Kind
		forever bool
	}{{false, store.Unavailable, false}, {false, store.Unavailable, true}, {true, store.Unknown, false},
		{true, store.Unknown, true}, {false, store.Throttled, false}} {
		for nth := range 60 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.apply(first)
				w.take("acme", "gpt-4", limiter.Costs{"tpm": 1})
				w.take("other", "gpt-4", limiter.Costs{"rpm": 1})
				p := w.plan(second)
				var calls atomic.Int64 // buckets are reached several at once
				w.failOn(f.kind, f.apply, func(memdynamo.Op) bool {
					n := int(calls.Add(1))
					return n-1 == nth || f.forever && n > nth
				})
				err := w.ns.Apply(t.Context(), p)
				w.db.SetHook(nil)
				if f.kind != store.Unavailable && !f.forever && err != nil {
					t.Fatalf("call %d, %v: %v", nth, f, err)
				}
				for _, it := range w.db.Items() {
					if c, err := config.DecodeConfig(it); err == nil && !slices.Contains(managedScopes(w.state()), scopeOf(c)) {
						t.Fatalf("call %d, %v: %s is stored and not managed", nth, f, scopeOf(c))
					}
				}
				w.advance(time.Hour) // limits of before leave when they are full
				w.apply(second)
				if p := w.plan(second); p.Changes() != 0 {
					t.Fatalf("call %d, %v: plan %s", nth, f, actions(p))
				}
				w.holds("acme", "gpt-4", 1, rpm20)
				w.holds("other", "gpt-4", 1, rpm10)
				other := w.db.Item(layout.BucketKey(w.ns.ID(), "other", "gpt-4", 0))
				if other["parent_id"] == nil || other["cascade"] == nil || other["disabled"] == nil || t.Failed() {
					t.Fatalf("call %d, %v: %v", nth, f, other)
				}
				if counts, err := w.ns.resourcesWithEntityLimits(t.Context()); err != nil || len(counts) != 1 || counts[""] != 1 {
					t.Fatalf("call %d, %v: counted %v, %v", nth, f, counts, err)
				}
				check.MustEqual(t, len(managedScopes(w.state())), 2, "call %d, %v: state %+v", nth, f, w.state())
			})
		}
	}
}

// The hash of a manifest is recorded once all of it is stored. If that cannot be recorded, the
// error says so, though every step is done.
func TestManifestHashesAreRecordedLast(t *testing.T) {
	w := newWorld(t)
	w.apply(declare())
	m := declare(func(m *Manifest) {
		m.set(scope("", "gpt-4", rpm10))
		m.set(scope("", "gpt-5", rpm10))
	})
	p := w.plan(m)
	w.set(Scope{Resource: "gpt-4"}, tpm500) // changed meanwhile
	check.MustBe(t, w.ns.Apply(t.Context(), p), ErrBusy, "error")
	if s := w.state(); s.Hash != "" || !w.plan(declare()).Unfinished || !slices.Contains(s.Resources, "gpt-5") {
		t.Errorf("managed %+v", s)
	}
	p = w.plan(m)
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		for _, write := range op.Writes {
			if put, ok := write.(item.Put); ok && put.Target() == layout.ProvisionerKey(w.ns.ID()) {
				if s, err := config.DecodeProvisioner(put.Item); err == nil && s.Hash == m.hash() {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
		}
		return true, nil
	})
	err := w.ns.Apply(t.Context(), p)
	w.db.SetHook(nil)
	check.Says(t, err, "record what is managed")
	for _, s := range p.Steps {
		check.NoError(t, s.Err, "%s", s.Scope)
	}
	w.changesNothing(m)
}

// What a step changes is told in words, also where it is nothing.
func TestStepsDescribeBothStates(t *testing.T) {
	limits := Config{OnUnavailable: limiter.PolicyAllow, Limits: []limiter.Limit{rpm10}, Access: AccessBypassed,
		Cascade: CascadeOff}
	at, about := Scope{"acme", "gpt-4"}, &description{}
	acme := &Entity{ID: "acme", Name: "Acme", Parent: "org", Cascade: true,
		Metadata: map[string]any{"plan": "gold", "n": []any{1}}}
	const words = "rpm: 10 per 1m0s, capacity 10; on unavailable: allow; bypassed; cascade: off"
	const entity = `name: Acme; parent: org; charges its parent; metadata n: [1]; metadata plan: "gold"`
	for want, s := range map[string]Step{
		"create acme/gpt-4: " + words: {Action: ActionCreate, Scope: at, To: limits},
		"update acme/gpt-4: " + words + " -> budget: $12.50 each 0 0 1 * * UTC, soft": {Action: ActionUpdate, Scope: at,
			From: limits,
			To:   Config{Limits: []limiter.Limit{limiter.Quota("budget", 12_500_000, limiter.Monthly(1, "")).AsSoft()}}},
		"update entity acme: name: a -> " + entity: {Action: ActionUpdate, Scope: Scope{Entity: "acme"},
			FromEntity: &Entity{Name: "a"}, ToEntity: acme, entity: about},
		"delete entity acme: " + entity: {Action: ActionDelete, Scope: Scope{Entity: "acme"}, FromEntity: acme,
			entity: about},
		"unchanged acme/gpt-4":                  {Action: ActionUnchanged, Scope: at, From: limits, To: limits},
		"update acme/gpt-4: nothing -> nothing": {Action: ActionUpdate, Scope: at},
	} {
		check.Equal(t, s.String(), want)
	}
}

// unlisted is what is said of buckets that could not be listed, or looked for.
const unlisted = "admin: limits are stored, but not in all buckets: " +
	"0 looked at, 0 changed, an unknown number not reached: "

// Limits that are deleted are managed until their buckets are reached.
func TestADeletionThatFindsNoBuckets(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.apply(Manifest{Namespace: "prod", Scopes: []Config{scope("", "gpt-4", rpm20)}})
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	p := w.plan(Manifest{Namespace: "prod"})
	w.failOn(store.Setup, false, func(op memdynamo.Op) bool { return op.Name == memdynamo.Query })
	w.wants(w.ns.Apply(t.Context(), p), ErrReach)
	if p = w.plan(Manifest{Namespace: "prod"}); p.Changes() != 0 || !p.Unfinished {
		t.Errorf("planned again: %s, unfinished %v", actions(p), p.Unfinished)
	}
	const said = "unchanged */gpt-4: " + unlisted
	if err := w.ns.Apply(t.Context(), p); !errors.Is(err, ErrReach) || !strings.HasPrefix(err.Error(), said) {
		t.Errorf("applied again: %v, want %s", err, said)
	}
	w.db.SetHook(nil)
	w.apply(Manifest{Namespace: "prod"})
	w.holds("acme", "gpt-4", 1, rpm10)
	if p := w.plan(Manifest{Namespace: "prod"}); len(p.Steps) != 0 || p.Unfinished || len(w.state().Resources) != 0 {
		t.Errorf("still managed: %s, unfinished %v", actions(p), p.Unfinished)
	}
}
