package limiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// MaxTokens is the largest capacity, refill amount or cost, in tokens.
const MaxTokens = 1_000_000_000_000_000

// MaxLimits is how many limits one bucket may have. With that many, and names
// of full length, every write stays within DynamoDB's expression limits.
const MaxLimits = 32

// maxPeriod bounds a refill period: ten years.
const maxPeriod = 10 * 366 * 24 * time.Hour

// Limit is a rule for one entity and resource. A rate: up to Capacity tokens can be
// taken at once, and Refill tokens come back every Period, continuously and
// never above Capacity. Or, with a Reset, a quota: Capacity tokens can be taken in each
// period of its calendar, see [Quota]. Or, with InFlight, how many requests are at work at
// once: see [InFlight]. Limits are plain values and comparable. The zero Limit is invalid.
type Limit struct {
	// Name begins with a letter and has up to 64 letters, digits, '_', '.'
	// and '-'. "wcu" is reserved.
	Name string
	// Capacity is the most tokens the bucket holds, 1 to MaxTokens. A new
	// bucket starts full.
	Capacity int64
	// Refill is how many tokens are added per Period, 1 to MaxTokens; 0 for a quota and an
	// in-flight limit.
	Refill int64
	// Period is a whole number of seconds, at least one; 0 for a quota. For an in-flight
	// limit it is the length of its epochs, 5s to 10m.
	Period time.Duration
	// Reset is the calendar of a quota; the empty one makes the limit a rate.
	Reset Calendar
	// Soft limits count tokens, and deny nothing: see [Limit.AsSoft].
	Soft bool
	// InFlight makes it an in-flight limit: Capacity is the number of slots.
	InFlight bool
	// Floors are the percents of the capacity that classes of requests leave to others, as
	// "batch=40,free=60": see [Limit.WithFloor].
	Floors string
	// Ahead is for how long a busy process may hold tokens that it has taken ahead. It overrides
	// Options.Ahead: 10ms to 10m in whole milliseconds, for a rate that is not soft. Zero: the
	// limit does not say. If several limits of a bucket do, the shortest holds.
	Ahead time.Duration
	// Schedule has the windows of time in which a rate has other parameters: see [Limit.During].
	Schedule string
}

// PerSecond returns a limit of n tokens per second with a capacity of n.
func PerSecond(name string, n int64) Limit {
	return Limit{Name: name, Capacity: n, Refill: n, Period: time.Second}
}

// PerMinute returns a limit of n tokens per minute with a capacity of n.
func PerMinute(name string, n int64) Limit {
	return Limit{Name: name, Capacity: n, Refill: n, Period: time.Minute}
}

// PerHour returns a limit of n tokens per hour with a capacity of n.
func PerHour(name string, n int64) Limit {
	return Limit{Name: name, Capacity: n, Refill: n, Period: time.Hour}
}

// PerDay returns a rate of n tokens per 24 hours with a capacity of n. Tokens
// come back continuously, not at midnight: an entity that takes all n at once and
// then what comes back has taken 2n within 24 hours. For at most n from one midnight to
// the next, use a quota: [Quota](name, n, [Daily](zone)). PerDay(name, n/2) grants
// at most n in any 24 hours, and n/2 a day in the long run. The same holds for the other
// periods.
func PerDay(name string, n int64) Limit {
	return Limit{Name: name, Capacity: n, Refill: n, Period: 24 * time.Hour}
}

// WithCapacity returns the limit with another capacity, to allow bursts larger
// or smaller than what one period refills.
func (l Limit) WithCapacity(n int64) Limit {
	l.Capacity = n
	return l
}

// AsSoft returns the limit as a soft one, to be tried on real traffic. It is charged like any
// other, into debt if need be. It denies nothing, however large the cost. Statuses show what it
// holds. [Lease.Overdrawn] and [Event] show which requests it would have denied if it were not
// soft. Parents have soft limits of their own. Tokens are not taken ahead for requests with soft
// limits.
func (l Limit) AsSoft() Limit {
	l.Soft = true
	return l
}

