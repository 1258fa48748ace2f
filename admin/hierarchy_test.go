package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// hierarchy declares entities, and nothing else.
func tree(all ...Entity) Manifest { return Manifest{Namespace: "prod", Entities: all} }

// described returns the entities that are stored, by ID, as "name parent cascade metadata".
func (w *world) described() map[string]string {
	out := map[string]string{}
	for _, it := range w.db.Items() {
		if config.IsEntity(it) {
			e, err := config.DecodeEntity(it)
			w.must(err)
			out[e.ID] = fmt.Sprint(e.Name, " ", e.Parent, " ", e.Cascade, " ", publicMap(e.Metadata))
		}
	}
	return out
}

// A hierarchy is created, changed and taken back. Each change is recorded, and the second application
// of a manifest changes nothing.
func TestAHierarchyIsDeclared(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	gold := map[string]any{"plan": "gold"}
	org, team := Entity{ID: "org", Name: "Org"}, Entity{ID: "team", Parent: "org", Cascade: true}
	acme := Entity{ID: "acme", Name: "Acme", Parent: "team", Cascade: true, Metadata: gold}
	for _, c := range []struct {
		name string
		m    Manifest
		plan string
		want map[string]string
	}{
		{"created", tree(acme, team, org), "create entity org, create entity team, create entity acme",
			map[string]string{"org": "Org  false map[]", "team": "team org true map[]",
				"acme": "Acme team true map[plan:gold]"}},
		{"turned round", tree(Entity{ID: "acme"}, Entity{ID: "team", Parent: "acme"}, Entity{ID: "org", Parent: "team"}),
			"update entity acme, update entity team, update entity org",
			map[string]string{"acme": "acme  false map[]", "team": "team acme false map[]", "org": "org team false map[]"}},
		{"one moves, one goes", tree(Entity{ID: "acme"}, Entity{ID: "org", Parent: "acme", Cascade: true}),
			"update entity org, delete entity team",
			map[string]string{"acme": "acme  false map[]", "org": "org acme true map[]"}},
		{"no longer declared", Manifest{Namespace: "prod"}, "delete entity org, delete entity acme", map[string]string{}},
	} {
		p := w.plan(c.m)
		var plan []string
		for _, s := range p.Steps {
			if s.Action != ActionUnchanged {
				plan = append(plan, string(s.Action)+" "+s.Subject())
			}
		}
		check.Equal(t, strings.Join(plan, ", "), c.plan, "%s: plan", c.name)
		before := w.described()
		w.must(w.ns.Apply(t.Context(), p))
		check.Deep(t, w.described(), c.want, "%s: stored", c.name)
		for id := range c.want {
			want := "entity_updated"
			if _, was := before[id]; !was {
				want = "entity_created"
			}
			if e := w.events(Scope{Entity: id})[0]; e.Action != want || e.Principal != "alice" {
				t.Errorf("%s: the event of %s is %s by %s", c.name, id, e.Action, e.Principal)
			}
		}
		w.changesNothing(c.m)
	}
	if e := w.events(Scope{Entity: "acme"}); e[0].Action != "entity_deleted" || len(e) != 3 {
		t.Errorf("events %+v", e)
	}
	if b := w.bucket("acme", "gpt-4", 0); b.Parent != "" || b.Cascade {
		t.Errorf("the bucket still has parent %q", b.Parent)
	}
	w.hasNoOrphans()
}

