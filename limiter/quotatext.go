package limiter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// words are the calendars that have one, with the expression that they stand for.
var words = map[string]string{
	"daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *",
	"quarterly": "0 0 1 1,4,7,10 *", "yearly": "0 0 1 1 *",
}

const calendarsAccepted = "daily, weekly, monthly, quarterly, yearly or a cron expression of five fields, then a " +
	"zone of the IANA database unless that is UTC; or how long after the first use, like \"5h after first use\""

// ParseCalendar reads a calendar as people write it: "monthly Asia/Tokyo", "0 6 * * 1-5
// Europe/Berlin" or "5h after first use". An L is the last day of the month, as in "0 0 L * *".
// Weeks begin on Monday, and without a zone it is UTC. The error is an ErrInvalid.
func ParseCalendar(text string) (Calendar, error) {
	if length, ok := strings.CutSuffix(text, " after first use"); ok {
		d, err := time.ParseDuration(length)
		if c := FromFirstUse(d); err == nil && Quota("q", 1, c).Validate() == nil {
			return c, nil
		}
		return "", argument.Invalid("calendar", text, calendarsAccepted)
	}
	parts := strings.Fields(text)
	if len(parts) > 0 && words[parts[0]] != "" {
		parts = append(strings.Fields(words[parts[0]]), parts[1:]...)
	}
	zone := "UTC"
	if len(parts) == 6 {
		zone, parts = parts[5], parts[:5]
	}
	form, err := calendar.Cron(strings.Join(parts, " "), zone)
	if err != nil {
		return "", fmt.Errorf("%w: calendar %q: %w; accepted is %s", argument.ErrInvalid, text, err, calendarsAccepted)
	}
	return Calendar(form), nil
}

// ParseAmount reads a number of tokens, or an amount of dollars as its millionths:
// "600" is 600, "$12.50" is 12,500,000. The error is an ErrInvalid.
func ParseAmount(text string) (int64, error) {
	const accepted = "a whole number, or dollars with at most six digits behind the point, like $12.50"
	dollars, money := strings.CutPrefix(text, "$")
	if !money {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, argument.Invalid("amount", text, accepted)
		}
		return n, nil
	}
	whole, part, point := strings.Cut(dollars, ".")
	digits := part + "000000"[:max(0, 6-len(part))]
	n, err := strconv.ParseUint(whole+digits, 10, 63)
	if err != nil || len(digits) > 6 || whole == "" || point && part == "" {
		return 0, argument.Invalid("amount", text, accepted)
	}
	return int64(n), nil
}
