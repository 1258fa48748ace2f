package limitertable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DynamoDB lists the methods of a DynamoDB client that this package needs; *dynamodb.Client of the
// AWS SDK for Go v2 has them.
type DynamoDB interface {
	CreateTable(
		context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.CreateTableOutput, error)
	DescribeTable(
		context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(
		context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(
		context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options),
	) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// createWait is how long Create waits for a table to become active.
const createWait = 5 * time.Minute

// Create creates the table that the stack deploys under a name. See [Spec.Create].
func Create(ctx context.Context, db DynamoDB, name string) (Description, error) {
	return Deployed().Create(ctx, db, name)
}

// Create creates a table, waits until it is active, and switches on its time to live. It may be
// repeated, and continues where an earlier call stopped: an existing table that meets the
// specification is fine; any other is left alone, and the error is a *[DiffError]. It blocks for
// seconds, at most five minutes.
//
// The table has neither point-in-time recovery nor deletion protection, and no functions read its
// stream: without the aggregator there is no usage, buckets are only refilled by clients that take
// from them, and audit events are not archived.
func (s Spec) Create(ctx context.Context, db DynamoDB, name string) (Description, error) {
	var exists *types.ResourceInUseException
	if _, err := db.CreateTable(ctx, s.createInput(name)); err != nil && !errors.As(err, &exists) {
		return Description{}, fmt.Errorf("create table %q: %w", name, err)
	}
	if err := active(ctx, db, name); err != nil {
		return Description{}, fmt.Errorf("wait for table %q: %w", name, err)
	}
	d, err := Describe(ctx, db, name)
	if err != nil {
		return Description{}, err
	}
	bare := s
	bare.TTLAttribute = ""
	if s.TTLAttribute != "" && bare.Check(d) == nil {
		if err := expire(ctx, db, name, s.TTLAttribute); err != nil {
			return d, err
		}
		d.Spec.TTLAttribute = s.TTLAttribute
	}
	return d, s.Check(d)
}

// active waits until a table can be used and changed.
func active(ctx context.Context, db DynamoDB, name string) error {
	waiter := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, 5*time.Second
	})
	return waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)}, createWait)
}

func expire(ctx context.Context, db DynamoDB, name, attribute string) error {
	_, err := db.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attribute), Enabled: aws.Bool(true),
		},
	})
	if err == nil {
		return nil
	}
	// An answer that was lost: the time to live is on, and AWS refuses the repetition.
	if d, look := Describe(ctx, db, name); look == nil && d.Spec.TTLAttribute == attribute {
		return nil
	}
	return fmt.Errorf("time to live of table %q: %w", name, err)
}
