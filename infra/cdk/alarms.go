package main

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// iteratorAgeMs is how late a function may be, in milliseconds, before
// somebody should look: usage is late and buckets are no longer kept warm.
const iteratorAgeMs = 5 * 60 * 1000

// alarms declares alarms that notify one topic, or nobody when none is given.
type alarms struct {
	scope  constructs.Construct
	action awscloudwatch.IAlarmAction // nil: an alarm only shows its state
}

func newAlarms(scope constructs.Construct, opts options) alarms {
	if opts.AlarmTopicARN == "" {
		return alarms{scope: scope}
	}
	topic := awssns.Topic_FromTopicArn(scope, jsii.String("AlarmTopic"), jsii.String(opts.AlarmTopicARN))
	return alarms{scope: scope, action: awscloudwatchactions.NewSnsAction(topic)}
}

// watchFunction alarms when a function fails, is slowed down or falls behind,
// when its mapping gives records up or loses them, and when it says itself that
// it could not decode or write something.
func (a alarms) watchFunction(id string, fn awslambda.Function, mapping awslambda.CfnEventSourceMapping) {
	byFunction := map[string]*string{"FunctionName": fn.FunctionName()}
	byMapping := map[string]*string{"EventSourceMappingUUID": mapping.AttrId()}

	a.add(id+"IteratorAge", "is more than five minutes behind the stream", 3, iteratorAgeMs,
		lambdaMetric("IteratorAge", "Maximum", byFunction))
	a.add(id+"Errors", "failed as a whole", 1, 1,
		lambdaMetric("Errors", "Sum", byFunction))
	a.add(id+"Throttles", "was not started for lack of concurrency", 3, 1,
		lambdaMetric("Throttles", "Sum", byFunction))
	a.add(id+"FailedRecords", "gave records up; they are in the failed records bucket", 1, 1,
		lambdaMetric("OnFailureDestinationDeliveredEventCount", "Sum", byMapping))
	a.add(id+"DroppedRecords", "lost records: they were given up and not delivered to the failed records bucket", 1, 1,
		lambdaMetric("DroppedEventCount", "Sum", byMapping))
	a.add(id+"DestinationFailures", "could not write to the failed records bucket", 1, 1,
		lambdaMetric("DestinationDeliveryFailures", "Sum", byFunction))

	own := map[string]*string{lambdaio.DimensionFunction: fn.FunctionName()}
	a.add(id+"Malformed", "met records that can never be decoded and skipped them; its log names each", 1, 1,
		metric(lambdaio.MetricNamespace, lambdaio.MetricMalformed, "Sum", own))
	a.add(id+"WritesFailed", "has had failing writes for ten minutes; their records are delivered again", 10, 1,
		metric(lambdaio.MetricNamespace, lambdaio.MetricWritesFailed, "Sum", own))
}

// watchTable alarms when writes of the table or of any index are throttled: a
// throttled index throttles the table's writes too.
func (a alarms) watchTable(t awsdynamodb.Table) {
	metrics := map[string]awscloudwatch.IMetric{}
	for i, index := range []string{"", table.IndexGSI1, table.IndexGSI2, table.IndexGSI3, table.IndexGSI4} {
		dimensions := map[string]*string{"TableName": t.TableName()}
		if index != "" {
			dimensions["GlobalSecondaryIndexName"] = jsii.String(index)
		}
		metrics[fmt.Sprintf("m%d", i)] = metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", dimensions)
	}
	a.add("TableWriteThrottles", "slows writes of the table or one of its indexes down", 3, 1,
		awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression:   jsii.String("SUM(METRICS())"), // ignores those without data
			Label:        jsii.String("write throttles"),
			Period:       awscdk.Duration_Minutes(jsii.Number(1)),
			UsingMetrics: &metrics,
		}))
}

// add declares an alarm that goes off when the metric is at or above the
// threshold in so many consecutive minutes. No data is good news: a function
// without work reports nothing.
func (a alarms) add(id, what string, minutes, threshold float64, m awscloudwatch.IMetric) {
	alarm := awscloudwatch.NewAlarm(a.scope, jsii.String(id+"Alarm"), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(describe(id, what)),
		Metric:             m,
		Threshold:          jsii.Number(threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(minutes),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if a.action != nil {
		alarm.AddAlarmAction(a.action)
	}
}

// describe makes a sentence of what happened and to whom.
func describe(id, what string) string {
	for _, who := range []string{"Aggregator", "Archiver"} {
		if strings.HasPrefix(id, who) {
			return "The " + strings.ToLower(who) + " " + what + "."
		}
	}
	return "DynamoDB " + what + "."
}

func lambdaMetric(name, statistic string, dimensions map[string]*string) awscloudwatch.Metric {
	return metric("AWS/Lambda", name, statistic, dimensions)
}

func metric(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(namespace),
		MetricName:    jsii.String(name),
		Statistic:     jsii.String(statistic),
		DimensionsMap: &dimensions,
		Period:        awscdk.Duration_Minutes(jsii.Number(1)),
	})
}
