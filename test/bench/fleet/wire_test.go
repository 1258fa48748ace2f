package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// wire is a DynamoDB client that counts write units. Items are small, so a write takes one unit,
// and two in a transaction.
type wire struct {
	limiter.DynamoDB
	units atomic.Int64
}

func (w *wire) UpdateItem(
	ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	w.units.Add(1)
	return w.DynamoDB.UpdateItem(ctx, in, opts...)
}

func (w *wire) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	w.units.Add(1)
	return w.DynamoDB.PutItem(ctx, in, opts...)
}

func (w *wire) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	w.units.Add(2 * int64(len(in.TransactItems)))
	return w.DynamoDB.TransactWriteItems(ctx, in, opts...)
}

// Levels on an emulator are not sampled, because that would add load.
func (w *wire) sample()          {}
func (w *wire) reset()           { w.units.Store(0) }
func (w *wire) result(r *Result) { r.Writes = int(w.units.Load()) }

// modest demands no more than an emulator can do while it shares a machine with the fleet: at five
// times the rate, 100 requests a second.
var modest = Bucket{
	Name:   "20 per second, capacity 20",
	Limits: []limiter.Limit{limiter.PerSecond("rps", 20)},
	Cost:   one,
}

// realTime runs a few fleets on dynoxide, over HTTP, by the machine's clock.
func realTime(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	for _, c := range []Case{
		{Bucket: PerMinute, Processes: 16, Load: .5},
		{Bucket: modest, Processes: 16, Load: .5},
		{Bucket: modest, Processes: 16, Load: .9},
		{Bucket: modest, Processes: 16, Load: 5},
		{Bucket: modest, Processes: 64, Load: 5},
		{Bucket: PerSecond, Processes: 4, Load: 1.5, For: 20 * time.Second},
		{Bucket: PerSecond, Processes: 4, Load: 5, For: 20 * time.Second},
	} {
		c.Seed, c.Warm, c.For = 1, 2*time.Second, max(c.For, 8*time.Second)
		w := &wire{DynamoDB: e.DynamoDB()}
		name := e.Table(t).Name
		processes := make([]process, c.Processes)
		for i := range processes {
			l, err := limiter.Open(t.Context(), w, name, &limiter.Options{Register: true, Timeout: time.Minute})
			check.Must(t, err)
			processes[i] = func(ctx context.Context, tokens []int64) error {
				_, err := l.Acquire(ctx, c.Bucket.request(tokens))
				return err
			}
		}
		r := c.arrive(t.Context(), processes, w)
		say("on dynoxide, %-40s  writes/grant %5.2f  writes/try %5.2f  delivered %6.2f %%  Jain %.3f  failed %d of %d",
			fmt.Sprint(c), r.PerGrant(), r.PerAttempt(), 100*r.Delivered(), r.Unfair, r.Failed, r.Attempts)
	}
}
