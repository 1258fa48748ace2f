// Package admin runs the administration on the emulators. Its unit tests use the twin; here mainly
// reads, queries and pages are tested on emulators.
package admin

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// world is a table of its own on an emulator.
type world struct {
	*testing.T
	engine *engine.Engine
	name   string
	table  *admin.Table
	ns     *admin.Namespace
	direct *store.Listing
}

func onEngines(t *testing.T, scenario func(*world)) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := engine.ForTest(t, kind)
			w := &world{T: t, engine: e, name: e.Table(t).Name}
			w.direct = store.NewListing(e.DynamoDB(), w.name)
			var err error
			w.table, err = admin.Open(t.Context(), e.DynamoDB(), w.name,
				&admin.Options{Principal: "alice", Timeout: time.Minute})
			check.Must(w, err)
			w.ns, err = w.table.Register(t.Context(), "prod")
			check.Must(w, err)
			scenario(w)
		})
	}
}

func collect[T any](w *world, seq iter.Seq2[T, error]) []T {
	w.Helper()
	var out []T
	for v, err := range seq {
		check.Must(w, err)
		out = append(out, v)
	}
	return out
}

func (w *world) limiter() *limiter.Limiter {
	w.Helper()
	l, err := limiter.Open(w.Context(), w.engine.DynamoDB(), w.name, &limiter.Options{
		Namespace: "prod", ConfigTTL: -1, Timeout: time.Minute,
	})
	check.Must(w, err)
	return l
}

func (w *world) take(entity, resource string, costs limiter.Costs) {
	w.Helper()
	_, err := w.limiter().Acquire(w.Context(), limiter.Request{Entity: entity, Resource: resource, Costs: costs})
	check.Must(w, err)
}

func (w *world) put(it item.Item) {
	w.Helper()
	check.Must(w, check.Err(w.direct.Write(w.Context(), item.Put{Item: it})))
}

var rpm = limiter.PerHour("rpm", 1000)

// Limits are stored, found, listed and deleted, and changes reach a bucket.
func TestLimits(t *testing.T) {
	onEngines(t, func(w *world) {
		at := admin.Scope{Entity: "auth0|5f7c#1", Resource: "anthropic.claude-v2:0"}
		for _, s := range []admin.Scope{{}, {Resource: at.Resource}, {Entity: at.Entity}, at} {
			check.Must(w, w.ns.SetLimits(w.Context(), s, rpm, limiter.PerHour("tpm", 50)))
		}
		check.Must(w, w.ns.Configure(w.Context(), admin.Settings{OnUnavailable: new(limiter.PolicyAllow)}))
		w.take(at.Entity, at.Resource, limiter.Costs{"rpm": 10})
		check.Must(w, w.ns.SetLimits(w.Context(), at, limiter.PerHour("rpm", 500)))
		got, err := w.ns.Peek(w.Context(), at.Entity, at.Resource)
		check.Must(w, err)
		b := got[0]
		if !b.Exists || len(b.Levels) != 1 || b.Levels[0].Capacity != 500 || b.Levels[0].Remaining != 500 ||
			b.Levels[0].Used != 10 || b.From != at {
			w.Errorf("bucket %+v", b)
		}
		r, err := w.ns.Resolve(w.Context(), at.Entity, at.Resource)
		check.Must(w, err)
		if r.From.Scope != at || len(r.Shadowed) != 3 || r.OnUnavailable != limiter.PolicyAllow {
			w.Errorf("resolved %+v", r)
		}
		scopes := func(in admin.Scope) (out []admin.Scope) {
			for _, c := range collect(w, w.ns.Configs(w.Context(), in)) {
				out = append(out, c.Scope)
			}
			return out
		}
		all := []admin.Scope{{}, {Resource: at.Resource}, {Entity: at.Entity}, at}
		check.Deep(w, scopes(admin.Scope{}), all, "limits at")
		check.Deep(w, scopes(admin.Scope{Resource: at.Resource}), []admin.Scope{all[1], at},
			"limits of the resource at")
		for _, s := range all {
			check.Must(w, w.ns.DeleteLimits(w.Context(), s))
		}
		if left := collect(w, w.ns.Configs(w.Context(), admin.Scope{})); len(left) != 1 || left[0].Limits != nil ||
			left[0].OnUnavailable != limiter.PolicyAllow {
			w.Errorf("left is %+v, want the policy", left)
		}
		events := collect(w, w.ns.Events(w.Context(), admin.Scope{Entity: at.Entity}, ""))
		if len(events) != 5 || events[0].Action != "limits_deleted" || events[0].Principal != "alice" {
			w.Errorf("events %+v", events)
		}
		after := collect(w, w.ns.Events(w.Context(), admin.Scope{Entity: at.Entity}, events[2].ID))
		check.Deep(w, after, events[3:], "after the third")
	})
}

