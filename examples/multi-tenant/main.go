// Multi-tenant limits an organization, its teams and their keys at once: what a key takes is
// charged to its team and to the organization too, all or nothing, by one write for each. So no
// key gets more than its own limit, and all keys of the organization together get no more than it
// has bought. Once that is used up, the organization denies, whatever is left of the key.
//
//	make dev                                    # in another shell; run here the line that it prints
//	go -C examples run ./multi-tenant
//
// It prints what becomes of 19 requests of three keys, and what every level has left.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = run(ctx, dynamodb.NewFromConfig(cfg), cmp.Or(os.Getenv("ZAEL_STACK"), "zae-limiter"), os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
}

// node is an entity and what it may take in a day.
type node struct {
	entity, parent string
	perDay         int64
}

var hierarchy = []node{
	{"acme", "", 14},
	{"acme/search", "acme", 12},
	{"acme/search/ci", "acme/search", 5},
	{"acme/search/prod", "acme/search", 100},
	{"acme/billing", "acme", 100},
}

func run(ctx context.Context, db admin.DynamoDB, tableName string, out io.Writer) error {
	if err := setUp(ctx, db, tableName); err != nil {
		return err
	}
	// A program that nobody waits for has time for a table that is slow.
	l, err := limiter.Open(ctx, db, tableName, &limiter.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer l.Close(context.WithoutCancel(ctx))
	for _, burst := range []struct {
		key string
		n   int
	}{{"acme/search/ci", 7}, {"acme/search/prod", 8}, {"acme/billing", 4}} {
		granted, deniedBy := 0, "nobody"
		for range burst.n {
			_, err := l.Acquire(ctx, limiter.Request{
				Entity: burst.key, Resource: "queries", Costs: limiter.Costs{"requests": 1},
			})
			if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
				deniedBy = denied.Entity
				continue
			}
			if err != nil {
				return err
			}
			granted++
		}
		fmt.Fprintf(out, "%-16s asks %d times: %d granted, denied by %s\n", burst.key, burst.n, granted, deniedBy)
	}
	return left(ctx, db, tableName, out)
}

// setUp creates the hierarchy and stores its limits. It may run again.
func setUp(ctx context.Context, db admin.DynamoDB, tableName string) error {
	table, err := admin.Open(ctx, db, tableName, &admin.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	ns, err := table.Register(ctx, "default")
	if err != nil {
		return err
	}
	for _, n := range hierarchy {
		_, err := ns.CreateEntity(ctx, admin.Entity{ID: n.entity, Parent: n.parent, Cascade: n.parent != ""})
		if err != nil && !errors.Is(err, admin.ErrExists) {
			return err
		}
		err = ns.SetLimits(ctx, admin.Scope{Entity: n.entity, Resource: "queries"}, limiter.PerDay("requests", n.perDay))
		if err != nil {
			return err
		}
	}
	return nil
}

// left prints what every level has left.
func left(ctx context.Context, db admin.DynamoDB, tableName string, out io.Writer) error {
	table, err := admin.Open(ctx, db, tableName, &admin.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	ns, err := table.Namespace(ctx, "default")
	if err != nil {
		return err
	}
	for _, n := range hierarchy {
		buckets, err := ns.Peek(ctx, n.entity, "queries")
		if err != nil {
			return err
		}
		own := buckets[0] // its parents' follow
		fmt.Fprintf(out, "%-16s has %d of %d left\n", own.Entity, own.Levels[0].Remaining, n.perDay)
	}
	return nil
}
