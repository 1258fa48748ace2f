package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Denied returns RESOURCE_EXHAUSTED with two details. RetryInfo is the time until the same call is
// granted; it is missing if waiting does not help. QuotaFailure names each limit that denies, with
// its entity (subject "entity:…"), its capacity and the resource.
func Denied(e *limiter.LimitError) error {
	var quota errdetails.QuotaFailure
	for _, s := range e.Statuses {
		if s.RetryAfter == 0 {
			continue
		}
		wait := fmt.Sprintf("retry after %v", s.RetryAfter)
		if s.RetryAfter < 0 || s.RetryAfter > century {
			wait = "never granted"
		}
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			Subject:         "entity:" + s.Entity,
			Description:     fmt.Sprintf("limit %s: %d left of %d, %s", s.Limit, s.Remaining, s.Capacity, wait),
			QuotaMetric:     s.Limit,
			QuotaValue:      s.Capacity,
			QuotaDimensions: map[string]string{"resource": e.Resource},
		})
	}
	var details []protoadapt.MessageV1
	if !e.Never() {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return detailed(status.New(codes.ResourceExhausted, e.Error()), append(details, &quota)...)
}

// century is longer than anybody waits: limiter.Status has more where no wait is known.
const century = 100 * 365 * 24 * time.Hour

// Failed returns the error of a call for which there was no decision. It is CANCELED or
// DEADLINE_EXCEEDED if the context of the call has ended. It is UNAVAILABLE, with RetryInfo of one
// second, if trying again may help. It is PERMISSION_DENIED if the resource is switched off,
// INVALID_ARGUMENT if no bucket can hold the costs, and otherwise INTERNAL. It hides the cause from
// clients.
func Failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrUnknown):
		return detailed(status.New(codes.Unavailable, "rate limiter unavailable"),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	case errors.Is(err, limiter.ErrDisabled):
		return status.Error(codes.PermissionDenied, "resource disabled")
	case errors.Is(err, limiter.ErrTooLarge):
		return status.Error(codes.InvalidArgument, "request too large")
	}
	return status.Error(codes.Internal, "internal error")
}

// RetryAfter returns how long the error of a call asks its client to wait; ok is false if it
// contains no wait: there is no error, or waiting does not help.
func RetryAfter(err error) (wait time.Duration, ok bool) {
	for _, d := range status.Convert(err).Details() {
		if info, is := d.(*errdetails.RetryInfo); is && info.GetRetryDelay() != nil {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

func detailed(s *status.Status, details ...protoadapt.MessageV1) error {
	with, err := s.WithDetails(details...)
	if err != nil {
		panic("bug: " + err.Error()) // of a status that is OK
	}
	return with.Err()
}

func isStatus(err error) bool {
	_, ok := status.FromError(err)
	return ok
}
