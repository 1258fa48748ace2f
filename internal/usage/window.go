package usage

import (
	"fmt"
	"slices"
	"time"
)

// Window is a kind of time span in which usage is counted. Windows are in UTC.
type Window string

// The kinds of windows, by the names that snapshots store.
const (
	Hourly  Window = "hourly"
	Daily   Window = "daily"
	Monthly Window = "monthly"
)

// ParseWindow returns the kind of window with that name.
func ParseWindow(name string) (Window, error) {
	switch w := Window(name); w {
	case Hourly, Daily, Monthly:
		return w, nil
	}
	return "", fmt.Errorf("window %q: want hourly, daily or monthly", name)
}

// Kinds returns kinds of windows, shortest first. The first one, the finest, is counted; each other
// one is the sum of the one before.
func Kinds(windows []Window) (kinds []Window) {
	for _, w := range []Window{Hourly, Daily, Monthly} {
		if slices.Contains(windows, w) {
			kinds = append(kinds, w)
		}
	}
	return kinds
}

const (
	hourMillis = 3_600_000
	dayMillis  = 24 * hourMillis
)

// Start returns the start of the window that contains an instant; both are epoch milliseconds. An
// instant on a boundary belongs to the window that starts there.
func (w Window) Start(ms int64) int64 {
	switch w {
	case Hourly, Daily:
		return floor(ms, w.End(0))
	case Monthly:
		t := time.UnixMilli(ms).UTC()
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	}
	panic("usage: bug: unknown window " + string(w))
}

// End returns the end of the window that starts at start, which is the start of
// the next one; both are epoch milliseconds.
func (w Window) End(start int64) int64 {
	switch w {
	case Hourly:
		return start + hourMillis
	case Daily:
		return start + dayMillis
	case Monthly:
		return time.UnixMilli(start).UTC().AddDate(0, 1, 0).UnixMilli()
	}
	panic("usage: bug: unknown window " + string(w))
}

// Expiry returns when a snapshot may be removed, epoch seconds. start is when its window begins;
// until is the next longer kind that is counted, or the kind itself. The snapshot is kept for days
// after the end of the longer window around it, or after now if that is later. So an hour is kept
// as long as its day may be summed again. If both are kept for a day, all hours of the 14th expire
// at the end of the 15th.
func Expiry(now, start int64, until Window, days int) int64 {
	return max(now, until.End(until.Start(start)))/1000 + int64(days)*dayMillis/1000
}

// Part returns the start of a window in the form used in keys. The forms differ by kind, so an hour
// and a day with the same start are two snapshots: 2024-01-01T00:00:00Z, 2024-01-01, 2024-01.
func (w Window) Part(start int64) string {
	return time.UnixMilli(start).UTC().Format(parts[w])
}

var parts = map[Window]string{Hourly: "2006-01-02T15:04:05Z", Daily: time.DateOnly, Monthly: "2006-01"}

// floor returns the greatest multiple of n that is not above a number, also below zero.
func floor(a, n int64) int64 { return a - (a%n+n)%n }
