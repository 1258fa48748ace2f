package streams

import (
	"fmt"
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// older counts a record in one kind of window as releases before did, which counted each
// of them by marks of its own, so that a sum is to them a snapshot of another aggregator.
func (w *world) older(kind usage.Window, c memdynamo.Change) {
	w.t.Helper()
	agg := *w.agg
	agg.conf.Windows = []usage.Window{kind}
	out, err := agg.Invoke(w.t.Context(), streamtest.PayloadOf(records([]memdynamo.Change{c})...))
	if err != nil || string(out) != done {
		w.t.Fatal(string(out), err)
	}
}

// Releases before count hours first, and longer windows first where a fold does not just go on.
var olderOrders = [][]usage.Window{
	{usage.Hourly, usage.Daily, usage.Monthly},
	{usage.Daily, usage.Monthly, usage.Hourly},
	{usage.Hourly, usage.Monthly, usage.Daily},
}

// beside lets f run, and an older version count a record beside it: each of its three
// writes just before the call of f that at says. It returns how many calls f had.
func (w *world) beside(c memdynamo.Change, order []usage.Window, at [3]int, f func()) (calls int) {
	next, inside := 0, false
	until := func(call int) {
		inside = true
		for ; next < len(at) && at[next] <= call; next++ {
			w.older(order[next], c)
		}
		inside = false
	}
	w.db.SetHook(func(memdynamo.Op) (bool, error) {
		if !inside {
			calls++
			until(calls)
		}
		return true, nil
	})
	f()
	w.db.SetHook(nil)
	until(1 << 30)
	return calls
}

// eachPlacement calls f with the ways to place three writes among some calls, and behind
// them: two of them together, since all ways are ten times as many.
func eachPlacement(f func(at [3]int) (calls int)) (n int) {
	calls := 1
	for a := 1; a <= calls+1; a++ {
		for b := a; b <= calls+1; b++ {
			calls = max(calls, f([3]int{a, a, b}), f([3]int{a, b, b}))
			n++
		}
	}
	return n
}

// An older version that is still in flight while ours sums a day for the first time, or
// again, or comes back for a turn, adds to a day that is a sum. Whatever the order: in
// the end day and month are what their hours are.
func TestAnOlderReleaseAddsToSums(t *testing.T) {
	morning := t0 - t0%aDayLong + 6*anHourLong + 600_000
	key, sibling := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	for _, summed := range []bool{false, true} {
		for i, order := range olderOrders {
			if i > 0 && (summed || testing.Short()) {
				break
			}
			t.Run(fmt.Sprintf("summed %v, %v", summed, order), func(t *testing.T) {
				worlds := eachPlacement(func(at [3]int) (calls int) {
					w := newWorld(t, 1)
					w.agg.concurrency, w.agg.conf.MergeAfter = 1, math.MaxInt64
					w.split(1)
					w.now = morning
					w.put0(key, 42)
					w.marked(usage.Hourly, morning, 42, 2, 42)
					w.marked(usage.Daily, morning, 42, 2, 42)
					w.marked(usage.Monthly, morning, 142, 9, 42) // of days that are gone: 100
					w.put0(sibling, 0)
					w.countFolded(w.last())
					if summed {
						settle(w)
					}
					w.put(sibling, 1, 9)
					w.countFolded(w.last())
					w.put(key, 1, 47)
					record := w.last()
					check := func(when string, want int64) {
						t.Helper()
						settle(w)
						if day, month := w.rpm(usage.Daily, morning), w.rpm(usage.Monthly, morning); day != want || month != want+100 {
							t.Errorf("%v, %s: day %d, month %d, want %d and 100 more", at, when, day, month, want)
						}
					}
					w.now += 2 * anHourLong
					calls = w.beside(record, order, at, func() { w.invoke(w.lanes[0], nil, true) })
					if !summed {
						check("at rest", 42+5+9)
					}
					w.put(sibling, 1, 12)
					w.countFolded(w.last())
					check("later", 42+5+12)
					return calls
				})
				if worlds < 20 {
					t.Errorf("%d worlds only", worlds)
				}
			})
		}
	}
}

// countFolded counts a record in its hour, and owes day and month.
func (w *world) countFolded(c memdynamo.Change) {
	w.invoke(w.lanes[0], []memdynamo.Change{c}, false)
	w.invoke(w.lanes[0], nil, true)
}

// An older version has turns of whole days, in which what is late changes days that were summed
// before. When ours is back, the month is the sum of all its days.
func TestAMonthAfterATurnOfAnOlderRelease(t *testing.T) {
	key, sibling := layout.BucketKey("ns", "a", "gpt", 0), layout.BucketKey("ns", "a", "gpt", 1)
	for _, order := range olderOrders {
		w := newWorld(t, 1)
		w.split(1)
		w.now = t0 - t0%aDayLong + anHourLong
		first := w.now
		w.put0(key, 0) // releases before do not look for the beginning of either
		w.put0(sibling, 0)
		w.put(key, 1, 10)
		w.put(sibling, 1, 7)
		w.countRecords(w.since(0)...)
		w.put(sibling, 1, 20)
		late := w.last()
		w.now += aDayLong
		w.put(key, 1, 15)
		w.countRecords(w.last())
		for _, kind := range order {
			w.older(kind, late)
		}
		w.put(key, 1, 21)
		w.countRecords(w.last())
		if got := w.rpm(usage.Daily, first); got != 30 {
			t.Errorf("%v: the first day has %d, want 30", order, got)
		}
		if got := w.rpm(usage.Monthly, first); got != 41 {
			t.Errorf("%v: the month has %d, want 41", order, got)
		}
	}
}

// What says of itself that it is a sum, and makes no sense, is summed like any other, and
// nothing else is held up by it.
func TestSumsThatMakeNoSense(t *testing.T) {
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
			day, month := w.rpm(usage.Daily, w.now), w.rpm(usage.Monthly, w.now)
			if day != 15 || month != 15 {
				t.Errorf("%s without %v: day %d, month %d, want 15 of both", raw, drop, day, month)
			}
		}
	}
}
