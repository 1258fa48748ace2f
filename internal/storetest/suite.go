package storetest

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Deviations are the invalid requests that an implementation is known to accept or to answer
// differently, by the name of the test, with the reason why that is acceptable. If one no longer
// deviates, the suite fails, so the list stays accurate. Nothing else may deviate.
type Deviations map[string]string

// Run runs the suite. open returns a store on a table with the project's keys and indexes, and is
// called once per group of tests. It may return the same table every time, because all keys are
// random. known may be nil.
func Run(t *testing.T, known Deviations, open func(t *testing.T) store.Lister) {
	for _, g := range known.groups() {
		t.Run(g.name, func(t *testing.T) { g.run(t, open(t)) })
	}
}

// group is a part of the suite.
type group struct {
	name string
	run  func(*testing.T, store.Lister)
}

func (d Deviations) groups() []group {
	return []group{
		{"Writes", testWrites},
		{"Conditions", testConditions},
		{"Invalid", d.testInvalid},
		{"Transactions", testTransactions},
		{"InvalidTransactions", d.testInvalidTransactions},
		{"Reads", testReads},
		{"Life", testLife},
		{"Contexts", testContexts},
		{"Queries", testQueries},
	}
}

// newKey returns an unused key.
func newKey() item.Key { return item.Key{PK: "storetest/" + rand.Text(), SK: "#STATE"} }

// newToken returns a fresh transaction token.
func newToken() string { return rand.Text() }

// stored returns the item at k with these attributes.
func stored(k item.Key, attrs ...item.Attr) item.Item {
	it := k.Item()
	for _, a := range attrs {
		it[a.Name] = a.Value
	}
	return it
}

func read(t *testing.T, s store.Store, k item.Key) item.Item {
	t.Helper()
	items, err := s.Read(t.Context(), true, k)
	if err != nil || len(items) != 1 {
		t.Fatalf("read %q: %d items, %v", k, len(items), err)
	}
	return items[0]
}

// expect applies a write in memory to the stored item, and reports whether its condition holds.
func expect(t *testing.T, s store.Store, w item.Write) (before, after item.Item, held bool) {
	t.Helper()
	before = read(t, s, w.Target())
	after, held, err := w.Apply(before)
	check.Must(t, err, "in memory, %+v of %v", w, before)
	return before, after, held
}

// mustWrite performs a write that must succeed, and returns the item after it. The answer and the
// table must both have the item that the write makes in memory.
func mustWrite(t *testing.T, s store.Store, w item.Write) item.Item {
	t.Helper()
	_, want, held := expect(t, s, w)
	got, err := s.Write(t.Context(), w)
	if err != nil || !held {
		t.Fatalf("write %+v: %v; in memory its condition holds: %v", w, err, held)
	}
	wantItem(t, "returned item", got, want)
	wantItem(t, "stored item", read(t, s, w.Target()), want)
	return got
}

// mustRefuse performs a write whose condition does not hold: the error must have the image, and
// nothing may change.
func mustRefuse(t *testing.T, s store.Store, w item.Write) {
	t.Helper()
	before, _, held := expect(t, s, w)
	if held {
		t.Fatalf("in memory the condition of %+v holds", w)
	}
	_, err := s.Write(t.Context(), w)
	refused, ok := errors.AsType[*store.Refused](err)
	if !ok {
		t.Fatalf("error is %v, want a refused condition", err)
	}
	wantItem(t, "image of the refusal", refused.Old, before)
	wantItem(t, "stored item", read(t, s, w.Target()), before)
}

// try performs a write, which must have the same outcome as in memory.
func try(t *testing.T, s store.Store, w item.Write) {
	t.Helper()
	if _, _, held := expect(t, s, w); held {
		mustWrite(t, s, w)
	} else {
		mustRefuse(t, s, w)
	}
}

// mustTransact performs a transaction that must succeed, and returns the items after it.
func mustTransact(t *testing.T, s store.Store, token string, writes []item.Write) (out []item.Item) {
	t.Helper()
	for _, w := range writes {
		_, want, held := expect(t, s, w)
		if out = append(out, want); !held {
			t.Fatalf("in memory the condition of %+v does not hold", w)
		}
	}
	check.Must(t, s.Transact(t.Context(), token, writes), "transaction")
	wantStored(t, s, writes, out)
	return out
}

// mustCancel performs a transaction that must be refused: the error must have every refusal with its
// image, and nothing may change.
func mustCancel(t *testing.T, s store.Store, token string, writes []item.Write) {
	t.Helper()
	before, held := make([]item.Item, len(writes)), make([]bool, len(writes))
	for i, w := range writes {
		before[i], _, held[i] = expect(t, s, w)
	}
	err := s.Transact(t.Context(), token, writes)
	c, ok := errors.AsType[*store.Canceled](err)
	if !ok || len(c.Reasons) != len(writes) {
		t.Fatalf("error is %v, want a refused transaction with %d reasons", err, len(writes))
	}
	for i, r := range c.Reasons {
		check.Equal(t, r.Refused, !held[i], "write %d is refused", i)
		if held[i] {
			wantItem(t, "image of what is not refused", r.Old, nil)
		} else {
			wantItem(t, "image of the refusal", r.Old, before[i])
		}
	}
	wantStored(t, s, writes, before)
}

func wantStored(t *testing.T, s store.Store, writes []item.Write, want []item.Item) {
	t.Helper()
	for i, w := range writes {
		wantItem(t, "stored item", read(t, s, w.Target()), want[i])
	}
}

func wantItem(t *testing.T, what string, got, want item.Item) {
	t.Helper()
	if !item.EqualItems(got, want) {
		t.Errorf("%s is\n%s, want\n%s", what, itemtest.JSON(got), itemtest.JSON(want))
	}
}

// wantInvalid requires that a request was rejected as invalid, unless it is a known deviation.
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

// wantRejected requires that a call was rejected as invalid, by the table, or by the SDK before it
// was sent.
func wantRejected(t *testing.T, err error) {
	t.Helper()
	if k := store.KindOf(err); k != store.Setup && k != store.Unavailable {
		t.Errorf("error is %v, want it rejected", err)
	}
}

// wantKind requires a failure of this kind.
func wantKind(t *testing.T, err error, kind store.Kind) {
	t.Helper()
	if got := store.KindOf(err); got != kind {
		t.Errorf("error is %v, want a failure of kind %v", err, kind)
	}
}

func num(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }
