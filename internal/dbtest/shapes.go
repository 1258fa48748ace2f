package dbtest

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

func testShapes(t *testing.T, db store.Store)  {}
func testRecords(t *testing.T, db store.Store) {}
