package limiter

import (
	"maps"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A limit of which only a part is stored, as a foreign write leaves it, cannot be
// divided: the new shard would lack it, and a limit that is lacking starts full. So a
// bucket is not split while it is lacking on the hot shard, on shard 0, or on one that is
// behind the count. Nor are shards merged: what the other holds could not be added to anything.
func TestLimitStoredInPartKeepsTheShards(t *testing.T) {
	lacking := item.Item{"b_tpm_cp": nil, "b_tpm_tk": item.N(-500_000)}
	for name, c := range map[string]struct {
		shards, lacks int
		hot           int // -1: none
		behind        bool
		rpm           int64
	}{
		"hot":                     {1, 0, 0, false, 1000},
		"on shard 0, another hot": {2, 0, 1, false, 1000},
		"on a shard behind":       {2, 1, -1, true, 1000},
		"too many shards":         {4, 0, -1, false, 2}, // of rpm four shards hold less than a token each
	} {
		w := newWorld(t)
		l := w.process(Options{})
		rpm, tpm := PerMinute("rpm", c.rpm), PerMinute("tpm", 1000)
		must(t, l, asks(Costs{"rpm": 1, "tpm": 1}, rpm, tpm))
		w.split(l, c.shards)
		if c.behind {
			if err := w.db.Bare().Transact(t.Context(), "zero", table.Split(w.shards(l, acme, gpt)[0], l.now())); err != nil {
				t.Fatal(err)
			}
		}
		w.edit(l, c.lacks, lacking)
		if c.hot >= 0 {
			w.heat(l, c.hot)
		}
		before := w.counts(l)
		l = w.process(Options{})
		for range 40 {
			l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm))
			l.desks.Wait()
			w.advance(50 * time.Millisecond)
		}
		if got := w.counts(l); !maps.Equal(got, before) {
			t.Errorf("%s: shards %v, want %v", name, got, before)
		}
		for _, b := range w.shards(l, acme, gpt) {
			if len(b.Partial) == 0 && b.State.Index("tpm") < 0 {
				t.Errorf("%s: shard %d has lost tpm", name, b.State.Shard)
			}
		}
	}
}
