package limiter

import (
	"errors"
	"testing"
	"time"
)

// TestRemainingOfALimitThatIsNotInTheBucket: a limit that the bucket does not have
// yet starts full, so what is left of it is its capacity: for whoever knows the bucket,
// for whoever does not, in a denial, and in the lease that brings it there.
func TestRemainingOfALimitThatIsNotInTheBucket(t *testing.T) {
	rpm40, tpm := PerMinute("rpm", 40), PerMinute("tpm", 500)
	for _, parts := range []int{1, 4} {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 40}, rpm40))
		if parts > 1 {
			w.split(l, parts)
		}
		for name, who := range map[string]*Limiter{"warm": l, "cold": w.bystander(l)} {
			_, err := who.Acquire(t.Context(), asks(Costs{"rpm": 4, "tpm": 1}, rpm40, tpm))
			denied, ok := errors.AsType[*LimitError](err)
			if !ok || denied.Limit != "rpm" || len(denied.Statuses) != 2 {
				t.Fatalf("%s, %d shards: %v, want a denial by rpm", name, parts, err)
			}
			s := denied.Statuses[1]
			if s.Limit != "tpm" || s.Remaining != 500 || s.RetryAfter != 0 || s.ResetAfter != 0 {
				t.Errorf("%s, %d shards: %+v, want all 500 of tpm", name, parts, s)
			}
		}
		w.advance(time.Minute)
		lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 20}, rpm40, tpm))
		if s := lease.Status(); s[1].Limit != "tpm" || s[1].Remaining != 480 {
			t.Errorf("%d shards: granted with %+v, want 480 left", parts, s)
		}
	}
}
