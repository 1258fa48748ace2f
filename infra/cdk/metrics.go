package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/function"
)

// MetricUpdates counts the writes of the table's items that were carried out: granted, settled,
// given back. Nil options, here and below, leave a metric as the dashboard shows it.
func (l *Limiter) MetricUpdates(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return with(options, metric("AWS/DynamoDB", "SuccessfulRequestLatency", "SampleCount", 1,
		dimensions{"TableName": l.Table.TableName(), "Operation": jsii.String("UpdateItem")}))
}

// MetricRefused counts the writes that the table refused: denied, or decided again.
func (l *Limiter) MetricRefused(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return with(options, l.tableMetric("ConditionalCheckFailedRequests", ""))
}

// MetricUsageLag is the age of the oldest usage that is not written yet, in milliseconds. It needs the
// aggregator, as MetricChanges, MetricRefills, MetricShardSteps and MetricWriteUnits do: without it
// they are nil.
func (l *Limiter) MetricUsageLag(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ofFunction(l.Aggregator, function.MetricUsageLagMs, "Maximum", options)
}

// MetricChanges counts the changes of buckets that the aggregator has seen.
func (l *Limiter) MetricChanges(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ofFunction(l.Aggregator, function.MetricChanges, "Sum", options)
}

// MetricRefills counts the buckets that the aggregator has kept warm.
func (l *Limiter) MetricRefills(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ofFunction(l.Aggregator, function.MetricRefills, "Sum", options)
}

// MetricShardSteps counts the steps of splits and merges.
func (l *Limiter) MetricShardSteps(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ofFunction(l.Aggregator, function.MetricShardSteps, "Sum", options)
}

// MetricWriteUnits counts the write units that the aggregator takes, which MaxWriteUnits bounds.
func (l *Limiter) MetricWriteUnits(options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ofFunction(l.Aggregator, function.MetricWriteUnits, "Sum", options)
}

// MetricMalformed counts the records that a function, Aggregator or Archiver, could not decode.
func (l *Limiter) MetricMalformed(
	of awslambda.Function, options *awscloudwatch.MetricOptions,
) awscloudwatch.Metric {
	return ofFunction(of, function.MetricMalformed, "Sum", options)
}

// MetricWritesFailed counts the failed writes of a function, Aggregator or Archiver.
func (l *Limiter) MetricWritesFailed(
	of awslambda.Function, options *awscloudwatch.MetricOptions,
) awscloudwatch.Metric {
	return ofFunction(of, function.MetricWritesFailed, "Sum", options)
}

func ofFunction(
	of awslambda.Function, name, statistic string, options *awscloudwatch.MetricOptions,
) awscloudwatch.Metric {
	if of == nil {
		return nil
	}
	return with(options, metric(function.MetricNamespace, name, statistic, 1,
		dimensions{function.DimensionFunction: of.FunctionName()}))
}

func with(options *awscloudwatch.MetricOptions, m awscloudwatch.Metric) awscloudwatch.Metric {
	if options == nil {
		return m
	}
	return m.With(options)
}
