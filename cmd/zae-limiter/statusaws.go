package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	metric "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

// streams returns a client for the table's stream.
func (a *app) streams(cfg aws.Config) *dynamodbstreams.Client {
	return dynamodbstreams.NewFromConfig(cfg, func(o *dynamodbstreams.Options) {
		if o.BaseEndpoint == nil {
			o.BaseEndpoint = a.dynamoDB(cfg).Options().BaseEndpoint // emulators serve both
		}
	})
}

func (a *app) streamPart(ctx context.Context, cfg aws.Config, d limitertable.Description) part {
	p := part{Part: "stream", Name: d.StreamARN}
	shards, open := 0, 0
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: aws.String(d.StreamARN)}
	for {
		out, err := a.streams(cfg).DescribeStream(ctx, in)
		if err != nil {
			return unknownPart("stream", d.StreamARN, err)
		}
		p.State = string(out.StreamDescription.StreamStatus)
		for _, s := range out.StreamDescription.Shards {
			shards++
			if s.SequenceNumberRange == nil || s.SequenceNumberRange.EndingSequenceNumber == nil {
				open++
			}
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			break
		}
	}
	p.OK = p.State == string(streams.StreamStatusEnabled)
	p.Detail = fmt.Sprintf("%s, %s, %d of them open", d.Spec.StreamViewType, count(shards, "shards"), open)
	p.Figures = map[string]any{"view": d.Spec.StreamViewType, "shards": shards, "open_shards": open}
	return p
}

func (a *app) functionParts(ctx context.Context, cfg aws.Config, stream string) []part {
	client := lambda.NewFromConfig(cfg)
	if a.dynamoDB(cfg).Options().BaseEndpoint != nil && client.Options().BaseEndpoint == nil {
		return []part{{Part: "functions", Name: "none", State: "local", OK: true,
			Detail: "DynamoDB is local, and AWS_ENDPOINT_URL_LAMBDA is not set"}}
	}
	var parts []part
	in := &lambda.ListEventSourceMappingsInput{EventSourceArn: aws.String(stream)}
	for pages := lambda.NewListEventSourceMappingsPaginator(client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return append(parts, unknownPart("functions", "unknown", err))
		}
		for _, m := range page.EventSourceMappings {
			parts = append(parts, functionPart(ctx, cloudwatch.NewFromConfig(cfg), m))
		}
	}
	if len(parts) == 0 {
		parts = []part{{Part: "functions", Name: "none", State: "none", OK: true,
			Detail: "nothing reads the stream: no usage, no archive (docs/deploying.md)"}}
	}
	return parts
}

// functionPart reports the health of a function. A figure without data in CloudWatch is shown as
// unknown, and is not a problem: without writes, a table has no lag.
func functionPart(ctx context.Context, client *cloudwatch.Client, m types.EventSourceMappingConfiguration) part {
	arn := aws.ToString(m.FunctionArn)
	_, name, _ := strings.Cut(arn, ":function:")
	name, _, _ = strings.Cut(name, ":") // a version or alias may follow
	p := part{Part: "function", Name: name, State: aws.ToString(m.State)}
	p.OK = p.State == "Enabled"
	age, errAge := figure(ctx, client, name, "IteratorAge", metric.StatisticMaximum)
	errs, errErrs := figure(ctx, client, name, "Errors", metric.StatisticSum)
	slow, errSlow := figure(ctx, client, name, "Throttles", metric.StatisticSum)
	lag := "not reported"
	if age >= 0 {
		lag = (time.Duration(age) * time.Millisecond).String()
	}
	p.Detail = fmt.Sprintf("last result %q", aws.ToString(m.LastProcessingResult))
	p.Figures = map[string]any{"mapping": aws.ToString(m.UUID), "last_result": aws.ToString(m.LastProcessingResult)}
	if err := cmp.Or(errAge, errErrs, errSlow); err != nil {
		p.Detail += "; lag unknown: " + err.Error()
		return p
	}
	p.Figures["lag_ms"], p.Figures["errors"], p.Figures["throttles"] = age, errs, slow
	p.Detail += fmt.Sprintf(", lag %s, %s, %s within 15 minutes", lag,
		count(max(errs, 0), "errors"), count(max(slow, 0), "throttles"))
	return p
}

// figure returns a statistic of a function over the last 15 minutes, or -1 if there is none.
func figure(
	ctx context.Context, client *cloudwatch.Client, function, name string, statistic metric.Statistic,
) (int64, error) {
	now := time.Now()
	out, err := client.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: aws.String("AWS/Lambda"), MetricName: aws.String(name), Statistics: []metric.Statistic{statistic},
		Dimensions: []metric.Dimension{{Name: aws.String("FunctionName"), Value: aws.String(function)}},
		StartTime:  aws.Time(now.Add(-15 * time.Minute)), EndTime: aws.Time(now), Period: aws.Int32(900),
	})
	if err != nil {
		return -1, err
	}
	most := int64(-1)
	for _, p := range out.Datapoints {
		value := p.Maximum
		if statistic == metric.StatisticSum {
			value = p.Sum
		}
		most = max(most, int64(aws.ToFloat64(value)))
	}
	return most, nil
}
