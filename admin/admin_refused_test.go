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
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
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
	usage := func(q UsageQuery) (any, error) { return listed(ns.Usage(ctx, q)) }
	entity := func(e Entity) (any, error) { return ns.CreateEntity(ctx, e) }
	meta := func(v any) (any, error) { return entity(Entity{ID: "a", Metadata: map[string]any{"k": v}}) }
	valid := func(m Manifest) (any, error) { m.Namespace = "prod"; return ns.Plan(ctx, m) }
	opened := func(o Options) (any, error) { return open(ctx, w.db, &o) }
	feb := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	const (
		policies  = "PolicyDefault, PolicyBlock or PolicyAllow"
		entities  = layout.EntityNames
		resources = layout.ResourceNames
		days      = "whole days, at most 3660"
	)
	calls := 0
	w.db.SetSerialHook(func(memdynamo.Op) (bool, error) { calls++; return true, nil })
	refused := func(want string) func(v any, err error) {
		return func(v any, err error) {
			t.Helper()
			if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), want) || calls > 0 {
				t.Errorf("%v after %d calls\nwant %s", err, calls, want)
			}
			if v != nil && !reflect.ValueOf(v).IsZero() {
				t.Errorf("%s: returns %+v", want, v)
			}
		}
	}

	refused("Options.Timeout is 1µs, want zero for the default, or at least 1ms")(
		opened(Options{Timeout: time.Microsecond}))
	refused("Options.AuditRetention is 1h0m0s, want zero for the default, or at least a day")(
		opened(Options{AuditRetention: time.Hour}))
	refused(`Options.Principal is "\n", want empty, or ` + layout.Names)(opened(Options{Principal: "\n"}))
	refused("db is nil, want a DynamoDB client")(Open(ctx, nil, "t", nil))
	refused(`principal is "\n", want empty, or ` + layout.Names)(ns.As("\n"))
	refused(`id is "a b", want 1 to 64 letters, digits and ._:-`)(ns.Once("a b"))

	refused(`register namespace "_": limiter: invalid: namespace is "_", want 1 to 256 bytes of text ` +
		`without control characters, other than the reserved "_"`)(w.table.Register(ctx, "_"))
	refused(`namespace is "_", want `)(w.table.Namespace(ctx, "_"))
	refused(`namespace is "_", want `)(w.table.Lookup(ctx, "_"))

	refused(`Entity is "\n", want ` + entities)(ns.Peek(ctx, "\n", "r"))
	refused(`Resource is "_default_", want ` + resources)(ns.Peek(ctx, "e", "_default_"))
	refused(`Entity is "\n", want ` + entities)(ns.Resolve(ctx, "\n", "r"))
	refused(`Resource is "_default_", want ` + resources)(ns.Resolve(ctx, "e", "_default_"))
	refused(`Entity is "\n", want ` + entities)(ns.Reset(ctx, "\n", "r"))
	refused(`Resource is "_default_", want ` + resources)(ns.Reset(ctx, "e", "_default_"))
	refused("tokens is empty, want at least one limit")(ns.Credit(ctx, "e", "r", nil))
	refused("tokens of rpm is 0, want 1 to 1000000000000000")(ns.Credit(ctx, "e", "r", limiter.Costs{"rpm": 0}))
	refused("tokens of rpm is 1000000000000001, want 1 to 1000000000000000")(
		ns.Credit(ctx, "e", "r", limiter.Costs{"rpm": limiter.MaxTokens + 1}))

	refused(`Entity is "\n", want ` + entities)(ns.Raise(ctx, "\n", "r", nil, later))
	refused("tokens is empty, want at least one limit")(ns.Raise(ctx, "e", "r", nil, later))
	refused("tokens of rpm is 0, want 1 to 1000000000000000")(ns.Raise(ctx, "e", "r", limiter.Costs{"rpm": 0}, later))
	refused("periods is 0, want 1 to 1000")(ns.RaiseFor(ctx, "e", "r", limiter.Costs{"rpm": 1}, 0))
	refused("periods is 1001, want 1 to 1000")(ns.RaiseFor(ctx, "e", "r", limiter.Costs{"rpm": 1}, 1001))

	refused(`ID is "\n", want ` + entities)(entity(Entity{ID: "\n"}))
	refused(`Parent is "\n", want ` + entities)(entity(Entity{ID: "a", Parent: "\n"}))
	refused("Cascade is true, want a Parent to cascade to")(entity(Entity{ID: "a", Cascade: true}))
	refused(`Name is "\n", want empty, or ` + layout.Names)(entity(Entity{ID: "a", Name: "\n"}))
	refused(`Metadata is "", want keys that are not empty`)(entity(Entity{ID: "a", Metadata: map[string]any{"": 1}}))
	refused("Metadata is too large, want at most 400 KB in all")(meta(strings.Repeat("x", 500_000)))
	refused("Metadata.k[0].x is 1e+200, want a number that can be stored")(meta([]any{map[string]any{"x": 1e200}}))
	refused("Metadata.k.x[1] is a time (in YAML, a date without quotes), want text, a number, true or false, nil, or " +
		"maps and lists of these")(meta(map[string]any{"x": []any{1, feb}}))
	refused(`ID is "\n", want ` + entities)(ns.UpdateEntity(ctx, Entity{ID: "\n"}))
	refused(`ID is "\n", want ` + entities)(ns.MoveEntity(ctx, "\n", "a"))
	refused(`ID is "\n", want ` + entities)(ns.DeleteEntity(ctx, "\n"))
	refused(`ID is "\n", want ` + entities)(ns.Entity(ctx, "\n"))
	refused(`parent is "\n", want ` + entities)(listed(ns.Children(ctx, "\n")))

	refused("limits is empty, want at least one; DeleteLimits removes them")(only(ns.SetLimits(ctx, Scope{}, nil...)))
	refused(`Resource is "_default_", want ` + resources)(only(ns.SetLimits(ctx, Scope{Resource: "_default_"}, rpm10)))
	refused(`Entity is "\n", want ` + entities)(only(ns.ChangeLimits(ctx, Config{Scope: Scope{Entity: "\n"}}, rpm10)))
	refused("Refill is 0")(
		only(ns.ChangeLimits(ctx, Config{Limits: []limiter.Limit{{Name: "x", Capacity: 1}}}, rpm10)))
	refused(`Entity is "\n", want ` + entities)(only(ns.DeleteLimits(ctx, Scope{Entity: "\n"})))
	refused(`OnUnavailable is "Policy(9)", want ` + policies)(
		only(ns.Configure(ctx, Settings{OnUnavailable: new(limiter.Policy(9))})))
	refused("AuditRetention is -24h0m0s, want " + days)(only(ns.Configure(ctx, Settings{AuditRetention: new(-day)})))
	refused("AuditRetention is 87864h0m0s, want " + days)(
		only(ns.Configure(ctx, Settings{AuditRetention: new(3661 * day)})))
	refused("AuditRetention is 1h0m0s, want " + days)(
		only(ns.Configure(ctx, Settings{AuditRetention: new(time.Hour)})))
	refused(`Entity is "\n", want ` + entities)(ns.Config(ctx, Scope{Entity: "\n"}))
	refused(`Entity is "\n", want ` + entities)(listed(ns.Configs(ctx, Scope{Entity: "\n"})))
	refused(`Entity is "\n", want ` + entities)(ns.Reach(ctx, Scope{Entity: "\n"}))
	refused(`Entity is "\n", want ` + entities)(listed(ns.Buckets(ctx, Scope{Entity: "\n"})))
	refused(`scope is "*/*", want an entity, a resource or both`)(ns.SetAccess(ctx, Scope{}, AccessEnabled))
	refused(`Entity is "\n", want ` + entities)(ns.SetAccess(ctx, Scope{Entity: "\n"}, AccessEnabled))
	refused(`access is "Access(-1)", want `)(ns.SetAccess(ctx, Scope{Entity: "a"}, -1))
	refused(`access is "Access(4)", want AccessInherited, AccessDisabled, AccessEnabled or AccessBypassed`)(
		ns.SetAccess(ctx, Scope{Entity: "a"}, 4))
	refused(`cascade is "Cascade(-1)", want CascadeInherited, CascadeOn or CascadeOff`)(
		ns.SetCascade(ctx, Scope{Entity: "a"}, -1))
	refused(`scope is "*/*", want an entity, a resource or both`)(ns.SetCascade(ctx, Scope{}, CascadeOn))

	refused(`about is "a/b", want an entity or a resource or neither`)(listed(ns.Events(ctx, Scope{"a", "b"}, "")))
	refused(`Entity is "\n", want ` + entities)(listed(ns.Events(ctx, Scope{Entity: "\n"}, "")))
	refused(`Resource is "\n", want ` + resources)(listed(ns.Events(ctx, Scope{Resource: "\n"}, "")))
	refused(`before is "x#y", want the ID of an event`)(listed(ns.Events(ctx, Scope{}, "x#y")))
	refused(`Entity is "", want ` + entities)(listed(ns.Thresholds(ctx, Scope{Resource: "r"})))
	refused(`Resource is "\n", want ` + resources)(listed(ns.Thresholds(ctx, Scope{"a", "\n"})))

	refused("UsageQuery is empty, want an Entity or a Resource")(usage(UsageQuery{}))
	refused(`Entity is "\n", want ` + entities)(usage(UsageQuery{Entity: "\n"}))
	refused(`Window is "weekly", want hourly, daily, monthly, or empty for all`)(
		usage(UsageQuery{Entity: "a", Window: "weekly"}))
	refused(`Window is "", want hourly, daily or monthly with Live`)(usage(UsageQuery{Entity: "a", Live: true}))
	refused(`To is "2024-02-01T00:00:00Z", want a time after From`)(usage(UsageQuery{Entity: "a", From: feb, To: feb}))
	refused(`Window is "", want hourly, daily or monthly`)(only(second(ns.UsageSummary(ctx, UsageQuery{Entity: "a"}))))

	refused(`namespace is "_", want 1 to 256 bytes`)(ns.Plan(ctx, Manifest{Namespace: "_"}))
	refused(`namespace is "test", want "prod", which it is applied to`)(ns.Plan(ctx, Manifest{Namespace: "test"}))
	everybodys, of := Scope{}, Scope{Resource: "r"}
	for _, c := range []struct {
		want string
		says Config
	}{
		{`AuditRetention, Raises or Err of is "*/*", want none`, Config{Scope: everybodys, AuditRetention: day}},
		{`AuditRetention, Raises or Err of is "*/r", want none`, Config{Scope: of, Raises: []Raise{{}}}},
		{`AuditRetention, Raises or Err of is "*/r", want none`, Config{Scope: of, Err: ErrConfig}},
		{`Access or Cascade of is "*/*", want an entity, `, Config{Scope: everybodys, Access: AccessDisabled}},
		{`Access or Cascade of is "*/*", want an entity, `, Config{Scope: everybodys, Cascade: CascadeOn}},
		{`access is "Access(9)"`, Config{Scope: of, Access: 9}},
		{`OnUnavailable is "Policy(9)", want ` + policies, Config{Scope: everybodys, OnUnavailable: 9}},
		{`OnUnavailable of is "*/r", want the zero Scope`, Config{Scope: of, OnUnavailable: limiter.PolicyAllow}},
		{"limits of */r: limiter: invalid: limits is empty, want at least one", scope("", "r")},
		{`limits of */r: limiter: invalid: limits is "rpm" twice, want every limit name once`,
			scope("", "r", rpm10, rpm10)},
		{"limits of \n/x: limiter: invalid: Entity is \"\\n\", want " + entities, scope("\n", "x", rpm10)},
	} {
		refused(c.want)(valid(Manifest{Scopes: []Config{c.says}}))
	}
	refused("Scopes is */r twice, want every scope once")(
		valid(Manifest{Scopes: []Config{scope("", "r", rpm10), scope("", "r", rpm20)}}))
	refused(`entity "": limiter: invalid: ID is`)(valid(Manifest{Entities: []Entity{{}}}))
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
			t.Errorf("%s: returns %+v, %d items, before %d", want, v, w.db.Len(), before.Len())
		}
	}
}
