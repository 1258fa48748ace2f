package itemtest

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Applied returns an item after a write, which must hold.
func Applied(t testing.TB, w item.Write, on item.Item) item.Item {
	t.Helper()
	after, held, err := w.Apply(on)
	if err != nil || !held {
		t.Fatalf("held %v, %v", held, err)
	}
	return after
}
