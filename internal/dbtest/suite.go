package dbtest

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Deviations are the invalid requests that an implementation is known to take
// or to answer differently, by the name of the test, each with the reason why
// that is accepted. One that no longer deviates fails the suite, so that the list
// stays true. Nothing else may deviate.
type Deviations map[string]string

// Run runs the suite. open returns a store on a table with the project's keys and indexes. It is
// called once per group of tests. It may return the same table every time, because all keys are
// drawn at random. known may be nil.
func Run(t *testing.T, known Deviations, open func(t *testing.T) store.Lister) {
	for _, group := range []struct {
		name string
		run  func(*testing.T, store.Lister)
	}{
		{"Writes", narrow(testWrites)},
		{"Conditions", narrow(testConditions)},
		{"Invalid", narrow(known.testInvalid)},
		{"Transactions", narrow(testTransactions)},
		{"InvalidTransactions", narrow(known.testInvalidTransactions)},
		{"Reads", narrow(testReads)},
		{"Life", narrow(testLife)},
		{"Slots", narrow(testSlots)},
		{"Records", narrow(testRecords)},
		{"Contexts", narrow(testContexts)},
		{"Queries", testQueries},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(t, open(t)) })
	}
}

// narrow turns a group that needs no queries into one that gets them.
func narrow(run func(*testing.T, store.Store)) func(*testing.T, store.Lister) {
	return func(t *testing.T, db store.Lister) { run(t, db) }
}

// newKey returns a key nobody has used.
func newKey() item.Key { return item.Key{PK: "dbtest/" + rand.Text(), SK: "#STATE"} }

// newToken returns a fresh transaction token.
func newToken() string { return rand.Text() }

// stored is the item at k with these attributes.
func stored(k item.Key, attrs ...item.Attr) item.Item {
	it := k.Item()
	for _, a := range attrs {
		it[a.Name] = a.Value
	}
	return it
}

// read returns the item at k.
func read(t *testing.T, s store.Store, k item.Key) item.Item {
	t.Helper()
	items, err := s.Read(t.Context(), true, k)
	if err != nil {
		t.Fatalf("read %q: %v", k, err)
	}
	return items[0]
}

// mustWrite performs a write that has to succeed.
func mustWrite(t *testing.T, s store.Store, w item.Write) item.Item {
	t.Helper()
	it, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatalf("write %+v: %v", w, err)
	}
	return it
}

// wantItem compares items.
func wantItem(t *testing.T, what string, got, want item.Item) {
	t.Helper()
	if !item.EqualItems(got, want) {
		t.Errorf("%s is\n%s, want\n%s", what, itemtest.JSON(got), itemtest.JSON(want))
	}
}

// wantRefused demands that err is a refused condition with this image.
func wantRefused(t *testing.T, err error, old item.Item) {
	t.Helper()
	r, ok := errors.AsType[*store.Refused](err)
	if !ok {
		t.Errorf("error is %v, want a refused condition", err)
		return
	}
	wantItem(t, "image of the refusal", r.Old, old)
}

// wantInvalid demands that a request was found invalid, or that it is known not
// to be.
func (d Deviations) wantInvalid(t *testing.T, name string, err error) (known bool) {
	t.Helper()
	reason, known := d[name]
	switch {
	case !known:
		wantRejected(t, err)
	case store.KindOf(err) == store.Setup, store.KindOf(err) == store.Unavailable:
		t.Errorf("%q deviates no more (%v): take it off the list (%s)", name, err, reason)
	default:
		t.Logf("known deviation: %v (%s)", err, reason)
	}
	return known
}

// wantRejected demands that a call was found invalid: by the table, or by the SDK
// before it was sent.
func wantRejected(t *testing.T, err error) {
	t.Helper()
	if k := store.KindOf(err); k != store.Setup && k != store.Unavailable {
		t.Errorf("error is %v, want it rejected", err)
	}
}

// wantKind demands a failure of this kind.
func wantKind(t *testing.T, err error, kind store.Kind) {
	t.Helper()
	if got := store.KindOf(err); got != kind {
		t.Errorf("error is %v, want a failure of kind %v", err, kind)
	}
}

func num(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }
