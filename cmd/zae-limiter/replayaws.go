package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/replay"
	"github.com/zeroae/zae-limiter-go/internal/store"
	snapshot "github.com/zeroae/zae-limiter-go/internal/usage"
)

// connect returns a replayer for each bucket of the stack.
func (a *app) connect(ctx context.Context, cfg aws.Config, stack string) ([]*replay.Replayer, error) {
	outputs, err := outputsOf(ctx, cfg, stack)
	if err != nil {
		return nil, err
	}
	f := functions{lambda.NewFromConfig(cfg), map[replay.Function]string{
		replay.Aggregator: outputs["AggregatorFunctionName"], replay.Archiver: outputs["ArchiverFunctionName"],
	}}
	windows, err := f.windows(ctx)
	if err != nil {
		return nil, err
	}
	objects := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil })
	table := store.NewDynamo(a.dynamoDB(cfg), outputs["TableName"])
	var all []*replay.Replayer
	for _, of := range []struct {
		output   string
		function replay.Function
	}{{"FailedRecordsBucketName", replay.Aggregator}, {"ArchiveBucketName", replay.Archiver}} {
		if name := outputs[of.output]; name != "" {
			all = append(all, &replay.Replayer{
				Objects: objectBucket{objects, name}, Malformed: of.function, Functions: f, Table: table, Windows: windows,
			})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("stack %q has no bucket to replay from", stack)
	}
	return all, nil
}

// errNoStack means that no stack has the name.
var errNoStack = errors.New("no such stack")

// outputsOf returns the outputs of a stack.
func outputsOf(ctx context.Context, cfg aws.Config, stack string) (map[string]string, error) {
	in := &cloudformation.DescribeStacksInput{StackName: aws.String(stack)}
	out, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, in)
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		return nil, fmt.Errorf("stack %q: %w: %w", stack, errNoStack, err)
	}
	if err != nil {
		return nil, fmt.Errorf("stack %q: %w", stack, err)
	}
	outputs := map[string]string{}
	for _, s := range out.Stacks { // at most one
		for _, o := range s.Outputs {
			outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	}
	return outputs, nil
}

// functions are the stack's functions.
type functions struct {
	lambda *lambda.Client
	names  map[replay.Function]string // empty: the stack has none
}

// Of implements [replay.Functions].
func (f functions) Of(arn string) (replay.Function, bool) {
	_, rest, _ := strings.Cut(arn, ":function:")
	name, _, _ := strings.Cut(rest, ":") // a version or alias may follow
	for function, is := range f.names {
		if name != "" && name == is {
			return function, true
		}
	}
	return "", false
}

// windows returns the usage windows that the deployed aggregator keeps.
func (f functions) windows(ctx context.Context) ([]snapshot.Window, error) {
	name := f.names[replay.Aggregator]
	if name == "" {
		return nil, nil
	}
	in := &lambda.GetFunctionConfigurationInput{FunctionName: aws.String(name)}
	out, err := f.lambda.GetFunctionConfiguration(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("function %q: %w", name, err)
	}
	var env map[string]string
	if out.Environment != nil {
		env = out.Environment.Variables
	}
	conf, err := function.AggregatorFromEnv(func(variable string) string { return env[variable] })
	if err != nil {
		return nil, fmt.Errorf("environment of function %q: %w", name, err)
	}
	var windows []snapshot.Window
	for _, name := range conf.Windows {
		windows = append(windows, snapshot.Window(name)) // one of the three
	}
	return windows, nil
}

// malformedFigure matches the number of malformed records in the metrics at the end of a function's
// log.
var malformedFigure = regexp.MustCompile(`"` + function.MetricMalformed + `":([0-9]+)`)

// Invoke implements [replay.Functions]. It waits for the answer, bounded by the function's own
// timeout.
func (f functions) Invoke(ctx context.Context, function replay.Function, payload []byte) ([]byte, int, error) {
	out, err := f.lambda.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String(f.names[function]), Payload: payload, LogType: types.LogTypeTail,
	})
	if err != nil {
		return nil, -1, err
	}
	if out.FunctionError != nil {
		return nil, -1, fmt.Errorf("%s: %.500s", *out.FunctionError, out.Payload)
	}
	return out.Payload, malformed(aws.ToString(out.LogResult)), nil
}

// malformed reads the number of malformed records from the end of a log.
func malformed(log string) int {
	plain, err := base64.StdEncoding.DecodeString(log)
	all := malformedFigure.FindAllSubmatch(plain, -1)
	if err != nil || len(all) == 0 {
		return -1
	}
	n, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		return -1
	}
	return n
}

// objectBucket is an S3 bucket of the stack.
type objectBucket struct {
	s3   *s3.Client
	name string
}

// Keys implements [replay.Objects].
func (b objectBucket) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: aws.String(b.name), Prefix: aws.String(prefix)}
		pages := s3.NewListObjectsV2Paginator(b.s3, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", fmt.Errorf("bucket %q: %w", b.name, err))
				return
			}
			for _, o := range page.Contents {
				if !yield(aws.ToString(o.Key), nil) {
					return
				}
			}
		}
	}
}

// maxObject is the largest object to read: a Lambda batch has at most 6 MB, which may double as
// text within JSON.
const maxObject = 32 << 20

// Get implements [replay.Objects].
func (b objectBucket) Get(ctx context.Context, key string) ([]byte, error) {
	out, err := b.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(b.name), Key: aws.String(key)})
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(out.Body, maxObject+1))
	if err == nil && len(body) > maxObject {
		err = fmt.Errorf("more than %d bytes: no batch of Lambda is as large", maxObject)
	}
	return body, errors.Join(err, out.Body.Close())
}

// Delete implements [replay.Objects].
func (b objectBucket) Delete(ctx context.Context, key string) error {
	_, err := b.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(b.name), Key: aws.String(key)})
	return err
}
