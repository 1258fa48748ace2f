package streams

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// What was lost and counted with a later record counts nothing when it is delivered
// after all: by a replay, or by a mapping that reads the stream from its beginning.
func TestWhatWasMadeUpForIsNotCountedWhenItComes(t *testing.T) {
	key := table.BucketKey("ns", "a", "gpt", 0)
	for _, c := range []struct {
		name    string
		history func(w *gapWorld, lost func(change func()))
	}{
		{"a charge in an hour of its own", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"charges in two hours", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 3_600_000
			lost(func() { w.put(key, 1, 115) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"charges in two days", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 1, 110) })
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 1, 115) })
			w.now += 24 * 3_600_000
			w.put(key, 1, 120)
		}},
		{"the creation of another life", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			lost(func() { w.put(key, 2, 7) })
			w.now += 3_600_000
			w.put(key, 2, 9)
		}},
		{"a life after a removal that was lost too", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			lost(func() { w.db.Delete(key) })
			lost(func() { w.put(key, 2, 7) })
			w.now += 3_600_000
			w.put(key, 2, 9)
		}},
		{"the creation", func(w *gapWorld, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.put(key, 1, 9)
		}},
		{"the creation, an hour before", func(w *gapWorld, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.put(key, 1, 9)
		}},
		{"the creation and what followed, days before", func(w *gapWorld, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			lost(func() { w.put(key, 2, 20) }) // under other limits
			w.now += 24 * 3_600_000
			lost(func() { w.put(key, 2, 17) })
			w.now += 24 * 3_600_000
			w.put(key, 2, 27)
		}},
		{"all but the expiry", func(w *gapWorld, lost func(func())) {
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.db.Delete(key)
		}},
		{"the creation in the second of the deletion", func(w *gapWorld, lost func(func())) {
			w.born(key, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			lost(func() { w.born(key, 7) })
			w.now += 3_600_000
			w.put(key, 1, 120)
		}},
		{"the deletion, and the creation in its second", func(w *gapWorld, lost func(func())) {
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
				w := newGapWorld(t, 1)
				w.agg.conf.Windows = mode.windows
				deliver := func(changes []memdb.Change) {
					if mode.fold {
						w.invoke(w.lanes[0], changes, true)
					} else if got := w.rig.handle(streamtest.PayloadOf(records(changes)...)); got != done {
						t.Fatal(got)
					}
				}
				var lost []memdb.Change
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
				if diff := w.compare(); diff != "" {
					t.Fatalf("before:\n%s", diff)
				}
				if mode.together {
					deliver(lost)
				} else {
					for _, l := range lost {
						deliver([]memdb.Change{l})
					}
				}
				settle(w)
				if diff := w.compare(); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// settle lets what longer windows are owed be counted.
func settle(w *gapWorld) {
	for range 2 {
		w.now += 2 * 3_600_000
		w.invoke(w.lanes[0], nil, true)
	}
}
