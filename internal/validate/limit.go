package validate

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

const (
	// MaxTokens is limiter.MaxTokens: the largest capacity, refill amount or cost, in tokens.
	MaxTokens = 1_000_000_000_000_000
	// MaxPeriod bounds a refill period: ten years.
	MaxPeriod = 10 * 366 * 24 * time.Hour
)

// CheckAt is Check for a limit in a list. It builds the name of the place, which takes time, only
// for an error.
func (l Limit[C]) CheckAt(list string, i int) error {
	if l.Check("") == nil {
		return nil
	}
	return l.Check(fmt.Sprintf("%s[%d]", list, i))
}

// Check returns nil, or an ErrInvalid that names the field, its value and the accepted values.
func (l Limit[C]) Check(field string) error {
	if LimitName(field, l.Name) != nil {
		return LimitName(field+".Name", l.Name)
	}
	label := func(part string) string { return fmt.Sprintf("%s %q %s", field, l.Name, part) }
	switch {
	case l.Schedule != "" && (l.InFlight || l.Reset != ""):
		return Invalid(label("Schedule"), l.Schedule, "none: only a rate has a schedule")
	case l.Capacity < 1 || l.Capacity > MaxTokens:
		return Invalid(label("Capacity"), l.Capacity, fmt.Sprintf("1 to %d tokens", int64(MaxTokens)))
	case !bucket.AreFloors(l.Floors):
		return Invalid(label("Floors"), l.Floors,
			fmt.Sprintf("%d classes at most, by name, with 0 to 99 percent, like \"batch=40,free=60\"", bucket.MaxFloors))
	case l.Ahead != 0 && (l.Ahead < 10*time.Millisecond || l.Ahead > bucket.MaxAhead*time.Millisecond ||
		l.Ahead%time.Millisecond != 0 || l.Soft || l.InFlight || l.Reset != ""):
		return Invalid(label("Ahead"), l.Ahead, "10ms to 10m, for a rate that is not soft; or zero")
	case l.InFlight:
		return l.checkInFlight(label)
	case l.Reset != "":
		return l.checkQuota(label)
	case l.Refill < 1 || l.Refill > MaxTokens:
		return Invalid(label("Refill"), l.Refill, fmt.Sprintf("1 to %d tokens", int64(MaxTokens)))
	case l.Period < time.Second || l.Period > MaxPeriod || l.Period%time.Second != 0:
		return Invalid(label("Period"), l.Period, "a whole number of seconds from 1s to "+MaxPeriod.String())
	case l.Schedule != "":
		return l.checkSchedule(label)
	}
	return nil
}

// checkQuota is Check for the fields of quotas.
func (l Limit[C]) checkQuota(label func(part string) string) error {
	switch {
	case l.Refill != 0 || l.Period != 0:
		return Invalid(label("Refill and Period"), Plain(fmt.Sprintf("%d per %s", l.Refill, l.Period)),
			"none beside a Reset: a limit refills or resets")
	}
	_, err := calendar.Parse(string(l.Reset))
	if cron, zone, _ := strings.Cut(string(l.Reset), "@"); strings.Contains(cron, " ") { // it was not a valid calendar
		if _, err = calendar.Cron(cron, zone); err != nil {
			err = fmt.Errorf("cron %q: %w", cron, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, label("Reset"), err)
	}
	return nil
}

// checkInFlight is Check for the fields of in-flight limits.
func (l Limit[C]) checkInFlight(label func(part string) string) error {
	const least, most = bucket.MinEpoch * time.Millisecond, bucket.MaxEpoch * time.Millisecond
	switch {
	case l.Refill != 0 || l.Reset != "":
		beside := Plain(fmt.Sprintf("%d and %q", l.Refill, string(l.Reset)))
		return Invalid(label("Refill and Reset"), beside,
			"none beside InFlight: slots come back when their holders are done")
	case l.Soft:
		return Invalid(label("Soft"), true, "false beside InFlight")
	case l.Period < least || l.Period > most || l.Period%time.Second != 0:
		return Invalid(label("Period"), l.Period,
			fmt.Sprintf("an epoch of a whole number of seconds from %s to %s", least, most))
	}
	return nil
}

// checkSchedule is Check for the schedule of a limit that is otherwise valid.
func (l Limit[C]) checkSchedule(label func(part string) string) error {
	windows, zone, _ := strings.Cut(l.Schedule, "@")
	if strings.Contains(zone, "@") {
		return Invalid(label("Schedule"), l.Schedule, "all windows in one time zone")
	}
	for window := range strings.SplitSeq(windows, ";") {
		if fields := strings.Fields(window); len(fields) > 1 { // it was not a valid window
			cron := strings.Join(fields[:max(0, len(fields)-3)], " ")
			if _, err := calendar.Window(cron, calendar.Change{Scale: 1}); err != nil {
				return fmt.Errorf("%w: %s: cron %q: %w", ErrInvalid, label("Schedule"), window, err)
			}
			return Invalid(label("Schedule"), window,
				fmt.Sprintf("some of Capacity and Refill, 1 to %d, and Period, a whole number of seconds",
					int64(MaxTokens)))
		}
	}
	bare := l
	bare.Schedule = ""
	stored, err := bare.Stored().WithSchedule(l.Schedule)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, label("Schedule"), err)
	}
	if most := stored.Most(); most.Capacity > MaxTokens*bucket.Milli || most.Amount > MaxTokens*bucket.Milli ||
		most.Period > MaxPeriod.Milliseconds() {
		return Invalid(label("Schedule"), l.Schedule,
			fmt.Sprintf("at most %d tokens and a period of %s in each window", int64(MaxTokens), MaxPeriod))
	}
	return nil
}

// LimitName checks the name of a limit.
func LimitName(field, s string) error {
	if !isLimitName(s) {
		return Invalid(field, s, "1 to 64 letters, digits, '_', '.' or '-', the first a letter")
	}
	if s == bucket.WCU {
		return Invalid(field, s, "a name other than the reserved \"wcu\"")
	}
	return nil
}

// isLimitName reports whether s has 1 to 64 bytes: a letter, then letters, digits, '_', '.' and
// '-'.
func isLimitName(s string) bool {
	if len(s) == 0 || len(s) > 64 || !alpha(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !alpha(c) && !num(c) && strings.IndexByte("_.-", c) < 0 {
			return false
		}
	}
	return true
}

func alpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func num(c byte) bool { return c >= '0' && c <= '9' }
