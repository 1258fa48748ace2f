// Setup is the Lambda function that a deployment of the stack invokes, as a
// custom resource of CloudFormation, to register namespaces, to write the
// table's version record and to apply manifests of limits. Doing it again changes
// nothing, and the deletion of the resource does nothing.
//
// Environment: TABLE_NAME (required). The function needs dynamodb:BatchGetItem,
// PutItem and UpdateItem on the table, for partition keys that end in /SYSTEM#;
// with manifests for all keys, and dynamodb:ConditionCheckItem and DeleteItem on
// the table and Query on its indexes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func main() {
	log := lambdacontext.NewLogger()
	h, err := newHandler(context.Background(), os.Getenv, log)
	if err != nil {
		log.Error("setup not started", "err", err)
		os.Exit(1)
	}
	lambda.Start(cfn.LambdaWrap(h.Handle))
}

// newHandler validates the environment. It talks to nobody.
func newHandler(ctx context.Context, getenv func(string) string, log *slog.Logger) (*handler, error) {
	name, err := config.TableFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("aws configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New(`AWS_REGION="": want the region of the table`)
	}
	db := dynamodb.NewFromConfig(cfg)
	return &handler{
		store: store.NewDynamo(db, name),
		db:    db,
		table: name,
		now:   time.Now,
		log:   log,
	}, nil
}
