package streams

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// Consumption before a bucket's first record is counted if it is certain that it was not counted
// before. Otherwise it is reported.
func TestUnknownBeginningsAreNotCounted(t *testing.T) {
	const hour = 3_600_000
	key := layout.BucketKey("ns", "a", "gpt", 0)
	snapshot := func(w *world, part, window, start string) {
		w.db.Store(item.Item{"PK": item.S("ns/ENTITY#a"), "SK": item.S("#USAGE#gpt#" + part), "window": item.S(window),
			"window_start": item.S(start), "total_events": item.N(1), "rpm": item.N(5)})
	}
	siblings := func(w *world, hours int) {
		for range hours {
			w.now += hour
			w.rig.take("a", 1, 1, 0)
			w.invoke(w.lanes[0], []memdynamo.Change{w.last()}, true)
		}
	}
	for _, c := range []struct {
		name string
		lost string         // the history before the first record, which goes from 100 to 110 tokens
		also func(w *world) // what happens then
		want string         // the snapshot of the 100; empty: none
	}{
		{"it is known", "born 1 100, hour", nil, anHour},
		{"the item has no creation time", "put 1 100, hour", nil, ""},
		{"it was created at a full hour", "edge 9000, born 1 100, hour", nil, ""},
		{"it was created slightly later", "edge 10000, born 1 100, hour", nil, "2023-11-14T23:00:00Z"},
		{"its creator's clock is slightly ahead", "ms 2000, born 1 100, ms -1500", nil, anHour},
		{"its creator's clock is slightly ahead, at a full hour", "edge 1000, born 1 100, ms -2000", nil, ""},
		{"its creator's clock is ahead", "hour, born 1 100, ms -3600000", nil, ""},
		{"its hour ended more than a week ago", "born 1 100, edge 604800000", nil, ""},
		{"its hour ended a week ago", "born 1 100, edge 604799999", nil, anHour},
		{"its hour is kept for two days", "ttl 2, born 1 100, day, day, day", nil, ""},
		{"its hour was kept for a week, and would be kept longer now", "ttl 7, born 1 100, count", func(w *world) {
			w.now += 9 * 24 * hour
			for _, it := range w.db.Items() {
				if ledger.WindowOf(it) != "" && read(it, "ttl")*1000 < w.now {
					w.db.Delete(item.KeyOf(it))
				}
			}
			w.agg.conf.SnapshotTTLDays = 90
		}, ""},
		{"another aggregator has counted since", "born 1 100, hour, hour", func(w *world) {
			snapshot(w, "2023-11-14T23:00:00Z", "hourly", "2023-11-14T23:00:00Z")
		}, ""},
		{"another aggregator has counted the day", "born 1 100, hour, hour", func(w *world) {
			snapshot(w, "2023-11-14", "daily", "2023-11-14T00:00:00Z")
		}, ""},
		{"another aggregator had counted the day before", "", func(w *world) {
			snapshot(w, "2023-11-13T23:00:00Z", "hourly", "2023-11-13T23:00:00Z")
			w.born(key, 100)
			w.now += 2 * hour
		}, anHour},
		{"a day has counted it, and its hours are gone", "born 1 100, count, hour", func(w *world) {
			w.db.Delete(item.Key{PK: "ns/ENTITY#a", SK: "#USAGE#gpt#2023-11-14T22:00:00Z"})
		}, ""},
		{"a later day has counted it, and its hours are gone", "", func(w *world) {
			w.born(key, 0)
			w.now += 30 * hour
			w.put(key, 1, 100)
			w.countRecords(w.since(0)...)
			w.now += hour
			for _, part := range []string{"14T22:00:00Z", "14", "16T04:00:00Z"} {
				w.db.Delete(item.Key{PK: "ns/ENTITY#a", SK: "#USAGE#gpt#2023-11-" + part})
			}
			w.db.Delete(item.Key{PK: "ns/ENTITY#a", SK: "#USAGE#gpt#2023-11"})
		}, ""},
		{"its siblings have too many snapshots", "born 1 100", func(w *world) { siblings(w, 70) }, ""},
		{"its siblings have some", "born 1 100", func(w *world) { siblings(w, 30) }, anHour},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily}
			w.split(1)
			if w.play(key, c.lost, nil); c.also != nil {
				c.also(w)
			}
			before := w.sum("rpm")
			w.put(key, 2, 110)
			w.metrics.Reset()
			w.countRecords(w.last())
			unknown, want := 1, before+20 // in hours and in days
			if c.want != "" {
				unknown, want = 0, before+220
				if n := w.snapshot("a", c.want).Counts["rpm"]; n < 100 {
					t.Errorf("%s: %d tokens", c.want, n)
				}
			}
			check.Equal(t, w.sum("rpm"), want, "tokens are counted in hours and days")
			w.wants(w.metrics.String(), fmt.Sprintf(`"BeginningsUnknown":%d`, unknown))
		})
	}
}

