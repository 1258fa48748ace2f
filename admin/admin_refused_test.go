package admin

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// listed is what a listing tells before it fails, nil for nothing.
func listed[T any](seq iter.Seq2[T, error]) (any, error) {
	n, err := listing(func(context.Context) iter.Seq2[T, error] { return seq })(context.Background(), 0)
	return n, err
}

// What is not accepted is refused before any call of the table, with the field, its value and what is
// accepted, and says nothing else.
func TestWhatIsRefused(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	ctx, ns, later := t.Context(), w.ns, time.UnixMilli(start).Add(day)
	only := func(err error) (any, error) { return nil, err }
	result := func(v any, err error) (any, error) { return v, err }
	usage := func(q UsageQuery) (any, error) { return listed(ns.Usage(ctx, q)) }
	entity := func(e Entity) (any, error) { return result(ns.CreateEntity(ctx, e)) }
	meta := func(v any) (any, error) { return entity(Entity{ID: "a", Metadata: map[string]any{"k": v}}) }
	valid := func(m Manifest) (any, error) { m.Namespace = "prod"; return result(ns.Plan(ctx, m)) }
	limits := map[string][]limiter.Limit{"x": {rpm10}}
	opened := func(o Options) (any, error) { return result(open(ctx, w.db, &o)) }
	feb := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	const (
		policies  = "PolicyDefault, PolicyBlock or PolicyAllow"
		entities  = layout.EntityNames
		resources = layout.ResourceNames
		days      = "whole days, at most 3660"
	)
	for _, c := range []struct {
		do   func() (any, error)
		want string
	}{
		{func() (any, error) { return opened(Options{Timeout: time.Microsecond}) },
			"Options.Timeout is 1µs, want zero for the default, or at least 1ms"},
		{func() (any, error) { return opened(Options{AuditRetention: time.Hour}) },
			"Options.AuditRetention is 1h0m0s, want zero for the default, or at least a day"},
		{func() (any, error) { return opened(Options{Principal: "\n"}) },
			`Options.Principal is "\n", want empty, or ` + layout.Names},
		{func() (any, error) { return result(Open(ctx, nil, "t", nil)) }, "db is nil, want a DynamoDB client"},
		{func() (any, error) { return result(ns.As("\n")) }, `principal is "\n", want empty, or ` + layout.Names},
		{func() (any, error) { return result(ns.Once("a b")) }, `id is "a b", want 1 to 64 letters, digits and ._:-`},

		{func() (any, error) { return result(w.table.Register(ctx, "_")) },
			`register namespace "_": limiter: invalid: namespace is "_", want 1 to 256 bytes of text ` +
				`without control characters, other than the reserved "_"`},
		{func() (any, error) { return only(w.table.DeleteNamespace(ctx, "_")) }, `namespace is "_", want `},
		{func() (any, error) { return result(w.table.Namespace(ctx, "_")) }, `namespace is "_", want `},
		{func() (any, error) { return result(w.table.Lookup(ctx, "_")) }, `namespace is "_", want `},

		{func() (any, error) { return result(ns.Peek(ctx, "\n", "r")) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Peek(ctx, "e", "_default_")) }, `Resource is "_default_", want ` + resources},
		{func() (any, error) { return result(ns.Resolve(ctx, "\n", "r")) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Resolve(ctx, "e", "_default_")) },
			`Resource is "_default_", want ` + resources},
		{func() (any, error) { return result(ns.Reset(ctx, "\n", "r")) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Reset(ctx, "e", "_default_")) },
			`Resource is "_default_", want ` + resources},
		{func() (any, error) { return result(ns.Credit(ctx, "e", "r", nil)) }, "tokens is empty, want at least one limit"},
		{func() (any, error) { return result(ns.Credit(ctx, "e", "r", limiter.Costs{"rpm": 0})) },
			"tokens of rpm is 0, want 1 to 1000000000000000"},
		{func() (any, error) {
			return result(ns.Credit(ctx, "e", "r", limiter.Costs{"rpm": limiter.MaxTokens + 1}))
		},
			"tokens of rpm is 1000000000000001, want 1 to 1000000000000000"},

		{func() (any, error) { return result(ns.Raise(ctx, "\n", "r", nil, later)) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Raise(ctx, "e", "r", nil, later)) },
			"tokens is empty, want at least one limit"},
		{func() (any, error) { return result(ns.Raise(ctx, "e", "r", limiter.Costs{"rpm": 0}, later)) },
			"tokens of rpm is 0, want 1 to 1000000000000000"},
		{func() (any, error) { return result(ns.RaiseFor(ctx, "e", "r", limiter.Costs{"rpm": 1}, 0)) },
			"periods is 0, want 1 to 1000"},
		{func() (any, error) { return result(ns.RaiseFor(ctx, "e", "r", limiter.Costs{"rpm": 1}, 1001)) },
			"periods is 1001, want 1 to 1000"},

		{func() (any, error) { return entity(Entity{ID: "\n"}) }, `ID is "\n", want ` + entities},
		{func() (any, error) { return entity(Entity{ID: "a", Parent: "\n"}) }, `Parent is "\n", want ` + entities},
		{func() (any, error) { return entity(Entity{ID: "a", Cascade: true}) },
			"Cascade is true, want a Parent to cascade to"},
		{func() (any, error) { return entity(Entity{ID: "a", Name: "\n"}) }, `Name is "\n", want empty, or ` + layout.Names},
		{func() (any, error) { return entity(Entity{ID: "a", Metadata: map[string]any{"": 1}}) },
			`Metadata is "", want keys that are not empty`},
		{func() (any, error) { return meta(strings.Repeat("x", 500_000)) },
			"Metadata is too large, want at most 400 KB in all"},
		{func() (any, error) { return meta([]any{map[string]any{"x": 1e200}}) },
			"Metadata.k[0].x is 1e+200, want a number that can be stored"},
		{func() (any, error) { return meta(map[string]any{"x": []any{1, feb}}) },
			"Metadata.k.x[1] is a time (in YAML, a date without quotes), want text, a number, true or false, nil, or " +
				"maps and lists of these"},
		{func() (any, error) { return result(ns.UpdateEntity(ctx, Entity{ID: "\n"})) }, `ID is "\n", want ` + entities},
		{func() (any, error) { return result(ns.MoveEntity(ctx, "\n", "a")) }, `ID is "\n", want ` + entities},
		{func() (any, error) { return result(ns.DeleteEntity(ctx, "\n")) }, `ID is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Entity(ctx, "\n")) }, `ID is "\n", want ` + entities},
		{func() (any, error) { return listed(ns.Children(ctx, "\n")) }, `parent is "\n", want ` + entities},

		{func() (any, error) { return only(ns.SetLimits(ctx, Scope{}, nil...)) },
			"limits is empty, want at least one; DeleteLimits removes them"},
		{func() (any, error) { return only(ns.SetLimits(ctx, Scope{Resource: "_default_"}, rpm10)) },
			`Resource is "_default_", want ` + resources},
		{func() (any, error) { return only(ns.ChangeLimits(ctx, Config{Scope: Scope{Entity: "\n"}}, rpm10)) },
			`Entity is "\n", want ` + entities},
		{func() (any, error) {
			return only(ns.ChangeLimits(ctx, Config{Limits: []limiter.Limit{{Name: "x", Capacity: 1}}}, rpm10))
		}, "Refill is 0"},
		{func() (any, error) { return only(ns.DeleteLimits(ctx, Scope{Entity: "\n"})) },
			`Entity is "\n", want ` + entities},
		{func() (any, error) { return only(ns.Configure(ctx, Settings{OnUnavailable: new(limiter.Policy(9))})) },
			`OnUnavailable is "Policy(9)", want ` + policies},
		{func() (any, error) { return only(ns.Configure(ctx, Settings{AuditRetention: new(-day)})) },
			"AuditRetention is -24h0m0s, want " + days},
		{func() (any, error) { return only(ns.Configure(ctx, Settings{AuditRetention: new(3661 * day)})) },
			"AuditRetention is 87864h0m0s, want " + days},
		{func() (any, error) { return only(ns.Configure(ctx, Settings{AuditRetention: new(time.Hour)})) },
			"AuditRetention is 1h0m0s, want " + days},
		{func() (any, error) { return result(ns.Config(ctx, Scope{Entity: "\n"})) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return listed(ns.Configs(ctx, Scope{Entity: "\n"})) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.Reach(ctx, Scope{Entity: "\n"})) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return listed(ns.Buckets(ctx, Scope{Entity: "\n"})) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.SetAccess(ctx, Scope{}, AccessEnabled)) },
			`scope is "*/*", want an entity, a resource or both`},
		{func() (any, error) { return result(ns.SetAccess(ctx, Scope{Entity: "\n"}, AccessEnabled)) },
			`Entity is "\n", want ` + entities},
		{func() (any, error) { return result(ns.SetAccess(ctx, Scope{Entity: "a"}, -1)) }, `access is "Access(-1)", want `},
		{func() (any, error) { return result(ns.SetAccess(ctx, Scope{Entity: "a"}, 4)) },
			`access is "Access(4)", want AccessInherited, AccessDisabled, AccessEnabled or AccessBypassed`},
		{func() (any, error) { return result(ns.SetCascade(ctx, Scope{Entity: "a"}, -1)) },
			`cascade is "Cascade(-1)", want CascadeInherited, CascadeOn or CascadeOff`},
		{func() (any, error) { return result(ns.SetCascade(ctx, Scope{}, CascadeOn)) },
			`scope is "*/*", want an entity, a resource or both`},

		{func() (any, error) { return listed(ns.Events(ctx, Scope{"a", "b"}, "")) },
			`about is "a/b", want an entity or a resource or neither`},
		{func() (any, error) { return listed(ns.Events(ctx, Scope{Entity: "\n"}, "")) },
			`Entity is "\n", want ` + entities},
		{func() (any, error) { return listed(ns.Events(ctx, Scope{Resource: "\n"}, "")) },
			`Resource is "\n", want ` + resources},
		{func() (any, error) { return listed(ns.Events(ctx, Scope{}, "x#y")) }, `before is "x#y", want the ID of an event`},
		{func() (any, error) { return listed(ns.Thresholds(ctx, Scope{Resource: "r"})) }, `Entity is "", want ` + entities},
		{func() (any, error) { return listed(ns.Thresholds(ctx, Scope{"a", "\n"})) },
			`Resource is "\n", want ` + resources},

		{func() (any, error) { return usage(UsageQuery{}) }, "UsageQuery is empty, want an Entity or a Resource"},
		{func() (any, error) { return usage(UsageQuery{Entity: "\n"}) }, `Entity is "\n", want ` + entities},
		{func() (any, error) { return usage(UsageQuery{Entity: "a", Window: "weekly"}) },
			`Window is "weekly", want hourly, daily, monthly, or empty for all`},
		{func() (any, error) { return usage(UsageQuery{Entity: "a", Live: true}) },
			`Window is "", want hourly, daily or monthly with Live`},
		{func() (any, error) { return usage(UsageQuery{Entity: "a", From: feb, To: feb}) },
			`To is "2024-02-01T00:00:00Z", want a time after From`},
		{func() (any, error) { return only(second(ns.UsageSummary(ctx, UsageQuery{Entity: "a"}))) },
			`Window is "", want hourly, daily or monthly`},

		{func() (any, error) { return result(ns.Plan(ctx, Manifest{Namespace: "_"})) },
			`namespace is "_", want 1 to 256 bytes`},
		{func() (any, error) { return result(ns.Plan(ctx, Manifest{Namespace: "test"})) },
			`namespace is "test", want "prod", which it is applied to`},
		{func() (any, error) { return valid(Manifest{System: &Config{Scope: Scope{Entity: "a"}}}) },
			`System is "a/*", want only Limits and OnUnavailable`},
		{func() (any, error) { return valid(Manifest{System: &Config{AuditRetention: day}}) }, "want only Limits and"},
		{func() (any, error) { return valid(Manifest{System: &Config{Access: AccessDisabled}}) }, "want only Limits and"},
		{func() (any, error) { return valid(Manifest{System: &Config{Cascade: CascadeOn}}) }, "want only Limits and"},
		{func() (any, error) { return valid(Manifest{Access: map[Scope]Access{{}: AccessDisabled}}) },
			`Access or Cascade of is "*/*"`},
		{func() (any, error) { return valid(Manifest{Access: map[Scope]Access{{Resource: "a"}: 9}}) },
			`access is "Access(9)"`},
		{func() (any, error) {
			return valid(Manifest{Access: map[Scope]Access{{Resource: "a"}: AccessInherited}})
		},
			`Access is "inherited"`},
		{func() (any, error) {
			return valid(Manifest{Cascades: map[Scope]Cascade{{Resource: "a"}: CascadeInherited}})
		},
			`Cascade is "inherited"`},
		{func() (any, error) { return valid(Manifest{Described: []Entity{{}}}) }, `entity "": limiter: invalid: ID is`},
		{func() (any, error) { return valid(Manifest{System: &Config{OnUnavailable: 9}}) },
			`OnUnavailable is "Policy(9)", want ` + policies},
		{func() (any, error) { return valid(Manifest{Resources: map[string][]limiter.Limit{"": {rpm10}}}) },
			`resources is "", want ` + resources},
		{func() (any, error) { return valid(Manifest{Resources: map[string][]limiter.Limit{"r": {}}}) },
			"limits of */r: limiter: invalid: limits is empty, want at least one"},
		{func() (any, error) {
			return valid(Manifest{Resources: map[string][]limiter.Limit{"r": {rpm10, rpm10}}})
		},
			`limits of */r: limiter: invalid: limits is "rpm" twice, want every limit name once`},
		{func() (any, error) {
			return valid(Manifest{Entities: map[string]map[string][]limiter.Limit{"": limits}})
		},
			`entities is "", want ` + entities},
		{func() (any, error) {
			return valid(Manifest{Entities: map[string]map[string][]limiter.Limit{"\n": limits}})
		},
			"limits of \n/x: limiter: invalid: Entity is \"\\n\", want " + entities},
	} {
		var v any
		var err error
		if n := w.calls(func() { v, err = c.do() }); n != 0 {
			t.Errorf("%s: %d calls", c.want, n)
		}
		if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
		if v != nil && !reflect.ValueOf(v).IsZero() {
			t.Errorf("%s: tells %+v", c.want, v)
		}
	}
}

// What only a look at the table shows is refused in the same words, and nothing is told.
func TestWhatIsRefusedAfterALook(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	w.create(Entity{ID: "acme"})
	ctx := t.Context()
	once, err := w.ns.Once("n-1")
	w.must(err)
	_, err = once.Reset(ctx, "acme", "gpt-4")
	w.must(err)
	for want, do := range map[string]func() (any, error){
		`id is "n-1", want one that was not used for a `: func() (any, error) {
			return once.Credit(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 1})
		},
		`Parent is "\n", want ` + layout.EntityNames: func() (any, error) { return w.ns.MoveEntity(ctx, "acme", "\n") },
		`id is "_", want the id of a namespace`:      func() (any, error) { return w.table.PurgeNamespace(ctx, "_") },
		`id is "", want the id of a namespace`:       func() (any, error) { return w.table.PurgeNamespace(ctx, "") },
	} {
		before := w.db.Snapshot()
		v, err := do()
		if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
		if !reflect.ValueOf(v).IsZero() || w.db.Len() != before.Len() {
			t.Errorf("%s: tells %+v, %d items, before %d", want, v, w.db.Len(), before.Len())
		}
	}
}
