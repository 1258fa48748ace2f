package streams

import (
	"fmt"
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

// Our aggregator alternates on one stream with another one, which adds the tokens of single records
// to an hour's snapshot without marks, within an hour or over several. Every record is counted
// once, by one of them and in its hour. A day that ours counted last is the sum of its hours,
// whichever aggregator counted them, except for midnight if only the other one did. A month is the
// sum of its days. In half of the worlds calls fail and answers are lost.
func TestOthersCountInBetween(t *testing.T) {
	worlds := uint64(60)
	if testing.Short() {
		worlds = 12
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.trouble = seed%2 == 1
			hours := map[string]int64{}     // the expected counts
			lastByOurs := map[string]bool{} // by entity and day
			next := 0
			for range 12 {
				for range w.IntN(12) {
					w.take()
				}
				ours := w.IntN(2) == 0
				for _, c := range w.since(0)[next:] {
					w.expect(c, ours, hours)
					_, entity, _, _, _ := layout.ParseBucketPK(c.Key.PK)
					lastByOurs[entity+" "+usage.Daily.Part(usage.Daily.Start(c.CreatedAt))] = ours
					next++
				}
				for _, l := range w.lanes {
					if ours {
						w.drain(l)
						l.state = nil // of a batch that was repeated after the end of its window
						continue
					}
					for ; l.next < len(w.of(l)); l.next++ {
						w.countByOthers(w.of(l)[l.next])
					}
				}
			}
			w.live(0)
			days, months, summed := map[string]int64{}, map[string]int64{}, 0
			for _, it := range w.db.Items() {
				if ledger.WindowOf(it) == "" {
					continue
				}
				s, err := ledger.DecodeSnapshot(it)
				check.Must(t, err)
				for limit, n := range s.Counts {
					switch name := s.Entity + " " + limit; usage.Window(s.Window) {
					case usage.Hourly:
						check.Equal(t, n, hours[item.KeyOf(it).SK+" "+name], "%s in the hour of %s", name, s.Start)
						if ledger.IsHourOfDay(it) {
							days[s.Part[:10]+" "+name] += n
						}
					case usage.Daily:
						months[s.Part[:7]+" "+name] += n
					}
				}
			}
			for _, it := range w.db.Items() {
				s, err := ledger.DecodeSnapshot(it)
				if err != nil || s.Window == string(usage.Hourly) {
					continue
				}
				for limit, n := range s.Counts {
					want := months[s.Part+" "+s.Entity+" "+limit]
					if s.Window == string(usage.Daily) {
						if want = days[s.Part+" "+s.Entity+" "+limit]; !lastByOurs[s.Entity+" "+s.Part] {
							continue
						}
						summed++
					}
					check.Equal(t, n, want, "%s %s in %s", s.Entity, limit, s.Part)
				}
			}
			if summed == 0 && len(lastByOurs) > 8 {
				t.Error("no day or month is summed")
			}
		})
	}
}

// take makes a client take from one of three buckets.
func (w *world) take() {
	if w.now += int64(w.IntN(20_000)); w.IntN(15) == 0 {
		w.now += int64(w.IntN(3 * 3_600_000))
	}
	entity := string(rune('a' + w.IntN(3)))
	it := w.db.Item(layout.BucketKey("ns", entity, "gpt", 0))
	if it == nil {
		b := w.bucket(entity, 0)
		it = b.Item()
	}
	for _, limit := range []string{"rpm", "tpm"} {
		attr := "b_" + limit + "_tc"
		it[attr] = item.N(read(it, attr) + 1000*int64(w.IntN(50)))
	}
	it["rf"] = item.N(w.now)
	w.db.Store(it)
}

