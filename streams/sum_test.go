package streams

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	anHourLong = int64(3_600_000)
	aDayLong   = 24 * anHourLong
)

// sums returns what is wrong with the sums of a limit, all of which must be want.
func (w *world) sums(limit string, want int64) (wrong string) {
	n := 0
	for _, it := range w.db.Items() {
		if ledger.IsSum(it) {
			n++
			if got := read(it, limit); got != want {
				wrong += fmt.Sprintf("%s: %d, want %d\n", item.KeyOf(it).SK, got, want)
			}
		}
	}
	if n == 0 {
		return "there is no sum"
	}
	return wrong
}

// race lets one aggregator count a record, and another one, at one of its calls, a later
// record of the same bucket, or one of another shard, in the hour before. It returns what
// is wrong with day and month then, and whether there was such a call.
func race(t *testing.T, at int, of string, plant func(*world)) (wrong string, hit bool) {
	w := newWorld(t, 1)
	w.agg.concurrency = 1
	w.split(1)
	key, sibling := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	w.born(sibling, 4)
	w.countRecords(w.last())
	w.put(sibling, 1, 9)
	before := w.last()
	w.now += anHourLong // still of the same day
	w.born(key, 100)
	w.countRecords(w.last())
	w.put(key, 1, 110)
	mine, other, want := w.last(), before, int64(110+9)
	if of == "the same hour" {
		w.put(key, 1, 90) // given back
		other, want = w.last(), 90+4
	}
	if plant != nil {
		plant(w)
	}
	calls := 0
	w.db.SetHook(func(memdynamo.Op) (bool, error) {
		if calls++; calls == at {
			w.db.SetHook(nil)
			w.countRecords(other)
		}
		return true, nil
	})
	w.countRecords(mine)
	w.db.SetHook(nil)
	return w.sums("rpm", want), calls >= at
}

// An hour that is written while its day is summed is in the day in the end: who has read
// hours before another one wrote their sum does not write over it.
func TestSumsOfTwoAggregators(t *testing.T) {
	for _, of := range []string{"the same hour", "the hour before"} {
		for at := 1; ; at++ {
			wrong, hit := race(t, at, of, nil)
			if !hit {
				if at < 7 {
					t.Errorf("%s: %d calls only", of, at)
				}
				break
			}
			if wrong != "" {
				t.Errorf("%s, at call %d:\n%s", of, at, wrong)
			}
		}
	}
}

// The races above must notice what the version, and what the order of reads, are for.
func TestPlantedDefectsOfSumsAreCaught(t *testing.T) {
	isSum := func(u item.Update) bool {
		for _, a := range u.Set {
			if a.Name == "_*" {
				return true
			}
		}
		return false
	}
	for name, plant := range map[string]func(*world){
		"a sum is written over any other": func(w *world) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				if isSum(u) {
					u.If = nil
				}
				return u
			}}
		},
		"a sum has the version of the one before": func(w *world) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				for i, a := range u.Set {
					if old := w.db.Item(u.Key); a.Name == "_*" && old != nil {
						u.Set[i].Value = old["_*"]
						u.If = item.Compare("_*", item.Eq, old["_*"]) // the count of records may be the same, too
					}
				}
				return u
			}}
		},
	} {
		caught := false
		for at := 1; !caught && at < 20; at++ {
			wrong, hit := race(t, at, "the same hour", plant)
			caught = hit && wrong != ""
		}
		if !caught {
			t.Errorf("%s: not caught", name)
		}
	}
}

// Whatever call of a sum the process dies at, before or after it took effect, the next
// attempt ends with the same day and month.
func TestSumsAfterACrashAtEveryCall(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for at := 1; ; at++ {
			w := newWorld(t, 1)
			w.agg.concurrency = 1
			w.split(1)
			key := layout.BucketKey("ns", "a", "gpt", 0)
			w.born(key, 100)
			w.countRecords(w.last())
			w.put(key, 1, 110)
			record := w.last()
			calls := 0
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if calls++; calls < at {
					return true, nil
				}
				return calls == at && applied, memdynamo.Fail(store.Unavailable)
			})
			w.rig.handle(streamtest.PayloadOf(records([]memdynamo.Change{record})...)) // nobody learns of the response
			w.db.SetHook(nil)
			w.countRecords(record)
			if wrong := w.sums("rpm", 110); wrong != "" {
				t.Errorf("call %d, applied %v:\n%s", at, applied, wrong)
			}
			if calls < at {
				break
			}
		}
	}
}

