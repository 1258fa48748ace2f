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

// How a configuration stores limits: in attributes of the prefix, the name and a field.
// Quotas from the first use, and slots, have prefixes of their own, so that clients which do
// not know them pass over them. Slots have a capacity, and the length of their epochs as the
// period.
const (
	prefixLimit    = "l_"
	prefixFirstUse = "w_"
	prefixInFlight = "s_"
)

// prefixes begin the attributes of limits in configurations.
var prefixes = []string{prefixLimit, prefixInFlight, prefixFirstUse}

// prefixOf returns what begins the attributes of a limit. It is another one for what other clients
// do not know.
func prefixOf(l bucket.Limit) string {
	switch {
	case l.Returns():
		return prefixInFlight
	case l.FirstUse() > 0:
		return prefixFirstUse
	}
	return prefixLimit
}

// limitOfConfig returns the limit whose capacity the attribute holds, and its prefix.
func limitOfConfig(attr string) (prefix, name string, ok bool) {
	name, ok = strings.CutSuffix(attr, "_"+layout.FieldCapacity)
	for _, p := range prefixes {
		if rest, has := strings.CutPrefix(name, p); ok && has && rest != "" {
			return p, rest, true
		}
	}
	return "", "", false
}

// zoneOf returns the zone of the calendars and schedules of version 1: the first limit's that has any.
func zoneOf(limits []bucket.Limit) string {
	for _, l := range limits {
		if zone := cmp.Or(calendar.Zone(l.Reset), calendar.Zone(l.Schedule())); zone != "" {
			return zone
		}
	}
	return ""
}

// scaled reads a positive number of a limit and multiplies it by unit; at is what the
// names of its attributes begin with.
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

// putKind adds the attributes of a limit's kind, besides the ones that all have; at begins them. Slots
// have none.
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

// readKind reads that, of slots by their prefix.
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

// detailKind adds what an audit event says of the kind of a limit.
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

// readCalendar reads the calendar of a quota, empty for a rate. What would change decisions
// and is not served is an error.
func readCalendar(r *item.Reader, at string) string {
	n, has, err := item.Int(r.It, at+layout.FieldAmount)
	if err != nil || !has || n != 0 {
		return "" // a rate; an error is about its amount
	}
	if _, ok := r.Value(at + layout.FieldSchedule); ok {
		r.Fail("attribute %q is the schedule of a quota, which this module does not serve; store the limit without",
			at+layout.FieldSchedule)
	}
	if length := r.Int(at + layout.FieldLength); length != 0 {
		return canonical(r, at+layout.FieldLength, "+"+strconv.FormatInt(length, 10))
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

func canonical(r *item.Reader, attr, canonical string) string {
	if _, err := calendar.Parse(canonical); err != nil {
		r.Fail("attribute %q: %w", attr, err)
	}
	return canonical
}
