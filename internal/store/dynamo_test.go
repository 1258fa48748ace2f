package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// told is a server that answers as DynamoDB does, and keeps what it was asked last.
func told(t *testing.T, body string) (endpoint string, asked *string) {
	t.Helper()
	asked = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*asked = r.Header.Get("X-Amz-Target") + " " + string(b)
		reply(200, body)(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// What a write returns is the item as it is afterwards: that of the answer to an update, the item
// itself of a put, none of a deletion.
func TestWhatAWriteReturns(t *testing.T) {
	endpoint, asked := told(t, `{"Attributes":{"n":{"N":"7"}}}`)
	full := key.Item()
	full["n"] = item.N(5)
	for _, c := range []struct {
		write item.Write
		op    string
		want  item.Item
	}{
		{update(), "UpdateItem", item.Item{"n": item.N(7)}},
		{item.Put{Item: full}, "PutItem", full},
		{item.Delete{Key: key}, "DeleteItem", nil},
	} {
		got, err := open(endpoint).Write(t.Context(), c.write)
		if err != nil || len(got) != len(c.want) || !item.EqualItems(got, c.want) {
			t.Errorf("%s returns %v, %v, want %v", c.op, got, err, c.want)
		}
		if !strings.Contains(*asked, c.op) || !strings.Contains(*asked, `"TableName":"table"`) {
			t.Errorf("%s sends %s", c.op, *asked)
		}
	}
	if _, err := open(endpoint).Write(t.Context(), item.Check{Key: key, If: item.Exists("x")}); err == nil {
		t.Error("a check alone is sent")
	}
}

// A transaction goes to the table with the caller's token, which makes it safe to send again.
func TestATransactionHasItsToken(t *testing.T) {
	endpoint, asked := told(t, `{}`)
	if err := open(endpoint).Transact(t.Context(), "my-token", []item.Write{update()}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TransactWriteItems", `"ClientRequestToken":"my-token"`, `"TableName":"table"`} {
		if !strings.Contains(*asked, want) {
			t.Errorf("%s is not in %s", want, *asked)
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
// whether it was carried out.
func TestErrorsThatNobodyKnows(t *testing.T) {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, fmt.Errorf("wrapped: %w", context.Canceled),
		errors.New("other"), &smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}},
		&smithy.GenericAPIError{Code: "NewTrouble", Fault: smithy.FaultServer}} {
		_, got := store.NewDynamo(broken{err: err}, "table").Write(t.Context(), update())
		if store.KindOf(got) != store.Unknown || !errors.Is(got, err) {
			t.Errorf("%v is %v", err, got)
		}
	}
}
