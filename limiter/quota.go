package limiter

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Calendar says when the periods of a quota end, in the compact form that Daily, Monthly, Cron and
// the other functions return. The empty Calendar is none: a limit with it is a rate. It is checked
// with its limit, see [Limit.Validate].
//
// Zones are names of the IANA database, such as "Europe/Berlin"; an empty one is UTC. Periods begin
// and end at local times, so days have 23, 24 or 25 hours. If clocks skip the first minute of a
// period, the period begins when they are set forward; if that minute comes twice, it begins the
// first time.
type Calendar string

// Daily returns the calendar of days, from midnight to midnight.
func Daily(zone string) Calendar { return at("m0h0", zone) }

// Weekly returns the calendar of weeks that begin on a day.
func Weekly(first time.Weekday, zone string) Calendar {
	if first == time.Sunday {
		first = 7
	}
	return at(fmt.Sprintf("m0h0w%d", first), zone)
}

// Monthly returns the calendar of months that begin on a day, 1 to 31. A month without that day
// begins on its last one: with 31, on January 31 and February 28.
func Monthly(day int, zone string) Calendar { return at("m0h0"+dayOfMonth(day), zone) }

// Quarterly returns the calendar of quarters; the first one begins with the year.
func Quarterly(zone string) Calendar { return at("m0h0D1M1,4,7,10", zone) }

// Yearly returns the calendar of years that begin on a day of a month.
func Yearly(month time.Month, day int, zone string) Calendar {
	return at(fmt.Sprintf("m0h0%sM%d", dayOfMonth(day), month), zone)
}

// Cron returns the calendar of periods that begin when a cron expression begins to match. It has
// five fields: minute, hour, day of month, month, weekday. "0 6 * * 1-5" is six in the morning from
// Monday to Friday.
func Cron(expression, zone string) Calendar {
	form, err := calendar.Cron(expression, orUTC(zone))
	if err != nil {
		return Calendar(expression + "@" + orUTC(zone)) // invalid: Validate says why
	}
	return Calendar(form)
}

// FromFirstUse returns periods that begin with their first use: five hours from the first request,
// and the next five from the first request after those. d is a whole number of seconds.
func FromFirstUse(d time.Duration) Calendar { return Calendar(calendar.FromFirstUse(d)) }

func at(fields, zone string) Calendar { return Calendar(fields + "@" + orUTC(zone)) }

func orUTC(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

func dayOfMonth(day int) string {
	if day == 31 {
		return "DL"
	}
	if day > 28 {
		return fmt.Sprintf("D%dL", day)
	}
	return fmt.Sprintf("D%d", day)
}

// String returns the calendar as a cron expression with its zone, "0 0 1 * * Asia/Tokyo".
func (c Calendar) String() string { return calendar.Text(string(c)) }

const calendarsAccepted = "daily, weekly, monthly, quarterly, yearly or a cron expression of five fields, then a " +
	"zone of the IANA database unless that is UTC; or how long after the first use, like \"5h after first use\""

// ParseCalendar reads a calendar as people write it: "monthly Asia/Tokyo", "0 6 * * 1-5
// Europe/Berlin" or "5h after first use". An L is the last day of the month, as in "0 0 L * *".
// Weeks begin on Monday; without a zone it is UTC. The error is an ErrInvalid.
func ParseCalendar(text string) (Calendar, error) {
	canonical, err := calendar.FromText(text)
	if err != nil {
		return "", fmt.Errorf("%w: calendar %q: %w; accepted is %s", ErrInvalid, text, err, calendarsAccepted)
	}
	return Calendar(canonical), nil
}

// ParseAmount reads a number of tokens, or an amount of dollars, which it returns in millionths:
// "600" is 600, "$12.50" is 12,500,000. The error is an ErrInvalid.
func ParseAmount(text string) (int64, error) { return validate.ParseAmount(text) }
