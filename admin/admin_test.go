package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
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
func TestBadArgumentsAreRefusedBeforeAnyCall(t *testing.T) {
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
	refused(`Metadata is "", want keys in UTF-8 that are not empty`)(
		entity(Entity{ID: "a", Metadata: map[string]any{"": 1}}))
	refused(`Metadata.k.x is "", want keys in UTF-8 that are not empty`)(
		meta(map[string]any{"x": map[string]any{"": 1}}))
	refused(`Metadata.k[0] is "\xff", want UTF-8`)(meta([]string{"\xff"}))
	refused(`Metadata.k is "\xff", want keys in UTF-8 that are not empty`)(meta(map[string]any{"\xff": 1}))
	refused("Metadata is too large, want at most 396 KB in all")(meta(strings.Repeat("x", 406_000)))
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
	refused("Refill is 0")(only(ns.ChangeLimits(ctx, Config{Limits: []limiter.Limit{{Name: "x", Capacity: 1}}}, rpm10)))
	refused(`Entity is "\n", want ` + entities)(only(ns.DeleteLimits(ctx, Scope{Entity: "\n"})))
	refused(`OnUnavailable is "Policy(9)", want ` + policies)(
		only(ns.Configure(ctx, Settings{OnUnavailable: new(limiter.Policy(9))})))
	refused("AuditRetention is -24h0m0s, want " + days)(only(ns.Configure(ctx, Settings{AuditRetention: new(-day)})))
	refused("AuditRetention is 87864h0m0s, want " + days)(
		only(ns.Configure(ctx, Settings{AuditRetention: new(3661 * day)})))
	refused("AuditRetention is 1h0m0s, want " + days)(only(ns.Configure(ctx, Settings{AuditRetention: new(time.Hour)})))
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
	refused(`Window is "", want hourly, daily or monthly`)(
		only(check.Err(ns.UsageSummary(ctx, UsageQuery{Entity: "a"}))))

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
func TestStoredStateIsRefusedInTheSameWords(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "acme"})
	ctx := t.Context()
	once := w.once("n-1")
	w.must(check.Err(once.Reset(ctx, "acme", "gpt-4"))) // also where there is no bucket
	for want, do := range map[string]func() (any, error){
		`id is "n-1", want one that was not used for a `: func() (any, error) {
			return once.Credit(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 1})
		},
		`Parent is "\n", want ` + layout.EntityNames: func() (any, error) { return w.ns.MoveEntity(ctx, "acme", "\n") },
		`id is "_", want the id of a namespace`:      func() (any, error) { return w.table.PurgeNamespace(ctx, "_") },
		`id is "", want the id of a namespace`:       func() (any, error) { return w.table.PurgeNamespace(ctx, "") },
		`id is "a/b", want the id of a namespace`:    func() (any, error) { return w.table.PurgeNamespace(ctx, "a/b") },
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

// spoilt returns an item of which all attributes but the keys have a type that is never stored.
func spoilt(it item.Item) item.Item {
	out := maps.Clone(it)
	for attr := range it {
		if !item.IsKeyAttr(attr) {
			out[attr] = &types.AttributeValueMemberB{Value: []byte("x")}
		}
	}
	return out
}

