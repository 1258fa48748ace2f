package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// plotWidth is the length of the longest bar, in columns.
const plotWidth = 50

type bar struct {
	label string
	amount
}

// bars draws horizontal bars. The longest has the width, and a positive value always has a visible
// bar. Negative values are drawn as zero.
func bars(all []bar, width int) []string {
	most, label := int64(1), 0
	for _, b := range all {
		most, label = max(most, b.tokens), max(label, utf8.RuneCountInString(b.label))
	}
	var out []string
	for _, b := range all {
		eighths := int(float64(max(b.tokens, 0)) / float64(most) * float64(width*8))
		if b.tokens > 0 {
			eighths = max(eighths, 1)
		}
		line := strings.Repeat("█", eighths/8)
		if rest := eighths % 8; rest > 0 {
			line += string([]rune("▏▎▍▌▋▊▉")[rest-1])
		}
		out = append(out, fmt.Sprintf("%-*s  %-*s  %s", label, b.label, width, line, b.amount))
	}
	return out
}

// plotUsage returns a plot for each limit, with the shortest windows that have usage. One plot has
// the bars of all entities and resources. It returns nothing if no plot has two bars: a table shows
// that better.
func plotUsage(all []admin.Usage) string {
	window := admin.Monthly
	for _, u := range all {
		if u.Window == admin.Hourly || u.Window == admin.Daily && window == admin.Monthly {
			window = u.Window
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(u admin.Usage) bool { return u.Window != window })
	plots := map[string][]bar{}
	most := 0
	whose, several := whose(all)
	for _, u := range all {
		for limit, tokens := range u.Tokens {
			label := u.Start.UTC().Format(startForms[window])
			if several {
				label = fmt.Sprintf("%s on %s  %s", u.Entity, u.Resource, label)
			}
			plots[limit] = append(plots[limit], bar{harmless(label), amountIn(limit, tokens)})
			most = max(most, len(plots[limit]))
		}
	}
	if most < 2 {
		return ""
	}
	var out []string
	for _, limit := range sortedKeys(plots) {
		unit := "tokens"
		if validate.InDollars(limit) {
			unit = "dollars"
		}
		points := plots[limit]
		slices.SortStableFunc(points, func(x, y bar) int { return strings.Compare(x.label, y.label) })
		head := harmless(fmt.Sprintf("%s%s, %s, %s", limit, whose, window, unit))
		out = append(out, strings.Join(append([]string{head}, bars(points, plotWidth)...), "\n")+"\n")
	}
	return strings.Join(out, "\n")
}

// whose names the entity and resource of usage, or says that there are several.
func whose(all []admin.Usage) (text string, several bool) {
	for _, u := range all {
		if u.Entity != all[0].Entity || u.Resource != all[0].Resource {
			return "", true
		}
		text = fmt.Sprintf(" of %s on %s", u.Entity, u.Resource)
	}
	return text, false
}

// startForms are the time formats for the starts of windows.
var startForms = map[admin.Window]string{
	admin.Monthly: "2006-01", admin.Daily: time.DateOnly, admin.Hourly: "2006-01-02 15:04",
}
