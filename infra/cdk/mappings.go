package cdk

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The common settings of both event source mappings.
const (
	// A batch is given up, with its payload, well before its records leave the stream after 24
	// hours.
	maximumRecordAgeS = 6 * 60 * 60
	// The maximum, so that only the age bounds an outage: AWS does not document the pauses between
	// retries, and a record that was given up is not counted. The functions set hopeless records
	// aside, so they do not block the records after them.
	maximumRetryAttempts = 10000
)

// mapping is the settings that differ between the two mappings.
type mapping struct {
	id                         string
	function                   awslambda.Function
	batch, window, parallelism int
	tumbling                   int // seconds; 0: no window
	paused                     bool
	filter                     pattern
}

// newAggregatorMapping sends every write of a bucket to the aggregator, including the first and the
// last: an INSERT already contains consumption, and the image in a REMOVE the last counters. A
// tumbling window lets usage be counted once for many batches.
//
// One partition of the table can write a batch of 1,000 in a second; the more changes a batch
// holds, the fewer writes usage costs per change. By default only one batch of a stream shard is
// processed at a time, for the same reason.
func (l *Limiter) newAggregatorMapping() awslambda.CfnEventSourceMapping {
	p := l.props.Aggregator
	return l.newMapping(mapping{
		id: "AggregatorMapping", function: l.Aggregator,
		batch: p.BatchSize, window: p.WindowSeconds, parallelism: p.Parallelization, tumbling: p.tumbling(),
		paused: p.Paused,
		filter: pattern{
			"dynamodb": pattern{"Keys": pattern{item.AttrSK: pattern{"S": []any{layout.SKBucketState}}}},
		},
	})
}

// newArchiverMapping sends the audit events that DynamoDB's time to live removed to the archiver.
// Other removals have no user identity.
func (l *Limiter) newArchiverMapping() awslambda.CfnEventSourceMapping {
	p := l.props.Archiver
	return l.newMapping(mapping{
		id: "ArchiverMapping", function: l.Archiver,
		batch: p.BatchSize, window: p.WindowSeconds, parallelism: p.Parallelization,
		filter: pattern{
			"eventName": []any{"REMOVE"},
			"userIdentity": pattern{
				"type":        []any{"Service"},
				"principalId": []any{"dynamodb.amazonaws.com"},
			},
			"dynamodb": pattern{"Keys": pattern{item.AttrSK: pattern{"S": []any{pattern{"prefix": layout.SKAuditPrefix}}}}},
		},
	})
}

// pattern is one level of an event filter. Lambda silently drops everything that does not match, so
// filters are tested against real stream records.
type pattern map[string]any

// newMapping declares an event source mapping on the table's stream.
//
// It starts at the oldest record, so all writes between the creation of the table and of the
// mapping are seen. A mapping that is created again reads up to a day again. Records younger than
// the maximum age reach the functions, which detect the records that they have counted or archived.
// Older ones go to the failed records bucket and fire its alarm. Only records of an adopted table
// that a Python aggregator has counted would be counted again; the mapping is paused until they are
// old enough. Starting at the newest record instead would lose the writes until the mapping first
// polls, and CloudFormation creates another mapping when its start changes.
func (l *Limiter) newMapping(m mapping) awslambda.CfnEventSourceMapping {
	return awslambda.NewCfnEventSourceMapping(l.Construct, jsii.String(m.id), &awslambda.CfnEventSourceMappingProps{
		EventSourceArn:   l.Table.TableStreamArn(),
		FunctionName:     m.function.FunctionArn(),
		StartingPosition: jsii.String("TRIM_HORIZON"),
		Enabled:          jsii.Bool(!m.paused), // set explicitly, so that an update enables it again
		FilterCriteria: &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{
			Filters: []any{&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(m.filter.json())}},
		},
		BatchSize:                      jsii.Number(m.batch),
		MaximumBatchingWindowInSeconds: jsii.Number(m.window),
		ParallelizationFactor:          jsii.Number(m.parallelism),
		TumblingWindowInSeconds:        jsii.Number(m.tumbling), // 0 too: Lambda keeps settings that an update omits
		FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
		BisectBatchOnFunctionError:     jsii.Bool(true),
		MaximumRecordAgeInSeconds:      jsii.Number(maximumRecordAgeS),
		MaximumRetryAttempts:           jsii.Number(maximumRetryAttempts),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: l.FailedRecordsBucket.BucketArn()},
		},
		MetricsConfig: &awslambda.CfnEventSourceMapping_MetricsConfigProperty{
			Metrics: jsii.Strings("EventCount"), // for the alarm on given-up records
		},
	})
}

// tumbling returns how long usage is folded before it is written, in seconds. AWS does not document
// the state of a window when several batches of a shard are processed at once, so there is no
// window then.
func (p AggregatorProps) tumbling() int {
	if p.FoldOff || p.Parallelization > 1 {
		return 0
	}
	return p.FoldSeconds
}

// json returns the pattern as JSON with sorted keys.
func (p pattern) json() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("bug: filter pattern %v: %v", map[string]any(p), err))
	}
	return string(b)
}
