package streams

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
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
					r.countRecords(r.last())
				}
				k := layout.UsageKey("ns", "a", "gpt", anHour)
				it := r.db.Item(k)
				if it == nil {
					it = k.Item()
					it["window"], it["window_start"] = item.S("hourly"), item.S("2023-11-14T22:00:00Z")
				}
				it[c.attr] = c.v
				r.db.Store(it)
				r.take("a", 0, 1, 1)
				payload := payloadOf([]memdynamo.Change{r.last()})
				if tumbling {
					payload = windowed(records([]memdynamo.Change{r.last()}), nil, true)
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

// hours returns the tokens in the hourly snapshots, in any order; 0 where none is stored as a number.
func (r *rig) hours() (rpm []int64) {
	for _, it := range r.db.Items() {
		if ledger.WindowOf(it) == "hourly" {
			rpm = append(rpm, read(it, "rpm"))
		}
	}
	return rpm
}

// An hour that cannot be stored takes no later hour of its bucket along, in its batch or later.
func TestAnHourThatIsNeverStoredLeavesTheOthers(t *testing.T) {
	for attr, broken := range map[string]int64{"rpm": 0, "total_events": 1} {
		for _, together := range []bool{false, true} {
			r := newRig(t)
			r.take("a", 0, 1, 1)
			r.countRecords(r.last())
			it := r.db.Item(layout.UsageKey("ns", "a", "gpt", anHour))
			it[attr] = item.S("x")
			r.db.Store(it)
			for range 4 {
				if r.take("a", 0, 1, 1); !together {
					r.countRecords(r.last())
				}
				r.now += anHourLong
			}
			if together {
				r.countRecords(r.since(0)[1:]...)
			}
			got := slices.Sorted(slices.Values(r.hours()))
			check.Slices(t, got, []int64{broken, 1, 1, 1}, "%s, together %v", attr, together)
		}
	}
}

// A day that cannot be stored takes no other day of its bucket along.
func TestADayThatIsNeverStoredLeavesTheOthers(t *testing.T) {
	for _, tumbling := range []bool{false, true} {
		r := newRig(t)
		broken := layout.UsageKey("ns", "a", "gpt", "2023-11-14").Item()
		broken["x"] = item.S(strings.Repeat("x", 400<<10-60))
		r.db.Store(broken)
		for range 3 {
			if r.take("a", 0, 1, 1); !tumbling {
				r.countRecords(r.last())
			}
			r.now += aDayLong
		}
		if tumbling {
			check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(records(r.since(0)), nil, true))))
		}
		for range 3 {
			r.now += 3 * anHourLong
			check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(nil, nil, true))))
		}
		for _, day := range []string{"2023-11-15", "2023-11-16"} {
			got := read(r.db.Item(layout.UsageKey("ns", "a", "gpt", day)), "rpm")
			check.Equal(t, got, 1, "tumbling %v: %s", tumbling, day)
		}
	}
}

func TestManyHoursThatAreNeverStoredBlockNothing(t *testing.T) {
	const hours = 15
	r := newRig(t)
	for shard := range hours {
		r.take("a", shard, 1, 1)
		r.countRecords(r.last())
		r.take("a", shard, 1, 1) // its record is lost
		r.now += anHourLong
	}
	for _, it := range r.db.Items() {
		if ledger.WindowOf(it) == "hourly" {
			it["total_events"] = item.S("x")
			r.db.Store(it)
		}
	}
	for shard := range hours {
		r.take("a", shard, 1, 1)
	}
	all := r.since(0)
	r.countRecords(all[len(all)-hours:]...)
	check.Slices(t, slices.Sorted(slices.Values(r.hours())), append(slices.Repeat([]int64{1}, hours), hours))
}

// Records that were counted with a later one arrive after all, and one hour of the batch has more
// limits than an expression: no other hour counts them again.
func TestAWideHourCountsNothingTwice(t *testing.T) {
	r := newRig(t)
	take := func() memdynamo.Change {
		b := r.bucket("a", 0)
		b.State = b.State.At(r.now).Take([]int64{1000, 1000, 1000})
		r.db.Store(b.Item())
		return r.last()
	}
	wide := func() memdynamo.Change {
		r.grow(layout.BucketKey("ns", "a", "gpt", 1), 0, 400, 8)
		return r.last()
	}
	r.countRecords(take())
	r.now += anHourLong
	take() // its record is lost
	late := []memdynamo.Change{wide(), take()}
	r.now += anHourLong
	late = append(late, take())
	r.now += anHourLong
	r.countRecords(take())
	r.countRecords(late...)
	sum := int64(0)
	for _, n := range r.hours() {
		sum += n
	}
	check.Equal(t, sum, 5, "tokens in all hours")
}

// A shard that can never be counted takes no other shard of its hour along.
func TestAShardThatIsNeverStoredLeavesTheOthers(t *testing.T) {
	for _, tumbling := range []bool{false, true} {
		r := newRig(t)
		r.grow(layout.BucketKey("ns", "a", "gpt", 1), 0, 400, 8)
		for _, shard := range []int{0, 2, 0} {
			r.take("a", shard, 1, 1)
		}
		payload := r.payloadIn(tumbling)
		for range 2 {
			check.Must(t, check.Err(r.agg.Invoke(t.Context(), payload)))
			check.Slices(t, r.hours(), []int64{3}, "tumbling %v", tumbling)
		}
	}
}
