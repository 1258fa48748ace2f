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
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// putsInFlight is how many objects are written at once.
const putsInFlight = 16

// putter is the only S3 operation that the archiver uses. PutObject with IfNoneMatch "*" stores the
// object if there is none with its key, and otherwise returns the error code PreconditionFailed. It
// is safe for concurrent use, and retries temporary errors itself.
type putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// handler archives batches. It keeps no state between batches.
type handler struct {
	store    putter
	bucket   string
	function string // name under which metrics are reported
	log      *slog.Logger
	metrics  io.Writer
}

// Invoke archives the expired audit events of one stream payload, and returns the partial batch
// response. A record is acknowledged only if S3 has confirmed its object, or if it has none. A
// record that is refused, unanswered or not begun when the deadline nears is reported as not done:
// the response names the lowest such sequence number. Delivering a batch again, completely or
// partly, changes nothing that is stored.
//
// An error means that the payload is not a stream payload.
func (h *handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	start := time.Now()
	batch, err := archive.Decode(payload)
	if err != nil {
		return nil, err
	}
	objects := batch.Objects()
	jobs := h.jobs(objects)
	within, cancel := function.WithMargin(ctx, function.ReportMargin)
	defer cancel()
	// After a failure, begin none, because Lambda delivers all later records again anyway.
	function.Pool{Concurrency: putsInFlight, StopAtAFailure: true}.Run(within, jobs)

	s := summarize(batch, objects, jobs)
	end := time.Now().UnixMilli()
	s.Timed(start.UnixMilli(), end, batch.OldestMs)
	function.Reporter{Function: h.function, Log: h.log, Metrics: h.metrics}.Report(ctx, end, "batch handled", jobs, s)
	return s.Resume.Response(nil), nil
}

// jobs returns the puts of the objects, in stream order.
func (h *handler) jobs(objects []archive.Object) []*function.Job {
	jobs := make([]*function.Job, len(objects))
	for i, o := range objects {
		jobs[i] = &function.Job{
			What: "object", Attrs: []slog.Attr{slog.String("object", o.Key)}, Malformed: o.Malformed,
			Resume: o.Sequence, Required: true,
			Do: func(ctx context.Context) (int, error) { return h.put(ctx, o) },
		}
	}
	return jobs
}

// put writes one object if there is none with its key. No write and no error means that an earlier
// delivery has archived it.
func (h *handler) put(ctx context.Context, o archive.Object) (writes int, err error) {
	_, err = h.store.PutObject(ctx, &s3.PutObjectInput{
		Bucket:          aws.String(h.bucket),
		Key:             aws.String(o.Key),
		Body:            bytes.NewReader(o.Body),
		ContentType:     aws.String(archive.ContentType),
		ContentEncoding: aws.String(archive.ContentEncoding),
		IfNoneMatch:     aws.String("*"),
	}) // commit point: the event is archived once this succeeds
	if err == nil {
		return 1, nil
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "PreconditionFailed" {
		return 0, nil
	}
	return 0, err
}

// summarize counts the outcomes of the batch, and finds where to resume it.
func summarize(batch archive.Batch, objects []archive.Object, jobs []*function.Job) function.Summary {
	s := function.Summary{Records: batch.Records, Changes: len(batch.Events), Malformed: len(batch.Malformed)}
	notBegun := s.Count(jobs)
	var existing, size int64
	for i, j := range jobs {
		switch {
		case j.Writes > 0:
			size += int64(len(objects[i].Body))
		case j.Done():
			existing++
		}
	}
	s.More = []function.Metric{
		{Name: "Skipped", Log: "skipped", Value: int64(batch.Skipped)},
		{Name: "Existing", Log: "existing", Value: existing},
		{Name: "NotBegun", Log: "not_begun", Value: notBegun},
		{Name: "Bytes", Log: "bytes", Value: size},
	}
	return s
}