// A creation is counted without reading earlier snapshots, unless its hour may be finished: a later
// creation may have been counted first. Our clock may be a minute behind the stream's. If the
// record is repeated, the read finds it counted, and nothing is written.
func TestCreationsInFinishedHoursAreLookedUp(t *testing.T) {
	const hour = 3_600_000
	for left, want := range map[int64]int{hour: 0, 60_001: 0, 60_000: 1, 0: 1, -hour: 1} {
		w := newWorld(t, 1)
		w.born(layout.BucketKey("ns", "a", "gpt", 0), 5)
		w.now += hour - w.now%hour - left
		looks, writes := 0, 0
		w.watch(func(op memdynamo.Op) {
			if op.Name == memdynamo.Query {
				looks++
			}
			writes += len(op.Writes)
		})
		w.agg.conf.Windows = []usage.Window{usage.Hourly}
		payload := w.payload()
		check.MustEqual(t, w.rig.handle(payload), done)
		check.Equal(t, looks, want, "%d ms before the end of the hour: looks", left)
		check.Equal(t, w.sum("rpm"), 5, "%d ms before the end of the hour: tokens are counted", left)
		w.wants(w.metrics.String(), `"Snapshots":1`)
		writes = 0
		check.MustEqual(t, w.rig.handle(payload), done)
		check.Equal(t, writes, 1-want, "%d ms before the end of the hour: writes when it is repeated", left)
	}
}

// sum adds up all snapshots of a limit.
func (w *world) sum(limit string) (n int64) {
	for _, it := range w.db.Items() {
		if strings.HasPrefix(item.KeyOf(it).SK, "#USAGE#") {
			n += read(it, limit)
		}
	}
	return n
}

// A beginning is counted once in every kind of window, after a crash at every call, before or after
// the call took effect. The same holds if only that call fails and the process reports the rest as
// done, which is then not delivered again.
func TestBeginningsAreCountedOnceAfterACrashAtEveryCall(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for i := range 4 {
		fold, told, crashes := i/2 > 0, i%2 > 0, 0
		for _, applied := range []bool{false, true} {
			for at := 1; ; at++ {
				w := newWorld(t, 1)
				w.agg.concurrency, w.agg.log = 1, slog.New(slog.DiscardHandler)
				w.split(1)
				w.born(key, 100)
				w.lost[1] = true
				w.now += 26 * 3_600_000
				w.put(key, 1, 110)
				payload := payloadOf(w.since(1))
				if fold {
					payload = windowed(records(w.since(1)), nil, true)
				}
				calls := 0
				w.db.SetHook(func(memdynamo.Op) (bool, error) {
					if calls++; calls < at || told && calls > at {
						return true, nil
					}
					return calls == at && applied, memdynamo.Fail(store.Unavailable)
				})
				out, err := w.agg.Invoke(t.Context(), payload)
				w.db.SetHook(nil)
				if all := w.since(1); !told || err != nil || w.acknowledged(out, all) < len(all) {
					check.Must(t, check.Err(w.agg.Invoke(t.Context(), payload)))
				}
				settle(w)
				check.MustEqual(t, w.compare(), "",
					"folded: %v, told: %v, after a crash at call %d (applied: %v)", fold, told, at, applied)
				if calls < at {
					break
				}
				crashes++
			}
		}
		if t.Logf("folded: %v, told: %v: diff=0 after each of %d crashes", fold, told, crashes); crashes < 16 {
			t.Error("too few")
		}
	}
}