// The buckets of an entity that moves or is no longer declared get its new parent: Python clients look there.
func TestBucketsLearnWhatAManifestSaysOfParents(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.apply(tree(Entity{ID: "org"}, Entity{ID: "acme", Parent: "org"}))
	w.split("acme", "gpt-4", 1)
	w.take("acme", "o3", limiter.Costs{"rpm": 1})
	holds := func(parent string, gpt, o3 bool) {
		t.Helper()
		for i, b := range []table.Shard{w.bucket("acme", "gpt-4", 0), w.bucket("acme", "gpt-4", 1),
			w.bucket("acme", "o3", 0)} {
			if pays := i < 2 && gpt || i == 2 && o3; b.Parent != parent || b.Cascade != pays {
				t.Errorf("%v has parent %q, cascade %v", b.Key(), b.Parent, b.Cascade)
			}
		}
	}
	for _, e := range []Entity{{ID: "acme"}, {ID: "acme", Parent: "org", Cascade: true}, {ID: "acme", Parent: "org"}} {
		w.must(check.Err(w.ns.UpdateEntity(t.Context(), e))) // by hand
		holds(e.Parent, e.Cascade, e.Cascade)
	}
	holds("org", false, false)
	w.apply(tree(Entity{ID: "org"}, Entity{ID: "acme", Parent: "org", Cascade: true}))
	holds("org", true, true)
	m := tree(Entity{ID: "org"}, Entity{ID: "acme", Parent: "org", Cascade: true})
	m.Scopes = []Config{{Scope: Scope{Resource: "o3"}, Cascade: CascadeOff}}
	w.apply(m)
	holds("org", true, false)
	w.apply(tree(Entity{ID: "org"}, Entity{ID: "acme"}))
	holds("", false, false)
	w.apply(tree(Entity{ID: "acme", Parent: "org", Cascade: true}, Entity{ID: "org"}))
	holds("org", true, true)
	w.must(check.Err(w.ns.SetCascade(t.Context(), Scope{Entity: "acme", Resource: "gpt-4"}, CascadeOff)))
	holds("org", false, true)
	w.must(check.Err(w.ns.MoveEntity(t.Context(), "acme", "org"))) // keeps the policy
	holds("org", false, true)
	w.apply(Manifest{Namespace: "prod"})
	holds("", false, false)
}

// A circle is refused before anything is stored, and the way round it is named: within the manifest,
// and through entities that are stored.
func TestCirclesAreRefusedAtTheDoor(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "a"})
	w.create(Entity{ID: "b", Parent: "a"})
	w.create(Entity{ID: "c", Parent: "b"})
	var deep []Entity
	for i := range maxAncestors + 2 {
		deep = append(deep, Entity{ID: fmt.Sprintf("e%02d", i), Parent: fmt.Sprintf("e%02d", i+1)})
	}
	deep[len(deep)-1].Parent = ""
	for _, c := range []struct {
		m    Manifest
		kind error
		want string
	}{
		{tree(Entity{ID: "x", Parent: "y"}, Entity{ID: "y", Parent: "x"}), limiter.ErrInvalid, "a circle, x -> y -> x"},
		{tree(Entity{ID: "x", Parent: "x"}), limiter.ErrInvalid, "a circle, x -> x"},
		{tree(Entity{ID: "a", Parent: "c"}), ErrParent, `entity "a": parent "c": a circle, a -> c -> b -> a`},
		{tree(Entity{ID: "x", Parent: "nobody"}), ErrParent, `entity "x": parent "nobody": no such entity`},
		{tree(deep...), limiter.ErrInvalid, "more than 32 generations"},
		{tree(Entity{ID: "x"}, Entity{ID: "x"}), limiter.ErrInvalid, `Entities is "x" twice`},
	} {
		items := len(w.db.Items())
		w.refused(check.Err(w.ns.Plan(t.Context(), c.m)), c.kind, c.want)
		check.Equal(t, len(w.db.Items()), items, "items, refused: %s", c.want)
	}
	w.apply(tree(Entity{ID: "x"}, Entity{ID: "y", Parent: "x"}))
	_, err := w.ns.Plan(t.Context(), tree(Entity{ID: "y", Parent: "x"}))
	w.refused(err, ErrParent, "it is no longer declared")
	w.apply(tree(deep[1:]...)) // as many as there may be
}

