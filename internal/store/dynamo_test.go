package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// broken is a client whose updates all fail, without a request.
type broken struct {
	store.API
	err error
}

func (b broken) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (
	*dynamodb.UpdateItemOutput, error) {
	return nil, b.err
}

// If a client cancels a call, or it fails for an unknown reason, the result is unknown, however the
// SDK wraps the error: an earlier attempt may have arrived.
func TestUnexplainedErrorsAreUnknown(t *testing.T) {
	for _, c := range []struct {
		err  error
		want store.Kind
	}{
		{context.Canceled, store.Unknown},
		{context.DeadlineExceeded, store.Unknown},
		{fmt.Errorf("wrapped: %w", context.Canceled), store.Unknown},
		{&smithy.OperationError{ServiceID: "DynamoDB", Err: context.Canceled}, store.Unknown},
		{&smithy.OperationError{ServiceID: "DynamoDB", Err: context.DeadlineExceeded}, store.Unknown},
		{errors.New("other"), store.Unknown},
		{&smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}}, store.Unknown},
		{&smithy.GenericAPIError{Code: "NewTrouble", Fault: smithy.FaultServer}, store.Unknown},
		{&smithy.OperationError{Err: errors.New("no credentials")}, store.Unavailable}, // not sent
	} {
		_, got := store.NewDynamo(broken{err: c.err}, "table").Write(t.Context(), update())
		if store.KindOf(got) != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}
