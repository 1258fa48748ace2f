package main

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// errNever marks a write that DynamoDB refuses whatever is stored.
var errNever = errors.New("can never be written")

// checked returns an error for writes that need not be sent: a foreign bucket
// has no bound on the number of limits, an expression has.
func checked(writes ...item.Write) error {
	for _, w := range writes {
		if err := item.Validate(w); err != nil {
			return errors.Join(errNever, err)
		}
	}
	return nil
}

// never tells whether a write fails again however often it is repeated, because
// it is not valid.
func never(err error) bool {
	if errors.Is(err, errNever) {
		return true
	}
	if c, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return slices.ContainsFunc(c.CancellationReasons, func(r types.CancellationReason) bool {
			return r.Code != nil && *r.Code == "ValidationError"
		})
	}
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ValidationException"
}

// forgone tells whether the job failed for good and is none that anybody is
// owed: a bucket that cannot be refilled, split or given a longer life here is
// left to its clients. Reporting its record as not done would hold up those
// behind it until all of them are given up. Usage is owed.
func (j *job) forgone() bool {
	return j.kind != kindTotal && j.kind != kindMalformed && j.err != nil && never(j.err)
}
