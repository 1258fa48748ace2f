// Package conformance runs the store's conformance suite on the emulators.
package conformance

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/storetest"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// known are the differences between the emulators and the twin. None concerns a request of the
// product.
var known = map[engine.Kind]storetest.Deviations{
	engine.Dynoxide: {
		"order of booleans": "dynoxide 1.2.1 lets any type be ordered and finds that the condition " +
			"does not hold",
		"order of null":                            "as above",
		"order of sets":                            "as above",
		"map with an empty name":                   "dynoxide 1.2.1 takes it",
		"map with an empty name in a list":         "as above",
		"put of a map with an empty name":          "as above",
		"condition on a map with an empty name":    "as above",
		"transaction: map with an empty name":      "as above",
		"index partition key too long":             "dynoxide 1.2.1 measures the keys of the table only",
		"index sort key too long":                  "as above",
		"put with an index partition key too long": "as above",
		"put with an index sort key too long":      "as above",
		"transaction: index key too long":          "as above",
		"put a byte too large":                     "dynoxide 1.2.1 counts no zero that pairs a digit",
		"transaction: bounds in the wrong order":   "dynoxide 1.2.1 looks at the bounds only if the attribute is there",
	},
	engine.DynamoDBLocal: {
		storetest.MixedTransaction: "DynamoDB Local 3.3 answers with the type error alone",
	},
}

// TestStore runs the suite on a table made from the committed template.
func TestStore(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := engine.ForTest(t, kind)
			name := e.Table(t).Name
			storetest.Run(t, known[kind], func(*testing.T) store.Lister { return store.NewListing(e.DynamoDB(), name) })
		})
	}
}

// TestTwin compares the twin with each engine call by call.
func TestTwin(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := engine.ForTest(t, kind)
			name := e.Table(t).Name
			for seed := range uint64(4) {
				storetest.Compare(t, known[kind], seed, 300, memdynamo.New(nil), store.NewDynamo(e.DynamoDB(), name))
			}
		})
	}
}
