package store

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
)

// signed makes a call, and once more if DynamoDB has rejected its signature because a clock was set:
// then nothing was written, and the SDK has learned from the answer how far its clock is off.
func signed[T any](ctx context.Context, call func() (T, error)) (T, error) {
	out, err := call()
	if skewed(err) && ctx.Err() == nil {
		return call()
	}
	return out, err
}

// skewed reports whether a signature was rejected because of a clock. The SDK finds that out by the
// time of the answer, because wrong credentials are answered with the same codes.
func skewed(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (slices.Contains(clockCodes, api.ErrorCode()) ||
		retry.RetryableError{}.IsErrorRetryable(err) == aws.TrueTernary)
}

// clockCodes are the error codes that speak of nothing but a clock.
var clockCodes = []string{"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
