package streams

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
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
	if got := r.handle(streamtest.PayloadOf(records(r.since(0))...)); got != done {
		t.Fatalf("answered %s", got)
	}
	hourly := map[pair]int64{}
	for _, it := range r.db.Items() {
		if !strings.HasPrefix(item.KeyOf(it).SK, "#USAGE#") {
			continue
		}
		if err := item.ValidateItem(it); err != nil {
			t.Errorf("%q: %v", item.KeyOf(it), err)
		}
		s, err := table.DecodeSnapshot(it)
		if err != nil {
			t.Fatal(err)
		}
		if s.Window == "hourly" {
			hourly[pair{s.Entity, s.Resource}] += s.Counts["tpm"]
		}
	}
	for p, n := range want {
		if hourly[p] != n {
			t.Errorf("%q on %q: counted %d, want %d", p.entity, p.resource, hourly[p], n)
		}
	}
	if len(hourly) != len(want) {
		t.Errorf("%d snapshots, want %d", len(hourly), len(want))
	}
}
