package limiter

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A limit of which only a part is stored, as a foreign write leaves it, cannot be
// divided: the new shard would lack it, and a limit that is lacking starts full. The
// bucket is split once a request that wants the limit has mended it.
func TestLimitStoredInPartKeepsTheBucketWhole(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	rpm, tpm := PerMinute("rpm", 1000), PerMinute("tpm", 1000)
	must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
	w.edit(l, 0, item.Item{"b_tpm_cp": nil, "b_tpm_tk": item.N(-500_000)})
	w.heat(l, 0)
	l = w.process(Options{})
	for range 3 {
		must(t, l, asks(Costs{"rpm": 1}, rpm))
	}
	if n := len(w.shards(l, acme, gpt)); n != 1 {
		t.Errorf("%d shards, and only one knows of the debt", n)
	}
}
