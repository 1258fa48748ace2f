package limiter

import (
	"testing"
	"time"
)

// TestRemainingOfALimitThatIsNotInTheBucket: a limit that the bucket does not have
// yet starts full, so what is left of it is its capacity: for whoever knows the bucket,
// for whoever does not, in a denial, and in the lease that brings it there.
func TestRemainingOfALimitThatIsNotInTheBucket(t *testing.T) {
	rpm40, tpm := PerMinute("rpm", 40), PerMinute("tpm", 500)
	for _, parts := range []int{1, 4} {
		w, l := newProcess(t, Options{})
		must(t, l, asks(Costs{"rpm": 40}, rpm40))
		if parts > 1 {
			w.split(l, parts)
		}
		for name, who := range map[string]*Limiter{"warm": l, "cold": w.bystander(l)} {
			denied := deniedBy(t, who, asks(Costs{"rpm": 4, "tpm": 1}, rpm40, tpm))
			if denied.Limit != "rpm" || len(denied.Statuses) != 2 {
				t.Fatalf("%s, %d shards: %v, want a denial by rpm", name, parts, denied)
			}
			s := denied.Statuses[1]
			if s.Limit != "tpm" || s.Remaining != 500 || s.RetryAfter != 0 || s.ResetAfter != 0 {
				t.Errorf("%s, %d shards: %+v, want all 500 of tpm", name, parts, s)
			}
		}
		w.advance(time.Minute)
		must(t, l, asks(Costs{"rpm": 40}, rpm40)).Rollback(t.Context()) // now all shards are known
		lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 20}, rpm40, tpm))
		if s := lease.Status(); s[1].Limit != "tpm" || s[1].Remaining != 480 {
			t.Errorf("%d shards: granted with %+v, want 480 left", parts, s)
		}
	}
}

// TestRemainingCanBeHad: what a denial and a lease say is left of a bucket of several
// shards is what one request can have. Fractions of tokens on each are not.
func TestRemainingCanBeHad(t *testing.T) {
	for _, shards := range []int{1, 8, 32} {
		w, l := newProcess(t, Options{})
		limit := PerSecond("rps", 320)
		must(t, l, asks(Costs{"rps": 0}, limit))
		if shards > 1 {
			w.split(l, shards)
		}
		for range shards + 2 { // all shards are known, and empty
			l.Acquire(t.Context(), asks(Costs{"rps": 320}, limit))
		}
		drain(t, l, asks(Costs{"rps": 1}, limit))
		seen := map[int64]bool{}
		for range 60 {
			w.advance(3 * time.Millisecond) // 0.96 tokens in all
			denied := deniedBy(t, l, asks(Costs{"rps": 200}, limit))
			if denied.Remaining >= denied.Wanted || denied.Remaining != denied.Statuses[0].Remaining {
				t.Fatalf("%d shards: %v, want denied for more than is left", shards, denied)
			}
			left := denied.Remaining
			seen[left] = true
			if _, err := w.bystander(l).Acquire(t.Context(), asks(Costs{"rps": left + 1}, limit)); err == nil {
				t.Fatalf("%d shards: %d left, and %d can be had", shards, left, left+1)
			}
			lease, err := l.Acquire(t.Context(), asks(Costs{"rps": left}, limit))
			if err != nil {
				t.Fatalf("%d shards: %d left, and they cannot be had: %v", shards, left, err)
			}
			if s := lease.Status(); s[0].Remaining != 0 {
				t.Fatalf("%d shards: %d left after all that can be had", shards, s[0].Remaining)
			}
			fine(t, lease.Rollback(t.Context()))
		}
		if len(seen) < 2 {
			t.Errorf("%d shards: %v left, want different levels", shards, seen)
		}
	}
}
