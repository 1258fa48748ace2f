package memdb_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/dbtest"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// As the SDK has it, the twin is a table like the engines'.
func TestSuiteOfTheClient(t *testing.T) {
	dbtest.Run(t, nil, func(*testing.T) store.Lister { return store.NewListing(memdb.New(nil).Client(), "limits") })
	for seed := range uint64(20) {
		dbtest.Compare(t, nil, seed, 300, memdb.New(nil), store.NewDynamo(memdb.New(nil).Client(), "limits"))
	}
}