// Parents are stored before their children, generation by generation, and go after them.
func TestParentsAreStoredBeforeTheirChildren(t *testing.T) {
	w := newWorld(t)
	w.db.PageSize = 1000
	all := []Entity{{ID: "root"}}
	parent := map[string]string{}
	for i := range 30 {
		e := Entity{ID: fmt.Sprintf("a%02d", i), Parent: "root"}
		all = append(all, e)
		for k := range 20 {
			all = append(all, Entity{ID: fmt.Sprintf("b%02d-%02d", i, k), Parent: e.ID})
		}
	}
	for _, e := range all {
		parent[e.ID] = e.Parent
	}
	slices.Reverse(all)
	stored := map[string]bool{}
	var mu sync.Mutex
	for _, m := range []Manifest{tree(all...), {Namespace: "prod"}} {
		p := w.plan(m)
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, write := range op.Writes {
				id, ok := strings.CutPrefix(write.Target().PK, w.ns.id+"/ENTITY#")
				if !ok || write.Target().SK != layout.EntityKey("", "").SK {
					continue
				}
				if _, gone := write.(item.Delete); gone {
					delete(stored, id)
				} else if _, put := write.(item.Put); put {
					stored[id] = true
				}
				for child := range stored {
					if p := parent[child]; p != "" && !stored[p] {
						t.Errorf("%s is stored without %s", child, p)
					}
				}
			}
			return true, nil
		})
		w.must(w.ns.Apply(t.Context(), p))
		w.db.SetHook(nil)
		check.Equal(t, len(w.described()), len(m.Entities), "entities are stored")
	}
}

// What somebody else stores of an entity after the plan stays, and the steps about others are done.
func TestAHierarchyOverwritesNothing(t *testing.T) {
	theirs := Entity{ID: "b", Name: "theirs"}
	abc := []Entity{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	named := []Entity{{ID: "a", Name: "A"}, {ID: "b", Name: "B"}, {ID: "c", Name: "C"}}
	update := func(w *world) { w.must(check.Err(w.ns.UpdateEntity(w.Context(), theirs))) }
	for name, c := range map[string]struct {
		stored, then []Entity
		meanwhile    func(w *world)
		want         string // of b
	}{
		"created": {nil, abc, func(w *world) { w.create(theirs) }, "theirs  false map[]"},
		"updated": {abc, named, update, "theirs  false map[]"},
		"moved": {abc, []Entity{{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "a"}}, update,
			"theirs  false map[]"},
		"deleted": {abc, abc[:1], update, "theirs  false map[]"},
		"deleted, with a child": {abc, abc[:1], func(w *world) { w.create(Entity{ID: "d", Parent: "b"}) },
			"b  false map[]"},
		"updated, and gone": {abc, named, func(w *world) { w.removes("b", 1) }, ""},
	} {
		w := newWorld(t)
		w.apply(tree(c.stored...))
		p := w.plan(tree(c.then...))
		c.meanwhile(w)
		err := w.ns.Apply(t.Context(), p)
		want := ErrBusy
		if strings.Contains(name, "child") {
			want = ErrParent
		}
		w.wants(err, want)
		for _, s := range p.Steps {
			check.Equal(t, s.Err != nil, s.Scope.Entity == "b", "%s: %s: %v", name, s.Subject(), s.Err)
		}
		check.Equal(t, w.described()["b"], c.want, "%s: b", name)
		if s := w.state(); c.want != "" && !slices.Contains(s.Described, "b") {
			t.Errorf("%s: b is no longer managed: %v", name, s.Described)
		}
	}
}

// Thousands of entities, with limits and parents, are a few calls for each hundred.
func TestManyEntitiesAreCreatedInBulk(t *testing.T) {
	const n = 1920
	w := newWorld(t)
	m := many(n)
	m.Entities = []Entity{{ID: "org"}}
	for i := range n {
		m.Entities = append(m.Entities, Entity{ID: fmt.Sprintf("tenant-%05d", i), Parent: "org", Cascade: true})
	}
	p := w.plan(m)
	if calls := w.calls(func() { w.must(w.ns.Apply(t.Context(), p)) }); calls > 2*n/48*3+50 {
		t.Errorf("%d calls for %d entities", calls, n)
	}
	if len(w.described()) != n+1 || w.plan(m).Changes() != 0 {
		t.Errorf("%d entities", len(w.described()))
	}
	w.hasNoOrphans()
}

// An entity that no manifest describes any more is managed no more: one that is created by hand afterwards stays.
func TestForgottenEntitiesStay(t *testing.T) {
	w := newWorld(t)
	w.apply(tree(Entity{ID: "acme"}))
	w.apply(tree())
	w.create(Entity{ID: "acme"})
	check.Equal(t, actions(w.apply(tree())), "", "plan")
}
