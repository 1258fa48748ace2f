package rights

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// recorded returns a table with two clients: one whose requests are recorded, and one without
// recording.
func recorded(t *testing.T) (table string, db, plain *dynamodb.Client, recorder *Recorder) {
	t.Helper()
	e := engine.ForTest(t, engine.Dynoxide)
	proxy, proxied, err := fault.Engine(e, 1)
	check.Must(t, err)
	t.Cleanup(proxy.Stop)
	return e.Table(t).Name, proxied.DynamoDB(), e.DynamoDB(), Record(proxy)
}

// take returns the recorded requests, and clears them.
func take(t *testing.T, recorder *Recorder) []Right {
	t.Helper()
	asked, err := recorder.Rights()
	if err != nil || len(asked) == 0 {
		t.Fatalf("rights %v, error %v", asked, err)
	}
	recorder.Forget()
	return asked
}

// steps fails the test if one of the steps failed.
func steps(t *testing.T, all ...error) {
	t.Helper()
	for i, err := range all {
		check.Must(t, err, "step %d", i)
	}
}

// administering does everything that the administration can do, on entities, limits and namespaces.
// It returns the id of its namespace, the rights used in it, and the rights used for the whole
// table.
func administering(t *testing.T) (id string, within, whole []Right) {
	t.Helper()
	name, db, plain, recorder := recorded(t)
	all, err := admin.Open(t.Context(), db, name, &admin.Options{Principal: "tester"})
	check.Must(t, err)
	ns, err := all.Register(t.Context(), "default")
	steps(t, err, drain(all.Namespaces(t.Context())))
	whole = take(t, recorder)
	work(t, ns)
	use(t, plain, name) // not by the administration
	workOnBuckets(t, ns)
	within = take(t, recorder)
	steps(t, all.DeleteNamespace(t.Context(), ns.ID()), check.Err(all.RecoverNamespace(t.Context(), ns.ID())),
		all.DeleteNamespace(t.Context(), ns.ID()), check.Err(all.PurgeNamespace(t.Context(), ns.ID())))
	return ns.ID(), within, append(whole, take(t, recorder)...)
}

// work changes and reads everything within a namespace.
func work(t *testing.T, ns *admin.Namespace) {
	t.Helper()
	ctx := t.Context()
	on := admin.Scope{Entity: "child", Resource: "api"}
	steps(t,
		check.Err(ns.CreateEntity(ctx, admin.Entity{ID: "parent"})),
		check.Err(ns.CreateEntity(ctx, admin.Entity{ID: "child", Parent: "parent"})),
		ns.SetLimits(ctx, on, limiter.PerMinute("rpm", 10)),
		ns.SetLimits(ctx, admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 10)),
		check.Err(ns.Resolve(ctx, "child", "api")),
		check.Err(ns.Peek(ctx, "child", "api")),
		check.Err(ns.UsageSummary(ctx, admin.UsageQuery{Entity: "child", Window: admin.Hourly})),
		drain(ns.Children(ctx, "parent")),
		drain(ns.Buckets(ctx, on)),
		drain(ns.Configs(ctx, admin.Scope{Entity: "child"})),
		drain(ns.Configs(ctx, admin.Scope{})),
		drain(ns.Usage(ctx, admin.UsageQuery{Resource: "api"})),
		ns.DeleteLimits(ctx, on),
		check.Err(ns.DeleteEntity(ctx, "child")),
	)
}

// use takes tokens from the buckets of a child and its parent. One of them has shards.
func use(t *testing.T, db *dynamodb.Client, name string) {
	t.Helper()
	l, err := limiter.Open(t.Context(), db, name, &limiter.Options{Timeout: time.Minute})
	check.Must(t, err)
	for _, entity := range []string{"acme", "kid"} {
		check.Must(t, check.Err(l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: "api",
			Costs: limiter.Costs{"rpm": 1}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}})))
	}
	splitShards(t, db, name, l.NamespaceID())
}

