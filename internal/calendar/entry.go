package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// entry is a parsed cron expression.
type entry struct {
	minutes, hours, days, months, weekdays set
	// clamp is a day that stands for the last day in a shorter month; 0: none.
	clamp int
	// both means that day and weekday must match, not only one of them.
	both bool
	// finest is the largest unit of time within which the match never changes: minute, hour, day or
	// month. A match from Monday to Friday only changes at midnight.
	finest int
}

// parseFields parses the five fields of an expression.
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
	if e.weekdays.has(0) || e.weekdays.has(7) {
		e.weekdays |= 1 | 1<<7
	}
	e.both = strings.HasPrefix(text[day], "*") || strings.HasPrefix(text[weekday], "*")
	e.finest = e.unit()
	return e, nil
}

// unit computes finest, from the fields already parsed.
func (e entry) unit() int {
	all := func(i int, s set) bool { return s == fields[i].all() }
	days, weekdays := all(day, e.days), all(weekday, e.weekdays)
	switch {
	case !all(minute, e.minutes):
		return minute
	case !all(hour, e.hours):
		return hour
	case e.both && !(days && weekdays), !days && !weekdays:
		return day
	}
	return month
}

// parseExpression splits an expression into five fields separated by spaces.
func parseExpression(cron string) (text [len(fields)]string, err error) {
	parts := strings.Fields(cron)
	if len(parts) != len(fields) {
		return text, fmt.Errorf("want five fields, minute, hour, day of month, month and weekday, not %d", len(parts))
	}
	for i, p := range parts {
		text[i] = fields[i].numbers(strings.ToUpper(p))
	}
	return text, nil
}

var errToken = errors.New("want the fields m, h, D, M and w, each once at most and in this order")

// tagged returns the value after the tag with which a text begins, up to the next tag.
func tagged(text, tags string) (value, rest string) {
	if end := strings.IndexAny(text[1:], tags) + 1; end > 0 {
		return text[1:end], text[end:]
	}
	return text[1:], ""
}

// parseCompact splits the stored form of an expression into fields.
func parseCompact(stored string) (text [len(fields)]string, err error) {
	rest := stored
	for i, f := range fields {
		text[i] = "*"
		if rest != "" && rest[0] == f.tag {
			text[i], rest = tagged(rest, "mhDMw")
		}
	}
	if rest != "" {
		return text, fmt.Errorf("%q: %w", stored, errToken)
	}
	return text, nil
}

// compact returns the stored form of an expression.
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

// horizon is how far ahead a beginning is searched, in minutes. A leap day on a given weekday may
// be forty years away.
const horizon = 41 * 366 * 24 * 60

// next returns the first local time after another one at which the expression begins to match: it
// matches, and does not match the minute before. Both are minutes since the beginning of 1970 in
// the calendar alone, which skips and repeats no local time. See [Calendar.Next] for the clocks of
// a zone.
func (e entry) next(after int64) (int64, bool) {
	for m := after + 1; m <= after+horizon; {
		next, begins := e.look(m)
		if begins {
			return m, true
		}
		m = next
	}
	return 0, false
}

// look reports whether the expression begins to match at a local time. If not, it returns the next
// local time at which it may.
func (e entry) look(m int64) (next int64, begins bool) {
	t, unit := wall(m), e.finest
	switch {
	case !e.months.has(int(t.Month())):
		unit = month
	case !e.date(t):
		unit = day
	case !e.hours.has(t.Hour()):
		unit = hour
	case e.minutes.has(t.Minute()) && !e.matches(wall(m-1)):
		return m, true
	}
	return after(m, unit), false
}

// after returns the first local time after the unit of time that contains another one.
func after(m int64, unit int) int64 {
	switch unit {
	case month:
		t := wall(m)
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix() / 60
	case day:
		return (floor(m, 24*60) + 1) * 24 * 60
	case hour:
		return (floor(m, 60) + 1) * 60
	}
	return m + 1
}

// same returns a local time until which the expression certainly matches, or certainly does not, as
// at m.
func (e entry) same(m int64) int64 {
	if e.matches(wall(m)) {
		return after(m, e.finest)
	}
	next, _ := e.look(m)
	return next
}

// wall converts a local time to a date and time, as if its zone were UTC.
func wall(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }

// refusal explains why an expression never begins to match.
func (e entry) refusal(text [len(fields)]string) error {
	if e.matches(wall(0)) {
		return errors.New("it matches every minute, and a period begins where one matches after one that does not: " +
			"want one that begins now and then, as 0 * * * * or */5 * * * *")
	}
	return fmt.Errorf("the day of month %q never comes in the month %q: want a date that there is", text[day],
		text[month])
}