// An item that cannot be read fails the functions that would return it, and no others. A listing ends with it;
// those of buckets and stored limits go on.
func TestUnreadableItemsFailOnlyTheirReaders(t *testing.T) {
	w := readable(t)
	w.apply(declare())
	ns := w.ns.ID()
	const (
		live   = "live days, live months"
		until  = ", usage of a resource until"
		usages = "live days, live hours, live months, summary, usage, usage of a resource"
	)
	snapshot := func(entity, resource, part string) item.Key { return layout.UsageKey(ns, entity, resource, part) }
	for _, c := range []struct {
		key  item.Key
		want string
	}{
		{layout.VersionKey(), "lookup, version"},
		{layout.NamespaceKey("prod"), "lookup, namespaces, orphans"},
		{layout.NamespaceKey("acme"), "namespaces, orphans"},
		{layout.NamespaceIDKey(ns), "orphans"},
		{layout.SystemConfigKey(ns), "all configs, resolve"},
		{layout.ResourceConfigKey(ns, "gpt-4"), "all buckets, all configs, buckets of a resource, configs of many, " +
			"resolve"},
		{layout.EntityConfigKey(ns, "acme", "_default_"),
			"all buckets, all configs, buckets of one, configs of one, resolve"},
		{layout.EntityConfigKey(ns, "acme", "gpt-4"), "all buckets, all configs, bucket, buckets of a resource, " +
			"buckets of one, config, configs of many, configs of one, its configs there, " +
			"peek, resolve"},
		{layout.ResourcesKey(ns), "all configs"},
		{layout.ProvisionerKey(ns), "plan"},
		{layout.EntityKey(ns, "acme"), "children, entity, peek"},
		{layout.EntityKey(ns, "beta"), "children"},
		{layout.EntityKey(ns, "org"), "peek"},
		{item.Key{PK: ns + "/ENTITY#acme", SK: "#QUOTA#gpt-4#1700000000000#rpm#050"}, "thresholds"},
		{layout.BucketKey(ns, "acme", "gpt-4", 0), "all buckets, bucket, buckets of a resource, buckets of one, " +
			"live days, live hours, live months, peek, summary"},
		{layout.BucketKey(ns, "beta", "gpt-4", 0), "all buckets, buckets of a resource, " + live},
		{snapshot("acme", "gpt-4", "2023-11"), usages + until + ", usage until"},
		{snapshot("acme", "gpt-4", "2023-11-14"), usages + until},
		{snapshot("acme", "gpt-4", "2023-11-14T20:00:00Z"), usages},
		{snapshot("acme", "gpt-4", "2023-11-14T22:00:00Z"), usages},
		{snapshot("acme", "o3", "2023-11-14T21:00:00Z"), "live hours, summary, usage"},
		{snapshot("beta", "gpt-4", "2023-11-14T20:00:00Z"), live + ", usage of a resource"},
		{snapshot("beta", "o3", "2023-11-14T21:00:00Z"), ""},
	} {
		check.Equal(t, w.failing(c.key), c.want, "without %v", c.key)
	}
	for _, e := range w.events(Scope{Entity: "acme"}) {
		check.Equal(t, w.failing(item.Key{PK: ns + "/AUDIT#acme", SK: "#AUDIT#" + e.ID}), "all events, events",
			"without an event")
	}
}

// failing returns what fails while the item at a key cannot be read.
func (w *world) failing(key item.Key) string {
	w.Helper()
	it := w.db.Item(key)
	if it == nil {
		w.Fatalf("nothing at %v", key)
	}
	w.db.Store(spoilt(it))
	defer w.db.Store(it)
	var failed []string
	for name, read := range reads(w) {
		_, err := read(w.Context(), 0)
		if err == nil {
			continue
		}
		failed = append(failed, name)
		goesOn := strings.Contains(name, "bucket") || strings.Contains(name, "configs")
		if !inWords(err) || strings.Contains(err.Error(), "it went on") && !goesOn {
			w.Errorf("%s without %v: %v", name, key, err)
		}
	}
	slices.Sort(failed)
	return strings.Join(failed, ", ")
}

// counted returns how many calls of each kind f makes. What is read is read as it is now.
func (w *world) counted(f func()) string {
	n := map[memdynamo.OpName]int{}
	var mu sync.Mutex
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if n[op.Name]++; op.Name == memdynamo.BatchGetItem && !op.Consistent {
			w.Errorf("%v are read as they were", op.Keys)
		}
		return true, nil
	})
	f()
	w.db.SetHook(nil)
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(n), "map["), "]")
}

var update = flag.Bool("update", false, "write the golden of what calls cost anew")

// Each call costs the requests that it needs and no more, here with pages of two items.
func TestCallsSendNoMoreRequestsThanNeeded(t *testing.T) {
	var costs []string
	note := func(name, cost string) { costs = append(costs, name+": "+cost+"\n") }
	w := readable(t)
	for name, read := range reads(w) {
		note(name, w.counted(func() { _, err := read(t.Context(), 0); w.must(err) }))
	}
	for name := range operations(t.Context()) {
		synctest.Test(t, func(t *testing.T) { // a purge waits for the index
			w := changeable(t, name)
			note(name, w.counted(func() { w.must(operations(t.Context())[name](w)) }))
		})
	}
	slices.Sort(costs)
	check.Golden(t, "testdata/calls.txt", strings.Join(costs, ""), *update)
}
