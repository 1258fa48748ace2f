package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
)

// untouched is a table that is only read: the first write is not sent, and ends the attempt.
type untouched struct {
	admin.DynamoDB
	end context.CancelFunc
}

func (u untouched) refuse() error {
	u.end()
	return context.Canceled
}

func (u untouched) UpdateItem(
	context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	return nil, u.refuse()
}

func (u untouched) PutItem(
	context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	return nil, u.refuse()
}

func (u untouched) DeleteItem(
	context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options),
) (*dynamodb.DeleteItemOutput, error) {
	return nil, u.refuse()
}

func (u untouched) TransactWriteItems(
	context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	return nil, u.refuse()
}

func (u untouched) BatchWriteItem(
	context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options),
) (*dynamodb.BatchWriteItemOutput, error) {
	return nil, u.refuse()
}

// try plays an action up to its first write, which is not done, and returns what refuses it
// before that.
func (c *call) try(do func(*call) (answer, error)) error {
	db, opts, err := c.client(c.ctx)
	if err != nil {
		return err
	}
	opts.Caller = nil // nothing is recorded
	again := *c
	var end context.CancelFunc
	again.ctx, end = context.WithCancel(c.ctx)
	defer end()
	again.all, err = admin.Open(again.ctx, untouched{db, end}, c.table, opts)
	if err == nil && c.ns != nil {
		again.ns, err = again.all.Namespace(again.ctx, c.namespace)
	}
	if err == nil {
		_, err = do(&again)
	}
	if again.ctx.Err() != nil && c.ctx.Err() == nil { // it came to a write
		return nil
	}
	return err
}

// sure does what cannot be undone once somebody has said yes to it. What can only be refused is
// refused before anybody is asked.
func (c *call) sure(yes bool, question string, do func(*call) (answer, error)) (said answer, err error) {
	if !yes {
		err = c.try(do)
	}
	if err == nil {
		err = c.app.sure(yes, question)
	}
	if err != nil {
		return said, err
	}
	return do(c)
}

// change shows what leaves and what comes, each line with what it is of, asks, and does it. Where there is no
// difference it does same, without a question.
func (c *call) change(
	yes bool, question, of string, from, to []string, do, same func(*call) (answer, error),
) (answer, error) {
	lines := differences(from, to)
	for _, l := range lines {
		c.say("%s%s%s", l[:2], of, l[2:])
	}
	if len(lines) == 0 {
		return same(c)
	}
	return c.sure(yes, question, do)
}
