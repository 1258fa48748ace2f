package admin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var (
	rpm10  = limiter.PerMinute("rpm", 10)
	rpm20  = limiter.PerMinute("rpm", 20)
	tpm500 = limiter.PerMinute("tpm", 500)
)

// scopes are all four, the most specific first.
var scopes = []Scope{{"acme", "gpt-4"}, {Entity: "acme"}, {Resource: "gpt-4"}, {}}

// Limits are stored at every scope as other clients store them, with registry and
// audit event, are found again, and leave nothing but the trail.
func TestLimitsAtEveryScope(t *testing.T) {
	for _, at := range scopes {
		t.Run(at.String(), func(t *testing.T) {
			w := newWorld(t)
			w.wants(check.Err(w.ns.Config(t.Context(), at)), ErrNotFound)
			w.must(w.ns.DeleteLimits(t.Context(), at))
			check.MustEqual(t, w.db.Len(), 3, "items: deleting nothing writes something")
			w.set(at, tpm500, rpm10)
			want := w.ns.config(at)
			want.Limits, _ = storedLimits([]limiter.Limit{rpm10, tpm500})
			if got := w.db.Item(want.Key()); !item.EqualItems(got, want.Item()) {
				t.Errorf("stored %s", itemtest.JSON(got))
			}
			check.Deep(t, w.config(at), Config{Scope: at, Limits: []limiter.Limit{rpm10, tpm500}}, "found")
			w.set(at, rpm20)
			w.registered(at, true)
			w.hasNoOrphans()
			w.must(w.ns.DeleteLimits(t.Context(), at))
			w.registered(at, false)
			w.wants(check.Err(w.ns.Config(t.Context(), at)), ErrNotFound)

			subject, _ := at.subject()
			about := Scope{Entity: at.Entity}
			if at.Entity == "" {
				about.Resource = at.Resource
			}
			var actions []string
			for _, e := range w.events(about) {
				actions = append(actions, e.Action)
				if e.Principal != "alice" || e.Expires != time.UnixMilli(start).UTC().Add(90*day) || len(e.ID) != 26 {
					t.Errorf("event %+v", e)
				}
			}
			check.Slices(t, actions, []string{"limits_deleted", "limits_set", "limits_set"}, "events about %q", subject)
		})
	}
}

// registered checks that the registries list a scope, once, or do not.
func (w *world) registered(at Scope, is bool) {
	w.Helper()
	resources, err := w.ns.resourcesWithLimits(w.Context())
	w.must(err)
	counts, err := w.ns.resourcesWithEntityLimits(w.Context())
	w.must(err)
	entities := collect(w.T, w.ns.entitiesWithLimits(w.Context(), at.Resource))
	wantResources, wantCounts, wantEntities := []string(nil), map[string]int{}, []string(nil)
	switch {
	case !is:
	case at.Entity != "":
		wantCounts[at.Resource], wantEntities = 1, []string{at.Entity}
	case at.Resource != "":
		wantResources = []string{at.Resource}
	}
	if !slices.Equal(resources, wantResources) || !maps.Equal(counts, wantCounts) ||
		!slices.Equal(entities, wantEntities) {
		w.Errorf("%s, stored %v: registered resources %q, counts %v, entities %q", at, is, resources, counts, entities)
	}
}

func TestEventDetailsMatchOtherClients(t *testing.T) {
	w := newWorld(t)
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyAllow)}))
	w.set(Scope{}, rpm10)
	w.must(w.ns.DeleteLimits(t.Context(), Scope{}))
	w.set(Scope{Entity: "acme"}, rpm10)
	limit := map[string]any{"name": "rpm", "capacity": int64(10), "refill_amount": int64(10),
		"refill_period_seconds": int64(60)}
	for i, want := range []Event{
		{Action: "limits_deleted", Details: map[string]any{"limits": []any{"rpm"}, "on_unavailable": "allow"}},
		{Action: "limits_set", Details: map[string]any{"limits": []any{limit}, "on_unavailable": "allow"}},
		{Action: "limits_set", Details: map[string]any{"limits": []any{}, "on_unavailable": "allow"}},
	} {
		got := w.events(Scope{})[i]
		if got.Action != want.Action || !reflect.DeepEqual(got.Details, want.Details) {
			t.Errorf("event %d: %s %#v", i, got.Action, got.Details)
		}
	}
	got := w.events(Scope{Entity: "acme"})[0]
	if got.Resource != "_default_" || !reflect.DeepEqual(got.Details, map[string]any{"limits": []any{limit}}) {
		t.Errorf("event %+v", got)
	}
}

