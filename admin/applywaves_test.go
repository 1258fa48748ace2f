package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

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
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
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

// Events of an application are kept as long as the namespace says.
func TestHowLongEventsOfAnApplicationAreKept(t *testing.T) {
	w := newWorld(t)
	w.must(w.ns.Configure(t.Context(), Settings{AuditRetention: new(30 * day)}))
	w.apply(declare())
	for _, at := range []Scope{{Entity: "acme"}, {Resource: "gpt-4"}, {}} {
		if e := w.events(at)[0]; e.Action != "limits_set" || e.Expires.Sub(e.At) != 30*day {
			t.Errorf("%s: %s is kept for %s", at, e.Action, e.Expires.Sub(e.At))
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
		if got != want {
			t.Errorf("%s costs %s, want %s", actions(p), got, want)
		}
		names, err := w.ns.resourcesWithLimits(t.Context())
		if w.must(err); len(names) != len(m.Scopes) {
			t.Errorf("%s: listed %q", actions(p), names)
		}
	}
}