// Entities with more than a page of metadata are listed and deleted.
func TestEntities(t *testing.T) {
	onEngines(t, func(w *world) {
		check.Must(w, check.Err(w.ns.CreateEntity(w.Context(), admin.Entity{ID: "org"})))
		note := strings.Repeat("x", 300<<10)
		for i := range 5 {
			_, err := w.ns.CreateEntity(w.Context(), admin.Entity{
				ID: fmt.Sprint("e", i), Parent: "org", Cascade: true,
				Metadata: map[string]any{"note": note, "n": int64(i), "nil": nil, "empty": map[string]any{}},
			})
			check.Must(w, err)
		}
		children := collect(w, w.ns.Children(w.Context(), "org"))
		if len(children) != 5 || children[4].ID != "e4" || children[4].Metadata["n"] != int64(4) || !children[4].Cascade {
			w.Errorf("%d children", len(children))
		}
		check.Is(w, check.Err(w.ns.CreateEntity(w.Context(), admin.Entity{ID: "e0"})), admin.ErrExists)
		check.Is(w, check.Err(w.ns.UpdateEntity(w.Context(), admin.Entity{ID: "org", Parent: "e0"})), admin.ErrParent)
		for i := range 60 {
			w.put(snapshot(w.ns.ID(), "e0", fmt.Sprint("r", i), 1))
		}
		n, err := w.ns.DeleteEntity(w.Context(), "e0")
		if err != nil || n != 61 {
			w.Errorf("%d removed, %v", n, err)
		}
		check.Is(w, check.Err(w.ns.Entity(w.Context(), "e0")), admin.ErrNotFound)
	})
}

func snapshot(ns, entity, resource string, hour int) item.Item {
	at := time.Date(2024, 2, 1, hour, 0, 0, 0, time.UTC).Format(time.RFC3339)
	return ledger.Snapshot{
		Namespace: ns, Entity: entity, Resource: resource, Window: "hourly", Start: at, Part: at,
		Counts: map[string]int64{"rpm": 1}, Events: 1,
	}.Item()
}

// Usage and buckets are found through indexes that have only keys.
func TestReading(t *testing.T) {
	onEngines(t, func(w *world) {
		slow := limiter.PerDay("rpm", 1000) // a slow machine gets few tokens back
		check.Must(w, w.ns.SetLimits(w.Context(), admin.Scope{}, slow))
		for e := range 4 {
			w.take(fmt.Sprint("e", e), "gpt-4", limiter.Costs{"rpm": 100})
			for h := range 24 {
				w.put(snapshot(w.ns.ID(), fmt.Sprint("e", e), "gpt-4", h))
			}
		}
		noon := time.Date(2024, 2, 1, 12, 0, 0, 0, time.UTC)
		for _, q := range []admin.UsageQuery{
			{Resource: "gpt-4", Window: admin.Hourly, From: noon, To: noon.Add(6 * time.Hour)},
			{Entity: "e1", Resource: "gpt-4", Window: admin.Hourly, To: noon.Add(12 * time.Hour)},
		} {
			s, err := w.ns.UsageSummary(w.Context(), q)
			if err != nil || s.Windows != 24 || s.Tokens["rpm"] != 24 {
				w.Errorf("%+v: %+v, %v", q, s, err)
			}
		}
		for at, want := range map[admin.Scope]int{{}: 4, {Resource: "gpt-4"}: 4, {Entity: "e1"}: 1} {
			check.Equal(w, len(collect(w, w.ns.Buckets(w.Context(), at))), want, "%s: buckets", at)
		}
		left := int64(0)
		for _, b := range collect(w, w.ns.Buckets(w.Context(), admin.Scope{Resource: "gpt-4"})) {
			left += b.Levels[0].Remaining
		}
		if left < 3600 || left > 3610 {
			w.Errorf("%d left", left)
		}
	})
}

