package ledger

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Stored records read back unchanged. An item with another key, or without a required attribute, is
// an error.
func TestRecordsSurviveStorage(t *testing.T) {
	audit := Audit{Namespace: "ns", Subject: "acme", ID: "01", At: "2024-01-01T00:00:00Z", Action: "limits_set",
		Principal: "me", Resource: "gpt", Details: item.Item{"a": item.N(1)}, TTL: 9}
	threshold := Threshold{Namespace: "ns", Entity: "acme", Resource: "gpt", Limit: "budget", End: 1_700_000_000_000,
		Percent: 80, Spent: 8, Quota: 10, At: "2024-01-01T00:00:00Z", TTL: 9}
	snapshot := usageSample("hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z")
	snapshot.Denied = 3
	for name, c := range map[string]struct {
		it     item.Item
		want   any
		needs  []string
		odd    item.Item
		decode func(item.Item) (any, error)
	}{
		"audit": {audit.Item(), audit, []string{AttrAction}, item.Item{item.AttrSK: item.S(layout.SKAuditPrefix)},
			func(it item.Item) (any, error) { return DecodeAudit(it) }},
		"threshold": {threshold.Item(), threshold, []string{layout.AttrResource, attrLimitName, AttrAt, attrPeriodEnd}, nil,
			func(it item.Item) (any, error) { return DecodeThreshold(it) }},
		"usage": {snapshot.Item(), snapshot, []string{layout.AttrResource, layout.AttrWindow, attrWindowStart},
			item.Item{attrCount("rpm"): &types.AttributeValueMemberN{Value: "1.5"},
				item.AttrSK: item.S(layout.SKUsagePrefix + "other#2023-11-14")},
			func(it item.Item) (any, error) { return DecodeSnapshot(it) }},
	} {
		if got, err := c.decode(c.it); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
		refused := func(attr string, v item.Value) {
			it := item.Item{}
			for name, value := range c.it {
				it[name] = value
			}
			if it[attr] = v; v == nil {
				delete(it, attr)
			}
			got, err := c.decode(it)
			if err == nil || !reflect.ValueOf(got).IsZero() || attr == item.AttrSK && !errors.Is(err, item.ErrKey) {
				t.Errorf("%s with %s=%v: %+v, %v", name, attr, v, got, err)
			}
		}
		for _, attr := range c.needs {
			refused(attr, nil)
		}
		for attr, v := range c.odd {
			refused(attr, v)
		}
		refused(item.AttrSK, item.S("x"))
		refused(layout.AttrTTL, item.S("x"))
	}
	audit.TTL = 0
	if it := audit.Item(); it[layout.AttrTTL] != nil {
		t.Errorf("%v expires", it)
	}
	if k := threshold.Key(); k.PK != "ns/ENTITY#acme" || k.SK != skThresholdPrefix+"gpt#1700000000000#budget#080" {
		t.Errorf("%+v", k)
	}
	u := Usage{Place: day, Counts: []Count{{"rpm", 5}},
		Moves: []Move{{To: Mark{At: PositionOf(1, "7"), Used: []Count{{"rpm", 5}}}}}}
	it := applied(t, u.Update(), nil)
	if s, err := DecodeSnapshot(it); err != nil || s.Start != u.Start || s.Part != u.Part || s.TTL != u.TTL {
		t.Errorf("%+v, %v", s, err)
	}
}

// Numbers beyond 64 bits in a snapshot of another client saturate: one such snapshot must not end a
// whole list of usage.
func TestNumbersBeyond64BitsSaturate(t *testing.T) {
	it := usageSample("hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z").Item()
	for _, attr := range []string{attrCount("rpm"), attrTotalEvents, layout.AttrTTL} {
		it[attr] = &types.AttributeValueMemberN{Value: "100000000000000000000"}
	}
	s, err := DecodeSnapshot(it)
	if err != nil || s.Counts["rpm"] != math.MaxInt64 || s.Events != math.MaxInt64 || s.TTL != math.MaxInt64 {
		t.Errorf("%+v, %v", s, err)
	}
	if a := AmountOf(it); a.Tokens["rpm"] != math.MaxInt64 || a.Events != math.MaxInt64 {
		t.Errorf("%+v", a)
	}
}
