package streams

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// twin is a table in memory for admin.
type twin struct {
	admin.DynamoDB // nil
	store.Lister
}

// registered returns a namespace of the rig's table, with the rig's clock.
func (r *rig) registered(t *testing.T) *admin.Namespace {
	t.Helper()
	all, err := admin.Open(t.Context(), twin{Lister: r.db}, "limits",
		&admin.Options{Now: func() time.Time { return time.UnixMilli(r.now) }})
	check.Must(t, err)
	made, err := all.Register(t.Context(), "live")
	check.Must(t, err)
	return made
}

// Live usage queries are exact, however far the aggregator has counted: in every kind of window,
// over hours and days, for buckets that are uncounted, removed and created again, or split.
func TestLiveUsageIsExactNow(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t)
		r.db.PageSize, r.agg.conf.MergeAfter = 3, math.MaxInt64 // the test splits the buckets itself
		made := r.registered(t)
		consumed := map[admin.Window]map[time.Time]int64{admin.Hourly: {}, admin.Daily: {}}
		take := func(entity string, shard int, rpm int64) {
			key := layout.BucketKey(made.ID(), entity, "gpt", shard)
			b := table.Shard{Namespace: made.ID(), Entity: entity, Resource: "gpt", Generation: r.now << 12, Born: r.now / 1000,
				State: bucket.New(limits(), shard, 2, r.now)}
			if it := r.db.Item(key); it != nil {
				b, _ = table.DecodeShard(it)
			}
			b.State = b.State.Take([]int64{rpm * 1000, 0, 1000})
			r.db.Store(b.Item())
			at := time.UnixMilli(r.now).UTC()
			consumed[admin.Hourly][at.Truncate(time.Hour)] += rpm
			consumed[admin.Daily][at.Truncate(24*time.Hour)] += rpm
		}
		seen := int64(0)
		count := func() {
			if changes := r.since(seen); len(changes) > 0 {
				seen = changes[len(changes)-1].Seq
				r.handle(windowed(records(changes), nil, true))
			}
		}
		for range 60 {
			switch n := random.IntN(10); {
			case n == 0:
				count() // also when an hour ends, when days catch up
				r.now += int64(random.IntN(30)) * 3_600_000
				r.handle(windowed(nil, nil, true))
			case n == 1:
				for shard := range 2 {
					r.db.Delete(layout.BucketKey(made.ID(), "b", "gpt", shard))
				}
				count()
				r.now += 1000
			case n < 4:
				count()
			default:
				entity := []string{"a", "b"}[random.IntN(2)]
				take(entity, 0, 1+int64(random.IntN(5)))
				take(entity, 1, 1+int64(random.IntN(5)))
			}
			for _, w := range []admin.Window{admin.Hourly, admin.Daily} {
				got := map[time.Time]int64{}
				for u, err := range made.Usage(t.Context(), admin.UsageQuery{Resource: "gpt", Window: w, Live: true}) {
					check.Must(t, err)
					got[u.Start] += u.Tokens["rpm"]
				}
				for start, want := range consumed[w] {
					check.MustEqual(t, got[start], want, "seed %d: %s of %v", seed, w, start)
				}
			}
		}
	}
}

