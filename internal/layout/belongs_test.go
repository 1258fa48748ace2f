package layout_test

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Every item of an index belongs to the queries for it, and to no others: not to those of another
// namespace, entity or resource, whatever its keys in the index are.
func TestItemsBelongOnlyToTheirQueries(t *testing.T) {
	shard, odd := layout.BucketKey("ns", "e", "r", 3), layout.BucketKey("ns", "e#1", "r", 0)
	usage, limits := layout.UsageKey("ns", "e", "r", "2024-01"), layout.EntityConfigKey("ns", "e", "r")
	entity, event := layout.EntityKey("ns", "e"), layout.AuditKey("ns", "e", "7")
	system, note := layout.SystemConfigKey("ns"), config.DeletionKey("ns", "e")
	all := []item.Key{shard, odd, usage, limits, entity, event, system, note}
	for _, c := range []struct {
		q    item.Query
		want []item.Key
	}{
		{config.OfNamespace("ns"), all},
		{config.OfNamespace("n"), nil},
		{config.OfNamespace("ns/SYSTEM#"), nil},
		{table.BucketsOfNamespace("ns"), []item.Key{shard, odd}},
		{table.BucketsOfNamespace("other"), nil},
		{ledger.AllAudits("ns"), []item.Key{event}},
		{ledger.AllAudits("other"), nil},
		{config.Children("ns", "p"), []item.Key{entity}},
		{config.Children("other", "p"), nil},
		{table.BucketsOfEntity("ns", "e"), []item.Key{shard}},
		{table.BucketsOfEntity("ns", "e#1"), []item.Key{odd}},
		{table.BucketsOfEntity("ns", "f"), nil},
		{table.BucketsOfEntity("other", "e"), nil},
		{table.BucketsOfResource("ns", "r"), []item.Key{shard, odd}},
		{table.BucketsOfResource("ns", "s"), nil},
		{table.BucketsOfResource("other", "r"), nil},
		{ledger.UsageOfResource("ns", "r", "", ""), []item.Key{usage}},
		{ledger.UsageOfResource("ns", "r", "2024", "2025"), []item.Key{usage}},
		{ledger.UsageOfResource("ns", "s", "", ""), nil},
		{ledger.UsageOfResource("other", "r", "", ""), nil},
		{config.EntitiesWithConfig("ns", "r"), []item.Key{limits}},
		{config.EntitiesWithConfig("ns", "s"), nil},
		{config.EntitiesWithConfig("other", "r"), nil},
		{config.OfEntity("other", "f"), all}, // its key is the table's own, so DynamoDB has checked it
	} {
		var got []item.Key
		for _, k := range all {
			if layout.Belongs(c.q, k) {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
	if layout.Belongs(config.OfNamespace("ns"), item.Key{PK: "ns"}) {
		t.Error("a key without a namespace belongs to a namespace")
	}
}
