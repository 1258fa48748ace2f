// Package limitertable creates, describes and checks the DynamoDB table of the
// limiter in plain Go, for deployments without CDK, and for tests on a local
// DynamoDB. What a table must be like comes from the same synthesized template
// that the stack is deployed from.
//
//	if _, err := limitertable.Create(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter"); err != nil {
//		return err
//	}
//
// [CloudFormation] and [Terraform] return templates of the same table and the
// policies of applications, and [Policies] returns the policies alone.
//
// Create needs dynamodb:CreateTable, DescribeTable, DescribeTimeToLive and
// UpdateTimeToLive on the table; Describe and Check need the two in the middle.
package limitertable
