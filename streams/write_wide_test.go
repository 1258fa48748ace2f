package streams

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// wide stores another client's bucket with any number of limits, nearly drained: it needs a refill,
// and if hot a split.
func (r *rig) wide(limits int, hot bool) table.Shard {
	var all []bucket.Limit
	for i := range limits {
		all = append(all, bucket.Limit{Name: fmt.Sprintf("limit%03d", i), Capacity: 600_000, Amount: 600_000,
			Period: 60_000})
	}
	b := table.Shard{Namespace: "ns", Entity: "wide", Resource: "gpt", State: bucket.New(all, 0, 1, r.now)}
	r.db.Store(b.Item())
	costs := make([]int64, len(b.State.Slots))
	for i := range costs {
		costs[i] = 590_000
	}
	if hot {
		costs[b.State.Index(bucket.WCU)] = 1_000_000
	}
	b.State = b.State.Take(costs)
	r.db.Store(b.Item())
	r.now += 30_000
	return b
}

// grow makes n limits with names of so many digits use a token each, from a number on.
func (r *rig) grow(key item.Key, from, n, length int) {
	for used := range int64(2) {
		it := key.Item()
		it[layout.AttrRF] = item.N(r.now)
		for i := range n {
			it[fmt.Sprintf("b_%0*d_tc", length, from+i)] = item.N(used * 1000)
		}
		r.db.Store(it)
	}
}

// DynamoDB refuses every update of a bucket with more limits than one condition can name. Its usage
// is still counted. It does not block later records, and they are not given up.
func TestBucketsTooWideToWriteDoNotBlockTheStream(t *testing.T) {
	for _, limits := range []int{32, 60, 256 - 1} {
		for _, hot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d limits hot %v", limits, hot), func(t *testing.T) {
				r := newRig(t)
				r.wide(limits, hot)
				r.take("a", 0, 1, 1)
				check.Equal(t, r.handle(r.payload()), done, "response")
				s := r.snapshot("wide", aDay)
				for i := range limits {
					name := fmt.Sprintf("limit%03d", i)
					check.MustEqual(t, s.Counts[name], 590, "%s counted", name)
				}
			})
		}
	}
}

// Usage that DynamoDB can never store, because of another client's items, does not block the stream.
// Other buckets are counted.
func TestUsageThatCannotBeStoredDoesNotBlockTheStream(t *testing.T) {
	grows := func(r *rig, from, n, length int) { r.grow(layout.BucketKey("ns", "wide", "gpt", 0), from, n, length) }
	text := func(part string) func(*rig) {
		return func(r *rig) {
			it := layout.UsageKey("ns", "a", "gpt", part).Item()
			it["rpm"], it["window"], it["window_start"] = item.S("x"), item.S("hourly"), item.S("2023-11-14T22:00:00Z")
			r.db.Store(it)
			r.take("a", 0, 1, 1)
		}
	}
	for name, hostile := range map[string]func(*rig){
		"more limits than an expression has room for": func(r *rig) { grows(r, 0, 400, 8) },
		"names that fill a snapshot":                  func(r *rig) { grows(r, 0, 60, 5000) },
		"more limits in a day than an expression has room for": func(r *rig) {
			grows(r, 0, 200, 8)
			r.now += anHourLong
			grows(r, 200, 200, 8)
		},
		"a long namespace": func(r *rig) {
			key := layout.BucketKey(strings.Repeat("n", 900), strings.Repeat("e", layout.MaxName), "gpt", 0)
			r.db.Store(key.Item())
			it := key.Item()
			it["b_rpm_tc"] = item.N(1000)
			r.db.Store(it)
		},
		"a text in place of a count": text(anHour),
	} {
		for _, tumbling := range []bool{false, true} {
			r := newRig(t)
			r.take("b", 0, 5, 1)
			hostile(r)
			payload := r.payloadIn(tumbling)
			out, err := r.agg.Invoke(t.Context(), payload)
			if err != nil || strings.Contains(string(out), "itemIdentifier") || r.figure("Pending") != 0 {
				t.Errorf("%s, tumbling %v: %s, %v", name, tumbling, out, err)
			}
			for range 2 { // days catch up once
				r.now += 3 * anHourLong
				r.metrics.Reset()
				check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(nil, nil, true))))
			}
			check.Equal(t, r.figure("Owed"), 0, "%s, tumbling %v: owed again", name, tumbling)
			for _, part := range []string{anHour, aDay} {
				got := r.snapshot("b", part).Counts["rpm"]
				check.Equal(t, got, 5, "%s, tumbling %v: %s of the other bucket", name, tumbling, part)
			}
		}
	}
	r := newRig(t) // but not while nothing can be stored
	r.take("a", 0, 1, 1)
	r.db.SetHook(func(op memdynamo.Op) (bool, error) { return len(op.Writes) == 0, memdynamo.Fail(store.Setup) })
	changes := r.since(0)
	check.Equal(t, r.handle(payloadOf(changes)), resumeAt(changes[0].SequenceNumber()))
	check.Equal(t, check.Err(r.agg.Invoke(t.Context(), windowed(records(changes), nil, true))) == nil, false)
}
