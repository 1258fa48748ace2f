package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/deployed"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

// lookTime bounds the time for reading the deployed template.
const lookTime = 10 * time.Second

// checkUpdate refuses a template that would lose a table or a bucket, unless opts.MayLose names it.
// If the command-line tool has found credentials, it compares with the deployed template; if that
// cannot be read, it refuses the template, because the effect is unknown. Without credentials
// nothing can be deployed, and it compares with the template of the release, which shows changes of
// the code but not of the options.
func checkUpdate(ctx context.Context, opts options, template []byte) error {
	if os.Getenv("CDK_DEFAULT_ACCOUNT") == "" {
		return checkRelease(template)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := checkExisting(ctx, opts); err != nil {
		return err
	}
	was, err := deployedTemplate(ctx, opts)
	switch {
	case err != nil && opts.mayLoseAll():
		return nil
	case err != nil:
		return fmt.Errorf("the deployed template could not be read, nor compared with this one: %w; "+
			"or name all that may be lost: -c %smayLose=%s", err, contextPrefix, strings.Join(holding.IDs(), ","))
	case was == nil:
		return checkRelease(template)
	}
	if err := checkLosses(was, template, opts.MayLose...); err != nil {
		return fmt.Errorf("%w\nif that is meant, name what may be lost: -c %smayLose=Table", err, contextPrefix)
	}
	return nil
}

func (o options) mayLoseAll() bool {
	return !slices.ContainsFunc(holding.IDs(), func(id string) bool { return !slices.Contains(o.MayLose, id) })
}

// configuration returns the command-line tool's configuration, as far as an app can: the tool
// passes account and region, but not the profile.
func configuration(ctx context.Context) (aws.Config, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(os.Getenv("CDK_DEFAULT_REGION")))
	if err != nil {
		return cfg, err
	}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return cfg, err
	}
	if is, want := aws.ToString(who.Account), os.Getenv("CDK_DEFAULT_ACCOUNT"); is != want {
		return cfg, fmt.Errorf("the credentials of the environment belong to account %s, "+
			"the deployment is to account %s: set AWS_PROFILE instead of --profile", is, want)
	}
	return cfg, nil
}

// deployedTemplate returns the template of the deployed stack. Without a stack, it returns one for
// an existing table of the same name, and without that nil.
func deployedTemplate(ctx context.Context, opts options) ([]byte, error) {
	cfg, err := configuration(ctx)
	if err != nil {
		return nil, err
	}
	template, err := deployed.Template(ctx, cloudformation.NewFromConfig(cfg), opts.StackName)
	if template != nil || err != nil {
		return template, err
	}
	if opts.ExistingStreamARN != "" {
		return nil, nil
	}
	name := &dynamodb.DescribeTableInput{TableName: aws.String(opts.tableName())}
	table, err := dynamodb.NewFromConfig(cfg).DescribeTable(ctx, name)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if owner := stackOf(ctx, dynamodb.NewFromConfig(cfg), table.Table); owner != "" && owner != opts.StackName {
		return nil, fmt.Errorf("table %s belongs to stack %s: deploy that one (-c %sstackName=%s), or choose another "+
			"tableName", opts.tableName(), owner, contextPrefix, owner)
	}
	fmt.Fprintf(os.Stderr, "table %s is there already and belongs to no stack %s: cdk import adopts it, "+
		"cdk deploy would fail (docs/deploying.md, Adopting a table)\n", opts.tableName(), opts.StackName)
	return templateOf(table.Table)
}

// stackOf returns the name of a table's stack, or "" if it has none or the name cannot be read.
func stackOf(ctx context.Context, db *dynamodb.Client, table *types.TableDescription) string {
	out, err := db.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: table.TableArn})
	if err != nil {
		return ""
	}
	for _, tag := range out.Tags {
		if aws.ToString(tag.Key) == "aws:cloudformation:stack-name" {
			return aws.ToString(tag.Value)
		}
	}
	return ""
}

// templateOf describes an existing table as the template that would create it, as far as updates
// are checked.
func templateOf(t *types.TableDescription) ([]byte, error) {
	var indexes []map[string]any
	for _, i := range t.GlobalSecondaryIndexes {
		indexes = append(indexes, map[string]any{
			"IndexName": i.IndexName, "KeySchema": i.KeySchema, "Projection": i.Projection,
		})
	}
	properties := map[string]any{
		"TableName": t.TableName, "KeySchema": t.KeySchema, "AttributeDefinitions": t.AttributeDefinitions,
		"GlobalSecondaryIndexes": indexes,
	}
	return json.Marshal(map[string]any{"Resources": map[string]any{
		holding.Table: map[string]any{"Type": "AWS::DynamoDB::Table", "Properties": properties},
	}})
}
