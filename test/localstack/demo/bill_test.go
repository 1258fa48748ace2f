package main

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// answers is a client that gives one answer to everything.
type answers struct {
	limiter.DynamoDB
	err error
}

func (a answers) UpdateItem(context.Context, *dynamodb.UpdateItemInput,
	...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return nil, a.err
}

func (a answers) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
	...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return nil, a.err
}

func (a answers) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
	...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return nil, a.err
}

// What is refused, taken together, read and settled is told apart, tenant by tenant.
func TestBillAddsUpWhatIsPaid(t *testing.T) {
	var b bill
	play := func(ctx context.Context, err error) {
		c, consistent := billed{answers{err: err}, &b}, true
		_, _ = c.UpdateItem(ctx, &dynamodb.UpdateItemInput{})
		three := &dynamodb.TransactWriteItemsInput{TransactItems: make([]types.TransactWriteItem, 3)}
		_, _ = c.TransactWriteItems(ctx, three)
		keys := make([]map[string]types.AttributeValue, 4)
		for _, read := range []*bool{nil, &consistent} {
			_, _ = c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{"table": {Keys: keys, ConsistentRead: read}}})
		}
	}
	first, second := &payer{tenant: &tenants[0]}, &payer{tenant: &tenants[1]}
	play(t.Context(), nil) // for nobody
	play(paying(t.Context(), first), nil)
	play(paying(t.Context(), first), &types.ConditionalCheckFailedException{})
	play(paying(t.Context(), second), errors.New("no answer"))
	b.add(paying(t.Context(), first), func(p *paid, _ bool) { p.Granted += 2 })
	b.settle(second)
	play(paying(t.Context(), second), nil)
	each, all := b.total()
	want := []paid{
		{Entity: hotEntity, Resource: hotResource, Granted: 2, Held: 1, Refused: 1, Together: 6, Broken: 6, Reads: 12},
		{Entity: "tenant-a", Resource: "gpt-large", Held: 1, Broken: 6, Reads: 12, Settling: 7},
	}
	if len(each) != 2 || each[0] != want[0] || each[1] != want[1] {
		t.Errorf("bills %+v, want %+v", each, want)
	}
	if all.Units() != 21 || all.PerGrant() != 10.5 || all.Settling != 7 || all.Reads != 24 {
		t.Errorf("all of them %+v", all)
	}
}
