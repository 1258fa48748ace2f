package tablespec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

// mappingProperties are the properties of an event source mapping that are understood.
type mappingProperties struct {
	BatchSize                  int
	BisectBatchOnFunctionError bool
	DestinationConfig          struct {
		OnFailure struct{ Destination json.RawMessage }
	}
	Enabled                        bool
	EventSourceArn                 json.RawMessage
	FilterCriteria                 struct{ Filters []struct{ Pattern string } }
	FunctionName                   json.RawMessage
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

// mapping reads a mapping into its settings and its table. It returns the logical id of its function, too.
// Numbers that the template leaves out have the defaults of AWS.
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
	table, attribute, ofTable := all.refer(p.EventSourceArn, "AWS::DynamoDB::Table")
	if ofTable == nil && attribute != "StreamArn" {
		ofTable = fmt.Errorf("EventSourceArn %s is not the stream of a table", p.EventSourceArn)
	}
	of, _, ofFunction := all.refer(p.FunctionName, "AWS::Lambda::Function")
	if destination := p.DestinationConfig.OnFailure.Destination; len(destination) > 0 {
		var id string
		id, _, err = all.refer(destination, eventsource.DestinationS3, eventsource.DestinationSQS, "AWS::SNS::Topic")
		s.Destination = all[id].Type
	}
	return Function{TableID: table, Settings: s}, of, errors.Join(ofTable, ofFunction, err)
}

// refer reads a reference to a resource of one of the types.
func (all resources) refer(raw json.RawMessage, types ...string) (id, attribute string, err error) {
	if id, attribute, err = reference(raw); err == nil && !slices.Contains(types, all[id].Type) {
		err = fmt.Errorf("%s has the type %q, accepted are %q", raw, all[id].Type, types)
	}
	return id, attribute, err
}
