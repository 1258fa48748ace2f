package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
)

// What a million units cost on demand in us-east-1.
const (
	dollarsPerMillion     = 0.625 // write units
	dollarsPerMillionRead = 0.125
)

// What the paths cost, in units, as make cost measures them (docs/cost.md).
const (
	unitsOfAcquire = 1.0 // of each level of a cascade; a settlement costs as much
	unitsOfConfig  = 2.5 // read units
	unitsOfUsage   = 1.0
	unitsOfFirst   = 2.0 // more, of the first snapshot of a window, in the indexes
	unitsOfReads   = 2.5 // read units, of each bucket and hour: at the snapshots before, and at what is owed
)

const (
	monthHours = 730
	monthDays  = 730. / 24
	longFold   = 600 // seconds: from here on longer windows catch up every second hour
)

// mix is what a month has.
type mix struct {
	Rate         float64 // granted requests per second, on average
	Settled      float64 // part of them that is settled, 0 to 1
	Levels       int     // entities that each request charges
	Processes    int
	Entities     int     // with their resources
	Skew         float64 // exponent of Zipf's law by which they are used; 0: all of them all the time
	Windows      int     // of usage
	FoldSeconds  float64 // between writes of usage
	LimitsInCode bool
}

type costLine struct {
	Part    string  `json:"part"`
	Units   float64 `json:"units"`
	Kind    string  `json:"kind"`
	Dollars float64 `json:"dollars"`
}

// costs returns what a month costs, the sum last. Reads of limits and writes of usage
// are at most one for each request.
func (m mix) costs() []costLine {
	const seconds, minutes = monthHours * 3600, monthHours * 60
	requests := m.Rate * seconds
	levels := float64(m.Levels)
	lines := []costLine{
		{"acquire", requests * levels * unitsOfAcquire, "write", 0},
		{"settle", requests * m.Settled * levels * unitsOfAcquire, "write", 0},
	}
	if !m.LimitsInCode {
		reads := min(float64(m.Processes*m.Entities)*minutes, requests)
		lines = append(lines, costLine{"read stored limits", reads * levels * unitsOfConfig, "read", 0})
	}
	if m.Windows > 0 {
		lines = append(lines, costLine{"usage", m.usage() * levels, "write", 0},
			costLine{"read for usage", m.inUse(3600) * monthHours * unitsOfReads * levels, "read", 0})
	}
	sum := costLine{Part: "sum", Kind: "both"}
	for i := range lines {
		l := &lines[i]
		price := dollarsPerMillion
		if l.Kind == "read" {
			price = dollarsPerMillionRead
		}
		l.Dollars = l.Units * price / 1e6
		sum.Units += l.Units
		sum.Dollars += l.Dollars
	}
	return append(lines, sum)
}

// usage returns the write units of the usage of a month, for each level. An hour is
// written with every fold, a day and a month once an hour is over, or two.
func (m mix) usage() float64 {
	const hour = 3600
	fold, hours := m.inUse(m.FoldSeconds), m.inUse(hour)
	writes := fold*monthHours*hour/m.FoldSeconds + hours*monthHours*unitsOfFirst
	catchUps := hours * monthHours
	if m.FoldSeconds >= longFold {
		catchUps = m.inUse(2*hour) * monthHours / 2
	}
	if m.Windows > 1 {
		writes += catchUps + m.inUse(24*hour)*monthDays*unitsOfFirst
	}
	if m.Windows > 2 {
		writes += catchUps + m.inUse(monthHours*hour)*unitsOfFirst
	}
	return writes * unitsOfUsage
}

// inUse returns how many entities are used within so many seconds: as many as there
// are, or requests, or by Zipf's law how many of them are to be expected.
func (m mix) inUse(seconds float64) float64 {
	requests := m.Rate * seconds
	if m.Skew == 0 {
		return min(float64(m.Entities), requests)
	}
	all, used := 0.0, 0.0
	for i := range m.Entities {
		all += math.Pow(float64(i+1), -m.Skew)
	}
	for i := range m.Entities {
		share := math.Pow(float64(i+1), -m.Skew) / all
		used -= math.Expm1(requests * math.Log1p(-share)) // 1 - (1 - share)^requests
	}
	return used
}

func costCommand(a *app) *cobra.Command {
	var m mix
	cmd := &cobra.Command{
		Use: "cost --rate R", Short: "compute what a month costs",
		Long: `Compute what DynamoDB charges a month of 730 hours, on demand in us-east-1, from the
units that the paths were measured to take. Functions, alarms and storage come on top,
and denials: at most one write for each process, bucket and second. Where entities are
not in use all the time, what is said of stored limits is the most it can be, and of usage
too unless --skew says how unevenly they are used; 1.1 is what was measured.`,
		Example: "  zae-limiter cost --rate 10 --settle 1 --processes 4 --entities 200",
		Args:    args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if m.Rate <= 0 || m.Settled < 0 || m.Settled > 1 || m.Levels < 1 || m.Levels > 4 || m.Processes < 1 ||
				m.Entities < 1 || m.Skew < 0 || m.Skew > 3 || m.Windows < 0 || m.Windows > 3 || m.FoldSeconds < 1 {
				return usage(c, "want --rate above 0, --settle 0 to 1, --levels 1 to 4, --windows 0 to 3, --skew 0 to 3, "+
					"the others at least 1")
			}
			r := rows{head: []string{"part", "million units", "kind", "$ a month"}}
			for _, l := range m.costs() {
				r.add(l.Part, fmt.Sprintf("%.1f", l.Units/1e6), l.Kind, fmt.Sprintf("%.2f", l.Dollars))
			}
			return a.print(m.costs(), r)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&m.Rate, "rate", 0, "granted requests per second, on average")
	f.Float64Var(&m.Settled, "settle", 0, "part of them that is settled, 0 to 1")
	f.IntVar(&m.Levels, "levels", 1, "entities that each request charges: itself, its parent, ...")
	f.IntVar(&m.Processes, "processes", 1, "processes that take from every entity")
	f.IntVar(&m.Entities, "entities", 1, "entities and resources that are in use all the time")
	f.Float64Var(&m.Skew, "skew", 0, "exponent of Zipf's law by which entities are used; 0: all of them all the time")
	f.IntVar(&m.Windows, "windows", 2, "windows of usage: 1 hours, 2 days too, 3 months too; 0: none")
	f.Float64Var(&m.FoldSeconds, "fold", 60, "seconds between writes of usage (aggregatorFoldSeconds)")
	f.BoolVar(&m.LimitsInCode, "limits-in-code", false, "no stored limits are read")
	return cmd
}
