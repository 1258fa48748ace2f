package table

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Each query names the index, the partition and the range of exactly the requested items. Queries
// for current data read the table itself, consistently.
func TestQueries(t *testing.T) {
	for _, c := range []struct {
		name string
		q    item.Query
		want item.Query
	}{
		{"namespaces", config.Namespaces(), item.Query{PK: "_/SYSTEM#", Prefix: "#NAMESPACE#", Consistent: true}},
		{"their ids", config.NamespaceIDs(), item.Query{PK: "_/SYSTEM#", Prefix: "#NSID#", Consistent: true}},
		{"of a namespace", config.OfNamespace("ns"), item.Query{Index: "GSI4", PK: "ns"}},
		{"of its system", config.OfSystem("ns"), item.Query{PK: "ns/SYSTEM#", Consistent: true}},
		{"of an entity", config.OfEntity("ns", "e"), item.Query{PK: "ns/ENTITY#e", Consistent: true}},
		{"its configurations", config.ConfigsOfEntity("ns", "e"),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#CONFIG#", Consistent: true}},
		{"children", config.Children("ns", "p"), item.Query{Index: "GSI1", PK: "ns/PARENT#p"}},
		{"its buckets", BucketsOfEntity("ns", "e"), item.Query{Index: "GSI3", PK: "ns/ENTITY#e", Prefix: "BUCKET#"}},
		{"buckets of a resource", BucketsOfResource("ns", "r"),
			item.Query{Index: "GSI2", PK: "ns/RESOURCE#r", Prefix: "BUCKET#"}},
		{"all buckets", BucketsOfNamespace("ns"), item.Query{Index: "GSI4", PK: "ns", Prefix: "BUCKET#"}},
		{"who has limits", config.EntitiesWithConfig("ns", "r"), item.Query{Index: "GSI3", PK: "ns/ENTITY_CONFIG#r"}},
		{"owed", ledger.OwedBetween(-5, 7), item.Query{PK: "_/OWED#", From: "000000000000000", To: "000000000000007"}},
	} {
		check.Equal(t, fmt.Sprintf("%+v", c.q), fmt.Sprintf("%+v", c.want), c.name)
	}
}

// The keys of configurations and events contain the owner. Items from an index are whole if they
// have more than keys.
func TestPartsOfKeys(t *testing.T) {
	for k, want := range map[item.Key]string{
		layout.EntityConfigKey("ns", "acme", "gpt"): "acme", {PK: "ns/ENTITY#acme", SK: "#META"}: "",
		{PK: "ns/RESOURCE#acme", SK: "#CONFIG#gpt"}: "", {PK: "nonsense", SK: "#CONFIG#gpt"}: "",
	} {
		if entity, ok := config.EntityOfConfig(k); ok != (want != "") || ok && entity != want {
			t.Errorf("%v: %q, %v, want %q", k, entity, ok, want)
		}
	}
	check.Equal(t, ledger.AuditID(layout.AuditKey("ns", "s", "01HX")), "01HX", "the event")
	for name, c := range map[string]struct {
		it   item.Item
		want bool
	}{
		"keys":       {item.Key{PK: "p", SK: "s"}.Item(), false},
		"a bucket":   {item.Item{layout.AttrRF: item.N(1)}, true},
		"a snapshot": {item.Item{layout.AttrWindow: item.S("hour")}, true},
		"neither":    {item.Item{layout.AttrRF: item.S("x"), layout.AttrWindow: item.N(1)}, false},
	} {
		check.Equal(t, layout.IsWhole(c.it), c.want, name)
	}
}