// marked stores a longer window as releases before did, counted by marks.
func (w *world) marked(kind usage.Window, at, rpm, events int64, used int64) {
	start := kind.Start(at)
	mark := ledger.Mark{At: ledger.PositionOf(1_600_000_000, "1"), Gen: table.GenerationByte(1),
		Used: []ledger.Count{{Limit: "rpm", Tokens: used}, {Limit: "tpm"}}}
	s := ledger.Snapshot{
		Namespace: "ns", Entity: "a", Resource: "gpt", Window: string(kind), Start: layout.Timestamp(start),
		Part: kind.Part(start), Counts: map[string]int64{"rpm": rpm, "tpm": 0}, Events: events,
		Legend: ledger.Legend{Stream: 1_600_000_000, Limits: []string{"rpm", "tpm"}}, Marks: map[int]ledger.Mark{0: mark},
		TTL: usage.Expiry(at, start, kind, w.agg.conf.SnapshotTTLDays),
	}
	w.db.Store(s.Item())
}

func (w *world) rpm(kind usage.Window, at int64) int64 {
	return read(w.db.Item(layout.UsageKey("ns", "a", "gpt", kind.Part(kind.Start(at)))), "rpm")
}

// Days and months that releases before have counted by marks go on as sums, and lose and
// count twice nothing.
func TestWindowsThatWereCountedByMarks(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	noon := t0 - t0%aDayLong + 12*anHourLong + 600_000
	for _, c := range []struct {
		name       string
		ttl        int
		history    func(w *world)
		day, month int64
	}{
		// The hours of 10:00 and 11:00 are counted, with 30 and 12; day and month have
		// caught up with the first.
		{"an upgrade at noon", 90, func(w *world) {
			w.marked(usage.Hourly, noon-2*anHourLong, 30, 3, 30)
			w.marked(usage.Hourly, noon-anHourLong, 12, 2, 42)
			w.marked(usage.Daily, noon, 30, 3, 30)
			w.marked(usage.Monthly, noon, 30, 3, 30)
		}, 47, 47},
		// A day of 5 before is kept.
		{"days before", 90, func(w *world) {
			w.marked(usage.Hourly, noon-anHourLong, 37, 2, 42)
			w.marked(usage.Daily, noon-aDayLong, 5, 1, 5)
			w.marked(usage.Daily, noon, 37, 2, 42)
			w.marked(usage.Monthly, noon, 42, 3, 42)
		}, 42, 47},
		// The month has 100, of which days that TTL has removed had 58.
		{"days are gone", 3, func(w *world) {
			w.marked(usage.Hourly, noon-anHourLong, 42, 2, 42)
			w.marked(usage.Daily, noon, 42, 2, 42)
			w.marked(usage.Monthly, noon, 100, 9, 42)
		}, 47, 105},
		// The same, and the hour of 11:00 is not caught up with.
		{"days are gone, the rest is behind", 3, func(w *world) {
			w.marked(usage.Hourly, noon-2*anHourLong, 30, 3, 30)
			w.marked(usage.Hourly, noon-anHourLong, 12, 2, 42)
			w.marked(usage.Daily, noon, 30, 3, 30)
			w.marked(usage.Monthly, noon, 88, 5, 30)
		}, 47, 105},
		// Usage was counted by days alone until 11:00.
		{"hours are a new option", 90, func(w *world) {
			w.marked(usage.Daily, noon, 42, 5, 42)
			w.marked(usage.Monthly, noon, 42, 5, 42)
		}, 47, 47},
	} {
		for _, fold := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, folded %v", c.name, fold), func(t *testing.T) {
				w := newWorld(t, 1)
				w.agg.conf.SnapshotTTLDays = c.ttl
				w.split(1)
				w.now = noon - 60_000
				w.put0(key, 42)
				c.history(w)
				w.now = noon
				w.put(key, 1, 47)
				if fold {
					w.invoke(w.lanes[0], []memdynamo.Change{w.last()}, true)
					settle(w)
				} else {
					w.countRecords(w.last())
					w.countRecords(w.last())
				}
				if day, month := w.rpm(usage.Daily, noon), w.rpm(usage.Monthly, noon); day != c.day || month != c.month {
					t.Errorf("day %d, month %d, want %d and %d", day, month, c.day, c.month)
				}
				w.put(key, 1, 50)
				w.countRecords(w.last())
				if w.now > noon+6*anHourLong {
					return
				}
				if day, month := w.rpm(usage.Daily, noon), w.rpm(usage.Monthly, noon); day != c.day+3 || month != c.month+3 {
					t.Errorf("later: day %d, month %d, want %d and %d", day, month, c.day+3, c.month+3)
				}
			})
		}
	}
}

