package store

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
)

// signed makes a call, and repeats it once if DynamoDB rejected its signature because a clock was
// set. Nothing was written in that case, and the SDK has measured the clock's offset from the
// answer.
func signed[T any](ctx context.Context, call func() (T, error)) (T, error) {
	out, err := call()
	if skewed(err) && ctx.Err() == nil {
		return call()
	}
	return out, err
}

// skewed reports whether a signature was rejected because of a clock. The SDK decides this by the
// time of the answer, because wrong credentials give the same error codes.
func skewed(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (slices.Contains(clockCodes, api.ErrorCode()) ||
		retry.RetryableError{}.IsErrorRetryable(err) == aws.TrueTernary)
}

// clockCodes are the error codes that only a wrong clock causes.
var clockCodes = []string{"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
