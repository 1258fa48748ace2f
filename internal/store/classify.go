package store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func unsent(op string, err error) error { return &Failure{Kind: Unavailable, Op: op, Err: err} }

// unread classifies the error of a read, which never writes anything. A read that was rejected or
// throttled did get an answer, unlike one that met silence.
func unread(op string, err error) error {
	if k := kind(err); k == Setup || k == Throttled {
		return &Failure{Kind: k, Op: op, Err: err}
	}
	return unsent(op, err)
}

// classify converts an SDK error to a Refused or a Failure, by type or error code, never by text.
// An unrecognized error is Unknown.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return &Refused{Old: e.Item}
	}
	if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return canceled(op, e)
	}
	return &Failure{Kind: kind(err), Op: op, Err: err}
}

func kind(err error) Kind {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch code := api.ErrorCode(); {
		case slices.Contains(throttles, code):
			return Throttled
		case code == "TransactionConflictException", code == "TransactionInProgressException":
			return Conflict
		case code == "InternalServerError", code == "InternalFailure", code == "ServiceUnavailable":
			return Unknown
		}
		if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && lost(r.HTTPStatusCode()) {
			return Unknown
		}
		if api.ErrorFault() == smithy.FaultServer {
			return Unknown
		}
		if !skewed(err) && slices.Contains(setup, api.ErrorCode()) {
			return Setup
		}
		return Unavailable // refused before anything was written, for a reason that may pass
	}
	// The SDK wraps transport errors in a response with status 0, so check the transport first.
	if e, ok := errors.AsType[*net.OpError](err); ok && (e.Op == "dial" || e.Op == "proxyconnect") {
		return Unavailable // no connection, so nothing was sent
	}
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		if s := r.HTTPStatusCode(); s >= 400 && !lost(s) {
			return Unavailable // an intermediary refused it
		}
		return Unknown // the answer cannot be parsed
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return Unknown // sending, or waiting for the answer, was interrupted
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Unknown
	}
	if _, ok := errors.AsType[*smithy.OperationError](err); ok {
		return Unavailable // the SDK gave up before sending: credentials, endpoint, serialization
	}
	return Unknown
}

// lost reports whether a response with this status leaves the outcome of the request open: a server
// fault, or a proxy that gave up waiting.
func lost(status int) bool { return status >= 500 || status == http.StatusRequestTimeout }

// Unreachable reports whether an error shows that no server listens at the table's address, or that
// its host does not exist.
func Unreachable(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.IsNotFound
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// throttles are the error codes with which DynamoDB slows a caller down. The request was not
// carried out (developer guide, "Error handling").
var throttles = []string{
	"ProvisionedThroughputExceededException", "ThrottlingException", "Throttling",
	"RequestLimitExceeded", "LimitExceededException", "TooManyRequestsException",
}

// setup are the error codes with which DynamoDB rejects a call that only a change of the setup can
// fix: no table, no permission, no valid credentials, no valid request (developer guide, "Error
// handling"). The SDK renews expired credentials itself.
var setup = []string{
	"ResourceNotFoundException", "AccessDeniedException", "AccessDenied", "UnauthorizedOperation", "NotAuthorized",
	"UnrecognizedClientException", "InvalidSignatureException", "InvalidClientTokenId", "IncompleteSignature",
	"IncompleteSignatureException", "MissingAuthenticationToken", "MissingAuthenticationTokenException",
	"OptInRequired", "ValidationException", "SerializationException", "UnknownOperationException",
}

// canceled reads the reasons of a canceled transaction. A refused condition takes precedence over a
// conflict: the refusal is final, the conflict may pass.
func canceled(op string, e *types.TransactionCanceledException) error {
	c := &Canceled{Reasons: make([]Reason, len(e.CancellationReasons))}
	refused, failure := false, Unavailable
	for i, r := range e.CancellationReasons {
		switch code := aws.ToString(r.Code); code {
		case "ConditionalCheckFailed":
			refused = true
			c.Reasons[i] = Reason{Refused: true, Old: r.Item}
		case "TransactionConflict":
			failure = max(failure, Conflict)
		case "ProvisionedThroughputExceeded", "ThrottlingError":
			failure = max(failure, Throttled)
		case "ValidationError", "AccessDenied":
			failure = max(failure, Setup)
		}
	}
	if refused {
		return c
	}
	return &Failure{Kind: failure, Op: op, Err: e}
}
