package cdk

import (
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/function"
)

// alarm is an alarm on one metric. It fires if the metric is at or above the threshold in of of the
// last periods, and ends when it is not. Missing data is not a breach: a function without work
// reports nothing.
type alarm struct {
	name, what string // what: the sentence in the notification
	metric     awscloudwatch.IMetric
	threshold  float64
	of, last   int // datapoints among the last periods
}

// addAlarms declares the alarms of the declared resources.
func (l *Limiter) addAlarms() {
	l.Alarms = map[string]awscloudwatch.Alarm{}
	var all []alarm
	if l.Aggregator != nil {
		all = append(all, l.functionAlarms(l.Aggregator, l.AggregatorMapping, l.props.Aggregator.TimeoutSeconds)...)
		all = append(all, l.deadMapping())
	}
	if l.Archiver != nil {
		all = append(all, l.functionAlarms(l.Archiver, l.ArchiverMapping, l.props.Archiver.TimeoutSeconds)...)
	}
	if l.FailedRecordsBucket != nil {
		all = append(all, alarm{"DeadLetters", "The failed records bucket is not empty: replay what is in it.",
			objects(l.FailedRecordsBucket), 1, 1, 1})
	}
	for _, a := range append(all, l.tableAlarms()...) {
		l.Alarms[a.name] = l.declare(a)
	}
}

// urgent matches the names of alarms that should wake a person: the table is throttled, which may
// stop clients, or usage is being lost. The others can wait until the morning (docs/operations.md).
var urgent = regexp.MustCompile(`^(Table(Write|Read)|GSI[1-4]Write)Throttles$|(DroppedRecords|DestinationFailures)$`)

// topic returns the topic of an alarm, nil for none.
func (l *Limiter) topic(name string) awssns.ITopic {
	if p := l.props.Alarms; p.UrgentTopic != nil && urgent.MatchString(name) {
		return p.UrgentTopic
	}
	return l.props.Alarms.Topic
}

func (l *Limiter) declare(a alarm) awscloudwatch.Alarm {
	declared := awscloudwatch.NewAlarm(l.Construct, jsii.String(a.name+"Alarm"), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.what),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(a.last),
		DatapointsToAlarm:  jsii.Number(a.of),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if topic := l.topic(a.name); topic != nil {
		action := awscloudwatchactions.NewSnsAction(topic)
		declared.AddAlarmAction(action)
		declared.AddOkAction(action)
	}
	return declared
}

// functionAlarms returns alarms that check that a function works, keeps up and loses nothing.
func (l *Limiter) functionAlarms(
	fn awslambda.Function, mapping awslambda.CfnEventSourceMapping, timeoutS int,
) []alarm {
	id, p := *fn.Node().Id(), l.props.Alarms
	byFunction := dimensions{"FunctionName": fn.FunctionName()}
	byMapping := dimensions{"EventSourceMappingUUID": mapping.AttrId()}
	who := "The " + strings.ToLower(id)
	return []alarm{
		{id + "IteratorAge", who + " is too far behind the stream.",
			metric("AWS/Lambda", "IteratorAge", "Maximum", 1, byFunction), float64(p.IteratorAgeSeconds * 1000), 3, 3},
		{id + "Errors", who + " fails as a whole, again and again: it crashes, times out or has no valid environment.",
			metric("AWS/Lambda", "Errors", "Sum", 5, byFunction), float64(p.Errors), 1, 1},
		{id + "Throttles", who + " is not started for lack of concurrency.",
			metric("AWS/Lambda", "Throttles", "Sum", 1, byFunction), float64(p.Throttles), 3, 3},
		{id + "Duration", who + " comes near its timeout.",
			metric("AWS/Lambda", "Duration", "Maximum", 1, byFunction), float64(timeoutS * 10 * p.DurationPercent), 3, 5},
		{id + "FailedRecords", who + " gave records up; they are in the failed records bucket.",
			metric("AWS/Lambda", "OnFailureDestinationDeliveredEventCount", "Sum", 1, byMapping), 1, 1, 1},
		{id + "DroppedRecords", who + " lost records: they were given up and not delivered to the failed records bucket.",
			metric("AWS/Lambda", "DroppedEventCount", "Sum", 1, byMapping), 1, 1, 1},
		{id + "DestinationFailures", who + " could not write to the failed records bucket.",
			metric("AWS/Lambda", "DestinationDeliveryFailures", "Sum", 1, byFunction), 1, 1, 1},
		{id + "Malformed", who + " met records that can never be decoded, kept them and went on; its log names each.",
			l.Metric(fn, function.MetricMalformed, nil), 1, 1, 1},
		{id + "WritesFailed", who + " has had failing writes for ten minutes; their records are delivered again.",
			l.Metric(fn, function.MetricWritesFailed, nil), 1, 10, 10},
	}
}

// deadMapping returns an alarm for buckets that are written while the aggregator is not invoked:
// its mapping is disabled, gone or cannot read the stream. No other alarm shows this, because a
// function that is not invoked neither fails nor is late. A refused update, such as a denial, is
// neither a successful request nor a stream record.
func (l *Limiter) deadMapping() alarm {
	writes := l.updates("SampleCount", 5)
	invocations := metric("AWS/Lambda", "Invocations", "Sum", 5, dimensions{"FunctionName": l.Aggregator.FunctionName()})
	return alarm{"AggregatorDeadMapping",
		"The table is written to and the aggregator has not been invoked for 15 minutes.",
		awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression:   jsii.String("IF(FILL(writes, 0) > 0 AND FILL(invocations, 0) < 1, 1, 0)"),
			Label:        jsii.String("written to, not read"),
			Period:       awscdk.Duration_Minutes(jsii.Number(5)),
			UsingMetrics: &map[string]awscloudwatch.IMetric{"writes": writes, "invocations": invocations},
		}), 1, 3, 3}
}

// tableAlarms returns alarms for throttled requests: a throttled index throttles the table's writes
// too, so each index has its own alarm.
func (l *Limiter) tableAlarms() (out []alarm) {
	for _, index := range append([]string{""}, indexes()...) {
		by, name, where := dimensions{"TableName": l.Table.TableName()}, "Table", "the table"
		if index != "" {
			by["GlobalSecondaryIndexName"] = jsii.String(index)
			name, where = index, "index "+index
		}
		for _, kind := range []string{"Write", "Read"} {
			what := "DynamoDB throttles " + strings.ToLower(kind) + "s of " + where + "."
			out = append(out, alarm{name + kind + "Throttles", what,
				metric("AWS/DynamoDB", kind+"ThrottleEvents", "Sum", 1, by), float64(l.props.Alarms.Throttles), 3, 3})
		}
	}
	return out
}

// objects returns the number of objects in a bucket. S3 reports it once a day.
func objects(b awss3.Bucket) awscloudwatch.IMetric {
	return metric("AWS/S3", "NumberOfObjects", "Average", 24*60,
		dimensions{"BucketName": b.BucketName(), "StorageType": jsii.String("AllStorageTypes")})
}

type dimensions map[string]*string

func metric(namespace, name, statistic string, minutes int, by dimensions) awscloudwatch.Metric {
	values := map[string]*string(by)
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(namespace),
		MetricName:    jsii.String(name),
		Statistic:     jsii.String(statistic),
		DimensionsMap: &values,
		Period:        awscdk.Duration_Minutes(jsii.Number(minutes)),
	})
}
