package streams

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// A tenant that may write its own items puts wrong attributes into its snapshot: the stream goes on.
func TestWrongAttributesOfASnapshotBlockNothing(t *testing.T) {
	for name, c := range map[string]struct {
		attr string
		v    item.Value
		warm bool // the snapshot has counted before
	}{
		"legend text":       {"_#", item.S("x"), true},
		"legend of nothing": {"_#", item.B([]byte{}), true},
		"legend text, cold": {"_#", item.S("x"), false},
		"mark text":         {"_0", item.S("x"), true},
		"mark text, cold":   {"_0", item.S("x"), false},
		"mark bytes":        {"_0", item.B([]byte{1, 2, 3}), true},
		"origin text":       {"_=", item.S("x"), true},
		"origin text, cold": {"_=", item.S("x"), false},
		"shared number":     {"_+", item.N(3), true},
		"ttl text":          {"ttl", item.S("x"), true},
		"events text":       {"total_events", item.S("x"), true},
		"count of nothing":  {"rpm", item.Null(), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tumbling := range []bool{false, true} {
				r := newRig(t)
				if c.warm {
					r.take("a", 0, 1, 1)
					r.handle(streamtest.PayloadOf(records(r.since(0))...))
				}
				k := layout.UsageKey("ns", "a", "gpt", anHour)
				it := r.db.Item(k)
				if it == nil {
					it = k.Item()
					it["window"], it["window_start"] = item.S("hourly"), item.S("2023-11-14T22:00:00Z")
				}
				it[c.attr] = c.v
				r.db.Store(it)
				last := r.last()
				r.take("a", 0, 1, 1)
				payload := streamtest.PayloadOf(records(r.since(last))...)
				if tumbling {
					payload = windowed(records(r.since(last)), nil, true)
				}
				out, err := r.agg.Invoke(t.Context(), payload)
				check.Must(t, err)
				if strings.Contains(string(out), "itemIdentifier") {
					t.Errorf("tumbling %v: delivered again: %s", tumbling, out)
				}
			}
		})
	}
}

// last returns the number of the last change of the table, 0 for none.
func (r *rig) last() int64 {
	if all := r.db.Changes(0); len(all) > 0 {
		return all[len(all)-1].Seq
	}
	return 0
}

// An hour that cannot be stored takes no later hour of its bucket along.
func TestAnHourThatIsNeverStoredLeavesTheOthers(t *testing.T) {
	for _, attr := range []string{"rpm", "total_events"} {
		r := newRig(t)
		r.take("a", 0, 1, 1)
		r.handle(streamtest.PayloadOf(records(r.since(0))...))
		it := r.db.Item(layout.UsageKey("ns", "a", "gpt", anHour))
		it[attr] = item.S("x")
		r.db.Store(it)
		for range 4 {
			last := r.last()
			r.take("a", 0, 1, 1)
			check.Equal(t, r.handle(streamtest.PayloadOf(records(r.since(last))...)), done, attr)
			r.now += anHourLong
		}
		hours := 0
		for _, it := range r.db.Items() {
			if it["window"] != nil && item.Equal(it["window"], item.S("hourly")) && item.Equal(it["rpm"], item.N(1)) {
				hours++
			}
		}
		if attr == "total_events" {
			hours-- // the broken one still has its count
		}
		check.Equal(t, hours, 3, attr)
	}
}

// A day that cannot be stored takes no other day of its bucket along.
func TestADayThatIsNeverStoredLeavesTheOthers(t *testing.T) {
	for _, tumbling := range []bool{false, true} {
		r := newRig(t)
		broken := layout.UsageKey("ns", "a", "gpt", "2023-11-14").Item()
		broken["x"] = item.S(strings.Repeat("x", 400<<10-60))
		r.db.Store(broken)
		last := int64(0)
		for day := range 3 {
			r.take("a", 0, 1, 1)
			switch all := r.since(last); {
			case !tumbling:
				r.handle(streamtest.PayloadOf(records(all)...))
				last = r.last()
			case day == 2:
				check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(records(all), nil, true))))
			}
			r.now += 24 * anHourLong
		}
		for range 3 {
			r.now += 3 * anHourLong
			check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(nil, nil, true))))
		}
		for _, day := range []string{"2023-11-15", "2023-11-16"} {
			it := r.db.Item(layout.UsageKey("ns", "a", "gpt", day))
			if it == nil || !item.Equal(it["rpm"], item.N(1)) {
				t.Errorf("tumbling %v: %s has %v", tumbling, day, it)
			}
		}
	}
}

// Any number of hours that cannot be stored block nothing.
func TestManyHoursThatAreNeverStoredBlockNothing(t *testing.T) {
	const hours = 15
	r := newRig(t)
	for shard := range hours {
		last := r.last()
		r.take("a", shard, 1, 1)
		r.handle(streamtest.PayloadOf(records(r.since(last))...))
		r.take("a", shard, 1, 1) // its record is lost
		r.now += anHourLong
	}
	for _, it := range r.db.Items() {
		if it["window"] != nil && item.Equal(it["window"], item.S("hourly")) {
			it["total_events"] = item.S("x")
			r.db.Store(it)
		}
	}
	last := r.last()
	for shard := range hours {
		r.take("a", shard, 1, 1)
	}
	check.Equal(t, r.handle(streamtest.PayloadOf(records(r.since(last))...)), done)
	counted := 0
	for _, it := range r.db.Items() {
		if it["window"] != nil && item.Equal(it["window"], item.S("hourly")) && item.Equal(it["rpm"], item.N(hours)) {
			counted++
		}
	}
	check.Equal(t, counted, 1, "the last hour")
}

// Records that were counted with a later one arrive after all, and one hour of the batch has more
// limits than an expression: no other hour counts them again.
func TestAWideHourCountsNothingTwice(t *testing.T) {
	r := newRig(t)
	var all []memdynamo.Change
	take := func() memdynamo.Change {
		b := r.bucket("a", 0)
		b.State = b.State.At(r.now).Take([]int64{1000, 1000, 1000})
		r.db.Store(b.Item())
		all = r.since(0)
		return all[len(all)-1]
	}
	wide := func() memdynamo.Change {
		key := layout.BucketKey("ns", "a", "gpt", 1)
		for used := range int64(2) {
			it := key.Item()
			it[layout.AttrRF] = item.N(r.now)
			for i := range 400 {
				it[fmt.Sprintf("b_limit%03d_tc", i)] = item.N(used * 1000)
			}
			r.db.Store(it)
		}
		all = r.since(0)
		return all[len(all)-1]
	}
	first := take()
	r.handle(streamtest.PayloadOf(records([]memdynamo.Change{first})...))
	var late []memdynamo.Change
	for hour := range 2 {
		r.now += anHourLong
		if hour == 0 {
			take() // its record is lost
			late = append(late, wide())
		}
		late = append(late, take())
	}
	r.now += anHourLong
	r.handle(streamtest.PayloadOf(records([]memdynamo.Change{take()})...))
	r.handle(streamtest.PayloadOf(records(late)...))
	sum := int64(0)
	for _, it := range r.db.Items() {
		if it["window"] != nil && item.Equal(it["window"], item.S("hourly")) {
			s, err := ledger.DecodeSnapshot(it)
			check.Must(t, err)
			sum += s.Counts["rpm"]
		}
	}
	check.Equal(t, sum, 5, "tokens in all hours")
}
