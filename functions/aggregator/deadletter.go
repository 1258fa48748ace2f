package main

import (
	"bytes"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/streams"
)

// putter is the only S3 operation that the aggregator uses. Storing the same object again changes
// nothing, so the client retries temporary errors.
type putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// deadLetters stores malformed records completely in S3.
type deadLetters struct {
	s3     putter
	bucket string
}

// keep stores one malformed record; the client's retries end with ctx.
func (d *deadLetters) keep(ctx context.Context, o streams.Object) error {
	_, err := d.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket:          aws.String(d.bucket),
		Key:             aws.String(o.Key),
		Body:            bytes.NewReader(o.Body),
		ContentType:     aws.String(o.ContentType),
		ContentEncoding: aws.String(o.ContentEncoding),
	})
	return err
}
