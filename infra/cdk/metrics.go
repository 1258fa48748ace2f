package cdk

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/zeroae/zae-limiter-go/internal/function"
)

// Metric returns a metric that Aggregator or Archiver reports, as the dashboard shows it where the options do not
// say otherwise; nil options say nothing. It is nil for a function that is turned off. The names are
//
//	Malformed     records that could not be decoded
//	WritesFailed  writes that were refused or may have failed
//	Changes       changes of buckets, or audit events that have expired
//	UsageLagMs    of the aggregator: the age of the oldest usage that is not written yet
//	Refills       of the aggregator: buckets that it has kept warm
//	ShardSteps    of the aggregator: steps of splits and merges
//	WriteUnits    of the aggregator: write units that it takes, which MaxWriteUnits bounds
//
// and it panics for others. The table's metrics are methods of Table: ConditionalCheckFailedRequests are writes
// that were refused (denied, or decided again); the samples of SuccessfulRequestLatency of UpdateItem are those
// that were carried out.
func (l *Limiter) Metric(
	of awslambda.Function, name string, options *awscloudwatch.MetricOptions,
) awscloudwatch.Metric {
	if !function.Published(name, 1) {
		panic(fmt.Errorf("metric %q: the functions do not report it", name))
	}
	if of == nil {
		return nil
	}
	statistic := "Sum"
	if name == function.MetricUsageLagMs {
		statistic = "Maximum"
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
