// Setup is the Lambda function that a deployment of the stack invokes, as a custom resource of
// CloudFormation. It registers namespaces, writes the table's version record and applies manifests
// of limits. Repeating it changes nothing, and deleting the resource does nothing.
//
// Environment: TABLE_NAME (required). The function needs dynamodb:BatchGetItem, PutItem and
// UpdateItem on the table, for partition keys that end in /SYSTEM#. It needs DescribeTable and
// DescribeTimeToLive, because it refuses a table with a wrong stream or wrong keys. With manifests
// it needs the first three for all keys, ConditionCheckItem and DeleteItem on the table, and Query
// on its indexes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/functions/internal/start"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

func main() { start.Function("setup", newResource) }

// newResource returns the handler as a custom resource of CloudFormation.
func newResource(getenv func(string) string, log *slog.Logger) (cfn.CustomResourceLambdaFunction, error) {
	h, err := newHandler(getenv, log)
	if err != nil {
		return nil, err
	}
	return answered(h), nil
}

// maxReason is the greatest size in JSON of an error sent to CloudFormation, in bytes. CloudFormation
// accepts answers of 4 KB, and shows nothing of a longer one.
const maxReason = 3000

// answered sends the result of a request to CloudFormation. An answer that is not taken fails the
// invocation before its end, and Lambda repeats the request.
func answered(h *handler) cfn.CustomResourceLambdaFunction {
	http.DefaultClient.Timeout = margin - time.Second // LambdaWrap uses it, and nothing else here does
	return cfn.LambdaWrap(func(ctx context.Context, e cfn.Event) (string, map[string]any, error) {
		id, data, err := h.Handle(ctx, e)
		if err != nil {
			err = errors.New(shortened(err.Error()))
		}
		return id, data, err
	})
}

// shortened cuts a text that has more than maxReason bytes in JSON, where one letter may have six.
func shortened(text string) string {
	text, size := strings.ToValidUTF8(text, ""), 0
	for i, letter := range text {
		quoted, err := json.Marshal(string(letter))
		if size += len(quoted) - len(`""`); err != nil || size > maxReason {
			return text[:i] + "… (the function's log has the rest)"
		}
	}
	return text
}

// newHandler validates the environment. It makes no calls.
func newHandler(getenv func(string) string, log *slog.Logger) (*handler, error) {
	name, err := function.TableFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := start.Config("table")
	if err != nil {
		return nil, err
	}
	db := dynamodb.NewFromConfig(cfg)
	return &handler{
		store: store.NewDynamo(db, name),
		db:    db,
		table: name,
		check: func(ctx context.Context, stream string) error { return workable(ctx, db, name, stream) },
		now:   time.Now,
		log:   log,
	}, nil
}

// workable is limitertable.Check without the time to live. CloudFormation enables that after the
// table exists; until then, items only expire later. If a stream is given, it must be the table's
// current one, because a disabled stream gets no more records.
func workable(ctx context.Context, db limitertable.DynamoDB, name, stream string) error {
	is, err := limitertable.Describe(ctx, db, name)
	if err != nil {
		return err
	}
	must := limitertable.Deployed()
	must.TTLAttribute = is.Spec.TTLAttribute
	if err := must.Check(is); err != nil || stream == "" || stream == is.StreamARN {
		return err
	}
	return &limitertable.DiffError{Table: name,
		Diffs: []string{"stream: the functions read " + stream + ", the table writes to " + is.StreamARN}}
}
