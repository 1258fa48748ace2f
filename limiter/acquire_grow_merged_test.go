package limiter

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestOldViewSplitsNothing: a bucket of eight shards has merged down to four, which
// processes that have seen eight learn one shard after the other. They must not split
// what has merged.
func TestOldViewSplitsNothing(t *testing.T) {
	w := newWorld(t)
	first := w.process(Options{})
	req := asks(Costs{"rpm": 1}, rpm80)
	must(t, first, req).Rollback(t.Context())
	w.split(first, 8)
	var fleet []*Limiter
	for range 8 {
		l := w.process(Options{})
		for range 40 { // sees most shards
			must(t, l, req).Rollback(t.Context())
		}
		fleet = append(fleet, l)
	}
	w.advance(time.Second)
	w.merge(first, 4)
	w.advance(time.Second)
	for i := range 160 {
		must(t, fleet[i%len(fleet)], req).Rollback(t.Context())
		fleet[i%len(fleet)].desks.Wait()
		if c := w.counts(first); len(c) != 4 || !even(c) {
			t.Fatalf("after %d requests of processes with an old view the shards count %v, want four of four", i+1, c)
		}
	}
	w.wantHeld(first, rpm80, 80)
}

// merge brings the bucket down to a count, as the aggregator does.
func (w *world) merge(l *Limiter, count int) {
	w.t.Helper()
	zero := w.shards(l, acme, gpt)[0]
	if _, err := shard.Run(w.t.Context(), w.db.Bare(), shard.Shrink(zero, count), l.now); err != nil {
		w.t.Fatal(err)
	}
	all := w.shards(l, acme, gpt)
	if _, err := shard.Run(w.t.Context(), w.db.Bare(), shard.Propagate(all[0], all[1:]...), l.now); err != nil {
		w.t.Fatal(err)
	}
}

// A limit came into force after the bucket was split, and only one of two shards was
// charged for it before they merge: what is left is what the other would have had.
func TestLimitNewToASplitBucketMerges(t *testing.T) {
	added := PerHour("added", 10)
	for _, charged := range []int{0, 1} {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 1}, rpm80)).Rollback(t.Context())
		w.split(l, 2)
		five := table.Charge{Image: w.shards(l, acme, gpt)[charged], Now: w.now.Load(),
			Costs: table.Costs([]bucket.Limit{added.stored(), rpm80.stored()}, 5*bucket.Milli)}
		if _, err := w.db.Bare().Write(t.Context(), five.Plan().Update); err != nil {
			t.Fatal(err)
		}
		w.merge(l, 1)
		w.wantHeld(l, added, 5)
		if n := drain(t, w.process(Options{}), asks(Costs{"added": 1}, added, rpm80)); n != 5 {
			t.Errorf("shard %d had granted 5 of 10, and once merged %d more are granted", charged, n)
		}
	}
}

// So does what the work has cost more, and what that shard has gained since is reckoned with.
func TestSettlingMoreFollowsAShardThatHasMerged(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	w.split(l, 2)
	known := map[int]*Lease{}
	for n := 0; len(known) < 2 && n < 1000; n++ {
		lease := must(t, l, asks(Costs{"rpm": 3}, rpm80))
		if shard := lease.items[0].Shard; known[shard] == nil {
			known[shard] = lease
		} else if err := lease.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.merge(l, 1)
	w.advance(time.Minute)
	if err := errors.Join(more(known[1], Costs{"rpm": 5}), known[1].Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, rpm80, 75)
}

// A bucket of shards does not expire: a ttl that was there is taken away, and stays away whatever is
// written. One that has merged into a single shard has a ttl again with its next charge.
func TestOnlyWholeBucketsExpire(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := asks(Costs{"rpm": 1}, rpm80)
	must(t, l, req)
	if w.shards(l, acme, gpt)[0].TTL == 0 {
		t.Fatal("an unsplit bucket has no ttl")
	}
	w.split(l, 4)
	for range 20 {
		w.advance(7 * time.Minute)
		for range 5 {
			must(t, l, req)
		}
		if w.db.Sweep(w.now.Load()/1000) != 0 || len(w.shards(l, acme, gpt)) != 4 {
			t.Fatal("a shard expired")
		}
	}
	w.merge(l, 1)
	must(t, w.process(Options{}), req)
	must(t, l, req)
	all := w.shards(l, acme, gpt)
	if len(all) != 1 || all[0].TTL == 0 || w.db.Sweep(all[0].TTL+1) != 1 {
		t.Fatalf("%d shards, the first expires at %d, and does not", len(all), all[0].TTL)
	}
}