// workOnBuckets changes and reads data about buckets in use.
func workOnBuckets(t *testing.T, ns *admin.Namespace) {
	t.Helper()
	ctx := t.Context()
	on := admin.Scope{Entity: "acme", Resource: "api"}
	again, err := ns.Once("order-7")
	check.Must(t, err)
	month := 30 * 24 * time.Hour
	declared := admin.Manifest{Namespace: "default", Scopes: []admin.Config{
		{Scope: admin.Scope{Resource: "api"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 20)}},
		{Scope: admin.Scope{Entity: "kid", Resource: "api"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 3)}}}}
	apply := func(m admin.Manifest) error {
		plan, err := ns.Plan(ctx, m)
		if err != nil {
			return err
		}
		return ns.Apply(ctx, plan)
	}
	steps(t,
		ns.Configure(ctx, admin.Settings{AuditRetention: &month}),
		check.Err(ns.CreateEntity(ctx, admin.Entity{ID: "acme"})),
		check.Err(ns.CreateEntity(ctx, admin.Entity{ID: "kid", Parent: "parent", Cascade: true})),
		check.Err(ns.UpdateEntity(ctx, admin.Entity{ID: "kid", Name: "Kid", Parent: "parent"})),
		check.Err(ns.MoveEntity(ctx, "kid", "")),
		ns.SetLimits(ctx, on, limiter.PerMinute("rpm", 30)),
		check.Err(ns.SetAccess(ctx, on, admin.AccessDisabled)),
		check.Err(ns.Reach(ctx, on)),
		check.Err(ns.Credit(ctx, "acme", "api", limiter.Costs{"rpm": 1})),
		check.Err(again.Credit(ctx, "acme", "api", limiter.Costs{"rpm": 1})),
		check.Err(ns.Reset(ctx, "acme", "api")),
		check.Err(ns.Peek(ctx, "acme", "api")),
		check.Err(ns.Config(ctx, on)),
		check.Err(ns.Entity(ctx, "acme")),
		apply(declared),
		apply(admin.Manifest{Namespace: "default"}),
		drain(ns.Events(ctx, admin.Scope{Entity: "acme"}, "")),
		drain(ns.AllEvents(ctx, time.Now().Add(-time.Hour), time.Now())),
		drain(ns.Thresholds(ctx, admin.Scope{Entity: "acme"})),
		drain(ns.Usage(ctx, admin.UsageQuery{Entity: "acme", Resource: "api", Window: admin.Hourly, Live: true})),
		drain(ns.Buckets(ctx, admin.Scope{Resource: "api"})),
		check.Err(ns.DeleteEntity(ctx, "acme")),
	)
}

func drain[V any](all iter.Seq2[V, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestAdminPoliciesAreSufficientAndNoMore(t *testing.T) {
	id, within, whole := administering(t)
	all := policies(t)
	needed := map[string]bool{}
	for _, r := range append(within, whole...) {
		needed[r.Action] = true
		if !all["AdminPolicy"].Allows(r, id) {
			t.Errorf("the admin policy does not allow %v", r)
		}
	}
	for _, r := range within {
		if !all["NamespaceAdminPolicy"].Allows(r, id) {
			t.Errorf("the admin policy of a namespace does not allow %v", r)
		}
		if !strings.HasPrefix(r.Leading, "_/") && all["NamespaceAdminPolicy"].Allows(r, "other") {
			t.Errorf("the admin policy of another namespace allows %v", r)
		}
	}
	for _, action := range all["AdminPolicy"].Actions() {
		if !needed[action] && notAdministering[action] == "" {
			t.Errorf("the admin policy allows %s, which is not needed", action)
		}
	}
	t.Logf("rights: %d kinds of calls within a namespace, %d for the table, %d actions", len(within), len(whole),
		len(needed))
}

// notAdministering are rights of the admin policy that no recorded call uses.
var notAdministering = map[string]string{
	"dynamodb:DescribeTable":      "people and tools look at the table",
	"dynamodb:DescribeTimeToLive": "the same",
	"dynamodb:GetItem":            "people look at single items, which BatchGetItem shows too",
}

// Policies to read or administer everything allow to check the table.
func TestReadersMayCheckTheTable(t *testing.T) {
	name, db, _, recorder := recorded(t)
	check.Must(t, limitertable.Check(t.Context(), db, name))
	for _, r := range take(t, recorder) {
		for _, who := range []string{"ReadPolicy", "AdminPolicy"} {
			if !policies(t)[who].Allows(r, "") {
				t.Errorf("%s does not allow %v", who, r)
			}
		}
	}
}

// acquiring does everything that a client does to take tokens and settle, on a table with a
// registered namespace. It returns the namespace's id and the rights used.
func acquiring(t *testing.T) (id string, asked []Right) {
	t.Helper()
	name, db, plain, recorder := recorded(t)
	check.Must(t, namespace.Register(t.Context(), store.NewDynamo(plain, name), "default", time.Now()))
	family(t, administered(t, plain, name))
	l, err := limiter.Open(t.Context(), db, name, &limiter.Options{Timeout: time.Minute})
	check.Must(t, err)
	takeAndSettle(t, l)
	cascade(t, l)
	splitShards(t, db, name, l.NamespaceID())
	// zae-limiter serve reads a bucket.
	if b, err := administered(t, db, name).Peek(t.Context(), "acme", "api"); err != nil || b[0].Shards < 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	mergeShards(t, db, name, l.NamespaceID())
	return l.NamespaceID(), take(t, recorder)
}

// administered returns the namespace of a table.
func administered(t *testing.T, db *dynamodb.Client, name string) *admin.Namespace {
	t.Helper()
	all, err := admin.Open(t.Context(), db, name, nil)
	check.Must(t, err)
	ns, err := all.Namespace(t.Context(), "default")
	check.Must(t, err)
	return ns
}

func takeAndSettle(t *testing.T, l *limiter.Limiter) {
	t.Helper()
	req := limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 4},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	}
	for range 2 {
		lease, err := l.Acquire(t.Context(), req)
		check.Must(t, err)
		check.Must(t, errors.Join(lease.Settle(limiter.Costs{"rpm": 5}), lease.Commit(t.Context())))
	}
	check.Is(t, check.Err(l.Acquire(t.Context(), req)), limiter.ErrLimited, "error, want a denial")
	req.Entity = "umbrella"
	err := l.Do(t.Context(), req, func(context.Context, *limiter.Lease) error { return context.Canceled })
	check.Is(t, err, context.Canceled)
}