// A deleted namespace stops its clients, and a recovered one has all of its contents. A purge
// removes everything, and nothing of other namespaces.
func TestNamespaces(t *testing.T) {
	onEngines(t, func(w *world) {
		other, err := w.table.Register(w.Context(), "other")
		check.Must(w, err)
		check.Must(w, other.SetLimits(w.Context(), admin.Scope{}, rpm))
		check.Must(w, w.ns.SetLimits(w.Context(), admin.Scope{}, rpm))
		for i := range 60 {
			w.put(config.Entity{Namespace: w.ns.ID(), ID: fmt.Sprint("e", i), CreatedAt: "2024-01-01T00:00:00Z"}.Item())
		}
		l := w.limiter()
		ask := func() error {
			_, err := l.Acquire(w.Context(), limiter.Request{Entity: "e0", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1}})
			return err
		}
		check.Must(w, ask())
		check.Must(w, w.table.DeleteNamespace(w.Context(), w.ns.ID()))
		check.Is(w, ask(), limiter.ErrNamespace, "in a deleted namespace")
		check.Must(w, check.Err(w.table.RecoverNamespace(w.Context(), w.ns.ID())))
		check.Must(w, ask())
		check.Must(w, w.table.DeleteNamespace(w.Context(), w.ns.ID()))
		n, err := w.table.PurgeNamespace(w.Context(), w.ns.ID())
		if err != nil || n < 63 {
			w.Errorf("%d removed, %v", n, err)
		}
		left, err := w.direct.List(context.Background(), config.OfNamespace(w.ns.ID()))
		if err != nil || len(left.Items) != 0 || len(collect(w, w.table.Orphans(w.Context()))) != 0 {
			w.Errorf("%d items left, %v", len(left.Items), err)
		}
		if c, err := other.Config(w.Context(), admin.Scope{}); err != nil || len(c.Limits) != 1 {
			w.Errorf("the other namespace: %+v, %v", c, err)
		}
	})
}

// A manifest is applied, found unchanged, and removed. A bucket is reset and credited.
func TestManifestsAndLevels(t *testing.T) {
	onEngines(t, func(w *world) {
		m, err := manifest.Parse([]byte(`{namespace: prod, system: {on_unavailable: allow, limits: {rpm: {capacity: 100, refill_period: 86400}}},
			resources: {gpt-4: {limits: {rpm: {capacity: 50, refill_period: 86400}}}}, entities: {"a#b": {resources: {_default_: {limits: {rpm: {capacity: 7}}}}}}}`))
		check.Must(w, err)
		apply := func(m admin.Manifest, changes int) {
			w.Helper()
			p, err := w.ns.Plan(w.Context(), m)
			check.Must(w, err)
			check.Equal(w, p.Changes(), changes, "changes of %v", p.Steps)
			err = w.ns.Apply(w.Context(), p)
			check.Must(w, err)
		}
		apply(m, 3)
		apply(m, 0)
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 50})
		added, err := w.ns.Credit(w.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 20})
		if err != nil || added["rpm"] != 20 {
			w.Errorf("credit %v, %v", added, err)
		}
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 20})
		if _, err = w.ns.Reset(w.Context(), "acme", "gpt-4"); err != nil {
			w.Error(err)
		}
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 50})
		m.Scopes = nil
		apply(m, 3)
		for at := range map[admin.Scope]bool{{}: true, {Resource: "gpt-4"}: true, {Entity: "a#b"}: true} {
			check.Is(w, check.Err(w.ns.Config(w.Context(), at)), admin.ErrNotFound, "%s", at)
		}
	})
}
