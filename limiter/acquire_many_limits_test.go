package limiter

import (
	"fmt"
	"testing"
	"time"
)

// Limits that are no longer wanted stay stored, because dropping them and taking
// them up again must not refill them. So a bucket may get more limits than one
// condition can name. It can be charged, settled and refilled nevertheless, and
// none of them is refilled by coming back.
func TestBucketOfEverNewLimits(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	const names = 80
	ask := func(i int) (Limit, Request) {
		limit := PerMinute(fmt.Sprintf("tpm-%02d", i), 100)
		return limit, asks(Costs{limit.Name: 60}, limit)
	}
	for i := range names {
		limit, req := ask(i)
		lease := must(t, l, req)
		if err := adjustThenCommit(Costs{limit.Name: 30})(t.Context(), lease); err != nil {
			t.Fatalf("limit %d: settle: %v", i, err)
		}
		w.wantHeld(l, limit, 10)
		w.advance(100 * time.Millisecond)
	}
	if n := len(w.shards(l, acme, gpt)[0].State.Slots); n != names+1 {
		t.Fatalf("%d limits are stored, want %d and the meter", n, names)
	}
	for _, i := range []int{0, names / 2, names - 1} {
		if _, req := ask(i); drain(t, l, req) != 0 {
			t.Errorf("limit %d has been refilled", i)
		}
	}
}