// family creates a child whose parent is charged too, with stored limits.
func family(t *testing.T, ns *admin.Namespace) {
	t.Helper()
	steps(t,
		check.Err(ns.CreateEntity(t.Context(), admin.Entity{ID: "parent"})),
		check.Err(ns.CreateEntity(t.Context(), admin.Entity{ID: "child", Parent: "parent", Cascade: true})),
		ns.SetLimits(t.Context(), admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 10),
			limiter.Quota("rpd", 100, limiter.Daily("")), limiter.InFlight("jobs", 5, time.Minute)),
	)
}

// cascade charges a child and its parent, with rates, quotas and slots, and waits.
func cascade(t *testing.T, l *limiter.Limiter) {
	t.Helper()
	req := limiter.Request{Entity: "child", Resource: "api", Costs: limiter.Costs{"rpm": 1, "rpd": 1, "jobs": 1}}
	for range 2 {
		lease, err := l.Wait(t.Context(), req)
		check.Must(t, err)
		check.Must(t, lease.Rollback(t.Context()))
	}
}

// now is the time of a shard's change.
func now() int64 { return time.Now().UnixMilli() }

// shardOf reads a shard of the bucket in use.
func shardOf(t *testing.T, s store.Store, ns string, k int) table.Shard {
	t.Helper()
	items, err := s.Read(t.Context(), true, layout.BucketKey(ns, "acme", "api", k))
	check.Must(t, err)
	b, err := table.DecodeShard(items[0])
	check.Must(t, err)
	return b
}

// mergeShards merges the bucket again, like a client with a cool bucket. It also lowers the count
// of another bucket whose second shard is gone.
func mergeShards(t *testing.T, db *dynamodb.Client, name, ns string) {
	t.Helper()
	s := store.NewDynamo(db, name)
	zero := shardOf(t, s, ns, 0)
	for k := zero.State.Shards - 1; k > 0; k-- { // each merges before the shard it merges into
		check.Must(t, check.Err(shard.Run(t.Context(), s, shard.Follow(shardOf(t, s, ns, k), zero.State.Shards/2),
			now)))
	}
	check.Must(t, check.Err(shard.Run(t.Context(), s, shard.Shrink(zero, 1), now)))
	if after := shardOf(t, s, ns, 0); after.State.Shards >= zero.State.Shards {
		t.Fatalf("%d shards have become %d", zero.State.Shards, after.State.Shards)
	}
}

// splitShards doubles the bucket twice, like a client with a hot bucket.
func splitShards(t *testing.T, db *dynamodb.Client, name, ns string) {
	t.Helper()
	s := store.NewDynamo(db, name)
	for range 2 {
		b := shardOf(t, s, ns, 0)
		check.Must(t, check.Err(shard.Run(t.Context(), s, shard.Double(b), now)))
		for k := range b.State.Shards {
			_, err := shard.Run(t.Context(), s, shard.Propagate(shardOf(t, s, ns, k)), now)
			if k == 0 && err != nil {
				t.Fatal(err)
			}
		}
	}
}

