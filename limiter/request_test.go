package limiter

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// hostile are names that no field accepts.
var hostile = []string{
	"", "a\n", "\na", "a\x00b", strings.Repeat("x", 513), "a\xff", "a\u200bb", "\u2028", "a\tb", "\u00a0",
}

// strange are names of entities and resources, but not of limits.
var strange = []string{
	" ", "#", "a#b", "a b", "é", "a/../b#STATE", "_", "-a", ".a", "{a}", "a=b", "$SYSTEM", "$RESOURCE:x", "a'b", "＃", "%",
	"%23", "a%23b", "#0#1",
	"anthropic.claude-3-5-sonnet-20241022-v2:0", "auth0|5f7c8ec7c33c6c004bbafe82", "arn:aws:iam::123456789012:user/a",
	"/v1/users/{id}?x=%20#top",
	`"quoted"\`, "用户", "e\u0301", "\U0001f600", "PK", "ttl", strings.Repeat("x", 512), strings.Repeat("é", 256),
	strings.Repeat("#", 256),
}

// TestRequestsAreValidated: an invalid field is named with its value and the accepted values,
// before anything is read or written.
func TestRequestsAreValidated(t *testing.T) {
	good := func(change func(*Request)) Request {
		r := asks(Costs{"rpm": 1}, rpm10)
		change(&r)
		return r
	}
	type bad struct {
		name string
		req  Request
		want error
		text []string
	}
	cases := []bad{
		{"zero", Request{}, ErrInvalid, []string{"Entity", `""`, "1 to 512"}},
		{"no costs", good(func(r *Request) { r.Costs = nil }), ErrInvalid, []string{"Costs is empty", "at least one"}},
		{"negative cost (W13)", good(func(r *Request) { r.Costs = Costs{"rpm": -500} }), ErrInvalid,
			[]string{`Costs["rpm"]`, "-500", "0 to"}},
		{"huge cost", good(func(r *Request) { r.Costs = Costs{"rpm": math.MaxInt64} }), ErrInvalid,
			[]string{`Costs["rpm"]`, "9223372036854775807", "1000000000000000"}},
		{"unknown limit (W13)", good(func(r *Request) { r.Costs = Costs{"tokens": 1_000_000_000} }), ErrInvalid,
			[]string{`Costs["tokens"]`, "rpm"}},
		{"wcu (W13)", good(func(r *Request) { r.Costs["wcu"] = 1 }), ErrInvalid, []string{"Costs key", `"wcu"`, "reserved"}},
		{"above the capacity", good(func(r *Request) { r.Costs = Costs{"rpm": 11} }), ErrTooLarge,
			[]string{`Costs["rpm"]`, "11", "10"}},
		{"policy", good(func(r *Request) { r.OnUnavailable = 7 }), ErrInvalid, []string{"OnUnavailable", "7", "Allow"}},
		{"class", good(func(r *Request) { r.Class = "a b" }), ErrInvalid, []string{`Class is "a b"`, "1 to 32 letters"}},
		{"long class", good(func(r *Request) { r.Class = strings.Repeat("c", 33) }), ErrInvalid,
			[]string{"Class is", "1 to 32"}},
		{"empty limits", good(func(r *Request) { r.Limits = []Limit{} }), ErrInvalid, []string{"Limits is empty", "nil"}},
		{"limit twice", good(func(r *Request) { r.Limits = []Limit{rpm10, PerHour("rpm", 5)} }), ErrInvalid,
			[]string{"Limits", `"rpm" twice`, "once"}},
		{"limit named wcu", good(func(r *Request) { r.Limits = []Limit{PerMinute("wcu", 1)} }), ErrInvalid,
			[]string{"Limits[0].Name", `"wcu"`, "reserved"}},
		{"no config and no limits", good(func(r *Request) { r.Limits = nil }), ErrNoLimits,
			[]string{"acme/gpt-4", "want Request.Limits", "stored"}},
	}
	many := make([]Limit, MaxLimits+1)
	for i := range many {
		many[i] = PerMinute(fmt.Sprint("l", i), 1)
	}
	cases = append(cases, bad{"too many limits", good(func(r *Request) { r.Limits = many }), ErrInvalid,
		[]string{"Limits is 33 limits", "at most 32"}})
	for i, l := range []Limit{{}, PerMinute("rpm", 0)} { // see TestBoundsOfLimits
		cases = append(cases, bad{fmt.Sprint("limit that cannot be ", i),
			good(func(r *Request) { r.Limits = []Limit{PerMinute("a", 1), l} }), ErrInvalid, []string{"Limits[1]", "want"}})
	}
	for i, h := range hostile {
		value := fmt.Sprintf("%q", h)
		if len(h) > 64 {
			value = strings.Repeat("x", 64) + `"... of 513 bytes`
		}
		cases = append(cases,
			bad{fmt.Sprint("entity ", i), good(func(r *Request) { r.Entity = h }), ErrInvalid,
				[]string{"Entity", value, "want"}},
			bad{fmt.Sprint("resource ", i), good(func(r *Request) { r.Resource = h }), ErrInvalid,
				[]string{"Resource", value, "want"}},
			bad{fmt.Sprint("cost ", i), good(func(r *Request) { r.Costs = Costs{h: 1} }), ErrInvalid,
				[]string{"Costs key", value, "want"}},
			bad{fmt.Sprint("limit ", i), good(func(r *Request) { r.Limits = []Limit{PerMinute(h, 1)} }), ErrInvalid,
				[]string{"Limits[0].Name", value, "want"}})
	}
	cases = append(cases,
		bad{"entity of too many bytes in a key", good(func(r *Request) { r.Entity = strings.Repeat("#", 342) }), ErrInvalid,
			[]string{"Entity", "of 342 bytes", "want", "at most 1024 with each '#'"}},
		bad{"pseudo-resource", good(func(r *Request) { r.Resource = "_default_" }), ErrInvalid,
			[]string{"Resource", `"_default_"`}},
		bad{"name of a limit with spaces", good(func(r *Request) { r.Costs = Costs{"a b": 1} }), ErrInvalid,
			[]string{"Costs key", `"a b"`, "want"}})

	w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
	must(t, l, asks(Costs{"rpm": 1}, rpm10)) // also for a cached bucket
	before := w.db.Snapshot()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // also if the same request is repeated
				lease, err := l.Acquire(t.Context(), c.req)
				if lease != nil || !errors.Is(err, c.want) {
					t.Fatalf("got %v, %v; want %v", lease, err, c.want)
				}
				for _, s := range c.text {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v\ndoes not say %s", err, s)
					}
				}
			}
			w.sameTable(before)
		})
	}
}

