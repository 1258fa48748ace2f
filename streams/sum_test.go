package streams

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	anHourLong = int64(3_600_000)
	aDayLong   = 24 * anHourLong
)

// sums returns the sums of a limit that differ from want.
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

// race makes one aggregator count a record. At one of its calls, another aggregator counts a later
// record: of the same bucket, or of another shard in the hour before. It returns how the day and
// the month are wrong, and whether there was such a call.
func race(t *testing.T, at int, of string, plant func(*world)) (wrong string, hit bool) {
	w := newWorld(t, 1)
	w.agg.concurrency = 1
	w.split(1)
	key, sibling := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	w.born(sibling, 4)
	w.countRecords(w.last())
	w.put(sibling, 1, 9)
	before := w.last()
	w.now += anHourLong // the same day
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
	hit = w.during(at, func() { w.countRecords(mine) }, func() { w.countRecords(other) })
	return w.sums("rpm", want), hit
}

// An hour that is written while its day is summed is in the day at the end: an aggregator that read
// the hours first does not overwrite the other's sum.
func TestSumsOfTwoAggregators(t *testing.T) {
	for _, of := range []string{"the same hour", "the hour before"} {
		for at := 1; ; at++ {
			wrong, hit := race(t, at, of, nil)
			if !hit {
				if at < 7 {
					t.Errorf("%s: only %d calls", of, at)
				}
				break
			}
			check.Equal(t, wrong, "", "%s, at call %d", of, at)
		}
	}
}

// The races above must fail if the version is missing, or the order of reads.
func TestPlantedDefectsOfSumsAreCaught(t *testing.T) {
	isSum := func(u item.Update) bool {
		return slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == "_*" })
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
						u.If = item.Compare("_*", item.Eq, old["_*"]) // the number of records may be equal too
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

func (w *world) rpm(kind usage.Window, at int64) int64 {
	return read(w.db.Item(layout.UsageKey("ns", "a", "gpt", kind.Part(kind.Start(at)))), "rpm")
}

// Hours may be added as windows after days were the finest, counted by marks. Days and months still
// count everything once.
func TestHoursMayBeCountedLater(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		w.agg.concurrency = 1
		w.split(1)
		w.agg.conf.Windows = []usage.Window{usage.Daily, usage.Monthly}
		w.now = t0 - t0%aDayLong + 60_000
		w.born(key, 1)
		w.countRecords(w.last())
		days, used := map[int64]int64{usage.Daily.Start(w.now): 1}, int64(1)
		for range 30 {
			if w.OneIn(10) {
				w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}
			}
			w.now += w.Int64N(4 * anHourLong)
			more := 1 + w.Int64N(9)
			used += more
			days[usage.Daily.Start(w.now)] += more
			w.put(key, 1, used)
			w.countRecords(w.last())
			for day, want := range days {
				check.MustEqual(t, w.rpm(usage.Daily, day), want, "seed %d: the day %s", seed, usage.Daily.Part(day))
			}
			check.MustEqual(t, w.rpm(usage.Monthly, w.now), used, "seed %d: the month", seed)
		}
	}
}

// Another aggregator's day is replaced once. If it changed, the write is refused, and nothing is
// written. A day that is full can never be replaced.
func TestDaysOfOthersAreReplacedOnce(t *testing.T) {
	w := newWorld(t, 1)
	noon := t0 - t0%aDayLong + 12*anHourLong
	day := usage.Daily.Start(noon)
	others := ledger.Snapshot{Namespace: "ns", Entity: "a", Resource: "gpt", Window: "daily",
		Start: layout.Timestamp(day), Part: layout.Timestamp(day), Counts: map[string]int64{"rpm": 20}, Events: 2}
	w.db.Store(others.Item())
	w.now = noon
	w.put(layout.BucketKey("ns", "a", "gpt", 0), 1, 0)
	w.put(layout.BucketKey("ns", "a", "gpt", 0), 1, 30)
	w.agg.conf.Windows = w.agg.conf.Windows[:1]
	w.countRecords(w.last())
	s := &usage.Summing{Owed: usage.Owed{Bucket: gpt("a"), Start: day}, Window: usage.Daily,
		Of: usage.Hourly, Start: day, Parts: []item.Item{w.db.Item(others.Key()),
			w.db.Item(layout.UsageKey("ns", "a", "gpt", usage.Hourly.Part(usage.Hourly.Start(noon))))}}
	for _, want := range []int{1, 0} {
		n, err := w.agg.replace(t.Context(), s)
		check.Must(t, err)
		check.Equal(t, n, want, "writes")
	}
	full := others.Item()
	full["x"] = item.S("")
	full["x"] = item.S(strings.Repeat("x", item.MaxItemSize-item.Size(full)))
	w.db.Store(full)
	s.Parts[0] = full
	check.Is(t, check.Err(w.agg.replace(t.Context(), s)), errNever)
}

