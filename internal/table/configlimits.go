package table

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
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

var configPrefixes = []string{prefixLimit, prefixSlots, prefixFirstUse}

// prefixOf returns the prefix of a limit's attributes.
func prefixOf(l bucket.Limit) string {
	switch {
	case l.Lends():
		return prefixSlots
	case l.FirstUse() > 0:
		return prefixFirstUse
	}
	return prefixLimit
}

// isAnother reports whether a stored refill amount says that the limit of a name and prefix is of
// another kind than this one.
func isAnother(l bucket.Limit, amount int64) bool { return !l.Lends() && (amount == 0) != l.Renews() }

// limitOfConfig returns the limit whose capacity the attribute holds, and its prefix.
func limitOfConfig(attr string) (prefix, name string, ok bool) {
	name, ok = strings.CutSuffix(attr, "_"+fieldCapacity)
	for _, prefix := range configPrefixes {
		if rest, has := strings.CutPrefix(name, prefix); ok && has && rest != "" {
			return prefix, rest, true
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
		if l.Lends() {
			continue
		}
		it[at+fieldAmount] = item.N(l.Amount / bucket.Milli)
		if l.Soft {
			it[at+fieldSoft] = item.Bool(true)
		}
		switch n := l.FirstUse(); {
		case n > 0:
			it[at+fieldLength] = item.N(n / milliPerSecond)
		case l.Renews():
			it[at+fieldCalendar] = item.S(calendar.Stored(l.Reset, zone))
		}
	}
}

// limits reads the limits of a configuration, in order of name.
func (r *reader) limits(c *Config) {
	for attr := range r.it {
		if prefix, name, ok := limitOfConfig(attr); ok {
			c.Limits = append(c.Limits, bucket.Limit{Name: name, Reset: prefix})
		}
	}
	slices.SortFunc(c.Limits, func(a, b bucket.Limit) int { return strings.Compare(a.Name+a.Reset, b.Name+b.Reset) })
	for i := range c.Limits {
		l := &c.Limits[i]
		if i > 0 && c.Limits[i-1].Name == l.Name {
			r.fail("limit %q is stored twice, with two of the prefixes %q", l.Name, configPrefixes)
		}
		at := l.Reset + l.Name + "_"
		if l.Floors = r.str(at + fieldFloors); !bucket.AreFloors(l.Floors) {
			r.fail("attribute %q is %q, want percents of classes like \"batch=40,free=60\"", at+fieldFloors, l.Floors)
		}
		l.Ahead = r.int(at + fieldAhead)
		if l.AtOnce = l.Reset == prefixSlots; l.AtOnce {
			r.slots(l, at)
			continue
		}
		l.Capacity, l.Soft = r.scaled(at, fieldCapacity, bucket.Milli), r.flag(at+fieldSoft)
		l.Period = r.scaled(at, fieldPeriod, milliPerSecond)
		if l.Reset = r.calendar(at); l.Renews() {
			l.Period = bucket.QuotaPeriod
			continue
		}
		l.Amount = r.scaled(at, fieldAmount, bucket.Milli)
	}
}

// slots reads a limit of slots.
func (r *reader) slots(l *bucket.Limit, at string) {
	l.Reset = ""
	l.Capacity, l.Period = r.scaled(at, fieldCapacity, bucket.Milli), r.scaled(at, fieldPeriod, milliPerSecond)
	if r.err == nil && (l.Period < bucket.MinEpoch || l.Period > bucket.MaxEpoch) {
		r.fail("attribute %q is %d, want %d to %d", at+fieldPeriod, l.Period/milliPerSecond,
			bucket.MinEpoch/milliPerSecond, bucket.MaxEpoch/milliPerSecond)
	}
}

// calendar reads the calendar of a quota, empty for a rate. What would change decisions
// and is not served is an error.
func (r *reader) calendar(at string) string {
	if _, ok := r.value(at + fieldSchedule); ok {
		r.fail("attribute %q is the schedule of a Python client, which this module does not serve; store the limit without",
			at+fieldSchedule)
	}
	n, has, err := intAttr(r.it, at+fieldAmount)
	if err != nil || !has || n != 0 {
		return "" // a rate; what is wrong with it is said of its amount
	}
	if length := r.int(at + fieldLength); length != 0 {
		return r.canonical(at+fieldLength, "+"+strconv.FormatInt(length, 10))
	}
	stored := r.str(at + fieldCalendar)
	if stored == "" {
		return ""
	}
	canonical, err := calendar.Read(stored, r.str(attrZone))
	if err != nil {
		r.fail("attribute %q: %w", at+fieldCalendar, err)
	}
	return canonical
}

func (r *reader) canonical(attr, canonical string) string {
	if _, err := calendar.Parse(canonical); err != nil {
		r.fail("attribute %q: %w", attr, err)
	}
	return canonical
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