// countByOthers counts one record like the Python aggregator, which does not count creations.
func (w *world) countByOthers(c memdynamo.Change) {
	_, entity, _, _, _ := layout.ParseBucketPK(c.Key.PK)
	for limit, n := range growth(c) {
		if c.Old == nil || n == 0 {
			continue
		}
		start := usage.Hourly.Start(c.CreatedAt)
		key := layout.UsageKey("ns", entity, "gpt", usage.Hourly.Part(start))
		it := w.db.Item(key)
		if it == nil {
			s := ledger.Snapshot{Namespace: "ns", Entity: entity, Resource: "gpt", Window: string(usage.Hourly),
				Start: layout.Timestamp(start), Part: usage.Hourly.Part(start)}
			it = s.Item()
		}
		it[limit], it["total_events"] = item.N(read(it, limit)+n), item.N(read(it, "total_events")+1)
		w.db.Store(it)
	}
}

// expect adds a record to the expected count of its hour.
func (w *world) expect(c memdynamo.Change, ours bool, hours map[string]int64) {
	_, entity, _, _, _ := layout.ParseBucketPK(c.Key.PK)
	part := usage.Hourly.Part(usage.Hourly.Start(c.CreatedAt))
	for limit, n := range growth(c) {
		name := entity + " " + limit
		if c.Old != nil || ours {
			hours[layout.UsageKey("ns", entity, "gpt", part).SK+" "+name] += n
		}
	}
}

func growth(c memdynamo.Change) map[string]int64 {
	out := counters(c.New)
	for limit, n := range counters(c.Old) {
		out[limit] -= n
	}
	return out
}

// If another aggregator counted a shard, its counts do not become the shard's beginning, although
// marks of the sibling shards are in the same snapshot: ours starts in the middle of the other's
// hour, or returns after it.
func TestBeginningsCountedByOthersAreNotCounted(t *testing.T) {
	const hour = 3_600_000
	first, second := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	for _, c := range []struct {
		name    string
		history func(w *world, others, ours func(key item.Key, used int64))
		want    int64
	}{
		{"ours start within an hour", func(w *world, others, ours func(item.Key, int64)) {
			w.born(first, 0)
			w.born(second, 0)
			others(first, 300)
			others(second, 300)
			ours(first, 310)
			ours(second, 310)
		}, 620},
		{"ours come back", func(w *world, others, ours func(item.Key, int64)) {
			w.born(first, 10)
			w.countRecords(w.last())
			w.born(second, 0)
			others(second, 50)
			w.now += hour
			others(first, 30)
			others(second, 200)
			ours(first, 40)
			ours(second, 210)
		}, 250},
		{"ours find others' counts of one shard, twice", func(w *world, others, ours func(item.Key, int64)) {
			w.born(first, 10)
			w.countRecords(w.last())
			w.born(second, 0)
			others(first, 30)
			others(second, 50)
			ours(first, 40)
			ours(first, 45)
			w.now += hour
			ours(second, 60)
		}, 105},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.agg.conf.Windows = []usage.Window{usage.Hourly}
			w.split(1)
			c.history(w, func(key item.Key, used int64) {
				w.put(key, 1, used)
				w.countByOthers(w.last())
			}, func(key item.Key, used int64) {
				w.put(key, 1, used)
				w.countRecords(w.last())
			})
			if got := w.sum("rpm"); got != c.want {
				t.Errorf("%d tokens are counted, the counters grew by %d", got, c.want)
			}
		})
	}
}

// A lost record whose tokens were counted with a later one counts nothing when it is delivered
// after all: by a replay, or by a mapping that reads the stream from its beginning.
func TestLateRecordsAreNotCountedAgain(t *testing.T) {
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
			lost(func() { w.put(key, 2, 20) }) // with other limits
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
			together bool // all lost records come in one batch
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

// settle counts the owed longer windows.
func settle(w *world) {
	for range 2 {
		w.now += 2 * 3_600_000
		w.invoke(w.lanes[0], nil, true)
	}
}

// A mapping may read the stream from its beginning after batches and states were lost. Then every
// lost record arrives after later ones were counted. At the end, all kinds of windows equal the
// growth of the counters.
func TestRecreatedMappingsCountEverythingOnce(t *testing.T) {
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
			check.Equal(t, got[k], n, "seed %d: %s", seed, k)
		}
	}
	if t.Logf("%d records had been lost", lost); lost < 20*int(seeds) {
		t.Error("too few")
	}
}
