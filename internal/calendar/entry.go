package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// entry is one cron expression, ready to be matched.
type entry struct {
	minutes, hours, days, months, weekdays set
	// clamp is the day that in a shorter month is its last one; 0: none.
	clamp int
	// both is whether day and weekday must match, not one of them.
	both bool
}

// parseFields reads the five fields of an expression.
func parseFields(text [len(fields)]string) (e entry, err error) {
	d := text[day]
	if rest, isLast := strings.CutSuffix(d, "L"); isLast {
		e.clamp, d = 31, ""
		if rest != "" {
			var ok bool
			if e.clamp, ok = digits(rest); !ok || e.clamp < 29 || e.clamp > 31 {
				return e, fmt.Errorf("the day of month %q: want L, 29L, 30L or 31L", text[day])
			}
		}
	}
	for i, to := range [...]*set{&e.minutes, &e.hours, &e.days, &e.months, &e.weekdays} {
		if i == day && d == "" {
			continue
		}
		if *to, err = fields[i].parse(text[i]); err != nil {
			return e, err
		}
	}
	if e.weekdays.has(0) {
		e.weekdays |= 1 << 7
	}
	e.both = strings.HasPrefix(text[day], "*") || strings.HasPrefix(text[weekday], "*")
	return e, nil
}

// parseExpression reads five fields with spaces between them.
func parseExpression(cron string) (text [len(fields)]string, err error) {
	parts := strings.Fields(cron)
	if len(parts) != len(fields) {
		return text, fmt.Errorf("%d fields, want minute, hour, day of month, month and weekday", len(parts))
	}
	for i, p := range parts {
		text[i] = fields[i].numbers(strings.ToUpper(p))
	}
	return text, nil
}

var errToken = errors.New("want the fields m, h, D, M and w, each once at most and in this order")

// parseCompact reads the stored form of an expression.
func parseCompact(stored string) (text [len(fields)]string, err error) {
	rest := stored
	for i, f := range fields {
		text[i] = "*"
		if rest == "" || rest[0] != f.tag {
			continue
		}
		end := strings.IndexAny(rest[1:], "mhDMw") + 1
		if end == 0 {
			end = len(rest)
		}
		text[i], rest = rest[1:end], rest[end:]
	}
	if rest != "" {
		return text, fmt.Errorf("%q: %w", stored, errToken)
	}
	return text, nil
}

// compact is the stored form of an expression.
func compact(text [len(fields)]string) string {
	var b strings.Builder
	for i, f := range fields {
		if text[i] != "*" {
			b.WriteByte(f.tag)
			b.WriteString(text[i])
		}
	}
	return b.String()
}

// date reports whether the date of a local time matches.
func (e entry) date(t time.Time) bool {
	_, m, d := t.Date()
	if !e.months.has(int(m)) {
		return false
	}
	is := e.days.has(d)
	if e.clamp > 0 {
		last := time.Date(t.Year(), m+1, 0, 0, 0, 0, 0, time.UTC).Day()
		is = d == min(e.clamp, last)
	}
	w := int(t.Weekday())
	if w == 0 {
		w = 7
	}
	if e.both {
		return is && e.weekdays.has(w)
	}
	return is || e.weekdays.has(w)
}

// matches reports whether a local time matches.
func (e entry) matches(t time.Time) bool {
	return e.minutes.has(t.Minute()) && e.hours.has(t.Hour()) && e.date(t)
}

const (
	// horizon is how far ahead an edge is looked for, in minutes. A leap day may be eight years away.
	// The first of October in Asuncion had no midnight for fourteen years.
	horizon = 16 * 366 * 24 * 60
	// shift is longer, in minutes, than clocks are ever set back, which is three hours. A day that
	// begins twice is looked for from so long before the computed midnight.
	shift = 4 * 60
)

// always reports whether every minute matches. Then none is an edge, and it would take
// seconds to find none.
func (e entry) always() bool {
	all := func(i int, s set) bool { return s|1 == fields[i].all()|1 } // a Sunday is 7 too
	if !all(minute, e.minutes) || e.minutes&1 == 0 || !all(hour, e.hours) || e.hours&1 == 0 || !all(month, e.months) {
		return false
	}
	if e.both {
		return all(day, e.days) && all(weekday, e.weekdays)
	}
	return all(day, e.days) || all(weekday, e.weekdays)
}

// next returns the first edge after a minute of the epoch.
func (e entry) next(after int64, zone *time.Location) (int64, bool) {
	if e.always() {
		return 0, false
	}
	for m := after + 1; m <= after+horizon; m++ {
		last, edge := e.look(m, zone)
		if edge {
			return m, true
		}
		m = last
	}
	return 0, false
}

// look reports whether a minute of the epoch is an edge. If not, it returns the last minute of which
// that is known, m at least.
func (e entry) look(m int64, zone *time.Location) (last int64, edge bool) {
	at := func(minute int64) time.Time { return time.Unix(minute*60, 0).In(zone) }
	switch t := at(m); {
	case !e.months.has(int(t.Month())):
		return before(m, midnight(t.Year(), t.Month()+1, 1, zone), zone), false
	case !e.date(t):
		return before(m, midnight(t.Year(), t.Month(), t.Day()+1, zone), zone), false
	case !e.hours.has(t.Hour()):
		return before(m, m+60-int64(t.Minute()), zone), false
	default:
		return m, e.matches(t) && !e.matches(at(m-1))
	}
}

// before returns the minute before another one, or an earlier one if clocks change shortly
// before that; m at least.
func before(m, to int64, zone *time.Location) int64 {
	offset := func(minute int64) int { _, o := time.Unix(minute*60, 0).In(zone).Zone(); return o }
	if from := max(m, to-shift); from >= to || offset(from) != offset(to) {
		return max(m, to-shift-1)
	}
	return to - 1
}

// midnight returns about when a date begins, in minutes of the epoch.
func midnight(year int, month time.Month, day int, zone *time.Location) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, zone).Unix() / 60
}
