package dbtest_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/dbtest"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func TestMemdb(t *testing.T) {
	dbtest.Run(t, nil, func(*testing.T) store.Lister { return memdb.New(nil) })
}
