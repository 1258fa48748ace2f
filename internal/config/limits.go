package config

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const (
	// fieldFloors are the floors of a limit.
	fieldFloors = "fl"
	// fieldAhead is for how long, in milliseconds, tokens of a limit may be held that are taken
	// ahead.
	fieldAhead = "ah"
)

// putLimits adds the limits to the item of a configuration.
func (c Config) putLimits(it item.Item) {
	zone := zoneOf(c.Limits)
	if zone != "" {
		it[layout.AttrZone] = item.S(zone)
	}
	for _, l := range c.Limits {
		if l.Capacity%bucket.Milli != 0 || l.Amount%bucket.Milli != 0 || l.Period%milliPerSecond != 0 {
			panic("bug: limit " + l.String() + " is stored in whole tokens and seconds")
		}
		at := prefixOf(l) + l.Name + "_"
		it[at+layout.FieldCapacity] = item.N(l.Capacity / bucket.Milli)
		it[at+layout.FieldPeriod] = item.N(l.Period / milliPerSecond)
		if l.Floors != "" {
			it[at+fieldFloors] = item.S(l.Floors)
		}
		if l.Ahead != 0 {
			it[at+fieldAhead] = item.N(l.Ahead)
		}
		putKind(it, at, l, zone)
	}
}

// readLimits reads the limits of a configuration, in order of name.
func readLimits(r *item.Reader, c *Config) {
	type found struct{ name, prefix string }
	var all []found
	for attr := range r.It {
		if prefix, name, ok := limitOfConfig(attr); ok {
			all = append(all, found{name, prefix})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.name+a.prefix, b.name+b.prefix) })
	for i, f := range all {
		if i > 0 && all[i-1].name == f.name {
			r.Fail("limit %q is stored twice, with two of the prefixes %q", f.name, prefixes)
		}
		l, at := bucket.Limit{Name: f.name}, f.prefix+f.name+"_"
		if l.Floors = r.Str(at + fieldFloors); !bucket.AreFloors(l.Floors) {
			r.Fail("attribute %q is %q, want percents of classes like \"batch=40,free=60\"", at+fieldFloors, l.Floors)
		}
		l.Ahead = r.Int(at + fieldAhead)
		l.Capacity, l.Period = scaled(r, at, layout.FieldCapacity, bucket.Milli), scaled(r, at, layout.FieldPeriod,
			milliPerSecond)
		readKind(r, &l, f.prefix, at)
		c.Limits = append(c.Limits, l)
	}
}
