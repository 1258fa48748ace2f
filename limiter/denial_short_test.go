package limiter

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A denial on a split bucket names the limit that is short on the shard which recovers
// first, whichever shard was looked at last: of the other limit there is enough.
func TestDenialNamesTheLimitThatIsShort(t *testing.T) {
	a, b := PerMinute("a", 60), PerMinute("b", 60)
	for range 10 { // the shard to begin with is random
		w, l := newProcess(t, Options{})
		req := asks(Costs{"a": 20, "b": 20}, a, b)
		must(t, l, req)
		w.split(l, 2)
		w.edit(l, 0, item.Item{"b_a_tk": item.N(0), "b_b_tk": item.N(30_000)})
		w.edit(l, 1, item.Item{"b_a_tk": item.N(-5000), "b_b_tk": item.N(-20_000)})
		l = w.process(Options{})
		for range 3 { // until it has seen both
			denied := deniedBy(t, l, req)
			if !denied.Estimated && denied.Limit != "a" {
				t.Fatalf("denied by %s: %+v", denied.Limit, denied)
			}
		}
	}
}
