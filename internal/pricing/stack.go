package pricing

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Stack is the billed part of a deployment. The zero value is nothing.
type Stack struct {
	Table    bool
	Recovery bool // point-in-time recovery
	Copied   bool // index GSI2 has whole items: each write of a bucket is written twice
	// Provisioned capacity: the minimum of the table, and of all its indexes together, in units.
	Provisioned                                            bool
	LeastWrite, LeastRead, LeastIndexWrite, LeastIndexRead float64
	Scaled                                                 int // how many capacities auto scaling manages

	Aggregator, Archiver int // MiB; 0: none
	Traced               bool
	MappingMetrics       int     // event source mappings that report metrics
	LogDays              float64 // how long logs are kept; 0: there are none
	Alarms               int     // metrics of alarms
	Dashboards           int
	Buckets              int
	Keys                 int // distinct KMS keys
}

// Default is the stack with default options.
func Default() Stack {
	return Stack{Table: true, Recovery: true, Aggregator: 512, Archiver: 256, MappingMetrics: 2, LogDays: 30, Alarms: 31,
		Dashboards: 1, Buckets: 2}
}

// Provisioned returns the stack with provisioned and scaled capacity, with default options, of the
// table and each of its four indexes.
func Provisioned(s Stack) Stack {
	const least, indexes = 5, 4
	s.Provisioned, s.Scaled = true, 2*(1+indexes)
	s.LeastWrite, s.LeastRead, s.LeastIndexWrite, s.LeastIndexRead = least, least, indexes*least, indexes*least
	return s
}

// Free returns the types of resources that have no cost of their own.
func Free() []string {
	return []string{"AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::EC2::SecurityGroup", "AWS::IAM::ManagedPolicy",
		"AWS::IAM::Policy", "AWS::IAM::Role", "AWS::KMS::Key", "AWS::Lambda::EventInvokeConfig", "AWS::S3::BucketPolicy",
		"AWS::SNS::TopicPolicy", "Custom::ZaeLimiterSetup"}
}

// resource is the priced properties of a resource in a template.
type resource struct {
	Type       string
	Properties struct {
		BillingMode                      string
		PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
		SSESpecification                 struct{ KMSMasterKeyId json.RawMessage }
		ProvisionedThroughput            capacity
		GlobalSecondaryIndexes           []struct {
			IndexName             string
			Projection            struct{ ProjectionType string }
			ProvisionedThroughput capacity
		}

		MemorySize    int
		TracingConfig struct{ Mode string }
		KmsKeyArn     json.RawMessage // of the environment
		MetricsConfig struct{ Metrics []string }

		RetentionInDays float64
		KmsKeyId        json.RawMessage // of a log group

		Metrics []json.RawMessage // of an alarm on an expression
	}
}

type capacity struct{ ReadCapacityUnits, WriteCapacityUnits float64 }

// Of returns the billed parts of a stack's template in JSON. A resource type that is neither priced
// nor free is an error.
func Of(template []byte) (Stack, error) {
	var doc struct{ Resources map[string]resource }
	if err := json.Unmarshal(template, &doc); err != nil {
		return Stack{}, fmt.Errorf("template: %w", err)
	}
	var s Stack
	free, keys := map[string]bool{}, map[string]bool{}
	for _, t := range Free() {
		free[t] = true
	}
	for id, r := range doc.Resources {
		if !free[r.Type] && !s.add(id, r) {
			return Stack{}, fmt.Errorf("resource %s: nothing is known of the price of %s", id, r.Type)
		}
		for _, key := range []json.RawMessage{r.Properties.SSESpecification.KMSMasterKeyId, r.Properties.KmsKeyArn,
			r.Properties.KmsKeyId} {
			if len(key) > 0 {
				keys[string(key)] = true
			}
		}
	}
	s.Keys = len(keys)
	return s, nil
}

// add adds a resource, and reports whether its type has a price.
func (s *Stack) add(id string, r resource) bool {
	p := r.Properties
	switch r.Type {
	case "AWS::DynamoDB::Table":
		s.table(r)
	case "AWS::ApplicationAutoScaling::ScalableTarget":
		s.Scaled++
	case "AWS::Lambda::Function":
		s.Traced = s.Traced || p.TracingConfig.Mode == "Active"
		switch {
		case strings.Contains(id, "Aggregator"):
			s.Aggregator = p.MemorySize
		case strings.Contains(id, "Archiver"):
			s.Archiver = p.MemorySize
		}
	case "AWS::Lambda::EventSourceMapping":
		if len(p.MetricsConfig.Metrics) > 0 {
			s.MappingMetrics++
		}
	case "AWS::Logs::LogGroup":
		s.LogDays = max(s.LogDays, p.RetentionInDays)
	case "AWS::CloudWatch::Alarm":
		s.Alarms += max(1, len(p.Metrics)-1) // with several, one is the expression
	case "AWS::CloudWatch::Dashboard":
		s.Dashboards++
	case "AWS::S3::Bucket":
		s.Buckets++
	default:
		return false
	}
	return true
}

func (s *Stack) table(r resource) {
	p := r.Properties
	s.Table, s.Recovery = true, p.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled
	s.Provisioned = p.BillingMode != "PAY_PER_REQUEST"
	s.LeastWrite, s.LeastRead = p.ProvisionedThroughput.WriteCapacityUnits, p.ProvisionedThroughput.ReadCapacityUnits
	for _, i := range p.GlobalSecondaryIndexes {
		s.LeastIndexWrite += i.ProvisionedThroughput.WriteCapacityUnits
		s.LeastIndexRead += i.ProvisionedThroughput.ReadCapacityUnits
		s.Copied = s.Copied || i.IndexName == "GSI2" && i.Projection.ProjectionType == "ALL"
	}
}
