package limiter

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A request of two limits on shards of which some owe one limit and hold the other: what
// they hold is not theirs to give while they owe. The denial names the first instant at
// which the request can be granted, to the millisecond, and repeated it costs nothing
// before the images are due for a look.
func TestShardsInDebtDoNotPay(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 4))
	denials := 0
	for range 100 {
		w := newWorld(t)
		rpm, tpm := PerMinute("rpm", 80), PerMinute("tpm", 800)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm)).Rollback(t.Context())
		count := int64(2 << rng.IntN(3))
		w.split(l, int(count))
		for k := range count {
			tokens := rng.Int64N(800 / count)
			if rng.IntN(2) == 0 {
				tokens = -1 - rng.Int64N(1600/count)
			}
			w.edit(l, int(k), item.Item{
				"b_rpm_tk": item.N(rng.Int64N(80/count+1) * 1000), "b_tpm_tk": item.N(tokens * 1000),
			})
		}
		// More than a share, so that all shards are read.
		req := asks(Costs{"rpm": 80/count + 1 + rng.Int64N(20), "tpm": 1 + rng.Int64N(30)}, rpm, tpm)
		l = w.process(Options{})
		_, err := l.Acquire(t.Context(), req)
		if err == nil {
			continue
		}
		denials++
		d, ok := errors.AsType[*LimitError](err)
		if !ok || d.Estimated {
			t.Fatalf("%v, want an exact denial: all shards are known", err)
		}
		after := d.RetryAfter
		w.db.ResetStats()
		for ; after > 20*time.Millisecond && d.RetryAfter-after < 900*time.Millisecond; after -= 10 * time.Millisecond {
			w.advance(10 * time.Millisecond)
			if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) || w.db.Stats().Calls() > 0 {
				t.Fatalf("denied for %s, %s before: %v after %+v", d.RetryAfter, after, err, w.db.Stats())
			}
		}
		w.advance(after - time.Millisecond)
		if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
			t.Fatalf("denied for %s, a millisecond before: %v", d.RetryAfter, err)
		}
		w.advance(time.Millisecond)
		must(t, l, req)
	}
	if denials < 50 {
		t.Fatalf("%d denials show nothing", denials)
	}
}

// A limit that was changed, on shards at any levels that have the old one stored: whoever
// obeys the denials is granted after a few, each of which costs a read of the shards at
// most. A lowered limit leaves no room for what a fuller shard holds; a raised one has to
// be brought to every shard first, at one a second.
func TestChangedLimitOnASplitBucketIsGrantedSoon(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	for range 100 {
		w := newWorld(t)
		tpm := PerMinute("tpm", 800)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, PerMinute("rpm", 800), tpm)).Rollback(t.Context())
		count := int64(2 << rng.IntN(3))
		w.split(l, int(count))
		for k := range count {
			level := func() item.Value { return item.N(rng.Int64N(800/count+1) * 1000 * rng.Int64N(2)) }
			w.edit(l, int(k), item.Item{"b_rpm_tk": level(), "b_tpm_tk": level()})
		}
		capacity := []int64{50, 80, 400, 2000}[rng.IntN(4)]
		cost := capacity/count + 1 + rng.Int64N(capacity-capacity/count)
		l = w.process(Options{})
		w.db.ResetStats()
		w.eventually(l, asks(Costs{"rpm": cost, "tpm": 1}, PerMinute("rpm", capacity), tpm), int(count)+3)
		if n := w.db.Stats().Reads; n > int(count)+4 {
			t.Errorf("%d shards, 800 changed to %d, cost %d: %d reads", count, capacity, cost, n)
		}
	}
}
