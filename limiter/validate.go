package limiter

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Validate returns nil, or an ErrInvalid that names the field, its value and the
// accepted ones. Every function that takes limits validates them.
func (l Limit) Validate() error { return l.validate("Limit") }

func (l Limit) validate(field string) error {
	if validateLimitName(field, l.Name) != nil {
		return validateLimitName(field+".Name", l.Name)
	}
	label := func(part string) string { return fmt.Sprintf("%s %q %s", field, l.Name, part) }
	switch {
	case l.Schedule != "" && (l.InFlight || l.IsQuota()):
		return validate.Invalid(label("Schedule"), l.Schedule, "none: only a rate has a schedule")
	case l.Capacity < 1 || l.Capacity > MaxTokens:
		return validate.Invalid(label("Capacity"), l.Capacity, fmt.Sprintf("1 to %d tokens", int64(MaxTokens)))
	case !bucket.AreFloors(l.Floors):
		return validate.Invalid(label("Floors"), l.Floors,
			fmt.Sprintf("%d classes at most, by name, with 0 to 99 percent, like \"batch=40,free=60\"", bucket.MaxFloors))
	case l.Ahead != 0 && (l.Ahead < 10*time.Millisecond || l.Ahead > bucket.MaxAhead*time.Millisecond ||
		l.Ahead%time.Millisecond != 0 || l.Soft || l.InFlight || l.IsQuota()):
		return validate.Invalid(label("Ahead"), l.Ahead, "10ms to 10m, for a rate that is not soft; or zero")
	case l.InFlight:
		return l.validateInFlight(label)
	case l.IsQuota():
		return l.validateQuota(label)
	case l.Refill < 1 || l.Refill > MaxTokens:
		return validate.Invalid(label("Refill"), l.Refill, fmt.Sprintf("1 to %d tokens", int64(MaxTokens)))
	case l.Period < time.Second || l.Period > maxPeriod || l.Period%time.Second != 0:
		return validate.Invalid(label("Period"), l.Period, "a whole number of seconds from 1s to "+maxPeriod.String())
	case l.Schedule != "":
		return l.validateSchedule(label)
	}
	return nil
}

// validateQuota is validate for what only quotas have.
func (l Limit) validateQuota(label func(part string) string) error {
	switch {
	case l.Refill != 0 || l.Period != 0:
		return validate.Invalid(label("Refill and Period"), validate.Plain(fmt.Sprintf("%d per %s", l.Refill, l.Period)),
			"none beside a Reset: a limit refills or resets")
	}
	_, err := calendar.Parse(string(l.Reset))
	if cron, zone, _ := strings.Cut(string(l.Reset), "@"); strings.Contains(cron, " ") { // it did not become a calendar
		if _, err = calendar.Cron(cron, zone); err != nil {
			err = fmt.Errorf("cron %q: %w", cron, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", validate.ErrInvalid, label("Reset"), err)
	}
	return nil
}

// validateInFlight is validate for what only in-flight limits have.
func (l Limit) validateInFlight(label func(part string) string) error {
	const least, most = bucket.MinEpoch * time.Millisecond, bucket.MaxEpoch * time.Millisecond
	switch {
	case l.Refill != 0 || l.IsQuota():
		beside := validate.Plain(fmt.Sprintf("%d and %q", l.Refill, string(l.Reset)))
		return validate.Invalid(label("Refill and Reset"), beside,
			"none beside InFlight: slots come back when their holders are done")
	case l.Soft:
		return validate.Invalid(label("Soft"), true, "false beside InFlight")
	case l.Period < least || l.Period > most || l.Period%time.Second != 0:
		return validate.Invalid(label("Period"), l.Period,
			fmt.Sprintf("an epoch of a whole number of seconds from %s to %s", least, most))
	}
	return nil
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
	bare := l
	bare.Schedule = ""
	stored, err := bare.stored().WithSchedule(l.Schedule)
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

func validateLimitName(field, s string) error {
	if !isLimitName(s) {
		return validate.Invalid(field, s, "1 to 64 letters, digits, '_', '.' or '-', the first a letter")
	}
	if s == bucket.WCU {
		return validate.Invalid(field, s, "a name other than the reserved \"wcu\"")
	}
	return nil
}

// isLimitName reports whether s has 1 to 64 bytes: a letter first, then letters,
// digits, '_', '.' and '-'.
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

// storedLimits validates limits and returns them in order of name.
func storedLimits(field string, limits []Limit) ([]bucket.Limit, error) {
	return validate.Limits(field, limits, func(i int, l Limit) (bucket.Limit, error) {
		return l.stored(), l.validateAt(field, i)
	})
}

// validateAt names the limit's place in a list, which takes time, only when that
// is needed.
func (l Limit) validateAt(field string, i int) error {
	if l.validate("") == nil {
		return nil
	}
	return l.validate(fmt.Sprintf("%s[%d]", field, i))
}

func (l Limit) stored() bucket.Limit { return validate.Limit[Calendar](l).Stored() }

// public turns a stored limit back into its public form.
func public(l bucket.Limit) Limit { return Limit(validate.LimitOf[Calendar](l)) }