// The zero value of each option means the default in its comment.
func TestZeroOptionsAreTheDefaults(t *testing.T) {
	var none *Options
	got, err := none.withDefaults()
	if err != nil || got.Now == nil || got.Now().IsZero() {
		t.Fatal(got, err)
	}
	got.Now = nil
	want := Options{Namespace: "default", Timeout: 2 * time.Second, DenyFor: time.Second, ConfigTTL: time.Minute,
		Slack: 30, MaxBuckets: 10_000, MaxShards: 32, OnUnavailable: PolicyBlock, LocalShare: 10}
	check.Equal(t, fmt.Sprint(got), fmt.Sprint(want))
	got, err = (&Options{DenyFor: -1, ConfigTTL: -time.Hour}).withDefaults() // negative times mean none
	if err != nil || got.DenyFor != 0 || got.ConfigTTL != 0 {
		t.Errorf("%v, %v, %v", got.DenyFor, got.ConfigTTL, err)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	cases := []struct {
		opts Options
		text []string
	}{
		{Options{Namespace: "_"}, []string{"Options.Namespace", `"_"`, "reserved"}},
		{Options{Namespace: "a\nb"}, []string{"Options.Namespace", `"a\nb"`}},
		{Options{Namespace: "a\xff"}, []string{"Options.Namespace"}},
		{Options{Namespace: strings.Repeat("n", 257)}, []string{"Options.Namespace", "256"}},
		{Options{Timeout: -1}, []string{"Options.Timeout", "-1ns", "1ms"}},
		{Options{Timeout: time.Microsecond}, []string{"Options.Timeout", "1µs", "1ms"}},
		{Options{DenyFor: time.Microsecond}, []string{"Options.DenyFor", "1µs", "1ms"}},
		{Options{ConfigTTL: 5}, []string{"Options.ConfigTTL", "5ns", "1ms"}},
		{Options{MaxBuckets: -1}, []string{"Options.MaxBuckets", "-1", "positive"}},
		{Options{Slack: -1}, []string{"Options.Slack", "-1", "1 to 100"}},
		{Options{Slack: 101}, []string{"Options.Slack", "101", "1 to 100"}},
		{Options{LocalShare: -1}, []string{"Options.LocalShare", "-1", "1 to 100"}},
		{Options{LocalShare: 101}, []string{"Options.LocalShare", "101", "1 to 100"}},
		{Options{MaxShards: -1}, []string{"Options.MaxShards", "-1", "power of two"}},
		{Options{MaxShards: 3}, []string{"Options.MaxShards", "3", "power of two"}},
		{Options{MaxShards: 2048}, []string{"Options.MaxShards", "2048", "1024"}},
		{Options{OnUnavailable: 9}, []string{"Options.OnUnavailable", "9", "Allow"}},
		{Options{OnUnavailable: PolicyLocal + 1}, []string{"Options.OnUnavailable"}},
		{Options{Ahead: -time.Second}, []string{"Options.Ahead", "-1s"}},
		{Options{Ahead: time.Millisecond}, []string{"Options.Ahead", "1ms"}},
		{Options{Ahead: 11 * time.Minute}, []string{"Options.Ahead", "11m0s"}},
		{Options{SettleWithin: -1}, []string{"Options.SettleWithin", "-1ns"}},
		{Options{SettleWithin: time.Millisecond}, []string{"Options.SettleWithin", "1ms"}},
		{Options{SettleWithin: time.Hour}, []string{"Options.SettleWithin", "1h0m0s"}},
	}
	for _, c := range cases {
		w := newWorld(t)
		l, err := openWith(t.Context(), w, c.opts)
		if l != nil || !errors.Is(err, ErrInvalid) || w.db.Len() != 0 {
			t.Errorf("%q: got %v, %v, %d items; want ErrInvalid, and nothing written", c.text, l, err, w.db.Len())
			continue
		}
		for _, s := range c.text {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v does not say %s", err, s)
			}
		}
	}
	_, noClient := Open(t.Context(), nil, "limits", nil)
	_, noTable := Open(t.Context(), unusedClient{}, "", nil)
	_, noTimeout := Open(t.Context(), unusedClient{}, "my-table", &Options{Timeout: -1})
	for says, err := range map[string]error{"db": noClient, "table": noTable, "Timeout": noTimeout} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "my-table") {
			t.Errorf("no %s: %v", says, err)
		}
	}
}

