package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// The axes of the report end at numbers that are easy to read.
func TestAxesEndAtRoundNumbers(t *testing.T) {
	for most, want := range map[float64]float64{
		0: 1, 1: 1, 1.01: 2, 12.7: 20, 15: 20, 20: 20, 41: 60, 0.41: 0.6, 81: 100, 99.9: 100, 100: 100, 6001: 8000,
	} {
		if got := roundUp(most); math.Abs(got-want) > want/1e9 {
			t.Errorf("%v: %v, want %v", most, got, want)
		}
	}
}

// The report of a run has its figures, its plots and the worst window of each limit.
func TestReport(t *testing.T) {
	r, err := summarize(aRun())
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.html()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/load.html", string(page))
}

// The report lists a hundred entities, and says how many more there are.
func TestReportOfManyEntities(t *testing.T) {
	for n, more := range map[int]string{100: "", 102: "And 2 more."} {
		var r loadResult
		for i := range n {
			r.Entities = append(r.Entities, allowance{Entity: fmt.Sprintf("e%d.", i)})
		}
		page, err := r.html()
		if listed := strings.Count(string(page), "<tr><td>e"); err != nil || listed != 100 ||
			strings.Contains(string(page), "more.") != (more != "") || !strings.Contains(string(page), more) {
			t.Errorf("of %d: %d listed, %v\n%s", n, listed, err, page)
		}
	}
}

// A chart of one second begins where others do, and so does one of nothing.
func TestChartOfOneSecond(t *testing.T) {
	got := string(chart("requests", []line{{"a", "#123", []float64{3}}, {"b", "#456", nil}}))
	for _, want := range []string{
		`<polyline fill="none" stroke="#123" stroke-width="2" points="60.0,60.0"/>`, ">1 s</text>",
		`<polyline fill="none" stroke="#456" stroke-width="2" points=""/>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
