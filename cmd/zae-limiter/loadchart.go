package main

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// series is a series of a chart: its name in the legend, its class for colour and pattern, and its
// points in order of time.
type series struct {
	name, class string
	points      []point
}

// point is a value at an instant, in seconds since the first request.
type point struct{ at, value float64 }

const (
	chartWidth, chartHeight = 720, 250
	chartLeft, chartRight   = 60, 20
	chartTop, chartBottom   = 26, 30
)

// chart draws values over time as an SVG.
type chart struct {
	strings.Builder
	seconds, most float64 // the ends of the axes
}

// newChart draws the axes. Values are in the unit.
func newChart(about, unit string, seconds, most float64) *chart {
	c := &chart{seconds: max(math.Ceil(seconds), 1), most: roundUp(most)}
	fmt.Fprintf(c, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s over time">`, chartWidth, chartHeight,
		about)
	fmt.Fprintf(c, `<text x="%d" y="12">%s</text>`, chartLeft, unit)
	for _, part := range []float64{0, 0.5, 1} {
		v, t := part*c.most, part*c.seconds
		fmt.Fprintf(c, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, chartLeft, chartWidth-chartRight, c.y(v),
			c.y(v))
		fmt.Fprintf(c, `<text x="%d" y="%.1f" text-anchor="end">%.4g</text>`, chartLeft-8, c.y(v)+4, v)
		fmt.Fprintf(c, `<text x="%.1f" y="%d" text-anchor="middle">%.4g s</text>`, c.x(t), chartHeight-8, t)
	}
	return c
}

func (c *chart) x(at float64) float64 {
	return chartLeft + at/c.seconds*(chartWidth-chartLeft-chartRight)
}

func (c *chart) y(value float64) float64 {
	return chartTop + (1-value/c.most)*(chartHeight-chartBottom-chartTop)
}

// end closes the drawing and adds the legend. The swatches have the given shape.
func (c *chart) end(all []series, shape string) template.HTML {
	c.WriteString(`</svg><p class="legend">`)
	for _, s := range all {
		fmt.Fprintf(c, `<span><svg class="swatch" viewBox="0 0 24 12"><path class="%s" d="%s"/></svg> %s</span> `,
			s.class, shape, s.name)
	}
	c.WriteString("</p>")
	return template.HTML(c.String()) // safe: only constants and numbers
}

// lineChart draws a line for each series.
func lineChart(about, unit string, all ...series) template.HTML {
	seconds, most := 0.0, 0.0
	for _, s := range all {
		for _, p := range s.points {
			seconds, most = max(seconds, p.at), max(most, p.value)
		}
	}
	c := newChart(about, unit, seconds, most)
	for _, s := range all {
		fmt.Fprintf(c, `<polyline class="%s" points="%s"/>`, s.class, strings.Join(c.drawn(s.points), " "))
	}
	return c.end(all, "M0 6H24")
}

// drawn returns the points to draw: where several have the same place on the time axis, only the
// first and the last.
func (c *chart) drawn(points []point) (out []string) {
	places := make([]float64, 0, len(points))
	for _, p := range points {
		x := math.Round(2*c.x(p.at)) / 2
		text := fmt.Sprintf("%.1f,%.1f", x, c.y(p.value))
		if n := len(out); n > 1 && places[n-1] == x && places[n-2] == x {
			out[n-1] = text
			continue
		}
		out, places = append(out, text), append(places, x)
	}
	return out
}

// barChart stacks the values of the series at each instant. A bar is width seconds wide.
func barChart(about, unit string, width float64, all ...series) template.HTML {
	count, most := len(all[0].points), 0.0
	sums := make([]float64, count)
	for i := range sums {
		for _, s := range all {
			sums[i] += s.points[i].value
		}
		most = max(most, sums[i])
	}
	c := newChart(about, unit, float64(count)*width, most)
	base := make([]float64, count)
	for _, s := range all {
		var d strings.Builder
		for i, p := range s.points {
			if p.value > 0 {
				fmt.Fprintf(&d, "M%.2f %.1fV%.1fH%.2fV%.1fZ", c.x(p.at), c.y(base[i]), c.y(base[i]+p.value),
					c.x(p.at+width), c.y(base[i]))
				base[i] += p.value
			}
		}
		fmt.Fprintf(c, `<path class="%s" d="%s"/>`, s.class, d.String())
	}
	return c.end(all, "M0 0H24V12H0Z")
}

// roundUp returns the next number with one digit of which half is easy to read too: 15 becomes 20,
// 12.7 becomes 20, 0.41 becomes 0.6. Zero becomes 1.
func roundUp(n float64) float64 {
	if n <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(n)))
	for _, digit := range []float64{1, 2, 4, 6, 8} {
		if n <= digit*unit {
			return digit * unit
		}
	}
	return 10 * unit
}
