package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
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

// The same holds when the limit is lacking on another shard than the hot one, and
// when it is lacking on a shard that is behind the count.
func TestLimitStoredInPartKeepsItsShardWhole(t *testing.T) {
	rpm, tpm := PerMinute("rpm", 1000), PerMinute("tpm", 1000)
	lacking := item.Item{"b_tpm_cp": nil, "b_tpm_tk": item.N(-500_000)}
	req := asks(Costs{"rpm": 1}, rpm)
	t.Run("on shard 0", func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
		w.split(l, 2)
		w.edit(l, 0, lacking)
		w.heat(l, 1)
		l = w.process(Options{})
		for range 20 {
			must(t, l, req)
		}
		if n := len(w.shards(l, acme, gpt)); n != 2 {
			t.Errorf("%d shards, want 2", n)
		}
	})
	t.Run("on a shard that is behind", func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
		w.split(l, 2)
		b := w.shards(l, acme, gpt)
		if err := w.db.Bare().Transact(t.Context(), "zero", table.Split(b[0], w.now.Load())); err != nil {
			t.Fatal(err)
		}
		w.edit(l, 1, lacking)
		l = w.process(Options{})
		for range 40 {
			must(t, l, req)
		}
		if b := w.shards(l, acme, gpt); len(b) != 3 || b[1].State.Shards != 2 {
			t.Errorf("%d shards, shard 1 counts %d; want 3, and 2", len(b), b[1].State.Shards)
		}
	})
}

// Nor are shards merged while shard 0 has a limit in part: what the other holds of it
// could not be added to anything.
func TestLimitStoredInPartIsNotMerged(t *testing.T) {
	rpm, tpm := PerMinute("rpm", 2), PerMinute("tpm", 1000) // of rpm four shards hold less than a token each
	w := newWorld(t)
	l := w.process(Options{})
	must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
	w.split(l, 4)
	w.edit(l, 0, item.Item{"b_tpm_cp": nil})
	l = w.process(Options{})
	for range 20 {
		l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm))
		l.desks.Wait()
		w.advance(time.Second)
	}
	for _, b := range w.shards(l, acme, gpt) {
		if len(b.Partial) == 0 && b.State.Index("tpm") < 0 {
			t.Errorf("shard %d has lost tpm", b.State.Shard)
		}
	}
	if n := len(w.shards(l, acme, gpt)); n != 4 {
		t.Errorf("%d shards, want all 4", n)
	}
}