// A beginning that cannot be counted or read is tried once, and left to the next delivery. Later
// records are not counted before it.
func TestUncountedBeginningsAreDeliveredAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.agg.conf.Windows = []usage.Window{usage.Hourly}
	key := layout.BucketKey("ns", "a", "gpt", 0)
	w.born(key, 100) // lost
	w.now += 2 * 3_600_000
	w.put(key, 1, 110)
	last := w.last()
	payload := payloadOf([]memdynamo.Change{last})
	for what, fails := range map[string]func(memdynamo.Op) bool{
		"looked for": func(op memdynamo.Op) bool { return op.Name == memdynamo.Query },
		"counted": func(op memdynamo.Op) bool {
			return strings.HasSuffix(target(op).SK, "2023-11-14T22:00:00Z")
		},
	} {
		tried := 0
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if !fails(op) {
				return true, nil
			}
			tried++
			return false, memdynamo.Fail(store.Unavailable)
		})
		if got := w.rig.handle(payload); got != resumeAt(last.SequenceNumber()) || tried != 1 || w.sum("rpm") != 0 {
			t.Errorf("not %s: response %s after %d attempts, %d tokens are counted", what, got, tried, w.sum("rpm"))
		}
	}
	w.db.SetHook(nil)
	if got := w.rig.handle(payload); got != done || w.sum("rpm") != 110 {
		t.Errorf("second response %s, %d tokens are counted", got, w.sum("rpm"))
	}
}

// One aggregator processes a record whose beginning was lost. At each of its calls, another one
// counts the next record, the same record, one of another shard, or the lost one, which arrives
// after all. If it is the next record, the lost tokens are not recovered when the day has counted
// the beginning but the hour has not.
func TestBeginningsAreCountedOnceByTwoAggregators(t *testing.T) {
	for _, kind := range []string{"next", "same", "lost", "sibling"} {
		for at := 1; ; at++ {
			w := newWorld(t, 1)
			w.agg.concurrency = 1
			w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily}
			w.split(1)
			key, sibling := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
			w.born(key, 70)
			changes := map[string]memdynamo.Change{"lost": w.last()}
			w.born(sibling, 7) // lost
			w.now += 2 * 3_600_000
			w.put(key, 1, 100)
			changes["same"] = w.last()
			w.put(sibling, 1, 10)
			changes["sibling"] = w.last()
			w.put(key, 1, 120)
			changes["next"] = w.last()
			hit := w.during(at, func() { w.countRecords(changes["same"]) }, func() { w.countRecords(changes[kind]) })
			if !hit {
				break
			}
			w.countRecords(changes["same"], changes["sibling"], changes["next"])
			w.countRecords(changes["lost"])
			if got := w.sum("rpm"); got > 2*130 || got < 2*130 && (kind != "next" || got != 2*130-30) {
				t.Errorf("%s at call %d: %d tokens in hours and days, want %d", kind, at, got, 2*130)
			}
		}
	}
}

// An hour whose last record was lost is completed once, even if another aggregator counts the same
// record at one of the calls.
func TestAnHourIsCompletedOnceByTwoAggregators(t *testing.T) {
	for at := 1; ; at++ {
		w := newWorld(t, 1)
		w.agg.conf.Windows = []usage.Window{usage.Hourly}
		key := layout.BucketKey("ns", "a", "gpt", 0)
		w.born(key, 70)
		w.countRecords(w.last())
		w.put(key, 1, 100) // lost
		w.now += 3_600_000
		w.put(key, 1, 120)
		hit := w.during(at, func() { w.countRecords(w.last()) }, func() { w.countRecords(w.last()) })
		check.Equal(t, w.sum("rpm"), 120, "call %d: tokens in both hours", at)
		if !hit {
			break
		}
	}
}
