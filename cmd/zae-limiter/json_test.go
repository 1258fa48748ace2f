package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestUnderscored(t *testing.T) {
	for name, want := range map[string]string{
		"ID": "id", "OK": "ok", "CreatedAt": "created_at", "P50MS": "p50_ms", "ToMS": "to_ms",
		"DeniedWithoutACall": "denied_without_a_call", "ClocksApartMS": "clocks_apart_ms", "Name": "name",
	} {
		check.Equal(t, underscored(name), want, "%s", name)
	}
}

// What is empty and says nothing is left out, what counts is not.
func TestEmptyValuesInJSON(t *testing.T) {
	for want, value := range map[string]any{
		`{"limits":[]}`:                     admin.Config{},
		`{"limits":[],"access":"disabled"}`: admin.Config{Access: admin.AccessDisabled},
		`{"resource":"<a>","limits":[{"name":"rpm","capacity":0,"refill_amount":0,"refill_period":1.5,"soft":false,"in_flight":false}],` +
			`"on_unavailable":"block","audit_retention_days":2}`: admin.Config{
			Scope: admin.Scope{Resource: "<a>"}, Limits: []limiter.Limit{{Name: "rpm", Period: 1500 * time.Millisecond}},
			OnUnavailable: limiter.PolicyBlock, AuditRetention: 49 * time.Hour,
		},
		`{"limits":[{"name":"rpm","capacity":0,"refill_amount":0,"refill_period":0,"soft":false,` +
			`"in_flight":false,"ahead_seconds":0.5}]}`: admin.Config{
			Limits: []limiter.Limit{{Name: "rpm", Ahead: 500 * time.Millisecond}},
		},
		`{"limits":[{"name":"images","capacity":1,"refill_amount":1,"refill_period":316223999,"soft":false,` +
			`"in_flight":false,"blocked":true},{"name":"rpm","capacity":1000000000000000,` +
			`"refill_amount":1000000000000000,"refill_period":1,"soft":false,"in_flight":false,"unlimited":true}]}`: admin.Config{
			Limits: []limiter.Limit{limiter.Blocked("images"), limiter.Unlimited("rpm")},
		},
		`{"a":"\u202e\udb40\udc01"}`: map[string]any{"a": "\u202e\U000e0001"}, // what could steer a terminal
		`{}`:                         struct{}{},
		`null`:                       nil,
		`{"cascade":false}`:          admin.Entity{},
		`{"a":{"windows":0,"denied":0,"events":0}}`: map[string]any{"a": admin.UsageSummary{}},
	} {
		var out strings.Builder
		if err := encode(&out, value, ""); err != nil || out.String() != want+"\n" {
			t.Errorf("%+v, %v: %s\nwant %s", value, err, out.String(), want)
		}
	}
}
