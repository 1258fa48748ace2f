package tablespec

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Destination kinds of a mapping's records that were given up.
const (
	DestinationNone = ""
	DestinationS3   = "AWS::S3::Bucket" // gets the whole invocation record with its payload
	DestinationSQS  = "AWS::SQS::Queue" // gets metadata only
	DestinationSNS  = "AWS::SNS::Topic" // gets metadata only
)

// Mapping is an event source mapping of the template. Numbers the template
// leaves out have the defaults of AWS.
type Mapping struct {
	LogicalID  string
	FunctionID string // logical id of the function it invokes
	TableID    string // logical id of the table whose stream it reads

	Enabled                        bool
	StartingPosition               string
	BatchSize                      int
	MaximumBatchingWindowInSeconds int
	TumblingWindowInSeconds        int // 0: none
	ParallelizationFactor          int
	MaximumRetryAttempts           int // -1 is without end
	MaximumRecordAgeInSeconds      int // -1 is without end
	BisectBatchOnFunctionError     bool
	ReportBatchItemFailures        bool
	Filters                        []string // patterns in JSON; a record passes when one of them matches; none passes all

	DestinationKind string // one of the Destination constants
	DestinationID   string // its logical id
}

type mappingProperties struct {
	BatchSize                  *int
	BisectBatchOnFunctionError bool
	DestinationConfig          struct {
		OnFailure struct{ Destination json.RawMessage }
	}
	Enabled                        *bool
	EventSourceArn                 json.RawMessage
	FilterCriteria                 struct{ Filters []struct{ Pattern string } }
	FunctionName                   json.RawMessage
	FunctionResponseTypes          []string
	MaximumBatchingWindowInSeconds int
	TumblingWindowInSeconds        int
	MaximumRecordAgeInSeconds      *int
	MaximumRetryAttempts           *int
	ParallelizationFactor          *int
	StartingPosition               string

	Tags          json.RawMessage // without meaning here
	MetricsConfig json.RawMessage // without meaning here
}

func (t *Template) parseMapping(id string, raw json.RawMessage) (Mapping, error) {
	var p mappingProperties
	if err := strict(raw, &p); err != nil {
		return Mapping{}, err
	}
	m := Mapping{
		LogicalID:                      id,
		Enabled:                        p.Enabled == nil || *p.Enabled,
		StartingPosition:               p.StartingPosition,
		BatchSize:                      or(p.BatchSize, 100),
		MaximumBatchingWindowInSeconds: p.MaximumBatchingWindowInSeconds,
		TumblingWindowInSeconds:        p.TumblingWindowInSeconds,
		ParallelizationFactor:          or(p.ParallelizationFactor, 1),
		MaximumRetryAttempts:           or(p.MaximumRetryAttempts, -1),
		MaximumRecordAgeInSeconds:      or(p.MaximumRecordAgeInSeconds, -1),
		BisectBatchOnFunctionError:     p.BisectBatchOnFunctionError,
	}
	for _, f := range p.FilterCriteria.Filters {
		m.Filters = append(m.Filters, f.Pattern)
	}
	for _, kind := range p.FunctionResponseTypes {
		if kind != "ReportBatchItemFailures" {
			return Mapping{}, fmt.Errorf("FunctionResponseTypes %q, accepted is ReportBatchItemFailures", kind)
		}
		m.ReportBatchItemFailures = true
	}
	return m, errors.Join(t.resolveSource(&m, p.EventSourceArn), t.resolveFunction(&m, p.FunctionName),
		t.resolveDestination(&m, p.DestinationConfig.OnFailure.Destination))
}

func (t *Template) resolveSource(m *Mapping, raw json.RawMessage) error {
	id, attribute, err := reference(raw)
	if err != nil {
		return fmt.Errorf("EventSourceArn: %w", err)
	}
	if t.resources[id].Type != "AWS::DynamoDB::Table" || attribute != "StreamArn" {
		return fmt.Errorf("EventSourceArn %s is not the stream of a table", raw)
	}
	m.TableID = id
	return nil
}

func (t *Template) resolveFunction(m *Mapping, raw json.RawMessage) error {
	id, _, err := reference(raw)
	if err != nil {
		return fmt.Errorf("FunctionName: %w", err)
	}
	if t.resources[id].Type != "AWS::Lambda::Function" {
		return fmt.Errorf("FunctionName %s is not a function of the template", raw)
	}
	m.FunctionID = id
	return nil
}

func (t *Template) resolveDestination(m *Mapping, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	id, _, err := reference(raw)
	if err != nil {
		return fmt.Errorf("on-failure destination: %w", err)
	}
	switch kind := t.resources[id].Type; kind {
	case DestinationS3, DestinationSQS, DestinationSNS:
		m.DestinationKind, m.DestinationID = kind, id
		return nil
	default:
		return fmt.Errorf("on-failure destination %s has type %q, "+
			"accepted are a bucket, a queue and a topic of the template", raw, kind)
	}
}

func or(p *int, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return *p
}
