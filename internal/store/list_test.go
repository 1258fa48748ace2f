package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Items that DynamoDB leaves unprocessed are removed again, and only those.
func TestUnprocessedItemsAreRemovedAgain(t *testing.T) {
	s := serve(t, reply(200, `{"UnprocessedItems":{"table":[{"DeleteRequest":{"Key":{"PK":{"S":"b"},"SK":{"S":"s"}}}}]}}`),
		reply(200, `{"UnprocessedItems":{}}`))
	a, b := item.Key{PK: "a", SK: "s"}, item.Key{PK: "b", SK: "s"}
	check.Must(t, openListing(s.URL).Remove(t.Context(), a, b, a))
	check.MustEqual(t, len(s.asked), 2, "requests")
	for i, want := range []int{2, 1} {
		check.Equal(t, strings.Count(s.asked[i], "DeleteRequest"), want, "request %d removes items: %s", i, s.asked[i])
	}
	if strings.Contains(s.asked[1], `"a"`) {
		t.Errorf("removed items are removed again: %s", s.asked[1])
	}
}

func TestRemovalsWithoutProgressEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ somewhere, want int }{{0, 8}, {5, 12}} { // the fifth makes progress: seven more
			calls := 0
			slow := stubborn{then: func() { calls++ }, removes: func() bool { return calls == c.somewhere }}
			err := store.NewListing(slow, "table").Remove(t.Context(), key, item.Key{PK: "q"})
			if store.KindOf(err) != store.Throttled || calls != c.want {
				t.Errorf("error is %v after %d requests, want throttled after %d", err, calls, c.want)
			}
		}
	})
}

// A removal that is forbidden, or whose context has ended, returns an error: some items may still
// exist.
func TestFailedRemovalsReturnAnError(t *testing.T) {
	s := serve(t, fault(400, "AccessDeniedException", ""))
	if err := openListing(s.URL).Remove(t.Context(), key); store.KindOf(err) != store.Setup {
		t.Errorf("not allowed: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err := openListing(s.URL).Remove(gone, key)
	if store.KindOf(err) != store.Unavailable || !errors.Is(err, context.Canceled) || s.requests.Load() != 1 {
		t.Errorf("cancelled before: %v, %d requests", err, s.requests.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err = store.NewListing(stubborn{then: func() { calls++; cancel() }}, "table").Remove(ctx, key)
	if store.KindOf(err) != store.Unavailable || !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("cancelled in the pause: %v after %d calls", err, calls)
	}
}

// stubborn removes nothing, or one item per request.
type stubborn struct {
	store.ListAPI
	then    func()
	removes func() bool
}

func (s stubborn) BatchWriteItem(_ context.Context, in *dynamodb.BatchWriteItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	s.then()
	left := in.RequestItems["table"]
	if s.removes != nil && s.removes() {
		left = left[1:]
	}
	return &dynamodb.BatchWriteItemOutput{UnprocessedItems: map[string][]types.WriteRequest{"table": left}}, nil
}

// A page has the table's answer, and the beginning of the next page, if any.
func TestPagesHaveTheBeginningOfTheNext(t *testing.T) {
	for more, next := range map[string]item.Item{"": nil, `,"LastEvaluatedKey":{}`: nil,
		`,"LastEvaluatedKey":{"PK":{"S":"p"},"SK":{"S":"b"}}`: item.Key{PK: "p", SK: "b"}.Item()} {
		s := serve(t, reply(200, `{"Items":[{"PK":{"S":"p"},"SK":{"S":"a"}},{"PK":{"S":"p"},"SK":{"S":"b"}}]`+more+`}`))
		page, err := openListing(s.URL).List(t.Context(), item.Query{PK: "p"})
		if err != nil || len(page.Items) != 2 || item.KeyOf(page.Items[1]).SK != "b" {
			t.Errorf("%+v, %v", page, err)
		}
		if (page.Next == nil) != (next == nil) || !item.EqualItems(page.Next, next) {
			t.Errorf("the next page begins at %v, want %v", page.Next, next)
		}
	}
}
