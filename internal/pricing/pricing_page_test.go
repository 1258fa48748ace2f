package pricing

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The figures of docs/cost.md are those of Month: go test ./internal/pricing -update.
func TestThePageHasTheFiguresOfMonth(t *testing.T) {
	text, err := os.ReadFile(page)
	check.Must(t, err)
	got := string(text)
	for name, figures := range map[string]string{"table": costTable(), "example": example()} {
		begin, end := "<!-- "+name+": written by go test ./internal/pricing -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(got, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no mark for the %s", page, name)
		}
		got = before + begin + figures + end + after
	}
	if *update {
		check.Must(t, os.WriteFile(page, []byte(got), 0o644))
		return
	}
	check.Equal(t, got, string(text),
		"%s differs from Month: go test ./internal/pricing -update", page)
}

// dollars formats a whole number with commas for thousands.
func dollars(d float64) string {
	out := strconv.Itoa(int(math.Round(d)))
	for i := len(out) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return out
}

// costRow is a row of the table: the cost of a month, by requests per second.
type costRow struct {
	name string
	cost func(rate float64) float64
}

// ours returns the table's charges for these requests.
func ours(u Use, s Stack) func(float64) float64 {
	return func(rate float64) float64 {
		u := u
		u.Rate, u.Utilization, u.LimitsInCode, u.Levels = rate, 0.5, true, max(u.Levels, 1)
		return Sum(Month(u, s))
	}
}

// The prices of caches in us-east-1 (aws.amazon.com/elasticache/pricing): serverless Valkey by
// data, at least 100 MB, and by ECPUs; nodes by the hour.
const (
	dollarsOfECPU  = 0.0023e-6
	dollarsOfLeast = 0.084 * 0.1 * monthHours
	dollarsOfMicro = 0.0128 * monthHours // cache.t4g.micro, Valkey
	nodesOfCache   = 2
)

