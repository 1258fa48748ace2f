package table

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Each query names the index, the partition and the range that holds what it asks for, and nothing
// else; what has to be true at once is asked of the table itself, consistently.
func TestQueries(t *testing.T) {
	const last = "\U0010ffff"
	for _, c := range []struct {
		name string
		q    item.Query
		want item.Query
	}{
		{"namespaces", Namespaces(), item.Query{PK: "_/SYSTEM#", Prefix: "#NAMESPACE#", Consistent: true}},
		{"their ids", NamespaceIDs(), item.Query{PK: "_/SYSTEM#", Prefix: "#NSID#", Consistent: true}},
		{"of a namespace", OfNamespace("ns"), item.Query{Index: "GSI4", PK: "ns"}},
		{"of its system", OfSystem("ns"), item.Query{PK: "ns/SYSTEM#", Consistent: true}},
		{"of an entity", OfEntity("ns", "e"), item.Query{PK: "ns/ENTITY#e", Consistent: true}},
		{"its configurations", ConfigsOfEntity("ns", "e"),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#CONFIG#", Consistent: true}},
		{"children", Children("ns", "p"), item.Query{Index: "GSI1", PK: "ns/PARENT#p"}},
		{"its buckets", BucketsOfEntity("ns", "e"), item.Query{Index: "GSI3", PK: "ns/ENTITY#e", Prefix: "BUCKET#"}},
		{"buckets of a resource", BucketsOfResource("ns", "r"),
			item.Query{Index: "GSI2", PK: "ns/RESOURCE#r", Prefix: "BUCKET#"}},
		{"all buckets", BucketsOfNamespace("ns"), item.Query{Index: "GSI4", PK: "ns", Prefix: "BUCKET#"}},
		{"who has limits", EntitiesWithConfig("ns", "r"), item.Query{Index: "GSI3", PK: "ns/ENTITY_CONFIG#r"}},
		{"events", Audits("ns", "s", ""),
			item.Query{PK: "ns/AUDIT#s", Prefix: "#AUDIT#", Descending: true, Consistent: true}},
		{"events up to one", Audits("ns", "s", "7"),
			item.Query{PK: "ns/AUDIT#s", From: "#AUDIT#", To: "#AUDIT#7", Descending: true, Consistent: true}},
		{"all events", AllAudits("ns"), item.Query{Index: "GSI4", PK: "ns", Prefix: "ns/AUDIT#"}},
		{"usage", UsageOfEntity("ns", "e", "", "2024", ""),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#USAGE#", Consistent: true}},
		{"on a resource", UsageOfEntity("ns", "e", "r", "", ""),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#USAGE#r#", Consistent: true}},
		{"from then on", UsageOfEntity("ns", "e", "r", "2024-01", ""),
			item.Query{PK: "ns/ENTITY#e", From: "#USAGE#r#2024-01", To: "#USAGE#r#" + last, Consistent: true}},
		{"until then", UsageOfEntity("ns", "e", "r", "", "2024-02"),
			item.Query{PK: "ns/ENTITY#e", From: "#USAGE#r#", To: "#USAGE#r#2024-02" + last, Consistent: true}},
		{"of all on a resource", UsageOfResource("ns", "r", "", ""),
			item.Query{Index: "GSI2", PK: "ns/RESOURCE#r", Prefix: "USAGE#"}},
		{"of all, between", UsageOfResource("ns", "r", "2024-01", "2024-02"),
			item.Query{Index: "GSI2", PK: "ns/RESOURCE#r", From: "USAGE#2024-01", To: "USAGE#2024-02" + last}},
		{"usage before", UsageBefore(item.Key{PK: "p", SK: "#USAGE#r#2024-01"}),
			item.Query{PK: "p", From: "#USAGE#r#", To: "#USAGE#r#2024-01", Descending: true, Consistent: true}},
		{"thresholds", ThresholdsOfEntity("ns", "e", ""),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#QUOTA#", Consistent: true}},
		{"on one resource", ThresholdsOfEntity("ns", "e", "r"),
			item.Query{PK: "ns/ENTITY#e", Prefix: "#QUOTA#r#", Consistent: true}},
		{"owed", OwedBetween(-5, 7), item.Query{PK: "_/OWED#", From: "000000000000000", To: "000000000000007"}},
	} {
		if got, want := fmt.Sprintf("%+v", c.q), fmt.Sprintf("%+v", c.want); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}

// Every item that an index finds belongs to the queries that are for it, and to no other: not to those
// of another namespace, entity or resource, whatever its keys in the index are.
func TestBelongs(t *testing.T) {
	bucket, odd := BucketKey("ns", "e", "r", 3), BucketKey("ns", "e#1", "r", 0)
	usage, config := UsageKey("ns", "e", "r", "2024-01"), EntityConfigKey("ns", "e", "r")
	entity, event := EntityKey("ns", "e"), AuditKey("ns", "e", "7")
	system, note := SystemConfigKey("ns"), DeletionKey("ns", "e")
	all := []item.Key{bucket, odd, usage, config, entity, event, system, note}
	for _, c := range []struct {
		q    item.Query
		want []item.Key
	}{
		{OfNamespace("ns"), all},
		{OfNamespace("n"), nil},
		{OfNamespace("ns/SYSTEM#"), nil},
		{BucketsOfNamespace("ns"), []item.Key{bucket, odd}},
		{BucketsOfNamespace("other"), nil},
		{AllAudits("ns"), []item.Key{event}},
		{AllAudits("other"), nil},
		{Children("ns", "p"), []item.Key{entity}},
		{Children("other", "p"), nil},
		{BucketsOfEntity("ns", "e"), []item.Key{bucket}},
		{BucketsOfEntity("ns", "e#1"), []item.Key{odd}},
		{BucketsOfEntity("ns", "f"), nil},
		{BucketsOfEntity("other", "e"), nil},
		{BucketsOfResource("ns", "r"), []item.Key{bucket, odd}},
		{BucketsOfResource("ns", "s"), nil},
		{BucketsOfResource("other", "r"), nil},
		{UsageOfResource("ns", "r", "", ""), []item.Key{usage}},
		{UsageOfResource("ns", "r", "2024", "2025"), []item.Key{usage}},
		{UsageOfResource("ns", "s", "", ""), nil},
		{UsageOfResource("other", "r", "", ""), nil},
		{EntitiesWithConfig("ns", "r"), []item.Key{config}},
		{EntitiesWithConfig("ns", "s"), nil},
		{EntitiesWithConfig("other", "r"), nil},
		{OfEntity("other", "f"), all}, // its key is the table's own: DynamoDB has looked
	} {
		var got []item.Key
		for _, k := range all {
			if Belongs(c.q, k) {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
	if Belongs(OfNamespace("ns"), item.Key{PK: "ns"}) {
		t.Error("a key without a namespace belongs to one")
	}
}

// Keys of configurations and events tell whose they are; items of an index are whole if they have
// more than keys.
func TestWhatKeysTell(t *testing.T) {
	for k, want := range map[item.Key]string{
		EntityConfigKey("ns", "acme", "gpt"): "acme", {PK: "ns/ENTITY#acme", SK: "#META"}: "",
		{PK: "ns/RESOURCE#acme", SK: "#CONFIG#gpt"}: "", {PK: "nonsense", SK: "#CONFIG#gpt"}: "",
	} {
		if entity, ok := EntityOfConfig(k); ok != (want != "") || ok && entity != want {
			t.Errorf("%v: %q, %v, want %q", k, entity, ok, want)
		}
	}
	if got := AuditID(AuditKey("ns", "s", "01HX")); got != "01HX" {
		t.Errorf("the event is %q", got)
	}
	for name, c := range map[string]struct {
		it   item.Item
		want bool
	}{
		"keys":       {item.Key{PK: "p", SK: "s"}.Item(), false},
		"a bucket":   {item.Item{attrRF: item.N(1)}, true},
		"a snapshot": {item.Item{attrWindow: item.S("hour")}, true},
		"neither":    {item.Item{attrRF: item.S("x"), attrWindow: item.N(1)}, false},
	} {
		if got := IsWhole(c.it); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
