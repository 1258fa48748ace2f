package eventsource

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Destination receives the invocation record of a batch that was given up.
// name is the object key AWS would use in S3; queues ignore it. Send is called
// again, a few times, when it fails.
type Destination interface {
	Send(ctx context.Context, name string, record []byte) error
}

// InvocationRecord is AWS's document about records that were given up.
type InvocationRecord struct {
	RequestContext struct {
		RequestID              string `json:"requestId"`
		FunctionARN            string `json:"functionArn"`
		Condition              string `json:"condition"`
		ApproximateInvokeCount int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	ResponseContext struct {
		StatusCode      int    `json:"statusCode"`
		ExecutedVersion string `json:"executedVersion"`
		FunctionError   string `json:"functionError"`
	} `json:"responseContext"`
	Version   string    `json:"version"`
	Timestamp string    `json:"timestamp"`
	Batch     BatchInfo `json:"DDBStreamBatchInfo"`

	// Payload is the event as a string. Only an S3 destination carries it.
	Payload string `json:"payload,omitempty"`
}

// BatchInfo names the place of the records in the stream.
type BatchInfo struct {
	ShardID                         string `json:"shardId"`
	StartSequenceNumber             string `json:"startSequenceNumber"`
	EndSequenceNumber               string `json:"endSequenceNumber"`
	ApproximateArrivalOfFirstRecord string `json:"approximateArrivalOfFirstRecord"`
	ApproximateArrivalOfLastRecord  string `json:"approximateArrivalOfLastRecord"`
	BatchSize                       int    `json:"batchSize"`
	StreamARN                       string `json:"streamArn"`
}

// sendAttempts bounds the tries to deliver one invocation record.
const sendAttempts = 5

// give hands records that were given up to the destination.
func (m *Mapping) give(ctx context.Context, w *worker, drops []drop) {
	for _, d := range drops {
		var err error
		if m.cfg.Destination != nil {
			name, record := m.invocationRecord(w, d)
			for range sendAttempts {
				if err = m.cfg.Destination.Send(ctx, name, record); err == nil || ctx.Err() != nil {
					break
				}
			}
		}
		m.update(func() {
			m.sending--
			m.stats.Dropped += dropped([]drop{d})
			if err != nil && m.failure == nil {
				m.failure = fmt.Errorf("on-failure destination: %w", err)
			}
		})
	}
}

func (m *Mapping) invocationRecord(w *worker, d drop) (name string, doc []byte) {
	now := time.UnixMilli(m.cfg.Now()).UTC()
	first, last := d.records[0], d.records[len(d.records)-1]
	var r InvocationRecord
	r.RequestContext.RequestID = rand.Text()
	r.RequestContext.Condition = d.condition
	r.RequestContext.ApproximateInvokeCount = d.invokes
	r.ResponseContext.StatusCode = 200
	r.ResponseContext.ExecutedVersion = "$LATEST"
	r.ResponseContext.FunctionError = "Unhandled"
	r.Version = "1.0"
	r.Timestamp = now.Format("2006-01-02T15:04:05.000Z")
	shard := w.name()
	r.Batch = BatchInfo{
		ShardID: shard, StartSequenceNumber: first.Sequence, EndSequenceNumber: last.Sequence,
		ApproximateArrivalOfFirstRecord: time.UnixMilli(first.Created).UTC().Format(time.RFC3339),
		ApproximateArrivalOfLastRecord:  time.UnixMilli(last.Created).UTC().Format(time.RFC3339),
		BatchSize:                       len(d.records), StreamARN: m.cfg.StreamARN,
	}
	if m.cfg.Settings.Destination == DestinationS3 {
		r.Payload = string(Payload(d.records))
	}
	doc, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("bug: invocation record: %v", err))
	}
	name = fmt.Sprintf("aws/lambda/%s/%s/%s/%s-%s", m.id, shard, now.Format("2006/01/02"),
		now.Format("2006-01-02T15.04.05"), rand.Text())
	return name, doc
}

// Collect is a Destination that keeps the records in memory. The zero value is
// ready to use; it is safe for concurrent use.
type Collect struct {
	mu   sync.Mutex
	docs []InvocationRecord
}

// Send keeps the record.
func (c *Collect) Send(_ context.Context, _ string, record []byte) error {
	var r InvocationRecord
	if err := json.Unmarshal(record, &r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.docs = append(c.docs, r)
	return nil
}

// Records returns the documents so far.
func (c *Collect) Records() []InvocationRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]InvocationRecord(nil), c.docs...)
}
