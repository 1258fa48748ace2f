package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// declaring is the manifest with other limits at the scopes that it declares.
func declaring(l limiter.Limit) func(*Manifest) {
	return func(m *Manifest) {
		for _, at := range []Scope{{Resource: "gpt-4"}, {"acme", "gpt-4"}, {Entity: "acme"}} {
			m.set(Config{Scope: at, Limits: []limiter.Limit{l}})
		}
	}
}

// crowd declares so many entities that what is managed stands in pages.
func crowd(m *Manifest) {
	for i := range 800 {
		m.Scopes = append(m.Scopes, scope(fmt.Sprintf("%s-%05d", strings.Repeat("x", 300), i), "gpt-4", rpm20))
	}
}

// refusesWhole checks that a plan is refused as a whole and leaves everything as it is.
func (w *world) refusesWhole(p *Plan) {
	w.Helper()
	is := w.db.Items()
	err := w.ns.Apply(w.Context(), p)
	w.wants(err, ErrBusy)
	for _, s := range p.Steps {
		check.Equal(w, s.Action != ActionUnchanged, errors.Is(s.Err, ErrBusy), "%s %s: %v", s.Action, s.Scope, s.Err)
	}
	if now := w.db.Items(); !slices.EqualFunc(now, is, item.EqualItems) {
		w.Errorf("%d items, %d before, and not the same", len(now), len(is))
	}
}

// Of two plans that were made from the same state the second is refused, and none of its steps is
// done: also where both manifests declare the scopes that are managed already.
func TestAPlanFromBeforeAnotherManifest(t *testing.T) {
	const l = 111
	first := func(m *Manifest) { m.set(scope("", "gpt-4", limiter.PerMinute("rpm", l))) }
	less := func(m *Manifest) { first(m); m.unset(Scope{Entity: "acme"}) }
	few := func(*Manifest) {}
	more := func(m *Manifest) { m.set(scope("new", "", rpm10)) }
	for _, c := range []struct {
		name         string
		base, second func(*Manifest)
	}{
		{"other limits at the same scopes", few, declaring(limiter.PerMinute("rpm", 222))},
		{"a scope that stays is deleted", few, func(m *Manifest) {
			m.unset(Scope{"acme", "gpt-4"}, Scope{Entity: "acme"})
		}},
		{"an entity more", few, more},
		{"nothing to change", few, few},
		{"other limits, many", crowd, declaring(limiter.PerMinute("rpm", 222))},
		{"an entity more, many", crowd, more},
	} {
		for was, change := range map[string]func(*Manifest){"changed": first, "taken away": less} {
			t.Run(c.name+", "+was, func(t *testing.T) {
				w := newWorld(t)
				w.db.PageSize = 1000
				w.apply(declare(c.base))
				a, b := w.plan(declare(c.base, change)), w.plan(declare(c.base, c.second))
				w.must(w.ns.Apply(t.Context(), a))
				w.refusesWhole(b)
				check.Equal(t, w.state().Hash, declare(c.base, change).hash(),
					"the hash is not that of what was applied")
			})
		}
	}
}

// Of two that are applied at the same time from the same state, the one that begins second is
// refused, wherever the first one is.
func TestTwoPlansAtTheSameTime(t *testing.T) {
	for nth := range 5 {
		w := newWorld(t)
		w.apply(declare())
		a, b := w.plan(declare(declaring(rpm10))), w.plan(declare(declaring(tpm500)))
		w.advance(time.Minute)
		w.before(memdynamo.TransactWriteItems, nth+2, func() { w.refusesWhole(b) })
		w.must(w.ns.Apply(t.Context(), a))
		w.db.SetHook(nil)
		if w.plan(declare(declaring(rpm10))).Changes() != 0 || w.state().Hash != declare(declaring(rpm10)).hash() {
			t.Errorf("transaction %d: not what was applied first", nth)
		}
	}
}

