package cdk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

// A limiter is a construct as others are: it can be waited for, tagged, and found in the tree.
// What it grants can be waited for, and its metrics can be used in an alarm of the app.
func TestALimiterIsAConstruct(t *testing.T) {
	s := newStacks(t)
	l := cdk.New(s.limits, "Limits", &s.props)
	var construct constructs.IConstruct = l
	awscdk.Tags_Of(construct).Add(jsii.String("team"), jsii.String("platform"), nil)
	topic := awssns.NewTopic(s.limits, jsii.String("After"), nil)
	topic.Node().AddDependency(l)
	role := awsiam.NewRole(s.limits, jsii.String("App"), &awsiam.RoleProps{AssumedBy: awsiam.NewAccountRootPrincipal()})
	grant := l.GrantAcquire(role)
	if !*grant.Success() || len(*grant.PrincipalStatements()) != 2 {
		t.Errorf("%d statements", len(*grant.PrincipalStatements()))
	}
	grant.ApplyBefore(topic)
	for i, m := range []awscloudwatch.Metric{l.MetricUpdates(nil), l.MetricRefused(nil), l.MetricUsageLag(nil),
		l.MetricChanges(nil), l.MetricRefills(nil), l.MetricShardSteps(nil), l.MetricWriteUnits(nil),
		l.MetricMalformed(l.Archiver, nil), l.MetricWritesFailed(l.Aggregator, &awscloudwatch.MetricOptions{
			Label: jsii.String("mine")})} {
		m.CreateAlarm(s.limits, jsii.String(fmt.Sprintf("Alarm%d", i)), &awscloudwatch.CreateAlarmOptions{
			Threshold: jsii.Number(1), EvaluationPeriods: jsii.Number(1)})
	}
	if err := s.synth(); err != nil {
		t.Fatal(err)
	}
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

// Without functions there are no metrics of theirs, and those of the table are there.
func TestMetricsWithoutFunctions(t *testing.T) {
	s := newStacks(t)
	s.props.Aggregator.Off, s.props.Archiver.Off = true, true
	l := cdk.New(s.limits, "Limits", &s.props)
	for _, m := range []awscloudwatch.Metric{l.MetricUsageLag(nil), l.MetricChanges(nil), l.MetricRefills(nil),
		l.MetricShardSteps(nil), l.MetricWriteUnits(nil), l.MetricMalformed(l.Archiver, nil),
		l.MetricWritesFailed(l.Aggregator, nil)} {
		if m != nil {
			t.Errorf("%s", *m.MetricName())
		}
	}
	if l.MetricUpdates(nil) == nil || l.MetricRefused(nil) == nil {
		t.Error("the table has none")
	}
}
