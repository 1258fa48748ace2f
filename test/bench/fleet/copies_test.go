package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// TestCopiesAdmitTooMuch prints what processes grant from copies of a bucket that are told to an
// owner every 100 ms, beside ours that take ahead: calls for each grant, what was delivered, and
// the worst excess. The copies grant too much, ours do not (docs/hot-keys.md).
func TestCopiesAdmitTooMuch(t *testing.T) {
	for _, load := range []float64{1.5, 5} {
		c := Case{Bucket: Busy, Processes: 16, Load: load, Seed: 1, Warm: 4 * time.Second, For: 20 * time.Second,
			Options: limiter.Options{Ahead: 500 * time.Millisecond, MaxShards: 1}}
		ours := bubble(t, c.Run)
		t.Logf("%v, ours, 500 ms ahead: %.3f calls per grant, delivered %.1f %%, excess %+.0f", c, ours.PerGrant(),
			100*ours.Delivered(), ours.Excess)
		if ours.Excess > 0 {
			t.Errorf("%v: excess %+f", c, ours.Excess)
		}
		c.Options = limiter.Options{}
		for _, debt := range []bool{true, false} {
			name := map[bool]string{true: "the owner keeps a debt", false: "the owner stops at zero"}[debt]
			r := bubble(t, func(ctx context.Context) (Result, error) { return c.Copies(ctx, 100*time.Millisecond, debt), nil })
			t.Logf("%v, copies, %s: %.3f calls per grant, delivered %.1f %%, excess %+.0f", c, name, r.PerGrant(),
				100*r.Delivered(), r.Excess)
			if r.Excess < 10 {
				t.Errorf("%v, %s: excess %+f; the documents warn of more", c, name, r.Excess)
			}
		}
	}
}