// Limits, policy and retention of the system scope do not erase each other (W33).
func TestTheSystemScopeKeepsWhatIsNotChanged(t *testing.T) {
	w := newWorld(t)
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyBlock), AuditRetention: new(30 * day)}))
	if all := w.events(Scope{}); len(all) != 1 || all[0].Details["on_unavailable"] != "block" {
		t.Errorf("both settings are one change: %+v", all)
	}
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyAllow)}))
	w.must(w.ns.Configure(t.Context(), Settings{AuditRetention: new(40 * day)}))
	w.must(w.ns.Configure(t.Context(), Settings{AuditRetention: new(30 * day)}))
	w.set(Scope{}, rpm10)
	want := Config{Limits: []limiter.Limit{rpm10}, OnUnavailable: limiter.PolicyAllow, AuditRetention: 30 * day}
	if got, err := w.ns.Config(t.Context(), Scope{}); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("stored %+v, %v", got, err)
	}
	w.set(Scope{Resource: "gpt-4"}, rpm10)
	e := w.events(Scope{Resource: "gpt-4"})[0]
	check.Equal(t, e.Expires.Sub(e.At), 30*day, "kept from %v to %v", e.At, e.Expires)
	w.must(w.ns.DeleteLimits(t.Context(), Scope{}))
	want.Limits = nil
	if got, err := w.ns.Config(t.Context(), Scope{}); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("after deletion of the limits %+v, %v", got, err)
	}
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyDefault)}))
	w.must(w.ns.Configure(t.Context(), Settings{AuditRetention: new(time.Duration(0))}))
	w.wants(check.Err(w.ns.Config(t.Context(), Scope{})), ErrNotFound)
}

func TestResolveSaysWhichScopeDecides(t *testing.T) {
	w := newWorld(t)
	if got, err := w.ns.Resolve(t.Context(), "acme", "gpt-4"); err != nil || len(got.From.Limits) != 0 {
		t.Fatalf("nothing stored: %+v, %v", got, err)
	}
	w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyBlock)}))
	for i := range scopes {
		at := scopes[len(scopes)-1-i]
		w.set(at, limiter.PerMinute("rpm", int64(10+i)))
		got, err := w.ns.Resolve(t.Context(), "acme", "gpt-4")
		w.must(err)
		if got.From.Scope != at || len(got.From.Limits) != 1 || got.From.Limits[0].Capacity != int64(10+i) ||
			len(got.Shadowed) != i || got.OnUnavailable != limiter.PolicyBlock {
			t.Errorf("with limits at %s: %+v", at, got)
		}
	}
	if got := collect(t, w.ns.Configs(t.Context(), Scope{Entity: "acme"})); len(got) != 2 || got[0].Scope != scopes[1] ||
		got[1].Scope != scopes[0] {
		t.Errorf("limits of the entity: %+v", got)
	}
}

func TestListingsGoOverPages(t *testing.T) {
	w := newWorld(t)
	var want []string
	for _, e := range []string{"a", "b", "c", "d", "e"} {
		w.set(Scope{e, "gpt-4"}, rpm10)
		w.set(Scope{Resource: "r" + e}, rpm10)
		want = append(want, e)
	}
	check.Slices(t, collect(t, w.ns.entitiesWithLimits(t.Context(), "gpt-4")), want, "entities")
	if counts, err := w.ns.resourcesWithEntityLimits(t.Context()); err != nil || counts["gpt-4"] != 5 {
		t.Errorf("counts %v, %v", counts, err)
	}
	if got, err := w.ns.resourcesWithLimits(t.Context()); err != nil || len(got) != 5 || got[0] != "ra" {
		t.Errorf("resources %q, %v", got, err)
	}
	all := collect(t, w.ns.Configs(t.Context(), Scope{}))
	if len(all) != 10 || all[0].Scope != (Scope{Resource: "ra"}) || all[9].Scope != (Scope{want[4], "gpt-4"}) {
		t.Errorf("all %+v", all)
	}
	check.Deep(t, collect(t, w.ns.Configs(t.Context(), Scope{Resource: "gpt-4"})), all[5:], "the resource")
	check.Deep(t, collect(t, w.ns.Configs(t.Context(), all[7].Scope)), all[7:8], "one scope")
}

