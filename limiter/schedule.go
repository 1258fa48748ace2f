package limiter

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// During returns the rate with a window of time in which it has the Capacity, Refill and Period of another one,
// each where that is not zero. The window lasts while the clocks of the zone (of the IANA database, empty: UTC)
// show a time that a cron expression of five fields matches. Of windows that overlap, the first holds. All windows
// of a limit are in one zone.
//
//	limiter.PerMinute("rpm", 60).
//		During("* 9-16 * * 1-5", "Europe/Berlin", limiter.PerMinute("", 600)). // from nine to five on working days
//		During("* * * * 0,6", "Europe/Berlin", limiter.Limit{Capacity: 10})   // weekends: bursts of ten
//
// All processes and the functions change over a second behind the edges of a window, as at the edge of a quota: no
// clock that is ahead begins one early. What came back before is
// kept, up to the new capacity; a larger capacity begins with what there is and fills at the new rate. Tokens taken
// ahead ([Options].Ahead) are not held across an edge. A request that the limit in force can never hold, but a
// later one can, is denied until the edge. [Status].ChangesAfter says how long the limit in force holds.
func (l Limit) During(cron, zone string, other Limit) Limit {
	windows, stored, some := strings.Cut(l.Schedule, "@")
	if zone = orUTC(zone); !some {
		stored = zone
	}
	window, err := calendar.Window(cron, calendar.Change{
		Capacity: other.Capacity, Refill: other.Refill, Period: int64(other.Period / time.Second)})
	if err != nil || other.Period%time.Second != 0 || other.Period < 0 {
		window = fmt.Sprintf("%s %d %d %s", cron, other.Capacity, other.Refill, other.Period) // Validate says why
	}
	if some {
		window = windows + ";" + window
	}
	if stored != zone {
		stored += "@" + zone
	}
	l.Schedule = window + "@" + stored
	return l
}

// validateSchedule is validate for the schedule of a limit that is valid without.
func (l Limit) validateSchedule(label func(part string) string) error {
	windows, zone, _ := strings.Cut(l.Schedule, "@")
	if strings.Contains(zone, "@") {
		return validate.Invalid(label("Schedule"), l.Schedule, "all windows in one time zone")
	}
	for window := range strings.SplitSeq(windows, ";") {
		if fields := strings.Fields(window); len(fields) > 1 { // it did not become a window
			cron := strings.Join(fields[:max(0, len(fields)-3)], " ")
			if _, err := calendar.Window(cron, calendar.Change{Scale: 1}); err != nil {
				return fmt.Errorf("%w: %s: cron %q: %w", validate.ErrInvalid, label("Schedule"), window, err)
			}
			return validate.Invalid(label("Schedule"), window,
				fmt.Sprintf("some of Capacity and Refill, 1 to %d, and Period, a whole number of seconds", int64(MaxTokens)))
		}
	}
	stored, err := l.withoutSchedule().stored().WithSchedule(l.Schedule)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", validate.ErrInvalid, label("Schedule"), err)
	}
	if most := stored.Most(); most.Capacity > MaxTokens*bucket.Milli || most.Amount > MaxTokens*bucket.Milli ||
		most.Period > maxPeriod.Milliseconds() {
		return validate.Invalid(label("Schedule"), l.Schedule,
			fmt.Sprintf("at most %d tokens and a period of %s in each window", int64(MaxTokens), maxPeriod))
	}
	return nil
}

func (l Limit) withoutSchedule() Limit {
	l.Schedule = ""
	return l
}
