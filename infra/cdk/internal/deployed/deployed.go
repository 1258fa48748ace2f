// Package deployed reads stacks from CloudFormation. It is separate from the constructs, so
// protecting a stack needs no Node.
package deployed

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
)

// neverMade are the states of a stack that no deployment updates: its first change set was not
// executed, or its creation failed. The cdk tool deletes the latter before it deploys.
var neverMade = []types.StackStatus{
	types.StackStatusReviewInProgress, types.StackStatusRollbackComplete, types.StackStatusRollbackFailed,
}

// Template returns the template of a stack, or nil if there is none that a deployment would update.
func Template(ctx context.Context, formation *cloudformation.Client, stack string) ([]byte, error) {
	name := aws.String(stack)
	out, err := formation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: name})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		return nil, nil // there is no such stack
	}
	if err != nil {
		return nil, err
	}
	if len(out.Stacks) == 0 || slices.Contains(neverMade, out.Stacks[0].StackStatus) {
		return nil, nil
	}
	template, err := formation.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: name})
	if err != nil {
		return nil, err
	}
	return []byte(aws.ToString(template.TemplateBody)), nil
}