// What a Python client or its provisioner has stored, with or without registry, is
// read, replaced and deleted.
func TestForeignConfigurationIsManaged(t *testing.T) {
	w := newWorld(t)
	it := config.Config{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4"}.Item()
	delete(it, "config_version")
	for _, attr := range []string{item.AttrGSI3PK, item.AttrGSI3SK, item.AttrGSI4SK} {
		delete(it, attr)
	}
	it["l_rpm_cp"], it["l_rpm_ra"], it["l_rpm_rp"], it["l_rpm_bx"] = item.N(10), item.N(10), item.N(60), item.N(1)
	w.db.Store(it)
	at := Scope{"acme", "gpt-4"}
	if got, err := w.ns.Config(t.Context(), at); err != nil || !slices.Equal(got.Limits, []limiter.Limit{rpm10}) {
		t.Fatalf("read %+v, %v", got, err)
	}
	it["l_rpm_rp"] = item.N(0) // unreadable
	w.db.Store(it)
	if _, err := w.ns.Config(t.Context(), at); err == nil {
		t.Fatal("an unreadable limit was read")
	}
	w.set(at, rpm20)
	w.hasNoOrphans()
	w.must(w.ns.DeleteLimits(t.Context(), at))
	w.registered(at, false)
}

// Of two operators who change what both have read, one is told: nothing is lost.
func TestOneOfTwoChangesAtOnceIsBusy(t *testing.T) {
	for _, at := range scopes {
		w := newWorld(t)
		empty := Config{Scope: at}
		w.must(w.ns.ChangeLimits(t.Context(), empty, rpm10))
		w.wants(w.ns.ChangeLimits(t.Context(), empty, tpm500), ErrBusy)
		was, err := w.ns.Config(t.Context(), at)
		w.must(err)
		w.must(w.ns.ChangeLimits(t.Context(), was, rpm10, tpm500))
		w.wants(w.ns.ChangeLimits(t.Context(), was, rpm20), ErrBusy)
		got, err := w.ns.Config(t.Context(), at)
		if err != nil || !slices.Equal(got.Limits, []limiter.Limit{rpm10, tpm500}) {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
		w.set(at, rpm20)
		was.Limits = []limiter.Limit{rpm20}
		w.must(w.ns.ChangeLimits(t.Context(), was))
		check.Is(t, check.Err(w.ns.Config(t.Context(), at)), ErrNotFound, "%s: not removed", at)
		w.wants(w.ns.ChangeLimits(t.Context(), empty, limiter.Limit{}), limiter.ErrInvalid)
	}
}

// An item that was changed is noticed in each of its attributes, if not beyond those that one condition
// compares.
func TestConditionOnManyAttributes(t *testing.T) {
	for _, n := range []int{3, maxCompared, maxCompared + 2, maxCompared + 3} {
		it := item.Key{PK: "p", SK: "s"}.Item()
		for len(it) < n {
			it[fmt.Sprintf("a%03d", len(it))] = item.N(1)
		}
		cond := conditionOn(it)
		for attr := range it {
			changed := maps.Clone(it)
			changed[attr] = item.N(2)
			_, held, err := item.Update{Key: item.KeyOf(it), If: cond}.Apply(changed)
			beyond := n == maxCompared+3 && attr == fmt.Sprintf("a%03d", n-1)
			if key := item.IsKeyAttr(attr); !key && (err != nil || held != beyond) {
				t.Errorf("of %d attributes %s is changed: held %v, %v", n, attr, held, err)
			}
		}
		if _, held, err := (item.Update{Key: item.KeyOf(it), If: cond}).Apply(it); err != nil || !held {
			t.Errorf("of %d attributes none is changed: held %v, %v", n, held, err)
		}
	}
}

// meanwhile lets somebody else do something once, just before the first transaction that writes an
// item.
func (w *world) meanwhile(k item.Key, do func()) {
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		writes := func(x item.Write) bool { return x.Target() == k }
		if op.Name == memdynamo.TransactWriteItems && slices.ContainsFunc(op.Writes, writes) {
			w.db.SetHook(nil)
			do()
		}
		return true, nil
	})
}

// And so it is at a scope of more attributes than one condition compares.
func TestALargeScopeIsChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	at := Scope{Resource: "gpt-4"}
	var many, fewer []limiter.Limit
	for i := range limiter.MaxLimits {
		l := limiter.PerMinute(fmt.Sprintf("limit-%02d", i), 10).WithFloor("batch", 40).WithAhead(time.Second)
		many, fewer = append(many, l), append(fewer, l.WithFloor("batch", 50))
	}
	w.set(at, many...)
	if n := len(w.db.Item(w.ns.config(at).Key())); n <= maxCompared {
		t.Fatalf("%d attributes only", n)
	}
	w.meanwhile(w.ns.config(at).Key(), func() { w.set(at, fewer...) })
	w.wants(w.ns.ChangeLimits(t.Context(), Config{Scope: at, Limits: many}, rpm10), ErrBusy)
	check.Slices(t, w.config(at).Limits, fewer, "stored")
}