// Consumption in the last hour of a day does not count in the next day, although days catch up
// later than hours are counted. Snapshots of another resource with keys in between are not
// included.
func TestLiveUsageOfANewDay(t *testing.T) {
	for _, w := range []admin.Window{admin.Daily, admin.Monthly} {
		r := newRig(t)
		r.agg.conf.Windows = append(r.agg.conf.Windows, usage.Monthly)
		r.now = time.Date(2023, 11, 30, 23, 10, 0, 0, time.UTC).UnixMilli()
		made, seen := r.registered(t), int64(0)
		b := table.Shard{Namespace: made.ID(), Entity: "a", Resource: "gpt", Generation: r.now << 12, Born: r.now / 1000,
			State: bucket.New(limits(), 0, 1, r.now)}
		between := b
		between.Resource, between.State = "gpt#2023-12", b.State.Take([]int64{100_000, 0, 1000})
		r.db.Store(between.Item())
		take := func(rpm int64) {
			b.State = b.State.Take([]int64{rpm * 1000, 0, 1000})
			r.db.Store(b.Item())
		}
		for range 2 {
			take(5)
			_, _ = r.within(&seen, nil, true)
			r.now += 10 * 60_000
		}
		r.now = time.Date(2023, 12, 1, 0, 2, 0, 0, time.UTC).UnixMilli()
		for _, rpm := range []int64{0, 3} {
			if rpm != 0 {
				take(rpm)
			}
			got := int64(0)
			q := admin.UsageQuery{Entity: "a", Resource: "gpt", Window: w, Live: true,
				From: time.UnixMilli(r.now).Add(-time.Hour)}
			for u, err := range made.Usage(t.Context(), q) {
				check.Must(t, err)
				got += u.Tokens["rpm"]
			}
			check.Equal(t, got, rpm, "%s since it began", w)
		}
	}
}

// Usage under every accepted name is counted, in a separate snapshot.
func TestStrangeNamesAreCounted(t *testing.T) {
	names := []string{
		"plain", "#", "a#b#1", "%", "%23", "a%2523b", "$SYSTEM", "_", "a/b", "é", "用户", "\U0001f600", " ", `"\`, "<&>",
		"\u2028", "auth0|5f7c", "v2:0", "2024-01-01T00:00:00Z", "x#2024-01",
	}
	r := newRig(t)
	type pair struct{ entity, resource string }
	want := map[pair]int64{}
	for i, entity := range names {
		for j, resource := range names {
			cost := int64(1 + i*len(names) + j)
			put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: entity, Resource: resource,
				Costs: table.Costs(limits(), 0, cost*1000), Now: r.now})
			r.db.Store(put.Item)
			want[pair{entity, resource}] = cost
		}
	}
	check.MustEqual(t, r.handle(r.payload()), done, "answered")
	hourly := map[pair]int64{}
	for _, it := range r.db.Items() {
		if !strings.HasPrefix(item.KeyOf(it).SK, "#USAGE#") {
			continue
		}
		check.NoError(t, item.ValidateItem(it), "%q", item.KeyOf(it))
		s, err := ledger.DecodeSnapshot(it)
		check.Must(t, err)
		if s.Window == "hourly" {
			hourly[pair{s.Entity, s.Resource}] += s.Counts["tpm"]
		}
	}
	for p, n := range want {
		check.Equal(t, hourly[p], n, "%q on %q: counted", p.entity, p.resource)
	}
	check.Equal(t, len(hourly), len(want), "snapshots")
}

// Snapshots of a resource whose name looks like another's window stay unchanged, although their
// keys lie between the other's.
func TestResourcesNamedLikeAWindowStayUnchanged(t *testing.T) {
	const hour = 3_600_000
	for _, name := range []string{"gpt#2023", "gpt#2023-11-14T22", "gpt#2023-11-15"} {
		w := newWorld(t, 1)
		w.split(1)
		put := func(resource string, used int64) {
			b := w.bucket("a", 0)
			b.Resource, b.Generation, b.Born = resource, 1, t0/1000
			it := b.Item()
			it["rf"], it["b_rpm_tc"] = item.N(w.now), item.N(used*1000)
			w.db.Store(it)
		}
		put(name, 1000)
		w.countRecords(w.last())
		put("gpt", 100) // lost
		for range 3 {
			w.now += hour
			put(name, 1000)
			put("gpt", read(w.last().New, "b_rpm_tc")/1000)
		}
		put("gpt", 110)
		w.countRecords(w.last())
		sums := map[string]int64{}
		for _, it := range w.db.Items() {
			if ledger.WindowOf(it) != "" {
				sums[ledger.ResourceOf(it)] += read(it, "rpm")
			}
		}
		check.Equal(t, sums[name], 3*1000, "%s in hours, days and months", name)
		check.Equal(t, sums["gpt"], 3*110, "gpt in hours, days and months, with %s", name)
	}
}
