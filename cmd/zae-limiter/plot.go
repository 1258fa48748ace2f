package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/admin"
)

// plotWidth is how many columns the longest bar has.
const plotWidth = 50

// bar is one bar of a plot.
type bar struct {
	label string
	value int64
}

// bars draws horizontal bars, the longest of which has the width; a value that is
// not zero is always seen. Values below zero are drawn as zero.
func bars(all []bar, width int) []string {
	most, label := int64(1), 0
	for _, b := range all {
		most, label = max(most, b.value), max(label, utf8.RuneCountInString(b.label))
	}
	var out []string
	for _, b := range all {
		eighths := int(float64(max(b.value, 0)) / float64(most) * float64(width*8))
		if b.value > 0 {
			eighths = max(eighths, 1)
		}
		line := strings.Repeat("█", eighths/8)
		if rest := eighths % 8; rest > 0 {
			line += string([]rune("▏▎▍▌▋▊▉")[rest-1])
		}
		pad := strings.Repeat(" ", label-utf8.RuneCountInString(b.label))
		fill := strings.Repeat(" ", width-utf8.RuneCountInString(line))
		out = append(out, fmt.Sprintf("%s%s  %s%s  %d", b.label, pad, line, fill, b.value))
	}
	return out
}

// plotUsage returns a plot for each entity, resource, kind of window and limit.
func plotUsage(all []admin.Usage) string {
	type series struct {
		entity, resource, limit string
		window                  admin.Window
	}
	var order []series
	plots := map[series][]bar{}
	for _, u := range all {
		for _, name := range sortedKeys(u.Tokens) {
			key := series{u.Entity, u.Resource, name, u.Window}
			if plots[key] == nil {
				order = append(order, key)
			}
			plots[key] = append(plots[key], bar{u.Start.UTC().Format(formOf(u.Window)), u.Tokens[name]})
		}
	}
	var out strings.Builder
	for i, key := range order {
		if i > 0 {
			fmt.Fprintln(&out)
		}
		head := fmt.Sprintf("%s of %s on %s, %s, tokens", key.limit, key.entity, key.resource, key.window)
		fmt.Fprintln(&out, harmless(head))
		points := plots[key]
		slices.SortStableFunc(points, func(x, y bar) int { return strings.Compare(x.label, y.label) })
		for _, line := range bars(points, plotWidth) {
			fmt.Fprintln(&out, line)
		}
	}
	return out.String()
}

// formOf returns how the start of a window is written.
func formOf(w admin.Window) string {
	switch w {
	case admin.Monthly:
		return "2006-01"
	case admin.Daily:
		return "2006-01-02"
	}
	return "2006-01-02 15:04"
}