// If an hour completes an earlier one of the same day, the day is summed once, after both are
// counted. If the earlier hour is in the day before, that day is summed too.
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
		w.watch(func(op memdynamo.Op) {
			for _, x := range op.Writes {
				part := strings.TrimPrefix(x.Target().SK, "#USAGE#gpt#2023-11-")
				wrote = append(wrote, strings.TrimSuffix(part, ":00:00Z"))
			}
		})
		w.countRecords(w.last())
		check.Equal(t, strings.Join(wrote, " "), want, "the hour turns at midnight: %v: written", midnight)
	}
}

// A day never loses tokens, whatever TTL removes, and whenever the day is summed again.
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
			for _, used := range []int64{30, 60} {
				w.now += 5 * anHourLong
				w.put(key, 1, used)
				w.countRecords(w.last())
			}
			w.put(key, 1, 67)
			record := w.last() // arrives late
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
				t.Errorf("TTL %d days, %d hours late: %d tokens, hours %v, day %v", ttl, late, got, hours, kept)
			}
		}
	}
}

// A sum with a lost answer is read again, and not written again if it was stored. If it cannot be
// read, it is not done.
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
			if !strings.HasSuffix(target(op).SK, "#2023-11-14") || writes.Add(1) > 1 {
				return true, nil
			}
			return c.applied, memdynamo.Fail(store.Unknown)
		})
		got := r.handle(r.payload())
		if (got == done) == c.unread || !c.unread && r.inexact() != "" || writes.Load() != c.writes {
			t.Errorf("%+v: %s after %d writes of the day, %s", c, got, writes.Load(), r.inexact())
		}
	}
}

// An invalid item in the place of a sum is summed like any other, and blocks nothing.
func TestInvalidSumsAreSummedAgain(t *testing.T) {
	for _, raw := range []string{
		``, `{`, `[]`, `7`, `"x"`, `{"Version":"1"}`, `{"Version":1,"Rest":{}}`, `{"Version":1,"Parts":[],"Rest":{}}`,
		`{"Version":9223372036854775807}`, `{"Version":-5}`,
	} {
		for _, drop := range [][]string{nil, {"total_events"}} {
			w := newWorld(t, 1)
			w.split(1)
			key := layout.BucketKey("ns", "a", "gpt", 0)
			w.born(key, 10)
			w.countRecords(w.last())
			for _, kind := range []usage.Window{usage.Daily, usage.Monthly} {
				it := w.db.Item(layout.UsageKey("ns", "a", "gpt", kind.Part(kind.Start(w.now))))
				it["_*"] = item.B([]byte(raw))
				for _, attr := range drop {
					delete(it, attr)
				}
				w.db.Store(it)
			}
			w.put(key, 1, 15)
			w.countRecords(w.last())
			check.Equal(t, w.rpm(usage.Daily, w.now), 15, "%s without %v: day", raw, drop)
			check.Equal(t, w.rpm(usage.Monthly, w.now), 15, "%s without %v: month", raw, drop)
		}
	}
}

// Any number of foreign items between the hours of a day costs a sum no more than its hours.
func TestItemsBetweenHoursDoNotSlowASum(t *testing.T) {
	reads := func(junk int) (n int64) {
		r := newRig(t)
		for i := range junk {
			it := layout.UsageKey("ns", "a", "gpt", fmt.Sprintf("%s#%d", anHour, i)).Item()
			it["x"] = item.S(strings.Repeat("x", 300<<10))
			r.db.Store(it)
		}
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.Query && !op.Query.Descending {
				n++
			}
			return true, nil
		})
		for range 2 {
			r.take("a", 0, 1, 1)
			r.countRecords(r.last())
			r.now += anHourLong
		}
		check.Equal(t, read(r.db.Item(layout.UsageKey("ns", "a", "gpt", "2023-11-14")), "rpm"), 2, "the day")
		return n
	}
	check.Equal(t, reads(30), reads(0), "queries")
}