// WithFloor returns the limit with a floor for a class of requests. A request that names the
// class in [Request].Class must leave that many percent of Capacity, 0 to 99, to others. A class
// that is not named here has the highest floor of all named ones, and a request that names no
// class has none. At most 8 classes, of 1 to 32 letters, digits, '_', '.' and '-'.
//
//	PerMinute("rpm", 600).WithFloor("batch", 40)
//
// Batch is denied while fewer than 240 tokens would be left, so others have 240 at once, and
// all that comes back, however much batch asks for. Alone, batch has the whole rate. A cost of
// zero needs no floor, soft limits have none, and settlements and refunds ignore floors.
func (l Limit) WithFloor(class string, percent int) Limit {
	if strings.ContainsAny(class, ",=") { // it must not pass for other classes
		class = strconv.Quote(class)
	}
	parts := slices.DeleteFunc(strings.Split(l.Floors, ","), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return part == "" || name == class
	})
	parts = append(parts, fmt.Sprintf("%s=%d", class, percent))
	slices.SortFunc(parts, func(a, b string) int {
		x, _, _ := strings.Cut(a, "=")
		y, _, _ := strings.Cut(b, "=")
		return strings.Compare(x, y)
	})
	l.Floors = strings.Join(parts, ",")
	return l
}

// WithAhead returns the limit with a time for which busy processes may hold tokens that they
// have taken ahead, whatever their [Options].Ahead says. Stored, it is in force once they have
// read it: for a hot key, without a new release.
func (l Limit) WithAhead(d time.Duration) Limit {
	l.Ahead = d
	return l
}

// String returns the limit as "rpm: 100 per 1m0s, capacity 100", and what has a name of its
// own by that: "images: blocked". Of a quota whose name says that it counts money, such as "budget" or
// "spend.day", the capacity is in dollars: "budget: $500 each 0 0 1 * * UTC".
func (l Limit) String() string {
	s := l.Name + ": "
	switch {
	case l.IsBlocked():
		s += "blocked"
	case l.IsUnlimited():
		s += "unlimited"
	case l.InFlight:
		s += fmt.Sprintf("%d in flight, epochs of %s", l.Capacity, l.Period)
	case l.IsQuota():
		s += fmt.Sprintf("%s each %s", validate.Amount(l.Name, true, l.Capacity), l.Reset)
	default:
		s += fmt.Sprintf("%d per %s, capacity %d", l.Refill, l.Period, l.Capacity)
	}
	if l.Schedule != "" {
		s += ", " + calendar.ScheduleText(l.Schedule)
	}
	if l.Soft {
		s += ", soft"
	}
	if l.Floors != "" {
		s += ", floors " + l.Floors
	}
	if l.Ahead != 0 {
		s += ", ahead " + l.Ahead.String()
	}
	return s
}

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
	case l.Ahead != 0 && (!aheadFor(l.Ahead) || l.Ahead%time.Millisecond != 0 || l.Soft || l.InFlight || l.IsQuota()):
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

// aheadFor reports whether tokens that are taken ahead may be held for so long.
func aheadFor(d time.Duration) bool {
	return d >= 10*time.Millisecond && d <= time.Duration(bucket.MaxAhead)*time.Millisecond
}

func (l Limit) stored() bucket.Limit { return validate.Limit[Calendar](l).Stored() }

// public turns a stored limit back into its public form.
func public(l bucket.Limit) Limit { return Limit(validate.LimitOf[Calendar](l)) }

// storedLimits validates limits and returns them in order of name.
func storedLimits(field string, limits []Limit) ([]bucket.Limit, error) {
	return validate.Limits(field, limits, func(i int, l Limit) (bucket.Limit, error) {
		return l.stored(), l.validateAt(field, i)
	})
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
func num(c byte) bool   { return c >= '0' && c <= '9' }

func validateLimitName(field, s string) error {
	if !isLimitName(s) {
		return validate.Invalid(field, s, "1 to 64 letters, digits, '_', '.' or '-', the first a letter")
	}
	if s == bucket.WCU {
		return validate.Invalid(field, s, "a name other than the reserved \"wcu\"")
	}
	return nil
}

// validateAt names the limit's place in a list, which takes time, only when that
// is needed.
func (l Limit) validateAt(field string, i int) error {
	if l.validate("") == nil {
		return nil
	}
	return l.validate(fmt.Sprintf("%s[%d]", field, i))
}
