package limiter

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A count of shards that nobody can have configured is not believed: looking for
// a million shards would cost every request as many writes as it may send.
func TestAbsurdCountsAreNotBelieved(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	limit := PerMinute("rpm", 1000)
	must(t, l, asks(Costs{"rpm": 1}, limit))
	w.edit(l, 0, item.Item{"shard_count": item.N(1 << 20)})
	must(t, l, asks(Costs{"rpm": 1}, limit)) // what shard 0 holds is still there
	w.db.ResetStats()
	for range 10 {
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 999}, limit)); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got %v, want too large", err)
		}
	}
	if st := w.db.Stats(); st.Updates > 1 || st.Transactions > 0 {
		t.Errorf("%d updates and %d transactions", st.Updates, st.Transactions)
	}
}
