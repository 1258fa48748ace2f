package limiter

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
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

// TestRequestsAreValidated: a bad field is named with its value and with what is
// accepted, before anything is read or written.
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
		{"empty costs", good(func(r *Request) { r.Costs = Costs{} }), ErrInvalid, []string{"Costs", "empty"}},
		{"negative cost (W13)", good(func(r *Request) { r.Costs = Costs{"rpm": -500} }), ErrInvalid,
			[]string{`Costs["rpm"]`, "-500", "0 to"}},
		{"least cost", good(func(r *Request) { r.Costs = Costs{"rpm": math.MinInt64} }), ErrInvalid,
			[]string{`Costs["rpm"]`, "-9223372036854775808"}},
		{"huge cost", good(func(r *Request) { r.Costs = Costs{"rpm": math.MaxInt64} }), ErrInvalid,
			[]string{`Costs["rpm"]`, "9223372036854775807", "1000000000000000"}},
		{"unknown limit (W13)", good(func(r *Request) { r.Costs = Costs{"tokens": 1_000_000_000} }), ErrInvalid,
			[]string{`Costs["tokens"]`, "rpm"}},
		{"one unknown limit of two", good(func(r *Request) { r.Costs["tpm"] = 0 }), ErrInvalid,
			[]string{`Costs["tpm"]`, "rpm"}},
		{"wcu (W13)", good(func(r *Request) { r.Costs["wcu"] = 1 }), ErrInvalid, []string{"Costs key", `"wcu"`, "reserved"}},
		{"above the capacity", good(func(r *Request) { r.Costs = Costs{"rpm": 11} }), ErrTooLarge,
			[]string{`Costs["rpm"]`, "11", "10"}},
		{"policy", good(func(r *Request) { r.OnUnavailable = 7 }), ErrInvalid, []string{"OnUnavailable", "7", "Allow"}},
		{"negative policy", good(func(r *Request) { r.OnUnavailable = -1 }), ErrInvalid, []string{"OnUnavailable", "-1"}},
		{"class", good(func(r *Request) { r.Class = "a b" }), ErrInvalid, []string{`Class is "a b"`, "1 to 32 letters"}},
		{"long class", good(func(r *Request) { r.Class = strings.Repeat("c", 33) }), ErrInvalid,
			[]string{"Class is", "1 to 32"}},
		{"empty limits", good(func(r *Request) { r.Limits = []Limit{} }), ErrInvalid, []string{"Limits is empty", "nil"}},
		{"limit twice", good(func(r *Request) { r.Limits = []Limit{rpm10, PerHour("rpm", 5)} }), ErrInvalid,
			[]string{"Limits", `"rpm" twice`, "once"}},
		{"zero limit", good(func(r *Request) { r.Limits = []Limit{{}} }), ErrInvalid, []string{"Limits[0].Name", `""`}},
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
	for _, c := range []struct {
		field string
		limit Limit
		value string
	}{
		{"Capacity", Limit{Name: "rpm", Capacity: 0, Refill: 1, Period: time.Second}, "0"},
		{"Capacity", Limit{Name: "rpm", Capacity: -1, Refill: 1, Period: time.Second}, "-1"},
		{"Capacity", Limit{Name: "rpm", Capacity: MaxTokens + 1, Refill: 1, Period: time.Second}, "1000000000000001"},
		{"Refill", Limit{Name: "rpm", Capacity: 1, Refill: 0, Period: time.Second}, "0"},
		{"Refill", Limit{Name: "rpm", Capacity: 1, Refill: -5, Period: time.Second}, "-5"},
		{"Refill", Limit{Name: "rpm", Capacity: 1, Refill: math.MaxInt64, Period: time.Second}, "9223372036854775807"},
		{"Period", Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: 0}, "0s"},
		{"Period", Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: -time.Second}, "-1s"},
		{"Period", Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: time.Millisecond}, "1ms"},
		{"Period", Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: 1500 * time.Millisecond}, "1.5s"},
		{"Period", Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: math.MaxInt64}, "2562047h"},
	} {
		cases = append(cases, bad{fmt.Sprintf("%s %s", c.field, c.value),
			good(func(r *Request) { r.Limits = []Limit{PerMinute("a", 1), c.limit} }),
			ErrInvalid, []string{"Limits[1]", `"rpm"`, c.field, c.value, "want"}})
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
	for i, h := range strange {
		value := fmt.Sprintf("%q", h)
		if len(h) > 64 {
			value = "want"
		}
		cases = append(cases,
			bad{fmt.Sprint("strange cost ", i), good(func(r *Request) { r.Costs = Costs{h: 1} }), ErrInvalid,
				[]string{"Costs", value, "want"}})
		if h == "PK" || h == "ttl" { // which are limits like others
			continue
		}
		cases = append(cases,
			bad{fmt.Sprint("strange limit ", i), good(func(r *Request) { r.Limits = []Limit{PerMinute(h, 1)} }), ErrInvalid,
				[]string{"Limits[0].Name", value, "want"}})
	}
	cases = append(cases,
		bad{"entity of too many bytes in a key", good(func(r *Request) { r.Entity = strings.Repeat("#", 342) }), ErrInvalid,
			[]string{"Entity", "of 342 bytes", "want", "at most 1024 with each '#'"}},
		bad{"pseudo-resource", good(func(r *Request) { r.Resource = "_default_" }), ErrInvalid,
			[]string{"Resource", `"_default_"`}},
		bad{"long limit name", good(func(r *Request) { r.Limits = []Limit{PerMinute(strings.Repeat("l", 65), 1)} }),
			ErrInvalid, []string{"Limits[0].Name", "1 to 64"}})

	w := newWorld(t)
	l := w.process(Options{OnUnavailable: PolicyAllow})
	must(t, l, asks(Costs{"rpm": 1}, rpm10)) // also of a bucket that is known
	before := w.db.Snapshot()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // also if the same comes again
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

// The zero value of each option means what its comment says.
func TestOptionsThatAreNotGiven(t *testing.T) {
	var none *Options
	got, err := none.withDefaults()
	if err != nil || got.Now == nil || got.Now().IsZero() {
		t.Fatal(got, err)
	}
	got.Now = nil
	want := Options{Namespace: "default", Timeout: 2 * time.Second, DenyFor: time.Second, ConfigTTL: time.Minute,
		Slack: 30, MaxBuckets: 10_000, MaxShards: 32, OnUnavailable: PolicyBlock, LocalShare: 10}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
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
	}
	for _, c := range cases {
		t.Run(strings.Join(c.text, " "), func(t *testing.T) {
			w := newWorld(t)
			l, err := openWith(t.Context(), w, c.opts)
			if l != nil || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, %v; want ErrInvalid", l, err)
			}
			for _, s := range c.text {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v does not say %s", err, s)
				}
			}
			if w.db.Len() != 0 {
				t.Fatalf("%d items written", w.db.Len())
			}
		})
	}
}