// A day that had marks when it was read, and has a sum when it is written, is summed once more, later: the
// release that left the marks may still add to it.
func TestADayIsSummedAgainWhoeverTookItsMarks(t *testing.T) {
	w := newWorld(t, 1)
	noon := t0 - t0%aDayLong + 12*anHourLong
	w.now = noon
	w.marked(usage.Hourly, noon, 30, 3, 30)
	w.marked(usage.Daily, noon, 30, 3, 30)
	owed := []usage.Owed{{Namespace: "ns", Resource: "gpt", Entity: "a", Start: usage.Hourly.Start(noon)}}
	day := w.agg.longer(owed)[0]
	marked := map[item.Key]item.Item{day.key: w.db.Item(day.key)}
	for round := range 2 {
		if _, again, err := w.agg.sumWindow(t.Context(), owed[0], day, marked); err != nil || !again {
			t.Errorf("round %d: again %v, %v", round+1, again, err)
		}
		if usage.Marked(w.db.Item(day.key)) {
			t.Fatal("it has marks")
		}
	}
}

// A day of another aggregator is taken out once, and a refusal, because it is not as it was, writes nothing.
func TestADayOfOthersIsTakenOutOnce(t *testing.T) {
	w := newWorld(t, 1)
	noon := t0 - t0%aDayLong + 12*anHourLong
	day := usage.Daily.Start(noon)
	others := ledger.Snapshot{Namespace: "ns", Entity: "a", Resource: "gpt", Window: "daily",
		Start: layout.Timestamp(day), Part: layout.Timestamp(day), Counts: map[string]int64{"rpm": 20}, Events: 2}
	w.db.Store(others.Item())
	w.marked(usage.Hourly, noon, 30, 3, 30)
	s := &usage.Summing{Owed: usage.Owed{Namespace: "ns", Resource: "gpt", Entity: "a", Start: day}, Window: usage.Daily,
		Of: usage.Hourly, Start: day, Parts: []item.Item{w.db.Item(others.Key()),
			w.db.Item(layout.UsageKey("ns", "a", "gpt", usage.Hourly.Part(usage.Hourly.Start(noon))))}}
	for _, want := range []int{1, 0} {
		if n, err := w.agg.replace(t.Context(), s); err != nil || n != want {
			t.Errorf("%d writes, %v, want %d", n, err, want)
		}
	}
}

// put0 stores a bucket with a counter of whole tokens, of which it is not known when it
// was created.
func (w *world) put0(key item.Key, used int64) {
	_, entity, _, shard, _ := layout.ParseBucketPK(key.PK)
	b := w.bucket(entity, shard)
	it := b.Item()
	it["shard_count"] = item.N(2)
	it["gn"], it["rf"], it["b_rpm_tc"], it["b_tpm_tc"] = item.N(1), item.N(w.now), item.N(used*1000), item.N(0)
	w.db.Store(it)
}

