package bill

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// The tables of docs/cost.md are what Month computes: go test ./internal/bill -update.
func TestTablesOfThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for name, table := range map[string]string{"requests": requestsTable(), "bill": billTable()} {
		begin, end := "<!-- "+name+": written by go test ./internal/bill -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(got, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("cost.md has no place for %s", name)
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
		t.Error("the tables of cost.md are not what is computed: go test ./internal/bill -update")
	}
}

// dollars writes whole dollars with a comma for thousands.
func dollars(d float64) string {
	n := int(math.Round(d))
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
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

// aDay is a million requests a day, each settled, of 200 tenants and 10 processes.
func aDay() Use {
	return Use{Rate: 1e6 / 86_400, Settled: 1, Levels: 1, Processes: 10, Entities: 200, Windows: 2, FoldSeconds: 60,
		SnapshotDays: 90, StreamShards: 4, Audits: 1000, Utilization: 0.5}
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
