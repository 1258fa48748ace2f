package main

import (
	"fmt"
	"math"
	"strings"
)

// point is a value at an instant, in seconds.
type point struct{ At, Value float64 }

// frame is the area of a plot over time, in drawing units. Values begin at zero.
type frame struct {
	Left, Top, Width, Height float64
	seconds, high            float64
}

// Right and Bottom are the far ends of the area.
func (f frame) Right() float64  { return f.Left + f.Width }
func (f frame) Bottom() float64 { return f.Top + f.Height }

// Above and Below are the positions of the axis name and of the instants.
func (f frame) Above() float64 { return f.Top - 10 }
func (f frame) Below() float64 { return f.Bottom() + 18 }

// under returns a frame of some height below this one, with the same time.
func (f frame) under(height float64) frame {
	f.Top, f.Height = f.Bottom()+betweenPanels, height
	return f
}

// X and Y return the positions of an instant and a value.
func (f frame) X(at float64) float64 { return f.Left + f.Width*min(max(at/f.seconds, 0), 1) }
func (f frame) Y(value float64) float64 {
	return f.Bottom() - f.Height*min(max(value/f.high, 0), 1)
}

// Times and Values are the instants and values of the grid.
func (f frame) Times() []float64  { return ticks(f.seconds, 8) }
func (f frame) Values() []float64 { return ticks(f.high, min(5, f.Height/(1.2*lineHeight))) }

// ticks returns about n round numbers from zero to high.
func ticks(high, n float64) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10(high/n)))
	for _, by := range []float64{1, 2, 5, 10} {
		if high/(step*by) <= n {
			step *= by
			break
		}
	}
	step = max(step, 1)
	for v := 0.0; v <= high; v += step {
		out = append(out, v)
	}
	return out
}

// line returns the path through the points; with steps, it holds each value until the next point,
// and until the end.
func (f frame) line(points []point, steps bool) string {
	var b strings.Builder
	for i, p := range points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%.1f %.1f", f.X(p.At), f.Y(p.Value))
		case steps:
			fmt.Fprintf(&b, "H%.1fV%.1f", f.X(p.At), f.Y(p.Value))
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", f.X(p.At), f.Y(p.Value))
		}
	}
	if steps && len(points) > 0 {
		fmt.Fprintf(&b, "H%.1f", f.Right())
	}
	return b.String()
}

// number formats an amount with separated thousands.
func number(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
