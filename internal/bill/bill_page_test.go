package bill

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tables of docs/cost.md and docs/at-scale.md are what Month computes:
// go test ./internal/bill -update.
func TestTablesOfThePages(t *testing.T) {
	holds(t, page, map[string]string{
		"requests": requestsTable(), "ahead": aheadTable(), "cache": cacheTable(), "bill": billTable()})
	holds(t, "../../docs/at-scale.md", map[string]string{"load": loadTable(), "dollars": scaleTable()})
}

func holds(t *testing.T, page string, tables map[string]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for name, table := range tables {
		begin, end := "<!-- "+name+": written by go test ./internal/bill -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(got, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s has no place for %s", page, name)
		}
		got = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("the tables of %s are not what is computed: go test ./internal/bill -update", page)
	}
}

// dollars writes a whole number with commas for thousands.
func dollars(d float64) string {
	out := strconv.Itoa(int(math.Round(d)))
	for i := len(out) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return out
}

func requestsTable() string {
	var b strings.Builder
	b.WriteString("| what a request does | R = 10 | 100 | 1000 | 10, provisioned | 100 | 1000 |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name    string
		settled float64
		levels  int
	}{{"acquire", 0, 1}, {"acquire and settle", 1, 1}, {"acquire, charged to a parent too", 0, 2},
		{"acquire and settle, charged to a parent too", 1, 2}} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, s := range []Stack{{Table: true}, Provisioned(Stack{Table: true})} {
			for _, rate := range []float64{10, 100, 1000} {
				u := Use{Rate: rate, Settled: row.settled, Levels: row.levels, LimitsInCode: true, Utilization: 0.5}
				fmt.Fprintf(&b, " %s |", dollars(Sum(Month(u, s))))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// aheadTable is what requests for one key cost.
func aheadTable() string {
	var b strings.Builder
	b.WriteString("| one key, granted requests a second | R = 10 | 100 | 1000 | 10,000 | $ per million, at each |\n" +
		"|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name      string
		processes int
		ahead     float64
	}{{"nothing is taken ahead", 1, 0}, {"`Ahead` 500 ms, 1 process", 1, .5}, {"4 processes", 4, .5},
		{"16 processes", 16, .5}, {"64 processes", 64, .5}, {"`Ahead` 10 s, 16 processes", 16, 10},
		{"64 processes", 64, 10}} {
		fmt.Fprintf(&b, "| %s |", row.name)
		var millions []string
		for _, rate := range []float64{10, 100, 1000, 10_000} {
			u := Use{Rate: rate, Levels: 1, LimitsInCode: true, Processes: row.processes, Entities: 1, Ahead: row.ahead}
			sum := Sum(Month(u, Stack{Table: true}))
			fmt.Fprintf(&b, " %s |", dollars(sum))
			millions = append(millions, fmt.Sprintf("%.3f", sum/u.requests()*1e6))
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(millions, ", "))
	}
	return b.String()
}

// What caches cost in us-east-1 (aws.amazon.com/elasticache/pricing): serverless Valkey by data,
// of which 100 MB is the least that is metered, and by ECPUs; nodes by the hour.
const (
	dollarsOfECPU  = 0.0023e-6
	dollarsOfLeast = 0.084 * 0.1 * monthHours
	dollarsOfMicro = 0.0128 * monthHours // cache.t4g.micro, Valkey
	dollarsOfLarge = 0.1264 * monthHours // cache.m7g.large, Valkey
	nodesOfCache   = 2
)

// cacheTable is what decisions cost here and in a cache of AWS, and from where on the cache is
// cheaper.
func cacheTable() string {
	ours := func(ahead float64) func(float64) float64 {
		return func(rate float64) float64 {
			u := Use{Rate: rate, Levels: 1, LimitsInCode: true, Processes: 16, Entities: 1, Ahead: ahead}
			return Sum(Month(u, Stack{Table: true}))
		}
	}
	serverless := func(ecpus float64) func(float64) float64 {
		return func(rate float64) float64 { return dollarsOfLeast + rate*monthSeconds*ecpus*dollarsOfECPU }
	}
	nodes := func(each float64) func(float64) float64 {
		return func(float64) float64 { return nodesOfCache * each }
	}
	// less returns for how many requests a second, within a hundredth, b costs less than a.
	less := func(b, a func(float64) float64) string {
		first, last := 0.0, 0.0
		for rate := 0.1; rate < 1e6; rate *= 1.01 {
			if b(rate) < a(rate) {
				first, last = cmp.Or(first, rate), rate
			}
		}
		switch {
		case first == 0:
			return "never"
		case last > 9e5:
			return "from " + dollars(first)
		}
		return dollars(first) + " to " + dollars(last)
	}
	var b strings.Builder
	b.WriteString("| one key, 16 processes | R = 10 | 100 | 1000 | 10,000 | less than a write each at R | than `Ahead` at R |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name string
		cost func(float64) float64
		ours bool
	}{
		{"one write each", ours(0), true}, {"`Ahead` 500 ms", ours(.5), true},
		{"serverless Valkey, 1 ECPU a decision", serverless(1), false},
		{"serverless Valkey, 10 ECPUs a decision", serverless(10), false},
		{"two `cache.t4g.micro` nodes", nodes(dollarsOfMicro), false},
		{"two `cache.m7g.large` nodes", nodes(dollarsOfLarge), false},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, rate := range []float64{10, 100, 1000, 10_000} {
			fmt.Fprintf(&b, " %s |", dollars(row.cost(rate)))
		}
		if row.ours {
			b.WriteString(" | |\n")
			continue
		}
		fmt.Fprintf(&b, " %s | %s |\n", less(row.cost, ours(0)), less(row.cost, ours(.5)))
	}
	return b.String()
}

// What a write serves that takes ahead is what fleets measure (docs/hot-keys.md), within a
// tenth.
func TestTakenAheadIsWhatIsMeasured(t *testing.T) {
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
		t.Errorf("asked seldom: %.4f writes for each request", got)
	}
	u = Use{Rate: 1000, Processes: 1, Entities: 1000, Ahead: .5, Skew: 1.1}
	if got := u.perAcquire(); got < .3 || got > .9 { // the busiest of them only
		t.Errorf("unevenly: %.4f writes for each request", got)
	}
}

// aDay is a million requests a day, each settled, of 200 tenants and 10 processes.
func aDay() Use {
	return Use{Rate: 1e6 / 86_400, Settled: 1, Levels: 1, Processes: 10, Starts: 30, Entities: 200, Windows: 2,
		FoldSeconds: 60, SnapshotDays: 90, StreamShards: 4, Audits: 1000, Utilization: 0.5}
}

func billTable() string {
	unfolded, minute, quarter := aDay(), aDay(), aDay()
	unfolded.FoldSeconds, quarter.FoldSeconds = 0, 900
	columns := []struct {
		name  string
		lines []Line
	}{
		{"not folded", Month(unfolded, Default())}, {"folded for a minute", Month(minute, Default())},
		{"for 15 minutes", Month(quarter, Default())},
		{"a minute, provisioned", Month(minute, Provisioned(Default()))},
	}
	var b strings.Builder
	b.WriteString("| | units, folded for a minute |")
	var parts []string
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
		for _, l := range c.lines {
			if !slices.Contains(parts, l.Part) {
				parts = append(parts, l.Part)
			}
		}
	}
	b.WriteString("\n|---|---|---|---|---|---|\n")
	for _, part := range parts {
		units, cells := "", ""
		for i, c := range columns {
			cell := ""
			for _, l := range c.lines {
				if l.Part != part {
					continue
				}
				cell = fmt.Sprintf("%.2f", l.Dollars)
				if i == 1 || units == "" {
					units = l.Amount()
				}
			}
			cells += " " + cell + " |"
		}
		fmt.Fprintf(&b, "| %s | %s |%s\n", part, units, cells)
	}
	b.WriteString("| | |")
	for _, c := range columns {
		fmt.Fprintf(&b, " **%.2f** |", Sum(c.lines))
	}
	b.WriteString("\n")
	return b.String()
}
