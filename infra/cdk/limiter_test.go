package cdk_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A limiter is a normal construct: it can be a dependency, be tagged, and be found in the tree. Its
// grants can be dependencies, and its metrics can be used in an alarm of the app.
func TestALimiterIsAConstruct(t *testing.T) {
	s := newStacks(t)
	l := cdk.New(s.limits, "Limits", &s.props)
	var construct constructs.IConstruct = l
	awscdk.Tags_Of(construct).Add(jsii.String("team"), jsii.String("platform"), nil)
	topic := awssns.NewTopic(s.limits, jsii.String("After"), nil)
	topic.Node().AddDependency(l)
	role := awsiam.NewRole(s.limits, jsii.String("App"), &awsiam.RoleProps{AssumedBy: awsiam.NewAccountRootPrincipal()})
	grant := l.Grant(role, cdk.Acquire)
	if !*grant.Success() || len(*grant.PrincipalStatements()) != 2 {
		t.Errorf("%d statements", len(*grant.PrincipalStatements()))
	}
	grant.ApplyBefore(topic)
	alarms := func(m awscloudwatch.Metric) {
		m.CreateAlarm(s.limits, jsii.String("AlarmOf"+*m.MetricName()), &awscloudwatch.CreateAlarmOptions{
			Threshold: jsii.Number(1), EvaluationPeriods: jsii.Number(1)})
	}
	for _, name := range metrics {
		alarms(l.Metric(l.Aggregator, name, nil))
	}
	// The table's writes that succeeded, and those that were refused.
	alarms(l.Table.MetricSuccessfulRequestLatency(&awscloudwatch.MetricOptions{
		Statistic: jsii.String("SampleCount"), DimensionsMap: &map[string]*string{
			"TableName": l.Table.TableName(), "Operation": jsii.String("UpdateItem")}}))
	alarms(l.Table.MetricConditionalCheckFailedRequests(nil))
	if m := l.Metric(l.Archiver, "Malformed", &awscloudwatch.MetricOptions{Label: jsii.String("mine")}); *m.Label() !=
		"mine" || *m.Statistic() != "Sum" || (*m.Dimensions())["Function"] != *l.Archiver.FunctionName() {
		t.Errorf("the metric is %v %v %v", *m.Label(), *m.Statistic(), *m.Dimensions())
	}
	check.Must(t, s.synth())
	text := s.template(t, "Limits")
	if !strings.Contains(text["AWS::SNS::Topic"], `"LimitsAggregator`) || !strings.Contains(text["AWS::SNS::Topic"],
		`"AppDefaultPolicy`) {
		t.Errorf("the topic waits for %s", text["AWS::SNS::Topic"])
	}
	if !strings.Contains(text["AWS::DynamoDB::Table"], `"Value":"platform"`) {
		t.Errorf("not tagged: %s", text["AWS::DynamoDB::Table"])
	}
	if !strings.Contains(text["AWS::S3::BucketPolicy"], `"s3:TlsVersion":1.2`) {
		t.Errorf("any version of TLS: %s", text["AWS::S3::BucketPolicy"])
	}
}

// metrics are the names in Metric's documentation.
var metrics = []string{"Malformed", "WritesFailed", "Changes", "UsageLagMs", "Refills", "ShardSteps", "WriteUnits"}

// Without functions there are no function metrics. An unknown name is refused.
func TestMetricsWithoutFunctions(t *testing.T) {
	s := newStacks(t)
	s.props.Aggregator.Off, s.props.Archiver.Off = true, true
	l := cdk.New(s.limits, "Limits", &s.props)
	for _, name := range metrics {
		if m := l.Metric(l.Aggregator, name, nil); m != nil {
			t.Errorf("%s", *m.MetricName())
		}
	}
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), `metric "Records": the functions do not`) {
			t.Errorf("another metric: %v", err)
		}
	}()
	l.Metric(l.Aggregator, "Records", nil)
}
