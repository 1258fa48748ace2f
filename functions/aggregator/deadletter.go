package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// putter is the only thing the aggregator asks of S3. Storing the same object
// again changes nothing, so transient errors are repeated by the client.
type putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// deadLetters keeps malformed records, whole, in S3.
type deadLetters struct {
	s3     putter
	bucket string
}

var errNowhere = errors.New("malformed record: no dead letter bucket is configured to keep it in")

// kept returns the objects that malformed records are kept as. Their form and
// keys are those of the archiver, so that there is one place and one way to look:
// malformed/year=…/month=…/day=…/{sequence number}-{hash}.jsonl.gz. A key
// depends on the record alone: a record that is delivered again overwrites its
// object.
func kept(malformed []stream.Malformed) []archive.Object {
	var b archive.Batch
	for _, m := range malformed {
		a := archive.Malformed{Reason: m.Reason, Record: json.RawMessage(m.Raw), Sequence: m.Sequence}
		if m.Created > 0 {
			t := time.UnixMilli(m.Created).UTC()
			a.Day = archive.Day{Year: t.Year(), Month: t.Month(), Date: t.Day()}
		}
		b.Malformed = append(b.Malformed, a)
	}
	return b.Objects()
}

// keep stores one malformed record. If it cannot, the record has to be reported
// as not done: Lambda then retries it, and in the end hands it to the on-failure
// destination, so that it is not lost. A nil receiver keeps nothing. It blocks
// for callTimeout at most, the client's repetitions included.
func (d *deadLetters) keep(ctx context.Context, o archive.Object) (writes int, err error) {
	if d == nil {
		return 0, errNowhere
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = d.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket:          aws.String(d.bucket),
		Key:             aws.String(o.Key),
		Body:            bytes.NewReader(o.Body),
		ContentType:     aws.String(archive.ContentType),
		ContentEncoding: aws.String(archive.ContentEncoding),
	}) // commit point: the record may be skipped once this succeeds
	if err != nil {
		return 0, err
	}
	return 1, nil
}
