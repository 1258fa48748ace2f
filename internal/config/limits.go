package config

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const (
	// fieldFloors is the floors of a limit.
	fieldFloors = "fl"
	// fieldAhead is how long, in milliseconds, prefetched tokens of a limit may be held.
	fieldAhead = "ah"
)

// putLimits adds the limits to a configuration item.
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
	for name, form := range c.Raises {
		it[prefixLimit+name+raisesSuffix] = item.S(form)
	}
}

// Raised returns limits with the configuration's raises that have not ended by an instant.
func (c Config) Raised(limits []bucket.Limit, now int64) []bucket.Limit {
	if len(c.Raises) > 0 {
		limits = slices.Clone(limits)
		for i, l := range limits {
			limits[i] = l.WithRaises(bucket.FormOfRaises(c.Lasting(l.Name, now)))
		}
	}
	return limits
}

// Lasting returns a limit's raises that have not ended by an instant.
func (c Config) Lasting(limit string, now int64) []bucket.Raise {
	return bucket.LastingRaises(c.Raises[limit], now)
}

// DropEndedRaises removes raises that have ended by an instant.
func (c *Config) DropEndedRaises(now int64) {
	for limit := range c.Raises {
		if c.Raises[limit] = bucket.FormOfRaises(c.Lasting(limit, now)); c.Raises[limit] == "" {
			delete(c.Raises, limit)
		}
	}
}

const raisesSuffix = "_" + layout.FieldRaises

// readRaises reads the raises of a configuration.
func (c *Config) readRaises(r *item.Reader) {
	for attr := range r.It {
		name, ok := strings.CutSuffix(strings.TrimPrefix(attr, prefixLimit), raisesSuffix)
		if !ok || !strings.HasPrefix(attr, prefixLimit) || c.Entity == "" || c.Resource == layout.DefaultResource {
			continue
		}
		form := r.Str(attr)
		if _, err := bucket.ParseRaises(form); err != nil {
			r.Fail("attribute %q: %w", attr, err)
			continue
		}
		if c.Raises == nil {
			c.Raises = map[string]string{}
		}
		c.Raises[name] = form
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