// A plan that is made while another one is applied is carried out beside it. The one that began
// first is told, and what is stored is not taken for its manifest.
func TestAPlanFromTheMiddleOfAnother(t *testing.T) {
	w := newWorld(t)
	w.apply(declare())
	a, second := w.plan(declare(declaring(rpm10))), declare(declaring(tpm500))
	w.advance(time.Minute)
	w.before(memdynamo.TransactWriteItems, 3, func() {
		w.advance(time.Minute)
		w.apply(second)
	})
	err := w.ns.Apply(t.Context(), a)
	w.db.SetHook(nil)
	w.wants(err, ErrBusy)
	check.Equal(t, w.state().Hash, second.hash(), "the hash is not that of the second manifest")
	w.apply(declare(declaring(rpm10)))
	check.Equal(t, w.plan(declare(declaring(rpm10))).Changes(), 0, "planned and applied again, and not all is stored")
}

// The write that begins an application fails in every way. No step is done without it, and planning
// and applying again makes up for it.
func TestFailedBeginningsApplyNothing(t *testing.T) {
	for name, c := range map[string]struct {
		applied bool
		err     error
		times   int
		done    bool
	}{
		"refused":                   {false, &store.Canceled{Reasons: []store.Reason{{Refused: true}, {}}}, 1, false},
		"down":                      {false, memdynamo.Fail(store.Unavailable), 1, false},
		"throttled once":            {false, memdynamo.Fail(store.Throttled), 1, true},
		"applied, the answer lost":  {true, memdynamo.Fail(store.Unknown), 1, true},
		"applied, all answers lost": {true, memdynamo.Fail(store.Unknown), callAttempts, false},
	} {
		for size, base := range map[string]func(*Manifest){"few": func(*Manifest) {}, "many": crowd} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.db.PageSize = 1000
				w.apply(declare(base))
				w.advance(time.Minute)
				m := declare(base, declaring(tpm500))
				p := w.plan(m)
				left := c.times
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					begins := slices.ContainsFunc(op.Writes, func(x item.Write) bool {
						return x.Target() == layout.ProvisionerKey(w.ns.ID())
					})
					if left--; begins && left >= 0 {
						return c.applied, c.err
					}
					return true, nil
				})
				err := w.ns.Apply(t.Context(), p)
				w.db.SetHook(nil)
				check.MustEqual(t, err == nil, c.done, "%s, %s: error %v", name, size, err)
				for _, s := range p.Steps {
					if (s.Err != nil) != (!c.done && s.Action != ActionUnchanged) {
						t.Errorf("%s, %s: %s: %v", name, size, s.Subject(), s.Err)
					}
				}
				if n := len(w.events(Scope{Entity: "acme"})); (n == 4) != c.done || (n == 2) == c.done {
					t.Errorf("%s, %s: %d events", name, size, n)
				}
				w.apply(m)
				if p := w.plan(m); p.Changes() != 0 || w.state().Hash != m.hash() {
					t.Errorf("%s, %s: left %s", name, size, actions(p))
				}
			})
		}
	}
}

