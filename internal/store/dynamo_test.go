package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// What a write returns is the item as it is afterwards: that of the answer to an update, the item
// itself of a put, none of a deletion.
func TestWhatAWriteReturns(t *testing.T) {
	s := serve(t, reply(200, `{"Attributes":{"n":{"N":"7"}}}`))
	full := key.Item()
	full["n"] = item.N(5)
	for i, c := range []struct {
		write item.Write
		op    string
		want  item.Item
	}{
		{update(), "UpdateItem", item.Item{"n": item.N(7)}},
		{item.Put{Item: full}, "PutItem", full},
		{item.Delete{Key: key}, "DeleteItem", nil},
	} {
		got, err := open(s.URL).Write(t.Context(), c.write)
		if err != nil || len(got) != len(c.want) || !item.EqualItems(got, c.want) {
			t.Errorf("%s returns %v, %v, want %v", c.op, got, err, c.want)
		}
		if got := s.asked[i]; !strings.Contains(got, c.op) || !strings.Contains(got, `"TableName":"table"`) {
			t.Errorf("%s sends %s", c.op, got)
		}
	}
}

// A transaction goes to the table with the caller's token, which makes it safe to send again.
func TestATransactionHasItsToken(t *testing.T) {
	s := serve(t, reply(200, `{}`))
	if err := open(s.URL).Transact(t.Context(), "my-token", []item.Write{update()}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TransactWriteItems", `"ClientRequestToken":"my-token"`, `"TableName":"table"`} {
		if !strings.Contains(s.asked[0], want) {
			t.Errorf("%s is not in %s", want, s.asked[0])
		}
	}
}

// broken is a client of which every update ends with an error, without a request.
type broken struct {
	store.API
	err error
}

func (b broken) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (
	*dynamodb.UpdateItemOutput, error) {
	return nil, b.err
}

// Of a call that a client cuts short, or that fails for a reason that nobody knows, it is unknown
// whether it was carried out, whatever the SDK wraps it in: an earlier attempt may have arrived.
func TestErrorsThatNobodyKnows(t *testing.T) {
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
		{&smithy.OperationError{Err: errors.New("no credentials")}, store.Unavailable}, // it was not sent
	} {
		_, got := store.NewDynamo(broken{err: c.err}, "table").Write(t.Context(), update())
		if store.KindOf(got) != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}
