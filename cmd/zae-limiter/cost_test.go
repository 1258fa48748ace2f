package main

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The tool computes what the page about costs says.
func TestCostsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	month := func(m mix) int {
		all := m.costs()
		return int(math.Round(all[len(all)-1].Dollars))
	}
	row := func(name string, m mix) string {
		cells := []string{name}
		for _, rate := range []float64{10, 100, 1000} {
			m.Rate = rate
			n := month(m)
			text := strconv.Itoa(n)
			if n >= 1000 {
				text = text[:len(text)-3] + "," + text[len(text)-3:]
			}
			cells = append(cells, text)
		}
		return "| " + strings.Join(cells, " | ") + " |"
	}
	bare := mix{Levels: 1, LimitsInCode: true}
	settled, parent, both := bare, bare, bare
	settled.Settled, parent.Levels, both.Settled, both.Levels = 1, 2, 1, 2
	for _, want := range []string{
		row("acquire", bare), row("acquire and settle", settled), row("acquire, charged to a parent too", parent),
		row("acquire and settle, charged to a parent too", both),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("cost.md does not have the row %s", want)
		}
	}
	whole := mix{Rate: 10, Settled: 1, Levels: 1, Processes: 4, Entities: 200, Windows: 2, FoldSeconds: 60}
	if got := month(whole); got != 47 || !strings.Contains(string(page), "= $47.") {
		t.Errorf("the example costs $%d, want 47 as on the page", got)
	}
	// 200 tenants, as in docs/cost.md, whose month has 30 days: 9.1 M units folded for a minute, 0.9 M for 15.
	for fold, want := range map[float64]float64{60: 9.210, 900: 0.961} {
		m := mix{Rate: 11.6, Levels: 1, Entities: 200, Windows: 2, FoldSeconds: fold}
		if got := m.usage() / 1e6; math.Abs(got-want) > 0.001 {
			t.Errorf("folded for %v s: %.3f million units of usage, want %v", fold, got, want)
		}
	}
	measured(t)
	few := mix{Rate: 0.001, Levels: 1, Processes: 100, Entities: 1000, Windows: 2, FoldSeconds: 60}
	if got := few.costs(); got[2].Units != 2.5*got[0].Units || got[3].Units != 6*got[0].Units {
		t.Errorf("more than one read, or one first snapshot of each window, for a request: %+v", got)
	}
}

// measured holds the tool to what was measured, within a twentieth. What was measured
// begins more days than an hour does in the mean.
func measured(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/measured.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+), (\d+) \| (\d+) s \| (\d) \| ([\d.]+)[^|]*\| ([\d.]+) \| [\d.]+ \| `).
		FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(strings.ReplaceAll(row[i], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		m := mix{Entities: int(number(1)), Rate: number(2), FoldSeconds: number(3), Windows: int(number(4)),
			Skew: 1.1, Levels: 1}
		got, want := m.usage()/(m.Rate*monthHours*3600), number(6)
		if math.Abs(got-want) > want/20 {
			t.Errorf("%s tenants, folded for %s s, %s windows: %.3f units for each acquire, measured were %.3f",
				row[1], row[3], row[4], got, want)
		}
	}
	if len(rows) < 8 {
		t.Errorf("measured.md has %d rows of usage", len(rows))
	}
}
