package streams

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Whatever is accepted as a name, what is used under it is counted under it, in a
// snapshot of its own.
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
	check.MustEqual(t, r.handle(streamtest.PayloadOf(records(r.since(0))...)), done, "answered")
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

// The snapshots of a resource whose name looks like a window of another one are left
// alone, though their keys lie between those of the other.
func TestSnapshotsOfAResourceNamedLikeAWindowAreLeftAlone(t *testing.T) {
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
		if sums[name] != 3*1000 || sums["gpt"] != 3*110 {
			t.Errorf("%s: %v are counted in hours, days and months", name, sums)
		}
	}
}
