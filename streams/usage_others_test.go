package streams

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
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
	for _, c := range []struct {
		name, history string // with the shard and its counter
		want          int64
	}{
		{"ours start within an hour", "born 0 0, born 1 0, others 0 300, others 1 300, ours 0 310, ours 1 310", 620},
		{"ours come back",
			"born 0 10, count, born 1 0, others 1 50, hour, others 0 30, others 1 200, ours 0 40, ours 1 210", 250},
		{"ours find others' counts of one shard, twice",
			"born 0 10, count, born 1 0, others 0 30, others 1 50, ours 0 40, ours 0 45, hour, ours 1 60", 105},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.agg.conf.Windows = []usage.Window{usage.Hourly}
			w.split(1)
			for step := range strings.SplitSeq(c.history, ", ") {
				what, shard, used := "", 0, int64(0)
				_, _ = fmt.Sscan(step, &what, &shard, &used)
				key := layout.BucketKey("ns", "a", "gpt", shard)
				switch what {
				case "born":
					w.born(key, used)
				case "hour":
					w.now += anHourLong
				case "count":
					w.countRecords(w.last())
				case "ours":
					w.put(key, 1, used)
					w.countRecords(w.last())
				case "others":
					w.put(key, 1, used)
					w.countByOthers(w.last())
				}
			}
			check.Equal(t, w.sum("rpm"), c.want, "tokens that are counted")
		})
	}
}

// play runs a script about a bucket, as "born 1 100, hour, lost put 2 110": with a generation and a counter. It calls
// lost with each change whose record is lost.
func (w *world) play(key item.Key, script string, lost func(change func())) {
	for step := range strings.FieldsFuncSeq(script, func(r rune) bool { return r == ',' }) {
		step, isLost := strings.CutPrefix(strings.TrimSpace(step), "lost ")
		what, n, used := "", int64(0), int64(0)
		_, _ = fmt.Sscan(step, &what, &n, &used)
		change := map[string]func(){
			"hour":   func() { w.now += anHourLong },
			"day":    func() { w.now += aDayLong },
			"ms":     func() { w.now += n },
			"edge":   func() { w.now += anHourLong - w.now%anHourLong + n }, // so long after the next full hour
			"ttl":    func() { w.agg.conf.SnapshotTTLDays = int(n) },
			"delete": func() { w.db.Delete(key) },
			"born":   func() { w.born(key, used) },
			"put":    func() { w.put(key, n, used) }, // with n as its generation
			"count":  func() { w.countRecords(w.last()) },
		}[what]
		if isLost {
			lost(change)
		} else {
			change()
		}
	}
}

// A lost record whose tokens were counted with a later one counts nothing when it is delivered
// after all: by a replay, or by a mapping that reads the stream from its beginning.
func TestLateRecordsAreNotCountedAgain(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for _, c := range []struct{ name, history string }{ // with the generation and the counter of each change
		{"a charge in an hour of its own", "put 1 100, hour, lost put 1 110, hour, put 1 120"},
		{"charges in two hours", "put 1 100, hour, lost put 1 110, hour, lost put 1 115, hour, put 1 120"},
		{"charges in two days", "put 1 100, day, lost put 1 110, day, lost put 1 115, day, put 1 120"},
		{"the creation of another life", "put 1 100, hour, delete, lost put 2 7, hour, put 2 9"},
		{"a life after a removal that was lost too", "put 1 100, hour, lost delete, lost put 2 7, hour, put 2 9"},
		{"the creation", "lost born 1 7, put 1 9"},
		{"the creation, an hour before", "lost born 1 7, hour, put 1 9"},
		{"the creation and what followed, with other limits, days before",
			"lost born 1 7, hour, lost put 2 20, day, lost put 2 17, day, put 2 27"},
		{"all but the expiry", "lost born 1 7, hour, delete"},
		{"the creation in the second of the deletion", "born 1 100, hour, delete, lost born 1 7, hour, put 1 120"},
		{"the deletion, and the creation in its second",
			"born 1 100, hour, lost delete, lost born 1 7, hour, put 1 120"},
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
					} else {
						check.MustEqual(t, w.rig.handle(payloadOf(changes)), done)
					}
				}
				var lost []memdynamo.Change
				next := 0
				rest := func() {
					deliver(w.since(0)[next:])
					next = len(w.since(0))
				}
				w.play(key, c.history, func(change func()) {
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
