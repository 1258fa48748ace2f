package config

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A configuration stores limits in attributes named by a prefix, the limit's name and a field.
// First-use quotas and slots have their own prefixes, which older clients ignore. Slots have a
// capacity, and as period the length of their epochs.
const (
	prefixLimit    = "l_"
	prefixFirstUse = "w_"
	prefixInFlight = "s_"
)

// prefixes are the prefixes of limit attributes in configurations.
var prefixes = []string{prefixLimit, prefixInFlight, prefixFirstUse}

// prefixOf returns the prefix of a limit's attributes. Limits that other clients do not support
// have another one.
func prefixOf(l bucket.Limit) string {
	switch {
	case l.Returns():
		return prefixInFlight
	case l.FirstUse() > 0:
		return prefixFirstUse
	}
	return prefixLimit
}

// limitOfConfig returns the limit whose capacity an attribute holds, and its prefix.
func limitOfConfig(attr string) (prefix, name string, ok bool) {
	name, ok = strings.CutSuffix(attr, "_"+layout.FieldCapacity)
	for _, p := range prefixes {
		if rest, has := strings.CutPrefix(name, p); ok && has && rest != "" {
			return p, rest, true
		}
	}
	return "", "", false
}

// zoneOf returns the zone of the version 1 calendars and schedules: the first one among the limits.
func zoneOf(limits []bucket.Limit) string {
	for _, l := range limits {
		if zone := cmp.Or(calendar.Zone(l.Reset), calendar.Zone(l.Schedule())); zone != "" {
			return zone
		}
	}
	return ""
}

// scaled reads a positive number of a limit, and multiplies it by unit; at begins the names of its
// attributes.
func scaled(r *item.Reader, at, field string, unit int64) int64 {
	n, ok, err := item.Int(r.It, at+field)
	switch most := math.MaxInt64 / unit; {
	case err != nil:
		r.Fail("%w", err)
	case !ok:
		r.Fail("attribute %q is absent, want 1 to %d", at+field, most)
	case n < 1 || n > most:
		r.Fail("attribute %q is %d, want 1 to %d", at+field, n, most)
	}
	if r.Err != nil {
		return 0
	}
	return n * unit
}

// putKind adds the attributes that only a limit's kind has; at begins their names. Slots have none.
func putKind(it item.Item, at string, l bucket.Limit, zone string) {
	if l.Returns() {
		return
	}
	it[at+layout.FieldAmount] = item.N(l.Amount / bucket.Milli)
	if l.Soft {
		it[at+layout.FieldSoft] = item.Bool(true)
	}
	switch n := l.FirstUse(); {
	case n > 0:
		it[at+layout.FieldLength] = item.N(n / milliPerSecond)
	case l.Renews():
		it[at+layout.FieldCalendar] = item.S(calendar.Stored(l.Reset, zone))
	case l.Plan != "":
		it[at+layout.FieldSchedule] = item.S(calendar.Stored(l.Schedule(), zone))
	}
}

// readKind reads these attributes, and recognizes slots by their prefix.
func readKind(r *item.Reader, l *bucket.Limit, prefix, at string) {
	if prefix == prefixInFlight {
		l.InFlight = true
		if r.Err == nil && (l.Period < bucket.MinEpoch || l.Period > bucket.MaxEpoch) {
			r.Fail("attribute %q is %d, want %d to %d", at+layout.FieldPeriod, l.Period/milliPerSecond,
				bucket.MinEpoch/milliPerSecond, bucket.MaxEpoch/milliPerSecond)
		}
		return
	}
	l.Soft = r.Flag(at + layout.FieldSoft)
	if l.Reset = readCalendar(r, at); l.Renews() {
		l.Period = bucket.QuotaPeriod
		return
	}
	l.Amount = scaled(r, at, layout.FieldAmount, bucket.Milli)
	if stored := r.Str(at + layout.FieldSchedule); stored != "" {
		form, err := calendar.ReadSchedule(stored, r.Str(layout.AttrZone))
		if err == nil {
			*l, err = l.WithSchedule(form)
		}
		if err != nil {
			r.Fail("attribute %q: %w", at+layout.FieldSchedule, err)
		}
	}
}

// detailKind adds the kind of a limit to the details of an audit event.
func detailKind(d item.Item, l bucket.Limit) {
	switch {
	case l.Returns():
		d[detailInFlight] = item.Bool(true)
	case l.Renews():
		d[detailReset] = item.S(calendar.Text(l.Reset))
	case l.Plan != "":
		d[detailSchedule] = item.S(l.Schedule())
	}
}

// readCalendar reads the calendar of a quota, empty for a rate. Unsupported attributes that would
// change decisions are an error.
func readCalendar(r *item.Reader, at string) string {
	n, has, err := item.Int(r.It, at+layout.FieldAmount)
	if err != nil || !has || n != 0 {
		return "" // a rate; its amount reports an error
	}
	if _, ok := r.Value(at + layout.FieldSchedule); ok {
		r.Fail("attribute %q is the schedule of a quota, which this module does not serve; store the limit without",
			at+layout.FieldSchedule)
	}
	if length := r.Int(at + layout.FieldLength); length != 0 {
		form := "+" + strconv.FormatInt(length, 10)
		if _, err := calendar.Parse(form); err != nil {
			r.Fail("attribute %q: %w", at+layout.FieldLength, err)
		}
		return form
	}
	stored := r.Str(at + layout.FieldCalendar)
	if stored == "" {
		return ""
	}
	canonical, err := calendar.Read(stored, r.Str(layout.AttrZone))
	if err != nil {
		r.Fail("attribute %q: %w", at+layout.FieldCalendar, err)
	}
	return canonical
}
