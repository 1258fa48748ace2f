package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Money is dollars in every command that shows or takes it.
func TestMoneyIsMoney(t *testing.T) {
	s := newShell(t)
	s.stdin = "y\n"
	both := func(name string, args ...string) {
		t.Helper()
		for _, format := range []string{"table", "csv"} {
			out, errs, code := s.end(append(args, "-o", format)...)
			all := out + errs
			if code != done && code != no || !strings.Contains(all, name) || strings.Contains(all, "000000") {
				t.Errorf("zae-limiter %q in %s ends in %d and does not say %s:\n%s", args, format, code, name, all)
			}
		}
	}
	both("$500", "limits", "set", "-r", "gpt-4", "budget=$500@monthly Asia/Tokyo", "rpm=10")
	both("$500", "limits", "list")
	both("$500", "limits", "get", "-r", "gpt-4")
	both("$500", "limits", "resolve", "acme", "gpt-4")
	s.takes(limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "budget": 60_000_000}})
	both("$440", "peek", "acme", "gpt-4")
	both("$50", "credit", "acme", "gpt-4", "budget=$50")
	both("$60", "reset", "acme", "gpt-4", "budget")
	both("$500", "audit", "-r", "gpt-4")
	both("budget $50", "audit", "-e", "acme")
	both("$500", "audit", "--all")
	both("$600", "limits", "set", "-y", "-r", "gpt-4", "budget=$600@monthly")
	s.stores(ledger.Threshold{
		Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Limit: "budget", Percent: 80,
		Spent: 400_000_000, Quota: 500_000_000, End: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
		At: "2024-02-01T22:10:00Z",
	}.Item())
	both("$400", "thresholds", "-e", "acme")
	for hour := range 2 {
		s.stores(ledger.Snapshot{
			Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Window: "hourly",
			Start: fmt.Sprintf("2024-02-01T%02d:00:00Z", hour), Part: fmt.Sprintf("2024-02-01T%02d:00:00Z", hour),
			Counts: map[string]int64{"budget": 12_500_000}, Events: 1,
		}.Item())
	}
	both("$12.50", "usage", "-e", "acme")
	both("$25", "usage", "-e", "acme", "-w", "hourly", "--sum")
	s.says(0, "usage -e acme --plot", "budget of acme on gpt-4, hourly, dollars", "█ $12.50")
	s.stdin = "namespace: default\nresources: {gpt-4: {limits: {budget: {amount: $20.50, reset: daily}}}}\n"
	both("budget: $20.50 each 0 0 * * * UTC", "plan", "-")
	s.says(0, "limits delete -y -r gpt-4", "budget: $600 each 0 0 1 * * UTC")
	s.says(2, "credit acme gpt-4 rpm=$5", `"rpm=$5": limit "rpm" counts no dollars by its name, want a whole number`)
}

// Dollars are for quotas, and shown if the name says so.
func TestDollarsAreForQuotas(t *testing.T) {
	s := newShell(t)
	s.says(0, "limits set -y -r api spend=$5@daily", "spend $5")
	s.says(0, "limits set -y -r rates spend=5000000/d")
	s.says(0, "peek acme rates", "spend 5000000 0 5000000")
	s.says(2, "limits set -y -r api spend=$5/d", "dollars are for quotas, like budget=$500@monthly")
	s.says(2, "limits set -y -r api spend=5:$5", "dollars are for quotas, like budget=$500@monthly")
	s.says(2, "limits set -y -r api jobs=$5@in-flight/1m", "dollars are for quotas, like budget=$500@monthly")
}

// Limits show the numbers that their kind has, and no others.
func TestLimitsShowTheirFigures(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "api", "a=blocked", "b=5@daily", "c=7@in-flight/2m", "d=9", "e=unlimited")
	out, _ := s.run(0, "limits", "list", "-o", "csv")
	want := `entity,resource,limit,capacity,refill,every,note
*,api,a,,,,blocked
*,api,b,5,,,a quota: 0 0 * * * UTC
*,api,c,7,,2m0s,in flight
*,api,d,9,9,1m0s,
*,api,e,,,,unlimited
`
	check.Equal(t, out, want)
}
