package admin

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// says returns what a scope says besides limits, also where these cannot be read.
func (w *world) says(at Scope) string {
	w.Helper()
	c, err := w.ns.Config(w.Context(), at)
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConfig) {
		w.must(err)
	}
	return fmt.Sprint(c.Access, " ", c.Cascade)
}

// switches has an operator say something of a scope.
func (w *world) switches(at Scope, a Access) {
	w.Helper()
	_, err := w.ns.SetAccess(w.Context(), at, a)
	w.must(err)
}

// eventsAt returns the events about a scope, the newest first.
func (w *world) eventsAt(at Scope) []Event {
	w.Helper()
	if at.Entity != "" {
		at.Resource = ""
	}
	return w.events(at)
}

// What a manifest says of a scope besides its limits is stored and obeyed, and taken back when it is
// no longer declared. What an operator has stored stays.
func TestAccessIsDeclared(t *testing.T) {
	pair, entity, resource := Scope{"acme", "gpt-4"}, Scope{Entity: "acme"}, Scope{Resource: "gpt-4"}
	for _, at := range []Scope{pair, entity, resource} {
		for _, limits := range []bool{false, true} {
			w := newWorld(t)
			w.set(Scope{}, rpm10)
			m := Manifest{Namespace: "prod"}
			if limits {
				m.set(scope(at.Entity, at.Resource, rpm20))
			}
			with := func(a Access, c Cascade) Manifest {
				says := Config{Scope: at, Access: a, Cascade: c}
				if limits {
					says.Limits = []limiter.Limit{rpm20}
				}
				return Manifest{Namespace: "prod", Scopes: []Config{says}}
			}
			acquire := func(want error) {
				t.Helper()
				_, err := w.limiter().Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt-4",
					Costs: limiter.Costs{"rpm": 11}})
				if !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("%s, limits %v: acquire: %v, want %v", at, limits, err, want)
				}
			}
			w.apply(with(AccessDisabled, CascadeOn))
			acquire(limiter.ErrDisabled)
			check.Equal(t, w.says(at), "disabled on", "%s says", at)
			if d := w.eventsAt(at)[0].Details; d["disabled"] != true || d["cascade"] != true || (d["limits"] != nil) != limits {
				t.Errorf("the event tells %v", d)
			}
			w.apply(with(AccessBypassed, CascadeOff))
			acquire(nil)
			check.Equal(t, w.says(at), "bypassed off", "%s says", at)
			w.apply(m)
			check.Equal(t, w.says(at), "inherited inherited", "%s says when it is no longer declared", at)
			if it := w.db.Item(w.ns.config(at).Key()); (it != nil) != limits || it["declared"] != nil {
				t.Errorf("left %v", it)
			}
			w.switches(at, AccessDisabled)
			w.apply(m)
			w.apply(Manifest{Namespace: "prod"})
			check.Equal(t, w.says(at), "disabled inherited", "an operator has switched %s off, and it says", at)
			w.apply(with(AccessDisabled, CascadeOn)) // now it is the manifest's
			w.switches(at, AccessBypassed)           // and an operator's again
			w.apply(m)
			check.Equal(t, w.says(at), "bypassed inherited", "an operator has bypassed %s, and it says", at)
			if p := w.plan(m); p.Changes() != 0 {
				t.Errorf("%d changes are left", p.Changes())
			}
			w.hasNoOrphans()
		}
	}
}

// Buckets that exist learn what a manifest says of their scope, as Python clients read it there.
func TestBucketsLearnWhatIsDeclared(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org"})
	w.split("acme", "gpt-4", 1)
	stamps := func() string {
		var out []string
		for k := range 2 {
			it := w.db.Item(layout.BucketKey(w.ns.id, "acme", "gpt-4", k))
			until := "0"
			if n, ok := it["bypass"].(*types.AttributeValueMemberN); ok {
				until = n.Value
			}
			out = append(out, fmt.Sprint(it["disabled"] != nil, " ", until, " ", w.bucket("acme", "gpt-4", k).Cascade))
		}
		check.Equal(t, out[0], out[1], "the shards have %q", out)
		return out[0]
	}
	at := Scope{Resource: "gpt-4"}
	for _, c := range []struct {
		a    Access
		c    Cascade
		want string
	}{
		{AccessDisabled, CascadeOn, "true 0 true"},
		{AccessBypassed, CascadeOff, fmt.Sprint("false ", w.now.Load()+60_000, " false")},
		{AccessEnabled, CascadeOn, "false 0 true"},
	} {
		w.apply(Manifest{Namespace: "prod", Scopes: []Config{{Scope: at, Access: c.a, Cascade: c.c}}})
		check.Equal(t, stamps(), c.want, "%v, %v: stamps", c.a, c.c)
	}
	w.apply(Manifest{Namespace: "prod"})
	check.Equal(t, stamps(), "false 0 false", "no longer declared: stamps")
}

// A policy is stored in the form of Python 0.17, decides before the entity itself, and is recorded once.
func TestCascadesAreStored(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	level := func(entity string) int64 {
		all, err := w.ns.Peek(t.Context(), entity, "gpt-4")
		w.must(err)
		return all[0].Levels[0].Remaining
	}
	at := Scope{Entity: "acme", Resource: "gpt-4"}
	for _, c := range []struct {
		to     Cascade
		stored item.Value
		org    int64
	}{{CascadeInherited, nil, 9}, {CascadeOff, item.Bool(false), 9}, {CascadeOn, item.Bool(true), 8},
		{CascadeInherited, nil, 7}} {
		events := len(w.eventsAt(at))
		for range 2 {
			_, err := w.ns.SetCascade(t.Context(), at, c.to)
			w.must(err)
		}
		it := w.db.Item(w.ns.config(at).Key())
		if !reflect.DeepEqual(it["cascade"], c.stored) {
			t.Errorf("%v is stored as %v", c.to, it)
		}
		if n := len(w.eventsAt(at)) - events; c.org != 9 && n != 1 || n > 1 {
			t.Errorf("%v is recorded %d times", c.to, n)
		}
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
		check.Equal(t, level("org"), c.org, "%v: the parent has left", c.to)
		r, err := w.ns.Resolve(t.Context(), "acme", "gpt-4")
		if w.must(err); r.Cascade != c.to {
			t.Errorf("%v is resolved as %v", c.to, r.Cascade)
		}
	}
}

// A bucket is not marked as one that charges a parent, where its entity has none.
func TestACascadePolicyWithoutAParent(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	for _, e := range []Entity{{ID: "org"}, {ID: "acme", Parent: "org"}, {ID: "alone"}} {
		w.create(e)
	}
	for _, id := range []string{"acme", "alone", "unknown"} {
		w.take(id, "gpt-4", limiter.Costs{"rpm": 1})
	}
	_, err := w.ns.SetCascade(t.Context(), Scope{Resource: "gpt-4"}, CascadeOn)
	w.must(err)
	for id, parent := range map[string]string{"acme": "org", "alone": "", "unknown": ""} {
		if b := w.bucket(id, "gpt-4", 0); b.Cascade != (parent != "") || b.Parent != parent {
			t.Errorf("%s: cascade %v, parent %q", id, b.Cascade, b.Parent)
		}
	}
}
