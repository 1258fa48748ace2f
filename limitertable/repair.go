package limitertable

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Repairable lists the methods of a DynamoDB client that [Repair] needs; *dynamodb.Client has them.
type Repairable interface {
	DynamoDB
	UpdateTable(
		context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.UpdateTableOutput, error)
	DescribeContinuousBackups(
		context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeContinuousBackupsOutput, error)
	UpdateContinuousBackups(
		context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options),
	) (*dynamodb.UpdateContinuousBackupsOutput, error)
}

// Repaired lists what [Repair] has switched on; false if it was on already.
type Repaired struct {
	Protection bool // deletion protection
	TTL        bool // time to live
	Stream     bool
	Recovery   bool // point-in-time recovery
}

// Repair switches on what a restored table lacks: deletion protection, point-in-time recovery, time
// to live and the stream. AWS restores items, keys and indexes only. It may be repeated, and
// continues where an earlier call stopped. The result lists the changes of this call, even if it
// failed, and the description is of the table afterwards, with the ARN of its stream.
//
// A table with other keys or indexes, or with another stream or time to live, is left alone: the
// error is a *[DiffError]. A table that is not active yet is refused. Repair blocks until the
// stream is on, at most five minutes.
func Repair(ctx context.Context, db Repairable, name string) (d Description, done Repaired, err error) {
	if d, err = Describe(ctx, db, name); err != nil {
		return d, done, err
	}
	if d.Status != types.TableStatusActive && d.Status != types.TableStatusUpdating {
		return d, done, fmt.Errorf("limitertable: table is not active: table %q is %s", name, d.Status)
	}
	must := Deployed()
	if err := must.repairable(d).Check(d); err != nil {
		return d, done, err
	}
	for _, step := range []struct {
		done  *bool
		do    func() (changed bool, err error)
		about string
	}{
		{&done.Protection, func() (bool, error) { return protect(ctx, db, d) }, "deletion protection"},
		{&done.TTL, func() (bool, error) {
			if d.Spec.TTLAttribute != "" {
				return false, nil
			}
			return true, expire(ctx, db, name, must.TTLAttribute)
		}, "time to live"},
		{&done.Stream, func() (bool, error) { return streaming(ctx, db, d, must.StreamViewType) }, "stream"},
		{&done.Recovery, func() (bool, error) { return keepRecoverable(ctx, db, name) }, "point-in-time recovery"},
	} {
		changed, err := step.do()
		if err != nil {
			return d, done, fmt.Errorf("%s of table %q: %w", step.about, name, err)
		}
		*step.done = changed
	}
	if d, err = Describe(ctx, db, name); err != nil {
		return d, done, err
	}
	return d, done, must.Check(d)
}

// repairable is the specification of a table in which what Repair switches on may be off.
func (s Spec) repairable(d Description) Spec {
	if d.Spec.StreamViewType == "" {
		s.StreamViewType = ""
	}
	if d.Spec.TTLAttribute == "" {
		s.TTLAttribute = ""
	}
	return s
}

func protect(ctx context.Context, db Repairable, d Description) (changed bool, err error) {
	if d.Protected {
		return false, nil
	}
	return true, change(ctx, db, &dynamodb.UpdateTableInput{
		TableName: aws.String(d.Name), DeletionProtectionEnabled: aws.Bool(true),
	})
}

func streaming(
	ctx context.Context, db Repairable, d Description, view types.StreamViewType,
) (changed bool, err error) {
	if d.Spec.StreamViewType != "" {
		return false, nil
	}
	err = change(ctx, db, &dynamodb.UpdateTableInput{
		TableName: aws.String(d.Name),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: view,
		},
	})
	if err == nil {
		return true, nil
	}
	// An answer that was lost: the stream is on, and AWS refuses the repetition.
	if d, look := Describe(ctx, db, d.Name); look == nil && d.Spec.StreamViewType == view {
		return true, nil
	}
	return false, err
}

// change changes a table, waiting for what else is changed of it before and after.
func change(ctx context.Context, db Repairable, in *dynamodb.UpdateTableInput) error {
	if err := active(ctx, db, aws.ToString(in.TableName)); err != nil {
		return err
	}
	if _, err := db.UpdateTable(ctx, in); err != nil {
		return err
	}
	return active(ctx, db, aws.ToString(in.TableName))
}

// keepRecoverable switches on point-in-time recovery.
func keepRecoverable(ctx context.Context, db Repairable, name string) (changed bool, err error) {
	is, err := db.DescribeContinuousBackups(ctx,
		&dynamodb.DescribeContinuousBackupsInput{TableName: aws.String(name)})
	if err != nil {
		return false, err
	}
	if b := is.ContinuousBackupsDescription; b != nil && b.PointInTimeRecoveryDescription != nil &&
		b.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled {
		return false, nil
	}
	_, err = db.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName: aws.String(name),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: aws.Bool(true),
		},
	})
	return true, err
}