func policies(t *testing.T) map[string]Policy {
	t.Helper()
	all, err := Load()
	check.Must(t, err)
	check.MustEqual(t, len(all), 9, "policies and roles")
	return all
}

func TestAcquirePoliciesAreSufficientAndNoMore(t *testing.T) {
	id, asked := acquiring(t)
	all := policies(t)
	needed := map[string]bool{}
	for _, r := range asked {
		needed[r.Action] = true
		for _, name := range []string{"AcquirePolicy", "AdminPolicy", "NamespaceAcquirePolicy", "NamespaceAdminPolicy"} {
			if !all[name].Allows(r, id) {
				t.Errorf("%s does not allow %v", name, r)
			}
		}
	}
	for _, name := range []string{"AcquirePolicy", "NamespaceAcquirePolicy"} {
		for _, action := range all[name].Actions() {
			if !needed[action] {
				t.Errorf("%s allows %s, which no client needs", name, action)
			}
		}
	}
	t.Logf("rights: %d kinds of calls, %d actions", len(asked), len(needed))
}

// TestOnlyBucketsAreWritten: acquire policies write only buckets. The aggregator writes only
// buckets, usage and owed usage. Neither writes limits, namespaces or audit events.
func TestOnlyBucketsAreWritten(t *testing.T) {
	all := policies(t)
	for _, c := range []struct {
		who     string
		key     string
		allowed bool
	}{
		{"AcquirePolicy", "ns/BUCKET#e#r#0", true},
		{"AcquirePolicy", "ns/ENTITY#e", false},
		{"AcquirePolicy", "ns/SYSTEM#", false},
		{"AcquirePolicy", "_/SYSTEM#", false},
		{"NamespaceAcquirePolicy", "ns/BUCKET#e#r#0", true},
		{"NamespaceAcquirePolicy", "other/BUCKET#e#r#0", false},
		{"NamespaceAcquirePolicy", "ns/RESOURCE#r", false},
		{"NamespaceAcquirePolicy", "ns/AUDIT#e", false},
		{"AggregatorRole", "ns/BUCKET#e#r#0", true},
		{"AggregatorRole", "ns/ENTITY#e", true},
		{"AggregatorRole", "_/OWED#", true},
		{"AggregatorRole", "ns/RESOURCE#r", false},
		{"AggregatorRole", "ns/AUDIT#e", false},
		{"AggregatorRole", "_/SYSTEM#", false},
		{"SetupRole", "_/SYSTEM#", true},
		{"SetupRole", "ns/BUCKET#e#r#0", false},
	} {
		for _, action := range []string{"dynamodb:UpdateItem", "dynamodb:PutItem"} {
			check.Equal(t, all[c.who].Allows(Right{action, "", c.key}, "ns"), c.allowed,
				"%s: %s on %q", c.who, action, c.key)
		}
	}
}

// TestAcquiringReadsBucketsAndLimits: an acquire policy reads buckets and limits by key, and
// nothing else: no audit events, and no owed usage.
func TestAcquiringReadsBucketsAndLimits(t *testing.T) {
	all := policies(t)
	for key, allowed := range map[string]bool{
		"ns/BUCKET#e#r#0": true, "ns/ENTITY#e": true, "ns/RESOURCE#r": true, "ns/SYSTEM#": true, "_/SYSTEM#": true,
		"ns/AUDIT#e": false, "_/OWED#": false, "_/AUDIT#ns": false,
	} {
		for _, name := range []string{"AcquirePolicy", "NamespaceAcquirePolicy"} {
			check.Equal(t, all[name].Allows(Right{"dynamodb:BatchGetItem", "", key}, "ns"), allowed,
				"%s reads %q", name, key)
		}
		check.Equal(t, all["NamespaceAcquirePolicy"].Allows(Right{"dynamodb:BatchGetItem", "", key}, "other"),
			key == "_/SYSTEM#", "the policy of another namespace reads %q", key)
	}
}

