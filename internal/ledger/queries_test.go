package ledger

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Queries have the given bounds. An empty bound does not count. With an end, the newest items come
// first.
func TestQueriesFollowTheirBounds(t *testing.T) {
	for _, c := range []struct{ got, want item.Query }{
		{Audits("ns", "a", ""), item.Query{PK: "ns/AUDIT#a", Prefix: "#AUDIT#", Descending: true, Consistent: true}},
		{Audits("ns", "a", "01"), item.Query{PK: "ns/AUDIT#a", From: "#AUDIT#", To: "#AUDIT#01", Descending: true,
			Consistent: true}},
		{AllAudits("ns"), item.Query{Index: layout.IndexGSI4, PK: "ns", Prefix: "ns/AUDIT#"}},
		{UsageOfEntity("ns", "a", "", "2024", ""), item.Query{PK: "ns/ENTITY#a", Prefix: "#USAGE#", Consistent: true}},
		{UsageOfEntity("ns", "a", "r", "", ""), item.Query{PK: "ns/ENTITY#a", Prefix: "#USAGE#r#", Consistent: true}},
		{UsageOfEntity("ns", "a", "r", "2024", ""), item.Query{PK: "ns/ENTITY#a", From: "#USAGE#r#2024",
			To: "#USAGE#r#" + last, Consistent: true}},
		{UsageOfResource("ns", "r", "", "2024"), item.Query{Index: layout.IndexGSI2, PK: "ns/RESOURCE#r", From: "USAGE#",
			To: "USAGE#2024" + last}},
		{UsageBefore(item.Key{PK: "p", SK: "#USAGE#r#2024"}), item.Query{PK: "p", From: "#USAGE#r#", To: "#USAGE#r#2024",
			Descending: true, Consistent: true}},
		{ThresholdsOfEntity("ns", "a", ""), item.Query{PK: "ns/ENTITY#a", Prefix: skThresholdPrefix, Consistent: true}},
		{ThresholdsOfEntity("ns", "a", "r"), item.Query{PK: "ns/ENTITY#a", Prefix: skThresholdPrefix + "r#",
			Consistent: true}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%+v, want %+v", c.got, c.want)
		}
	}
}
