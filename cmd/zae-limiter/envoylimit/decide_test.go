package envoylimit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const decided = `
domain: shop
descriptors:
  - key: tier
    value: gold
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 100, name: gold user}
      - key: user
        value: bob
        rate_limit: {unit: hour, requests_per_unit: 7}
  - key: tier
    rate_limit: {unit: second, requests_per_unit: 9}
  - key: path
    value: /api/*
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: path
    value: /api/v2/*
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: path
    value: /api/v2/health
  - key: path
    rate_limit: {unit: day, requests_per_unit: 30}
  - key: file
    value: "*"
    share_threshold: true
    descriptors:
      - key: type
        rate_limit: {unit: week, requests_per_unit: 2}
  - key: file
  - key: campaign
    rate_limit: {unit: minute, requests_per_unit: 1, replaces: [{name: gold user}]}
  - key: free
    rate_limit: {unlimited: true}
`

// asked returns a descriptor that is written as "key=value, key=value; hits 5".
func asked(text string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	entries, hits, ok := strings.Cut(text, "; hits ")
	for e := range strings.SplitSeq(entries, ", ") {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	if ok {
		var n uint64
		if _, err := fmt.Sscan(hits, &n); err != nil {
			panic(err)
		}
		d.HitsAddend = wrapperspb.UInt64(n)
	}
	return d
}

// String returns a decision in one line.
func (d decision) String() string {
	switch {
	case d.rule == nil:
		return "nothing"
	case d.rule.unlimited:
		return "unlimited"
	}
	l := d.rule.limit
	return fmt.Sprintf("%d from %q of %q, %d/%v", d.hits, d.entity, d.resource, l.Capacity, l.Period)
}

func TestDecide(t *testing.T) {
	c, err := parse(file{"shop.yaml", []byte(decided)})
	check.Must(t, err)
	for text, want := range map[string]string{
		"tier=gold":                                "nothing", // a value goes before its key alone, also without a limit
		"tier=silver":                              `1 from "silver" of "shop|tier", 9/1s`,
		"tier=":                                    `1 from "\\e" of "shop|tier", 9/1s`,
		"Tier=silver":                              "nothing",
		"tier=gold, user=ann":                      `1 from "gold|ann" of "shop|tier|user", 100/1h0m0s`,
		"tier=gold, user=bob":                      `1 from "gold|bob" of "shop|tier|user", 7/1h0m0s`,
		"tier=silver, user=ann":                    "nothing", // nested only below gold
		"tier=gold, user=ann, more=x":              "nothing",
		"user=ann, tier=gold":                      "nothing",
		"path=/api/v1":                             `1 from "/api/v1" of "shop|path", 10/1m0s`,
		"path=/api/v2/x":                           `1 from "/api/v2/x" of "shop|path", 10/1m0s`, // the first wildcard
		"path=/api/v2/health":                      "nothing",
		"path=/api":                                `1 from "/api" of "shop|path", 30/24h0m0s`,
		"file=a, type=pdf":                         `1 from "*|pdf" of "shop|file|type", 2/168h0m0s`,
		"file=b, type=pdf":                         `1 from "*|pdf" of "shop|file|type", 2/168h0m0s`,
		"file=, type=pdf":                          `1 from "*|pdf" of "shop|file|type", 2/168h0m0s`, // not the key alone
		"free=x":                                   "unlimited",
		"=":                                        "nothing",
		"tier=silver; hits 0":                      `0 from "silver" of "shop|tier", 9/1s`,
		"tier=silver; hits 5":                      `5 from "silver" of "shop|tier", 9/1s`,
		"tier=silver; hits 18446744073709551615":   `1000000000000000 from "silver" of "shop|tier", 9/1s`,
		"campaign=x":                               `1 from "x" of "shop|campaign", 1/1m0s`,
		"tier=gold, user=bob & campaign=x":         `1 from "gold|bob" of "shop|tier|user", 7/1h0m0s & 1 from "x" of "shop|campaign", 1/1m0s`,
		"tier=gold, user=ann & campaign=x & =":     `nothing & 1 from "x" of "shop|campaign", 1/1m0s & nothing`,
		"campaign=x & tier=gold, user=ann":         `1 from "x" of "shop|campaign", 1/1m0s & nothing`,
		"tier=silver & tier=silver; hits 3 & path": `1 from "silver" of "shop|tier", 9/1s & 3 from "silver" of "shop|tier", 9/1s & 1 from "\\e" of "shop|path", 30/24h0m0s`,
	} {
		r := &ratelimit.RateLimitRequest{Domain: "shop"}
		for d := range strings.SplitSeq(text, " & ") {
			r.Descriptors = append(r.Descriptors, asked(d))
		}
		out, err := c.decide(r)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, d := range out {
			got = append(got, d.String())
		}
		check.Equal(t, strings.Join(got, " & "), want, "%s", text)
	}
}

// A descriptor without entries has no bucket, also if it brings a limit.
func TestOverrideWithoutEntries(t *testing.T) {
	c, err := parse(file{"shop.yaml", []byte(decided)})
	check.Must(t, err)
	out, err := c.decide(&ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{
		{Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 1}}}})
	if err != nil || out[0].String() != "nothing" {
		t.Errorf("%v, %v", out, err)
	}
}

// Months and years have the lengths that envoyproxy/ratelimit gives them.
func TestPeriods(t *testing.T) {
	for unit, days := range map[ratelimit.RateLimitResponse_RateLimit_Unit]time.Duration{
		ratelimit.RateLimitResponse_RateLimit_DAY: 1, ratelimit.RateLimitResponse_RateLimit_WEEK: 7,
		ratelimit.RateLimitResponse_RateLimit_MONTH: 30, ratelimit.RateLimitResponse_RateLimit_YEAR: 365,
	} {
		check.Equal(t, periods[unit], days*24*time.Hour, "the length of %v", unit)
	}
}

// Every unit and number of requests is a limit that the limiter accepts.
func TestEveryRuleIsALimit(t *testing.T) {
	for unit, period := range periods {
		for _, requests := range []uint32{0, 1, 1<<32 - 1} {
			for _, multiplier := range []uint32{1, uint32(longest / period)} {
				r, err := overridden("edge", &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests,
					Unit: envoytype.RateLimitUnit(unit), UnitMultiplier: wrapperspb.UInt32(multiplier)})
				check.Must(t, err)
				check.NoError(t, r.limit.Validate(), "%d per %d %v", requests, multiplier, unit)
				if requests > 0 && r.limit.IsBlocked() || requests == 0 && !r.limit.IsBlocked() {
					t.Errorf("%d per %d %v: %v", requests, multiplier, unit, r.limit)
				}
			}
		}
	}
	if longest < 365*24*time.Hour {
		t.Error("a year is too long")
	}
}