// Negative times stand for none.
func TestNegativeOptions(t *testing.T) {
	got, err := (&Options{DenyFor: -1, ConfigTTL: -time.Hour}).withDefaults()
	if err != nil || got.DenyFor != 0 || got.ConfigTTL != 0 {
		t.Errorf("%v, %v, %v", got.DenyFor, got.ConfigTTL, err)
	}
	if _, err := (&Options{Timeout: -1}).withDefaults(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a negative bound of calls: %v", err)
	}
}

// The least and the most of each option are accepted.
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

func TestOpenArguments(t *testing.T) {
	if _, err := Open(t.Context(), nil, "limits", nil); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "db") {
		t.Errorf("no client: %v", err)
	}
	if _, err := Open(t.Context(), unusedClient{}, "", nil); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "table") {
		t.Errorf("no table: %v", err)
	}
}

// unusedClient fails the test by panicking when it is called.
type unusedClient struct{ DynamoDB }

// TestNamesAtTheirLimits: the longest and oddest names that are accepted work on
// every write, also 32 limits of 64 characters (W14, W49).
func TestNamesAtTheirLimits(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	long := make([]Limit, MaxLimits)
	costs := Costs{}
	for i := range long {
		long[i] = PerMinute(fmt.Sprintf("%s.%02d", strings.Repeat("l-", 30), i), 1000)
		costs[long[i].Name] = 3
	}
	reserved := []Limit{PerMinute("input-tokens", 100), PerMinute("in.tok", 100), PerMinute("SELECT", 100),
		PerMinute("ttl", 100), PerMinute("rf", 100), PerMinute("a_tk", 100)}
	for _, c := range []struct {
		entity, resource string
		limits           []Limit
		costs            Costs
	}{
		{strings.Repeat("e", 256), strings.Repeat("r", 64), long, costs},
		{"0", "openai/gpt-4o.mini-2", reserved,
			Costs{"input-tokens": 3, "in.tok": 3, "SELECT": 3, "ttl": 3, "rf": 3, "a_tk": 3}},
		{"user:1@x.y_z-", "wcu", []Limit{PerSecond("wcux", 100)}, Costs{"wcux": 3}},
	} {
		req := Request{Entity: c.entity, Resource: c.resource, Limits: c.limits, Costs: c.costs}
		for step := range 3 { // create, spend, refill
			lease, err := l.Acquire(t.Context(), req)
			if err != nil {
				t.Fatalf("%.10s, step %d: %v", c.entity, step, err)
			}
			if err := adjustThenCommit(c.costs)(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			w.advance(time.Duration(step) * 10 * time.Second)
		}
		for _, s := range must(t, l, req).Status() {
			if s.Remaining >= s.Capacity {
				t.Fatalf("%s was never charged: %+v", s.Limit, s)
			}
		}
		b := w.shards(l, c.entity, c.resource)
		if len(b) != 1 {
			t.Fatalf("%d shards", len(b))
		}
		for _, lim := range c.limits {
			if i := b[0].State.Index(lim.Name); i < 0 || b[0].State.Slots[i].Used != 21_000 {
				t.Fatalf("limit %s: %+v, want 21 used", lim.Name, b[0].State.Slots)
			}
		}
	}
}

// TestLargestNumbers: limits of MaxTokens neither overflow nor mint.
func TestLargestNumbers(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	limit := Limit{Name: "rpm", Capacity: MaxTokens, Refill: MaxTokens, Period: time.Second}
	req := asks(Costs{"rpm": MaxTokens}, limit)
	lease := must(t, l, asks(Costs{"rpm": 0}, limit))
	must(t, l, req)
	if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
		t.Fatalf("got %v, want denied", err)
	}
	if err := adjustThenCommit(Costs{"rpm": MaxTokens})(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), req)
	if d, ok := errors.AsType[*LimitError](err); !ok || d.Remaining != -MaxTokens || d.RetryAfter != 2*time.Second {
		t.Fatalf("got %v, want -MaxTokens left for 2s", err)
	}
	w.advance(2 * time.Second)
	must(t, l, req)
	w.advance(100 * 365 * 24 * time.Hour)
	if n := drain(t, l, req); n != 1 {
		t.Fatalf("%d granted after a century, want 1", n)
	}
	slow := Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: maxPeriod}
	req = Request{Entity: "slow", Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{slow}}
	must(t, l, req)
	_, err = l.Acquire(t.Context(), req)
	if d, ok := errors.AsType[*LimitError](err); !ok || d.RetryAfter != maxPeriod {
		t.Fatalf("got %v, want a wait of %s", err, maxPeriod)
	}
	w.advance(maxPeriod - time.Millisecond)
	if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
		t.Fatal(err)
	}
	w.advance(time.Millisecond)
	must(t, l, req)
}
