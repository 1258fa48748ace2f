package calendar

import (
	"math"
	"time"
)

// The clocks of a zone are set forward and back, so some local times are skipped, and some occur
// twice. A period begins at the first instant at which the clocks have shown its local time or a
// later one. If the local time occurs twice, that is the first occurrence. If it is skipped, that
// is when the clocks are set forward. Here, instants are in minutes since the epoch, and local
// times in minutes as in [entry.next].

// apart is longer, in minutes, than clocks are ever set back, and than any zone is ahead of UTC.
const apart = 26 * 60

// latest returns the latest local time that the clocks of a zone have shown up to an instant.
func latest(zone *time.Location, at int64) (local int64) {
	local = math.MinInt64
	for m := at - apart; m <= at; {
		offset, end := stretch(zone, m)
		local, m = max(local, floor(min(at, end-1)*60+offset, 60)), end
	}
	return local
}

// first returns the first instant at which the clocks of a zone show a local time or a later one.
func first(zone *time.Location, local int64) int64 {
	for m := local - apart; ; {
		offset, end := stretch(zone, m)
		if at := max(m, ceil(local*60-offset)); at < end {
			return at
		}
		m = end
	}
}

// stretch returns how far the clocks of a zone are ahead of UTC at an instant, in seconds, and
// until when they certainly are.
func stretch(zone *time.Location, m int64) (offset, end int64) {
	t := time.Unix(m*60, 0).In(zone)
	_, ahead := t.Zone()
	switch _, change := t.ZoneBounds(); {
	case change.IsZero():
		end = Never
	case !change.After(t): // the standard library does this on the last day of a leap year
		end = m + 60
	default:
		end = ceil(change.Unix())
	}
	return int64(ahead), end
}

// ceil returns the first minute that does not begin before a second.
func ceil(seconds int64) int64 { return -floor(-seconds, 60) }
