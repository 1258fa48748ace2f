package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	// wantUnits is the budget of a granted acquire in write units over the rush, with all refused
	// writes and all transactions; the writes of settlements come on top. Tests hold it in virtual
	// time. The demo prints the figure of this machine, which depends on its speed.
	wantUnits = 1.5
	// mostWrites is how many writes an acquire sends at most, granted or denied: each one
	// that is refused brings the image that explains why. Transactions apart.
	mostWrites = 3
)

// paid counts the writes and reads of one tenant's clients, in capacity units: items are small, so
// a write is one unit, two in a transaction, and a consistent read one. Refused calls and calls
// without an answer count as well.
type paid struct {
	Entity, Resource string
	Asked, Granted   int
	Held, Refused    int // writes of acquires
	Together, Broken int // write units of transactions that held, and that did not
	Reads            float64
	Settling         int // write units of settlements
}

// Units returns the write units of acquires.
func (p paid) Units() int { return p.Held + p.Refused + p.Together + p.Broken }

// PerGrant returns those for each granted acquire.
func (p paid) PerGrant() float64 { return float64(p.Units()) / float64(max(p.Granted, 1)) }

// tooMany reports whether acquires sent more writes than they ever should.
func (p paid) tooMany() bool { return p.Held+p.Refused > mostWrites*p.Asked }

// bill adds up the payments of all tenants. It is safe for concurrent use; the zero value is empty.
type bill struct {
	mu  sync.Mutex
	all map[*tenant]*paid
}

// payer says in a context for whom calls are made.
type payer struct {
	tenant   *tenant
	settling bool
}

type payerKey struct{}

// paying returns a context whose calls are a tenant's.
func paying(ctx context.Context, p *payer) context.Context {
	return context.WithValue(ctx, payerKey{}, p)
}

// add changes the payments of a context's payer. Calls for nobody are not counted.
func (b *bill) add(ctx context.Context, change func(p *paid, settling bool)) {
	of, ok := ctx.Value(payerKey{}).(*payer)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[*tenant]*paid{}
	}
	p := b.all[of.tenant]
	if p == nil {
		p = &paid{Entity: of.tenant.entity, Resource: of.tenant.resource}
		b.all[of.tenant] = p
	}
	change(p, of.settling)
}

// settle marks the payer's calls from now on as its settlement.
func (b *bill) settle(p *payer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.settling = true
}

// total returns the payments of each tenant, by name, and of all of them.
func (b *bill) total() (each []paid, all paid) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all.Entity = "all"
	for _, p := range b.all {
		each = append(each, *p)
		all.Asked, all.Granted = all.Asked+p.Asked, all.Granted+p.Granted
		all.Held, all.Refused = all.Held+p.Held, all.Refused+p.Refused
		all.Together, all.Broken = all.Together+p.Together, all.Broken+p.Broken
		all.Reads, all.Settling = all.Reads+p.Reads, all.Settling+p.Settling
	}
	slices.SortFunc(each, func(a, b paid) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
	return each, all
}

// hotWrites returns how many writes the hot bucket has taken, transactions apart.
func hotWrites(bills []paid) float64 {
	i := slices.IndexFunc(bills, func(p paid) bool { return p.Entity == hotEntity })
	if i < 0 {
		return 0
	}
	return float64(bills[i].Held + bills[i].Refused + bills[i].Settling)
}

// billed is a client whose calls are counted.
type billed struct {
	limiter.DynamoDB
	bill *bill
}

// wrote counts a single write.
func (c billed) wrote(ctx context.Context, err error) {
	_, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	c.bill.add(ctx, func(p *paid, settling bool) {
		switch {
		case settling:
			p.Settling++
		case refused:
			p.Refused++
		default:
			p.Held++
		}
	})
}

func (c billed) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := c.DynamoDB.UpdateItem(ctx, in, opts...)
	c.wrote(ctx, err)
	return out, err
}

func (c billed) PutItem(ctx context.Context, in *dynamodb.PutItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := c.DynamoDB.PutItem(ctx, in, opts...)
	c.wrote(ctx, err)
	return out, err
}

func (c billed) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := c.DynamoDB.TransactWriteItems(ctx, in, opts...)
	units := 2 * len(in.TransactItems)
	c.bill.add(ctx, func(p *paid, settling bool) {
		switch {
		case settling:
			p.Settling += units
		case err != nil:
			p.Broken += units
		default:
			p.Together += units
		}
	})
	return out, err
}

func (c billed) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	out, err := c.DynamoDB.BatchGetItem(ctx, in, opts...)
	c.bill.add(ctx, func(p *paid, _ bool) {
		for _, asked := range in.RequestItems {
			each := 0.5
			if asked.ConsistentRead != nil && *asked.ConsistentRead {
				each = 1
			}
			p.Reads += each * float64(len(asked.Keys))
		}
	})
	return out, err
}