// TestNamespacePoliciesEndAtTheNamespace: a namespace's policy allows nothing in another namespace.
// It allows to read by key what belongs to the table: its version, and namespaces by name.
func TestNamespacePoliciesEndAtTheNamespace(t *testing.T) {
	id, asked := acquiring(t)
	all := policies(t)
	for _, name := range []string{"NamespaceAcquirePolicy", "NamespaceAdminPolicy", "NamespaceReadPolicy"} {
		for _, r := range asked {
			if strings.HasPrefix(r.Leading, "_/") {
				continue
			}
			for _, other := range []string{"other", id[:len(id)-1], id + "x", "_"} {
				if all[name].Allows(r, other) {
					t.Errorf("%s of %q allows %v", name, other, r)
				}
			}
		}
		for _, action := range all["AdminPolicy"].Actions() {
			for _, index := range []string{"", "GSI1", "GSI2", "GSI3", "GSI4"} {
				r := Right{action, index, "_/SYSTEM#"}
				read := action == "dynamodb:BatchGetItem" || action == "dynamodb:ConditionCheckItem" &&
					name == "NamespaceAdminPolicy"
				if all[name].Allows(r, id) && (!read || index != "") {
					t.Errorf("%s allows %v", name, r)
				}
				if all[name].Allows(Right{action, index, ""}, id) {
					t.Errorf("%s allows %s on %q without a partition key", name, action, index)
				}
			}
		}
	}
}

// TestReadPoliciesRead: read policies allow only reads.
func TestReadPoliciesRead(t *testing.T) {
	all := policies(t)
	reads := []string{"dynamodb:BatchGetItem", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive",
		"dynamodb:GetItem", "dynamodb:Query"}
	check.Slices(t, all["ReadPolicy"].Actions(), reads, "the read policy allows")
	for _, index := range []string{"", "GSI1", "GSI2", "GSI3"} {
		r := Right{"dynamodb:Query", index, "ns/ENTITY#e"}
		if !all["ReadPolicy"].Allows(r, "") || !all["NamespaceReadPolicy"].Allows(r, "ns") ||
			all["NamespaceReadPolicy"].Allows(r, "other") {
			t.Errorf("queries of %q", index)
		}
	}
	// GSI4 has the bare namespace id as partition key.
	if r := (Right{"dynamodb:Query", "GSI4", "ns"}); !all["NamespaceReadPolicy"].Allows(r, "ns") ||
		all["NamespaceReadPolicy"].Allows(r, "n") {
		t.Error("queries of GSI4")
	}
	if all["NamespaceReadPolicy"].Allows(Right{"dynamodb:UpdateItem", "", "ns/ENTITY#e"}, "ns") {
		t.Error("the read policy writes")
	}
}

// TestRightsOfCalls checks one request of each kind.
func TestRightsOfCalls(t *testing.T) {
	for _, c := range []struct {
		operation, body string
		want            []Right
	}{
		{"UpdateItem", `{"Key":{"PK":{"S":"a/b"}}}`, []Right{{"dynamodb:UpdateItem", "", "a/b"}}},
		{"PutItem", `{"Item":{"PK":{"S":"a/b"},"x":{"L":[{"S":"y"}]}}}`, nil},
		{"Query", `{"IndexName":"GSI4","KeyConditionExpression":"#p = :p","ExpressionAttributeValues":{":p":{"S":"a"}}}`,
			[]Right{{"dynamodb:Query", "GSI4", "a"}}},
		{"BatchWriteItem", `{"RequestItems":{"t":[{"DeleteRequest":{"Key":{"PK":{"S":"a/b"}}}}]}}`,
			[]Right{{"dynamodb:BatchWriteItem", "", "a/b"}}},
		{"BatchGetItem", `{"RequestItems":{"t":{"Keys":[{"PK":{"S":"a/b"}}]}}}`,
			[]Right{{"dynamodb:BatchGetItem", "", "a/b"}}},
		{"TransactWriteItems", `{"TransactItems":[{"ConditionCheck":{"Key":{"PK":{"S":"a/b"}}}}]}`,
			[]Right{{"dynamodb:ConditionCheckItem", "", "a/b"}}},
		{"DescribeTable", `{}`, []Right{{Action: "dynamodb:DescribeTable"}}},
	} {
		got, err := rightsOf(c.operation, []byte(c.body))
		if c.want == nil {
			c.want = []Right{{"dynamodb:" + c.operation, "", "a/b"}}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, error %v, want %v", c.operation, got, err, c.want)
		}
	}
	if _, err := rightsOf("DeleteTable", []byte(`{}`)); err == nil {
		t.Error("an unknown operation was ignored")
	}
}
