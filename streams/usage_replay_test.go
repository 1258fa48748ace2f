package streams

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// What was lost and counted with a later record counts nothing when it is delivered
// after all: by a replay, or by a mapping that reads the stream from its beginning.
func TestWhatWasMadeUpForIsNotCountedWhenItComes(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for _, c := range []struct {
		name    string
		history func(w *world, lost func(change func()))
	}{
		{"a charge in an hour of its own", func(w *world, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"charges in two hours", func(w *world, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 115) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"charges in two days", func(w *world, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 1, 115) })
			w.now += 24 * 3_600_000
			w.put(key, 1, 120)
		}},
		{"the creation of another life", func(w *world, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			lost(func() { w.put(key, 2, 7) })
			w.now += 3_600_000
			w.put(key, 2, 9)
		}},
		{"a life after a removal that was lost too", func(w *world, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.db.Delete(key) })
			lost(func() { w.put(key, 2, 7) })
			w.now += 3_600_000
			w.put(key, 2, 9)
		}},
		{"the creation", func(w *world, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.put(key, 1, 9)
		}},
		{"the creation, an hour before", func(w *world, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.put(key, 1, 9)
		}},
		{"the creation and what followed, days before", func(w *world, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			lost(func() { w.put(key, 2, 20) }) // under other limits
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 2, 17) })
			w.now += 24 * 3_600_000
			w.put(key, 2, 27)
		}},
		{"all but the expiry", func(w *world, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.db.Delete(key)
		}},
		{"the creation in the second of the deletion", func(w *world, lost func(func())) {
			w.born(key, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"the deletion, and the creation in its second", func(w *world, lost func(func())) {
			w.born(key, 100)
			w.now += 3_600_000
			lost(func() { w.db.Delete(key) })
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
	} {
		for _, mode := range []struct {
			name     string
			fold     bool
			together bool // what had been lost comes in one batch
			windows  []usage.Window
		}{
			{"folded", true, false, []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}},
			{"folded, together", true, true, []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}},
			{"folded, hours only", true, true, []usage.Window{usage.Hourly}},
			{"not folded", false, false, []usage.Window{usage.Hourly, usage.Daily}},
			{"not folded, together", false, true, []usage.Window{usage.Hourly, usage.Daily}},
		} {
			t.Run(c.name+", "+mode.name, func(t *testing.T) {
				w := newWorld(t, 1)
				w.agg.conf.Windows = mode.windows
				deliver := func(changes []memdynamo.Change) {
					if mode.fold {
						w.invoke(w.lanes[0], changes, true)
					} else if got := w.rig.handle(streamtest.PayloadOf(records(changes)...)); got != done {
						t.Fatal(got)
					}
				}
				var lost []memdynamo.Change
				next := 0
				rest := func() {
					deliver(w.since(0)[next:])
					next = len(w.since(0))
				}
				c.history(w, func(change func()) {
					rest()
					change()
					lost = append(lost, w.since(0)[next])
					w.lost[w.since(0)[next].Seq] = true
					next++
				})
				rest()
				settle(w)
				check.MustEqual(t, w.compare(), "", "before")
				if mode.together {
					deliver(lost)
				} else {
					for _, l := range lost {
						deliver([]memdynamo.Change{l})
					}
				}
				settle(w)
				check.Equal(t, w.compare(), "")
			})
		}
	}
}

// settle lets what longer windows are owed be counted.
func settle(w *world) {
	for range 2 {
		w.now += 2 * 3_600_000
		w.invoke(w.lanes[0], nil, true)
	}
}

// A mapping that reads the stream from its beginning after batches and states were lost
// brings every record that had been lost, after those behind it were counted. In the end
// all kinds of windows hold just what the counters have grown by.
func TestAMappingThatBeginsAnewCountsEverythingOnce(t *testing.T) {
	seeds, lost := uint64(10), 0
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		w := newWorld(t, seed)
		w.steady, w.drops, w.losses, w.agg.conf.MergeAfter = true, 0.2, 0.1, math.MaxInt64
		w.live(200)
		lost += len(w.lost)
		w.drops, w.losses, w.lanes = 0, 0, nil
		for i := range 2 {
			w.lanes = append(w.lanes, &lane{index: i, of: 2})
			w.drain(w.lanes[i])
		}
		settle(w)
		want, got := map[string]int64{}, map[string]int64{}
		for _, it := range w.db.Items() {
			if s, err := ledger.DecodeSnapshot(it); err == nil && ledger.WindowOf(it) != "" {
				for limit, n := range s.Counts {
					got[s.Entity+" "+limit+" "+ledger.WindowOf(it)] += n
				}
				continue
			}
			if _, entity, _, _, ok := layout.ParseBucketPK(item.KeyOf(it).PK); ok {
				for limit, n := range counters(it) {
					for _, kind := range w.agg.conf.Windows {
						want[entity+" "+limit+" "+string(kind)] += n
					}
				}
			}
		}
		for k, n := range want {
			if got[k] != n {
				t.Errorf("seed %d: %s: %d are counted, %d were consumed", seed, k, got[k], n)
			}
		}
	}
	if t.Logf("%d records had been lost", lost); lost < 20*int(seeds) {
		t.Error("too few")
	}
}