// Steps go together in the order of the plan, up to 48 of one level at once: limits, then the
// descriptions of entities, one generation after the other, then deletions, which end with limits.
// What is unchanged is not touched.
func TestStepsThatGoTogether(t *testing.T) {
	pair, entity, resource := Scope{"a", "r"}, Scope{Entity: "a"}, Scope{Resource: "r"}
	steps := func(n int, a Action, at Scope) []Step { return slices.Repeat([]Step{{Action: a, Scope: at}}, n) }
	described := func(n int, a Action, generation int) []Step {
		return slices.Repeat([]Step{{Action: a, Scope: entity, entity: &description{generation: generation}}}, n)
	}
	large := &description{want: config.Entity{ID: "e", Metadata: item.Item{"x": item.S(strings.Repeat("x", 300_000))}}}
	for _, c := range []struct {
		name  string
		steps [][]Step
		want  string // how many are in each group, and the first and last of them
	}{
		{"none", nil, ""},
		{"a megabyte", [][]Step{slices.Repeat([]Step{{Action: ActionCreate, Scope: entity, entity: large}}, 5)},
			"3:0-2 2:3-4"},
		{"unchanged", [][]Step{steps(3, ActionUnchanged, pair)}, ""},
		{"one", [][]Step{steps(1, ActionCreate, pair)}, "1:0-0"},
		{"as many as fit", [][]Step{steps(48, ActionUpdate, pair)}, "48:0-47"},
		{"more", [][]Step{steps(97, ActionCreate, pair)}, "48:0-47 48:48-95 1:96-96"},
		{"levels", [][]Step{steps(2, ActionCreate, pair), steps(2, ActionUpdate, entity), steps(2, ActionCreate, resource),
			steps(1, ActionUpdate, Scope{})}, "2:0-1 2:2-3 2:4-5 1:6-6"},
		{"deletions", [][]Step{steps(2, ActionDelete, pair), steps(1, ActionUnchanged, pair), steps(2, ActionCreate, pair),
			steps(2, ActionDelete, entity), steps(2, ActionUpdate, pair)}, "4:3-8 2:0-1 2:5-6"},
		{"descriptions", [][]Step{steps(2, ActionCreate, pair), steps(1, ActionDelete, pair), described(2, ActionCreate, 1),
			described(1, ActionUnchanged, 1), described(1, ActionUpdate, 2), described(2, ActionDelete, 3),
			described(1, ActionDelete, 1)}, "2:0-1 2:3-4 1:6-6 2:7-8 1:9-9 1:2-2"},
	} {
		var got []string
		for _, g := range (&Plan{Steps: slices.Concat(c.steps...)}).waves() {
			got = append(got, fmt.Sprintf("%d:%d-%d", len(g), g[0], g[len(g)-1]))
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s", c.name)
	}
}

// Where it cannot be found out which buckets there are, the limits are stored, and what would come after
// is not tried. Each step says so once.
func TestApplyThatCannotGoOn(t *testing.T) {
	const setup, injected = "limiter: not set up: ", ": not set up: injected failure"
	for _, c := range []struct {
		what         string
		fails        func(n *Namespace, op memdynamo.Op) bool
		first, cause string
		stored       bool
	}{
		{"a look for buckets", func(n *Namespace, op memdynamo.Op) bool {
			return slices.Contains(op.Keys, layout.BucketKey(n.id, "acme", "gpt-4", 0))
		}, unlisted, setup + "look for buckets: BatchGetItem" + injected, true},
		{"a look at the scopes", func(n *Namespace, op memdynamo.Op) bool {
			return slices.Contains(op.Keys, layout.EntityConfigKey(n.id, "acme", "gpt-4"))
		}, "", setup + "read 1 scopes: BatchGetItem" + injected, false},
		{"a transaction", func(_ *Namespace, op memdynamo.Op) bool { return len(op.Writes) > 3 },
			"", setup + "change limits of 1 scopes: TransactWriteItems" + injected, false},
	} {
		w := newWorld(t)
		p := w.plan(declare())
		w.failOn(store.Setup, false, func(op memdynamo.Op) bool { return c.fails(w.ns, op) })
		w.wants(w.ns.Apply(t.Context(), p), limiter.ErrSetup)
		w.db.SetHook(nil)
		for i, s := range p.Steps {
			want := "not tried: " + c.cause
			if i == 0 {
				want = c.first + c.cause
			}
			if s.Err == nil || s.Err.Error() != want {
				t.Errorf("%s: %s: %v\nwant %s", c.what, s.Subject(), s.Err, want)
			}
			if stored := w.db.Item(w.ns.config(s.Scope).Key()) != nil; stored != (i == 0 && c.stored) {
				t.Errorf("%s: %s is stored: %v", c.what, s.Scope, stored)
			}
		}
	}
}

// Scopes that share a registry are one transaction all the same.
func TestScopesThatShareARegistry(t *testing.T) {
	w := newWorld(t)
	m := Manifest{Namespace: "prod", Scopes: []Config{scope("", "a", rpm10), scope("", "b", rpm10),
		scope("", "c", rpm10)}}
	for _, m := range []Manifest{m, {Namespace: "prod"}} {
		p := w.plan(m)
		const want = "BatchGetItem:1 Query:3 TransactWriteItems:3" // what is managed is recorded before and after
		got := w.counted(func() { w.must(w.ns.Apply(t.Context(), p)) })
		check.Equal(t, got, want, "%s costs", actions(p))
		names, err := w.ns.resourcesWithLimits(t.Context())
		if w.must(err); len(names) != len(m.Scopes) {
			t.Errorf("%s: listed %q", actions(p), names)
		}
	}
}
