package limitertest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// asked returns what an acquire ends with, and how long it took by package time.
func asked(t *testing.T, l *limiter.Limiter) (time.Duration, error) {
	t.Helper()
	begin := time.Now()
	_, err := l.Acquire(t.Context(), ask)
	return time.Since(begin), err
}

func TestTroubles(t *testing.T) {
	update := []string{"UpdateItem"}
	for _, c := range []struct {
		name    string
		trouble []limitertest.Trouble
		want    error
		least   time.Duration
		most    time.Duration
		left    int64 // of one token
	}{
		{name: "none"},
		{"throttled", []limitertest.Trouble{{Err: limitertest.ErrThrottled}}, limiter.ErrUnavailable, 0, time.Second, 1},
		{"throttled once", []limitertest.Trouble{{Operations: update, Err: limitertest.ErrThrottled, Times: 1}},
			nil, 0, time.Second, 0},
		{"no right", []limitertest.Trouble{{Err: limitertest.ErrDenied}}, limiter.ErrSetup, 0, 0, 1},
		{"no right to something else", []limitertest.Trouble{
			{Operations: []string{"Query"}, Err: limitertest.ErrDenied}}, nil, 0, 0, 0},
		{"slow", []limitertest.Trouble{{Delay: 300 * time.Millisecond, Times: 1}}, nil,
			300 * time.Millisecond, 300 * time.Millisecond, 0},
		{"too slow", []limitertest.Trouble{{Operations: update, Delay: time.Minute, Times: 1}},
			limiter.ErrUnknown, time.Second, time.Second, 0},
		{"hung", []limitertest.Trouble{{Operations: update, Hang: true}}, limiter.ErrUnknown, time.Second, time.Second, 1},
		{"hung, and written", []limitertest.Trouble{{Operations: update, Hang: true, Err: limiter.ErrUnknown, Times: 1}},
			limiter.ErrUnknown, time.Second, time.Second, 0},
		{"hung, and not written", []limitertest.Trouble{{Operations: update, Hang: true, Err: limiter.ErrUnavailable}},
			limiter.ErrUnknown, time.Second, time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := limitertest.NewLive(t)
				l := table.Limiter(&limiter.Options{Timeout: time.Second})
				if _, err := l.Acquire(t.Context(), ask); err != nil { // nothing is cold
					t.Fatal(err)
				}
				table.Trouble(c.trouble...)
				took, err := asked(t, l)
				if !errors.Is(err, c.want) || took < c.least || took > c.most {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
				table.Trouble()
				time.Sleep(2 * time.Second)
				buckets, err := table.Admin("").Peek(t.Context(), ask.Entity, ask.Resource)
				if err != nil || buckets[0].Levels[0].Remaining != c.left {
					t.Errorf("%+v, %v, want %d left", buckets, err, c.left)
				}
			})
		})
	}
}

// put writes an item, and putFirst only if it is not there.
var (
	put = &dynamodb.PutItemInput{Item: map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "a"},
		"SK": &types.AttributeValueMemberS{Value: "b"}}}
	putFirst = &dynamodb.PutItemInput{Item: put.Item, ConditionExpression: aws.String("attribute_not_exists(#0)"),
		ExpressionAttributeNames: map[string]string{"#0": "PK"}}
)

// An error may come with words of the caller's own.
func TestTroublesInOtherWords(t *testing.T) {
	for _, err := range []error{limiter.ErrUnavailable, limiter.ErrUnknown, limitertest.ErrThrottled,
		limitertest.ErrDenied} {
		table := limitertest.New(t)
		table.Fail(err)
		_, want := table.PutItem(t.Context(), put)
		table = limitertest.New(t)
		table.Fail(fmt.Errorf("on a Monday: %w", err))
		_, got := table.PutItem(t.Context(), put)
		if got == nil || got.Error() != want.Error() {
			t.Errorf("%v in other words is %v, want %v", err, got, want)
		}
		table.Fail(nil)
		if _, refused := table.PutItem(t.Context(), putFirst); (refused != nil) != errors.Is(err, limiter.ErrUnknown) {
			t.Errorf("%v: a write that must be the first: %v", err, refused)
		}
	}
}

// The first trouble that concerns a call happens to it.
func TestTroublesInOrder(t *testing.T) {
	table := limitertest.New(t)
	ns := table.Admin("")
	table.Trouble(
		limitertest.Trouble{Operations: []string{"BatchGetItem"}}, // reads go well
		limitertest.Trouble{Err: limitertest.ErrDenied},
	)
	check.Is(t, check.Err(ns.Config(t.Context(), admin.Scope{Resource: "api"})), admin.ErrNotFound, "read")
	err := ns.SetLimits(t.Context(), admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 1))
	if code, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); !ok || code.ErrorCode() != "AccessDeniedException" ||
		!strings.Contains(err.Error(), "not authorized") {
		t.Errorf("write: %v, want DynamoDB's own error", err)
	}
}

// counting is a client of a test's own in front of the table.
type counting struct {
	*limitertest.Table
	writes int
}

func (c *counting) UpdateItem(
	ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	c.writes++
	return c.Table.UpdateItem(ctx, in, opts...)
}

func (c *counting) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	c.writes++
	return c.Table.PutItem(ctx, in, opts...)
}

// inFront has nothing of the table but what it passes on.
type inFront struct{ admin.DynamoDB }

// A table can be wrapped, and the wrapper sees the calls.
func TestWrapped(t *testing.T) {
	table := limitertest.New(t)
	table.Admin("")
	wrapped := &counting{Table: table}
	opts := &limiter.Options{Now: table.Now, Timeout: time.Hour}
	l, err := limiter.Open(t.Context(), inFront{wrapped}, "any", opts)
	check.Must(t, err)
	l2, err := limiter.Open(t.Context(), wrapped, "any", opts)
	check.Must(t, err)
	before := wrapped.writes
	for _, l := range []*limiter.Limiter{l, l2} {
		check.Must(t, check.Err(l.Acquire(t.Context(), ask)))
	}
	if n := wrapped.writes - before; n < 2 {
		t.Errorf("%d writes passed by, want one of each limiter", n)
	}
	check.Is(t, check.Err(l2.Acquire(t.Context(), ask)), limiter.ErrLimited, "third of two")
}

// Called directly, it answers with the types and errors of the SDK.
func TestCalledDirectly(t *testing.T) {
	table := limitertest.New(t)
	check.Must(t, check.Err(table.PutItem(t.Context(), putFirst)))
	_, err := table.PutItem(t.Context(), putFirst)
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok || failed.Item["PK"] == nil {
		t.Errorf("%v, want a failed condition with the item", err)
	}
	table.Fail(limitertest.ErrThrottled)
	_, err = table.PutItem(t.Context(), putFirst)
	if api, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); !ok || api.ErrorCode() != "ProvisionedThroughputExceededException" {
		t.Errorf("%v, want throttling", err)
	}
}

// A trouble happens as often as it says, and a failure until it is taken back.
func TestTroublesEnd(t *testing.T) {
	table := limitertest.New(t)
	fail := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			if _, err := table.PutItem(t.Context(), put); (err != nil) != w {
				t.Errorf("call %d: %v, want a failure: %v", i+1, err, w)
			}
		}
	}
	table.Trouble(limitertest.Trouble{Err: limitertest.ErrThrottled, Times: 2})
	fail(true, true, false, false)
	table.Trouble(limitertest.Trouble{Err: limitertest.ErrThrottled})
	fail(true, true, true)
	table.Fail(limitertest.ErrDenied)
	fail(true, true)
	table.Fail(nil)
	fail(false)
}
