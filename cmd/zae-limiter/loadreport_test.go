package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
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
	check.Must(t, err)
	page, err := r.html()
	check.Must(t, err)
	check.Golden(t, "testdata/load.html", string(page), *update)
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

// A chart of one point begins where others do, and one of nothing has axes.
func TestChartOfLittle(t *testing.T) {
	got := string(lineChart("requests", "requests", series{"a", "main", []point{{0, 3}}}, series{"b", "second", nil}))
	for _, want := range []string{
		`<polyline class="main" points="60.0,74.5"/>`, `<polyline class="second" points=""/>`, ">0 s</text>", ">4</text>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	got = string(barChart("requests", "requests", 1, series{"a", "main", nil}))
	if !strings.Contains(got, ">0 s</text>") {
		t.Errorf("of nothing:\n%s", got)
	}
}

// A million points on one line are drawn as no more than a screen can show, from the first to the last.
func TestLinesAreThinned(t *testing.T) {
	var points []point
	for i := range 1_000_000 {
		points = append(points, point{float64(i) / 1000, float64(i % 7)})
	}
	got := newChart("", "", 1000, 7).drawn(points)
	if len(got) > 4*chartWidth || got[0] != "60.0,220.0" || got[len(got)-1] != "700.0,220.0" {
		t.Errorf("%d points from %s to %s", len(got), got[0], got[len(got)-1])
	}
}

// Bars stand one upon another: three admitted and one denied of four offered.
func TestBarsAreStacked(t *testing.T) {
	got := string(barChart("requests", "requests", 0.5, series{"admitted", "admitted", []point{{0, 3}, {0.5, 0}}},
		series{"denied", "denied", []point{{0, 1}, {0.5, 0}}}))
	for _, want := range []string{
		`<path class="admitted" d="M60.00 220.0V74.5H380.00V220.0Z"/>`, `<path class="denied" d="M60.00 74.5V26.0H380.00V74.5Z"/>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// Bursts are seen as such: what comes at the beginning of a second fills a part of its bars, also in a
// long test. Other arrivals have bars of seconds, of which there are not too many to draw.
func TestBurstsAreSeen(t *testing.T) {
	for _, c := range []struct {
		arrivals string
		over     time.Duration
		want     time.Duration
	}{
		{bursts, time.Second, 100 * time.Millisecond}, {bursts, 2 * time.Minute, 200 * time.Millisecond},
		{bursts, 24 * time.Hour, 500 * time.Millisecond}, {poisson, 30 * time.Second, time.Second},
		{constant, time.Hour, 6 * time.Second}, {poisson, 24 * time.Hour, 144 * time.Second},
	} {
		plan := loadPlan{Arrivals: c.arrivals, Duration: c.over}
		check.Equal(t, binWidth(plan), c.want, "%s for %v: bars of", c.arrivals, c.over)
	}
	plan := loadPlan{Arrivals: bursts, Duration: 2 * time.Second, Entities: 1}
	var samples []sample
	for _, at := range arrivals(bursts, 15, plan.Duration, nil) {
		samples = append(samples, sample{start: at, err: limiter.ErrLimited})
	}
	offered := map[int]int{}
	for i, bin := range binned(plan, samples, binWidth(plan)) {
		if bin.Offered > 0 {
			offered[i] = bin.Offered
		}
	}
	if len(offered) != 2 || offered[0] != 15 || offered[10] != 15 {
		t.Errorf("offered %v by tenths of seconds, want 15 in the first of each second", offered)
	}
}
