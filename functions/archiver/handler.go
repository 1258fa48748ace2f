package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
)

const (
	// putsInFlight is how many objects are being written at once.
	putsInFlight = 16

	// reportMargin is the time kept back from the deadline for the report.
	reportMargin = time.Second
)

// putter is the only thing the archiver asks of S3. PutObject with IfNoneMatch
// "*" stores the object if there is none of its key, and else answers with the
// error code PreconditionFailed. It is safe for concurrent use and repeats
// transient errors itself.
type putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// handler archives batches. It keeps nothing from one batch to the next.
type handler struct {
	store    putter
	bucket   string
	function string // name under which metrics are reported
	log      *slog.Logger
	metrics  io.Writer
}

// Handle archives the expired audit events of one stream payload and returns
// the partial batch response. A record is acknowledged only if S3 has confirmed
// its object, or if it has none. What is refused, unanswered or not begun when
// the deadline nears is reported as not done: the response names the lowest
// sequence number of it. Delivering a batch again, whole or in parts, changes
// nothing that is stored.
//
// An error means that the payload is no stream payload.
func (h *handler) Handle(ctx context.Context, payload []byte) ([]byte, error) {
	start := time.Now()
	batch, err := archive.Decode(payload)
	if err != nil {
		return nil, err
	}
	objects := batch.Objects()
	within, cancel := lambdaio.WithMargin(ctx, reportMargin)
	defer cancel()
	outcomes := h.write(within, objects)

	s := summarize(batch, objects, outcomes)
	s.IteratorAgeMs = -1
	if batch.OldestMs > 0 {
		s.IteratorAgeMs = max(0, start.UnixMilli()-batch.OldestMs)
	}
	s.ElapsedMs = time.Since(start).Milliseconds()
	h.report(ctx, objects, outcomes, s)
	return s.Resume.Response().Bytes(), nil
}

// state is what became of an object. The zero value says that its write was
// not begun.
type state int

const (
	notBegun state = iota
	written
	existing // archived by an earlier delivery
	failed   // refused, or the outcome is unknown
)

type outcome struct {
	state state
	err   error // set if failed
}

// write puts the objects, several at once, in stream order. After a failure it
// begins no further one, because Lambda delivers all that follows again anyway.
// It returns when no put is in flight any more.
func (h *handler) write(ctx context.Context, objects []archive.Object) []outcome {
	outcomes := make([]outcome, len(objects))
	lambdaio.Each(ctx, putsInFlight, len(objects), func(i int) bool {
		outcomes[i] = h.put(ctx, objects[i])
		return outcomes[i].state != failed
	})
	return outcomes
}

// put writes one object if there is none of its key.
func (h *handler) put(ctx context.Context, o archive.Object) outcome {
	_, err := h.store.PutObject(ctx, &s3.PutObjectInput{
		Bucket:          aws.String(h.bucket),
		Key:             aws.String(o.Key),
		Body:            bytes.NewReader(o.Body),
		ContentType:     aws.String(archive.ContentType),
		ContentEncoding: aws.String(archive.ContentEncoding),
		IfNoneMatch:     aws.String("*"),
	}) // commit point: the event is archived once this succeeds
	if err == nil {
		return outcome{state: written}
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "PreconditionFailed" {
		return outcome{state: existing}
	}
	return outcome{state: failed, err: err}
}

// summarize counts what became of the batch and finds where to resume it.
func summarize(batch archive.Batch, objects []archive.Object, outcomes []outcome) lambdaio.Summary {
	s := lambdaio.Summary{
		Records:   batch.Records,
		Changes:   len(batch.Events),
		Malformed: len(batch.Malformed),
	}
	var already, undone, size int64
	for i, o := range outcomes {
		switch o.state {
		case written:
			s.Writes++
			size += int64(len(objects[i].Body))
		case existing:
			already++
		case failed:
			s.WritesFailed++
			s.Resume.Fail(objects[i].Sequence)
		case notBegun:
			undone++
			s.Resume.Fail(objects[i].Sequence)
		}
	}
	s.More = []lambdaio.Metric{
		{Name: "Skipped", Log: "skipped", Value: int64(batch.Skipped)},
		{Name: "Existing", Log: "existing", Value: already},
		{Name: "NotBegun", Log: "not_begun", Value: undone},
		{Name: "Bytes", Log: "bytes", Value: size, Unit: "Bytes"},
	}
	return s
}

// report logs malformed records that are kept, failed writes and the summary,
// and writes the metric line.
func (h *handler) report(ctx context.Context, objects []archive.Object, outcomes []outcome, s lambdaio.Summary) {
	var notWritten []lambdaio.Failure
	for i, o := range outcomes {
		switch {
		case o.state == failed:
			notWritten = append(notWritten, lambdaio.Failure{Message: "object not written",
				Attrs: []slog.Attr{slog.String("object", objects[i].Key), slog.Any("err", o.err)}})
		case objects[i].Malformed != "" && (o.state == written || o.state == existing):
			h.log.WarnContext(ctx, "malformed record kept", "object", objects[i].Key, "err", objects[i].Malformed)
		}
	}
	out := lambdaio.Reporter{Function: h.function, Log: h.log, Metrics: h.metrics}
	out.Report(ctx, time.Now().UnixMilli(), "batch handled", notWritten, s)
}