// costTable compares the cost of requests with caches of AWS.
func costTable() string {
	table := Stack{Table: true}
	one := func(processes int, ahead float64) Use { return Use{Processes: processes, Entities: 1, Ahead: ahead} }
	serverless := func(ecpus float64) func(float64) float64 {
		return func(rate float64) float64 { return dollarsOfLeast + rate*monthSeconds*ecpus*dollarsOfECPU }
	}
	nodes := func(each float64) func(float64) float64 {
		return func(float64) float64 { return nodesOfCache * each }
	}
	var b strings.Builder
	b.WriteString("| what a request does | R = 10 | 100 | 1000 | 10,000 |\n|---|---|---|---|---|\n")
	for _, row := range []costRow{
		{"acquire", ours(Use{}, table)},
		{"acquire, and settle or charge a parent", ours(Use{Settled: 1}, table)},
		{"one key, settled, `SettleWithin` 3 s, 4 processes",
			ours(Use{Processes: 4, Entities: 1, Settled: 1, SettleWithin: 3}, table)},
		{"acquire, provisioned, half used", ours(Use{}, Provisioned(table))},
		{"one key, `Ahead` 500 ms, 4 processes", ours(one(4, .5), table)},
		{"one key, `Ahead` 500 ms, 16 processes", ours(one(16, .5), table)},
		{"serverless Valkey, 1 ECPU each", serverless(1)},
		{"serverless Valkey, 10 ECPUs each", serverless(10)},
		{"two `cache.t4g.micro` nodes", nodes(dollarsOfMicro)},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, rate := range []float64{10, 100, 1000, 10_000} {
			fmt.Fprintf(&b, " %s |", dollars(row.cost(rate)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The table has one row for settlements and charged parents, because each is one write more.
func TestSettlementsCostAsMuchAsParents(t *testing.T) {
	table := Stack{Table: true}
	if a, b := ours(Use{Settled: 1}, table)(10), ours(Use{Levels: 2}, table)(10); a != b {
		t.Errorf("a settlement costs %f, a parent %f", a, b)
	}
}

// The number of requests served by a write with prefetched tokens equals what fleets measure
// (docs/hot-keys.md), within a tenth.
func TestPrefetchingMatchesMeasuredFleets(t *testing.T) {
	for _, c := range []struct {
		processes             int
		rate, ahead, measured float64
	}{{16, 500, .5, .09}, {16, 900, .5, .05}, {1, 900, .5, .0032}, {64, 9000, .5, .02}, {16, 900, 1, .025}} {
		u := Use{Rate: c.rate, Processes: c.processes, Entities: 1, Ahead: c.ahead}
		if got := u.perAcquire(); math.Abs(got-c.measured) > c.measured/10 {
			t.Errorf("%+v: %.4f writes for each request", c, got)
		}
	}
	u := Use{Rate: 50, Processes: 16, Entities: 1, Ahead: .5}
	if got := u.perAcquire(); got != 1 { // 1.6 requests in that time
		t.Errorf("rare requests: %.4f writes for each", got)
	}
	u = Use{Rate: 1000, Processes: 1, Entities: 1000, Ahead: .5, Skew: 1.1}
	if got := u.perAcquire(); got < .3 || got > .9 { // only the busiest entities
		t.Errorf("uneven use: %.4f writes for each request", got)
	}
}

// Delayed settlements are written with the next charge, as limiter measures
// (TestSettlingRidesAlong): 1.05 writes for a request with its settlement at one a second and 3 s,
// 1.00 at ten. Settlements without a delay have their own writes.
func TestDelayedSettlementsRideWithCharges(t *testing.T) {
	for _, c := range []struct{ rate, within, want float64 }{{1, 3, 1.05}, {10, 3, 1}, {1, 1, 1.37}, {1, 0, 2}} {
		u := Use{Rate: c.rate, Processes: 1, Entities: 1, Settled: 1, SettleWithin: c.within}
		if got := u.perAcquire() + u.perSettled(); math.Abs(got-c.want) > .01 {
			t.Errorf("%+v: %.3f writes for each request", c, got)
		}
	}
}

// aDay is a million requests a day, each settled, by 200 tenants and 10 processes.
func aDay() Use {
	return Use{Rate: 1e6 / 86_400, Settled: 1, Levels: 1, Processes: 10, Starts: 30, Entities: 200, Windows: 2,
		FoldSeconds: 60, SnapshotDays: 90, StreamShards: 4, Audits: 1000, Utilization: 0.5}
}

// example returns the bill of such a day, by groups of lines.
func example() string {
	minute := aDay()
	groups := []struct {
		name  string
		parts []string
	}{
		{"acquires and settlements", []string{"acquire", "first touches", "settle"}},
		{"stored limits", []string{"read stored limits"}},
		{"usage", []string{"usage", "read for usage"}},
		{"functions and their logs", []string{"invocations", "time of functions", "logs", "logs kept"}},
		{"metrics, alarms and the dashboard", []string{"metrics of functions", "metrics of mappings", "alarms",
			"dashboard, one of the account's first three"}},
	}
	var b strings.Builder
	sum, grouped := Sum(Month(minute, Default())), 0.0
	for _, g := range groups {
		all := 0.0
		for _, l := range Month(minute, Default()) {
			if slices.Contains(g.parts, l.Part) {
				all += l.Dollars
			}
		}
		grouped += all
		fmt.Fprintf(&b, "* %s: $%.2f\n", g.name, all)
	}
	unfolded, quarter := aDay(), aDay()
	unfolded.FoldSeconds, quarter.FoldSeconds = 0, 900
	fmt.Fprintf(&b, "* storage, recovery and the archive: $%.2f\n", sum-grouped)
	fmt.Fprintf(&b, "* **together: $%.2f.** Usage not folded: $%.2f; folded for 15 minutes: $%.2f; "+
		"capacity provisioned: $%.2f\n",
		sum, Sum(Month(unfolded, Default())), Sum(Month(quarter, Default())), Sum(Month(minute, Provisioned(Default()))))
	return b.String()
}
