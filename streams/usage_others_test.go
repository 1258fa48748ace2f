package streams

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// Another aggregator, which adds what single records took to the snapshot of the
// hour and knows no marks, takes turns with ours on one stream, within an hour or
// over several. Every record is counted once, by one of them and in its own hour. A
// day in which ours counted last is the sum of its hours, whoever has counted them, but
// for that of midnight if only the other one has; a month is the sum of its days. In half
// of the worlds calls fail, and answers are lost.
func TestOthersCountInBetween(t *testing.T) {
	worlds := uint64(60)
	if testing.Short() {
		worlds = 12
	}
	for seed := range worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.trouble = seed%2 == 1
			hours := map[string]int64{}     // what they must count
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
						l.state = nil // of a batch that came again after its window had ended
						continue
					}
					for ; l.next < len(w.of(l.index, l.of)); l.next++ {
						w.countByOthers(w.of(l.index, l.of)[l.next])
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
				if err != nil {
					t.Fatal(err)
				}
				for limit, n := range s.Counts {
					switch name := s.Entity + " " + limit; usage.Window(s.Window) {
					case usage.Hourly:
						if want := hours[item.KeyOf(it).SK+" "+name]; n != want {
							t.Errorf("%s in the hour of %s: %d, want %d", name, s.Start, n, want)
						}
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
					if n != want {
						t.Errorf("%s %s in %s: %d, the sum is %d", s.Entity, limit, s.Part, n, want)
					}
				}
			}
			if summed == 0 && len(lastByOurs) > 8 {
				t.Error("nothing is summed")
			}
		})
	}
}

// take lets a client take from one of three buckets.
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

// countByOthers counts one record as the Python aggregator does: creations are not
// counted.
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

// expect adds a record to what its hour must count.
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

// What another aggregator has counted of a shard is not counted as its beginning,
// though marks of its siblings are in the same snapshot: ours begin in the middle of
// an hour of the other one, or come back after it had a turn.
func TestBeginningsAreNotCountedWhereOthersHave(t *testing.T) {
	const hour = 3_600_000
	first, second := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	for _, c := range []struct {
		name    string
		history func(w *world, others, ours func(key item.Key, used int64))
		want    int64
	}{
		{"ours begin within an hour", func(w *world, others, ours func(item.Key, int64)) {
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
		{"ours find what the others counted of one shard, twice", func(w *world, others, ours func(item.Key, int64)) {
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
