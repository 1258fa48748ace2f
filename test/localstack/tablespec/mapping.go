package tablespec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

// mappingProperties are the supported properties of an event source mapping.
type mappingProperties struct {
	BatchSize                  int
	BisectBatchOnFunctionError bool
	DestinationConfig          struct {
		OnFailure struct{ Destination value }
	}
	Enabled                        bool
	EventSourceArn                 value
	FilterCriteria                 struct{ Filters []struct{ Pattern string } }
	FunctionName                   value
	FunctionResponseTypes          []string
	MaximumBatchingWindowInSeconds int
	TumblingWindowInSeconds        int
	MaximumRecordAgeInSeconds      int
	MaximumRetryAttempts           int
	ParallelizationFactor          int
	StartingPosition               string

	Tags          json.RawMessage // without meaning here
	MetricsConfig json.RawMessage // without meaning here
}

// mapping decodes a mapping into its settings and its table, and returns the logical id of its
// function. Numbers missing in the template have AWS's defaults.
func (all resources) mapping(raw json.RawMessage) (f Function, of string, err error) {
	s := eventsource.DefaultSettings()
	p := mappingProperties{Enabled: true, BatchSize: s.BatchSize, MaximumRecordAgeInSeconds: -1,
		MaximumRetryAttempts: s.MaxRetries, ParallelizationFactor: s.Factor}
	if err := strict(raw, &p); err != nil {
		return f, "", err
	}
	if !p.Enabled || p.StartingPosition != "TRIM_HORIZON" {
		return f, "", fmt.Errorf("mapping with Enabled %v, StartingPosition %q, accepted are true and TRIM_HORIZON",
			p.Enabled, p.StartingPosition)
	}
	s.BatchSize, s.Factor, s.MaxRetries = p.BatchSize, p.ParallelizationFactor, p.MaximumRetryAttempts
	s.Window = time.Duration(p.MaximumBatchingWindowInSeconds) * time.Second
	s.Tumbling = time.Duration(p.TumblingWindowInSeconds) * time.Second
	s.MaxAge = time.Duration(p.MaximumRecordAgeInSeconds) * time.Second
	s.Bisect = p.BisectBatchOnFunctionError
	for _, f := range p.FilterCriteria.Filters {
		s.Filters = append(s.Filters, f.Pattern)
	}
	for _, kind := range p.FunctionResponseTypes {
		if s.Report = kind == "ReportBatchItemFailures"; !s.Report {
			return f, "", fmt.Errorf("FunctionResponseTypes %q, accepted is ReportBatchItemFailures", kind)
		}
	}
	table, to := p.EventSourceArn, p.DestinationConfig.OnFailure.Destination
	err = errors.Join(all.check(table, "AWS::DynamoDB::Table"), all.check(p.FunctionName, "AWS::Lambda::Function"))
	if table.attribute != "StreamArn" {
		err = errors.Join(err, fmt.Errorf("EventSourceArn %+v is not the stream of a table", table))
	}
	if to != (value{}) {
		err = errors.Join(err, all.check(to, eventsource.DestinationS3, eventsource.DestinationSQS, "AWS::SNS::Topic"))
		s.Destination = all[to.id].Type
	}
	return Function{TableID: table.id, Settings: s}, p.FunctionName.id, err
}

// check requires a reference to a resource of one of the types.
func (all resources) check(v value, types ...string) error {
	if slices.Contains(types, all[v.id].Type) {
		return nil
	}
	return fmt.Errorf("%+v has the type %q, accepted are %q", v, all[v.id].Type, types)
}
