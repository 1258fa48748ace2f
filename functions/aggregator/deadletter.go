package main

import (
	"bytes"
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/streams"
)

// putter is the only S3 operation that the aggregator uses. Storing the same object again changes
// nothing, so the client retries temporary errors.
type putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// keepIn returns a function that stores malformed records completely in a bucket. The client's
// retries end with its context.
func keepIn(bucket string, client putter) func(context.Context, streams.Object) error {
	return func(ctx context.Context, o streams.Object) error {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: &o.Key, Body: bytes.NewReader(o.Body),
			ContentType: &o.ContentType, ContentEncoding: &o.ContentEncoding,
		})
		return err
	}
}
