package admin_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// table is a table in memory where a DynamoDB client is asked for.
type table struct {
	admin.DynamoDB
	*memdynamo.DB
}

// Limits for everybody, and others for one entity, which has a parent.
func Example() {
	ctx := context.Background()
	t, err := admin.Open(ctx, table{DB: memdynamo.New(nil)}, "zae-limiter", &admin.Options{Principal: "alice"})
	if err != nil {
		panic(err)
	}
	ns, err := t.Register(ctx, "prod")
	if err != nil {
		panic(err)
	}
	_, org := ns.CreateEntity(ctx, admin.Entity{ID: "acme"})
	_, key := ns.CreateEntity(ctx,
		admin.Entity{ID: "key-1", Parent: "acme", Cascade: true, Metadata: map[string]any{"tier": "gold"}})
	err = errors.Join(org, key,
		ns.SetLimits(ctx, admin.Scope{}, limiter.PerMinute("rpm", 60)),
		ns.SetLimits(ctx, admin.Scope{Entity: "key-1", Resource: "gpt-4"}, limiter.PerMinute("rpm", 600)),
	)
	if err != nil {
		panic(err)
	}
	buckets, err := ns.Peek(ctx, "key-1", "gpt-4")
	if err != nil {
		panic(err)
	}
	for _, b := range buckets {
		fmt.Printf("%s has %d rpm left, limits of %s\n", b.Entity, b.Levels[0].Remaining, b.From)
	}
	for e, err := range ns.Events(ctx, admin.Scope{Entity: "key-1"}, "") {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Principal, e.Action, e.Resource)
	}
	// Output:
	// key-1 has 600 rpm left, limits of key-1/gpt-4
	// acme has 60 rpm left, limits of */*
	// alice limits_set gpt-4
	// alice entity_created
}

// A manifest is planned, looked at, and applied.
func ExampleNamespace_Apply() {
	ctx := context.Background()
	t, err := admin.Open(ctx, table{DB: memdynamo.New(nil)}, "zae-limiter", nil)
	if err != nil {
		panic(err)
	}
	ns, err := t.Register(ctx, "prod")
	if err != nil {
		panic(err)
	}
	m, err := manifest.Parse([]byte(`
namespace: prod
system:
  limits:
    rpm: {capacity: 60}
resources:
  gpt-4:
    limits:
      tpm: {capacity: 40000, refill_amount: 20000}
`))
	if err != nil {
		panic(err)
	}
	for range 2 {
		plan, err := ns.Plan(ctx, m)
		if err != nil {
			panic(err)
		}
		for _, step := range plan.Steps {
			fmt.Println(step)
		}
		if err := ns.Apply(ctx, plan); err != nil {
			panic(err)
		}
	}
	// Output:
	// create */gpt-4: tpm: 20000 per 1m0s, capacity 40000
	// create */*: rpm: 60 per 1m0s, capacity 60
	// unchanged */gpt-4
	// unchanged */*
}

// With a real client. It needs AWS and is only compiled.
func ExampleOpen() {
	err := func(ctx context.Context) error {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return err
		}
		t, err := admin.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
		if err != nil {
			return err
		}
		ns, err := t.Namespace(ctx, "default")
		if err != nil {
			return err
		}
		return ns.SetLimits(ctx, admin.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 600))
	}
	_ = err
}
