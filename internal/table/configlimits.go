package table

import (
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// How a configuration stores limits: in attributes of the prefix, the name and a field.
// Quotas from the first use, and slots, have prefixes of their own, so that clients which do
// not know them pass over them. Slots have a capacity, and the length of their epochs as the
// period.
const (
	prefixLimit    = "l_"
	prefixFirstUse = "w_"
)

// prefixOf returns the prefix of a limit's attributes.
func prefixOf(l bucket.Limit) string { return formOf(l).prefix(l) }

// formWith returns the form of limits with a prefix.
func formWith(prefix string) form {
	for _, p := range configPrefixes {
		if p.prefix == prefix {
			return p.form
		}
	}
	panic("bug: no limits begin with " + prefix)
}

// prefixes returns all of them.
func prefixes() (out []string) {
	for _, p := range configPrefixes {
		out = append(out, p.prefix)
	}
	return out
}

// limitOfConfig returns the limit whose capacity the attribute holds, and its prefix.
func limitOfConfig(attr string) (prefix, name string, ok bool) {
	name, ok = strings.CutSuffix(attr, "_"+fieldCapacity)
	for _, p := range configPrefixes {
		if rest, has := strings.CutPrefix(name, p.prefix); ok && has && rest != "" {
			return p.prefix, rest, true
		}
	}
	return "", "", false
}

// putLimits adds the limits to the item of a configuration.
func (c Config) putLimits(it item.Item) {
	s := bucket.State{}
	for _, l := range c.Limits {
		s.Slots = append(s.Slots, bucket.Slot{Limit: l})
	}
	zone := Shard{}.zone(s)
	if zone != "" {
		it[attrZone] = item.S(zone)
	}
	for _, l := range c.Limits {
		if l.Capacity%bucket.Milli != 0 || l.Amount%bucket.Milli != 0 || l.Period%milliPerSecond != 0 {
			panic("bug: limit " + l.String() + " is stored in whole tokens and seconds")
		}
		at := prefixOf(l) + l.Name + "_"
		it[at+fieldCapacity] = item.N(l.Capacity / bucket.Milli)
		it[at+fieldPeriod] = item.N(l.Period / milliPerSecond)
		if l.Floors != "" {
			it[at+fieldFloors] = item.S(l.Floors)
		}
		if l.Ahead != 0 {
			it[at+fieldAhead] = item.N(l.Ahead)
		}
		formOf(l).configure(it, at, l, zone)
	}
}

// limits reads the limits of a configuration, in order of name.
func (r *reader) limits(c *Config) {
	type found struct{ name, prefix string }
	var all []found
	for attr := range r.it {
		if prefix, name, ok := limitOfConfig(attr); ok {
			all = append(all, found{name, prefix})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.name+a.prefix, b.name+b.prefix) })
	for i, f := range all {
		if i > 0 && all[i-1].name == f.name {
			r.fail("limit %q is stored twice, with two of the prefixes %q", f.name, prefixes())
		}
		l, at := bucket.Limit{Name: f.name}, f.prefix+f.name+"_"
		if l.Floors = r.str(at + fieldFloors); !bucket.AreFloors(l.Floors) {
			r.fail("attribute %q is %q, want percents of classes like \"batch=40,free=60\"", at+fieldFloors, l.Floors)
		}
		l.Ahead = r.int(at + fieldAhead)
		l.Capacity, l.Period = r.scaled(at, fieldCapacity, bucket.Milli), r.scaled(at, fieldPeriod, milliPerSecond)
		formWith(f.prefix).configured(r, &l, at)
		c.Limits = append(c.Limits, l)
	}
}

// scaled reads a positive number of a limit and multiplies it by unit; at is what the
// names of its attributes begin with.
func (r *reader) scaled(at, field string, unit int64) int64 {
	n, ok, err := intAttr(r.it, at+field)
	switch most := math.MaxInt64 / unit; {
	case err != nil:
		r.fail("%w", err)
	case !ok:
		r.fail("attribute %q is absent, want 1 to %d", at+field, most)
	case n < 1 || n > most:
		r.fail("attribute %q is %d, want 1 to %d", at+field, n, most)
	}
	if r.err != nil {
		return 0
	}
	return n * unit
}