// The smallest and the largest value of each option are accepted.
func TestOptionsAtTheirBounds(t *testing.T) {
	for _, o := range []Options{
		{Namespace: strings.Repeat("n", 256), Timeout: time.Millisecond, DenyFor: time.Millisecond,
			ConfigTTL: time.Millisecond, MaxBuckets: 1, Slack: 1, LocalShare: 1, MaxShards: 1, Ahead: 10 * time.Millisecond,
			OnUnavailable: PolicyBlock},
		{Slack: 100, LocalShare: 100, MaxShards: 1024, Ahead: 10 * time.Minute, OnUnavailable: PolicyLocal},
	} {
		got, err := o.withDefaults()
		if got.Now = nil; err != nil || fmt.Sprint(got.Slack, got.LocalShare, got.MaxShards, got.MaxBuckets > 0) !=
			fmt.Sprint(o.Slack, o.LocalShare, o.MaxShards, true) {
			t.Errorf("%+v: %+v, %v", o, got, err)
		}
	}
}

// unusedClient fails the test with a panic when it is called.
type unusedClient struct{ DynamoDB }

// TestStrangeNamesAreNames: everything printable names an entity or a resource. Every pair has a
// separate bucket with the given names, separate stored limits, and keys that DynamoDB accepts,
// including index keys.
func TestStrangeNamesAreNames(t *testing.T) {
	w, l := newProcess(t, Options{})
	names := append([]string{"plain"}, strange...)
	for i, entity := range names {
		for j, resource := range names {
			limit := PerMinute("rpm", int64(1+i*len(names)+j))
			w.configure(l, entity, resource, limit)
			lease, err := l.Acquire(t.Context(), Request{Entity: entity, Resource: resource, Costs: Costs{"rpm": 1}})
			check.Must(t, err, "%q on %q", entity, resource)
			check.MustEqual(t, lease.Status()[0].Capacity, limit.Capacity, "%q on %q: capacity", entity, resource)
		}
	}
	seen := map[[2]string]bool{}
	for _, it := range w.db.Items() {
		check.NoError(t, item.ValidateItem(it), "%q", item.KeyOf(it).PK)
		for attr, most := range indexBytes {
			if s, ok := it[attr].(*types.AttributeValueMemberS); ok && len(s.Value) > most {
				t.Errorf("%q: %s has %d bytes, want at most %d", item.KeyOf(it).PK, attr, len(s.Value), most)
			}
		}
		if item.KeyOf(it).SK != layout.SKBucketState {
			continue
		}
		b, err := table.DecodeShard(it)
		check.Must(t, err)
		seen[[2]string{b.Entity, b.Resource}] = true
	}
	if want := len(names) * len(names); len(seen) != want {
		t.Errorf("%d buckets, want %d", len(seen), want)
	}
}

// indexBytes is the greatest length of index keys.
var indexBytes = map[string]int{
	item.AttrGSI1PK: 2048, item.AttrGSI2PK: 2048, item.AttrGSI3PK: 2048, item.AttrGSI4PK: 2048,
	item.AttrGSI1SK: 1024, item.AttrGSI2SK: 1024, item.AttrGSI3SK: 1024, item.AttrGSI4SK: 1024,
}

// TestHashedSecrets: a hash of a key is a valid entity, for Python clients too.
func TestHashedSecrets(t *testing.T) {
	a, b := Hashed("sk-live-1"), Hashed("sk-live-2")
	if a == b || a != "sha256:f8dc9db173eec64bf3a2a7fc33243e7e" {
		t.Errorf("%q and %q", a, b)
	}
	_, l := newProcess(t, Options{})
	check.NoError(t, check.Err(l.Acquire(t.Context(),
		Request{Entity: a, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}})))
	check.MustBe(t, (Limit{}).Validate(), ErrInvalid)
	check.NoError(t, rpm10.Validate())
}
