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
	// A batch is given up, with its payload, well before the stream forgets
	// it after 24 hours.
	maximumRecordAgeS = 6 * 60 * 60
	// As many as there may be, so that the age alone bounds an outage: AWS does not say how long it
	// pauses between retries, and a record that was given up is counted by nobody. The functions
	// set hopeless records aside, which do not block the records behind them.
	maximumRetryAttempts = 10000
)

// mapping has the settings in which the two mappings differ.
type mapping struct {
	id                         string
	function                   awslambda.Function
	batch, window, parallelism int
	tumbling                   int // seconds, 0: no window
	paused                     bool
	filter                     pattern
}

// newAggregatorMapping feeds every write of a bucket to the aggregator, the first and the last one
// included: an INSERT already carries consumption, and the image in a REMOVE the last counters. A
// tumbling window lets usage be counted once for many batches.
//
// One partition of the table can write a batch of 1,000 in a second; the more changes a batch
// holds, the fewer writes usage costs per change. By default one batch of a stream shard is under
// way at a time, for the same reason.
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

// newArchiverMapping feeds the audit events that DynamoDB's time to live
// removed to the archiver. A removal by anybody else has no user identity.
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

// pattern is one level of an event filter. Lambda drops whatever does not
// match without a trace, so filters are tested against real stream records.
type pattern map[string]any

// newMapping declares an event source mapping on the table's stream.
//
// It starts at the oldest record: all writes between the creation of the table and of the mapping
// are seen. A mapping that has to be created again reads up to a day once more. Records younger
// than the maximum age reach the functions, which know the records that they have counted or
// archived. Older ones go to the failed records bucket and set off its alarm. Only the records that
// a Python aggregator has counted of an adopted table would be counted again; the mapping is paused
// until they are old enough. To start at the newest record instead would lose the writes until the
// mapping first polls, and CloudFormation makes another mapping when its start is changed.
func (l *Limiter) newMapping(m mapping) awslambda.CfnEventSourceMapping {
	return awslambda.NewCfnEventSourceMapping(l.Construct, jsii.String(m.id), &awslambda.CfnEventSourceMappingProps{
		EventSourceArn:   l.Table.TableStreamArn(),
		FunctionName:     m.function.FunctionArn(),
		StartingPosition: jsii.String("TRIM_HORIZON"),
		Enabled:          jsii.Bool(!m.paused), // written, so that an update enables it again
		FilterCriteria: &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{
			Filters: []any{&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(m.filter.json())}},
		},
		BatchSize:                      jsii.Number(m.batch),
		MaximumBatchingWindowInSeconds: jsii.Number(m.window),
		ParallelizationFactor:          jsii.Number(m.parallelism),
		TumblingWindowInSeconds:        jsii.Number(m.tumbling), // 0 too: Lambda keeps settings that an update leaves out
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

// tumbling is how long usage is folded before it is written, in seconds. AWS does not document the
// state of a window when several batches of a shard are under way at once, so there is none then.
func (p AggregatorProps) tumbling() int {
	if p.FoldOff || p.Parallelization > 1 {
		return 0
	}
	return p.FoldSeconds
}

// json renders the pattern with its keys in order.
func (p pattern) json() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("bug: filter pattern %v: %v", map[string]any(p), err))
	}
	return string(b)
}