// An hour that completes one before it, of the same day, is counted with one sum of that day: the day
// is summed once, when both are counted. A day before is summed with the hour that is completed.
func TestADayIsSummedOnceForTwoOfItsHours(t *testing.T) {
	for midnight, want := range map[bool]string{false: "14T12 14T13 14", true: "14T23 14 15T00 15"} {
		w := newWorld(t, 1)
		w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily}
		w.split(1)
		if w.now = t0 - t0%aDayLong + 12*anHourLong; midnight {
			w.now += 11 * anHourLong
		}
		key := layout.BucketKey("ns", "a", "gpt", 0)
		w.born(key, 100)
		w.countRecords(w.last())
		w.now += 60_000
		w.put(key, 1, 110) // lost
		w.now += anHourLong
		w.put(key, 1, 115)
		var wrote []string
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			for _, x := range op.Writes {
				part := strings.TrimPrefix(x.Target().SK, "#USAGE#gpt#2023-11-")
				wrote = append(wrote, strings.TrimSuffix(part, ":00:00Z"))
			}
			return true, nil
		})
		w.countRecords(w.last())
		if got := strings.Join(wrote, " "); got != want {
			t.Errorf("the hour turns at midnight: %v: written are %s, want %s", midnight, got, want)
		}
	}
}

// Whatever TTL removes, and whenever a day is summed anew: it never has less than it had.
func TestADayOutlivesItsHours(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for _, ttl := range []int{1, 2} {
		for late := int64(0); late < 4*24; late++ {
			w := newWorld(t, 1)
			w.agg.conf.SnapshotTTLDays = ttl
			w.split(1)
			w.now = t0 - t0%aDayLong + 60_000
			begin := w.now
			w.born(key, 10)
			w.countRecords(w.last())
			w.now += 5 * anHourLong
			w.put(key, 1, 30)
			w.countRecords(w.last())
			w.now += 5 * anHourLong
			w.put(key, 1, 60)
			w.countRecords(w.last())
			w.put(key, 1, 67)
			record := w.last() // comes late
			w.now = begin + late*anHourLong
			for _, it := range w.db.Items() {
				if ledger.WindowOf(it) != "" && read(it, "ttl")*1000 < w.now {
					w.db.Delete(item.KeyOf(it))
				}
			}
			kept := w.db.Item(layout.UsageKey("ns", "a", "gpt", usage.Daily.Part(usage.Daily.Start(begin)))) != nil
			w.countRecords(record)
			got := w.rpm(usage.Daily, begin)
			hours := w.rpm(usage.Hourly, begin) > 0
			if want := int64(67); hours && got != want || kept && got < 60 {
				t.Errorf("kept %d days, %d hours late: %d, hours are there: %v, day is kept: %v", ttl, late, got, hours, kept)
			}
		}
	}
}

// An event is a record, however many limits it has charged and on however many shards: an hour and
// a day say the same number of them.
func TestEventsAreRecords(t *testing.T) {
	r, seen := newRig(t), int64(0)
	for shard := range 3 {
		r.take("a", shard, 1, 100)
		r.take("a", shard, 2, 100)
	}
	r.within(&seen, nil, true)
	r.now += 3 * time.Hour.Milliseconds()
	r.within(&seen, nil, true) // the day catches up
	for _, part := range []string{anHour, "2023-11-14"} {
		s, err := ledger.DecodeSnapshot(r.db.Item(layout.UsageKey("ns", "a", "gpt", part)))
		if err != nil || s.Events != 6 || s.Counts["rpm"] != 9 || s.Counts["tpm"] != 600 {
			t.Errorf("%s: %+v, %v", part, s, err)
		}
	}
}

// A sum whose answer is lost is read again, and not written once more if it is there. It is not done if
// it cannot be read.
func TestASumWithoutAnAnswerIsReadAgain(t *testing.T) {
	for _, c := range []struct {
		applied, unread bool
		writes          int64
	}{{true, false, 1}, {false, false, 2}, {true, true, 1}, {false, true, 1}} {
		r := newRig(t)
		r.take("a", 0, 1, 1)
		var writes atomic.Int64
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if c.unread && op.Name == memdynamo.BatchGetItem && writes.Load() > 0 {
				return false, memdynamo.Fail(store.Unavailable)
			}
			if len(op.Writes) == 0 || !strings.HasSuffix(op.Writes[0].Target().SK, "#2023-11-14") || writes.Add(1) > 1 {
				return true, nil
			}
			return c.applied, memdynamo.Fail(store.Unknown)
		})
		got := r.handle(streamtest.PayloadOf(records(r.since(0))...))
		if (got == done) == c.unread || !c.unread && r.inexact() != "" || writes.Load() != c.writes {
			t.Errorf("%+v: %s after %d writes of the day, %s", c, got, writes.Load(), r.inexact())
		}
	}
}
