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

// MaxLimits is how many limits one bucket may have. With that many, and names of full length, every
// write stays within the limits of DynamoDB's expressions.
const MaxLimits = 32

// Limit is a rule for one entity and resource. A rate: up to Capacity tokens can be taken at once,
// and Refill tokens come back every Period, continuously and never above Capacity. Or, with a
// Reset, a quota: Capacity tokens can be taken in each period of its calendar, see [Quota]. Or,
// with InFlight, a bound on the requests that are in flight at once, see [InFlight]. Limits are
// plain values and comparable. The zero Limit is invalid.
type Limit struct {
	// Name begins with a letter and has up to 64 letters, digits, '_', '.' and '-'. "wcu" is
	// reserved.
	Name string
	// Capacity is the most tokens that the bucket holds, 1 to MaxTokens. A new bucket starts full.
	Capacity int64
	// Refill is how many tokens are added per Period, 1 to MaxTokens; 0 for a quota or an in-flight
	// limit.
	Refill int64
	// Period is a whole number of seconds, at least one; 0 for a quota. For an in-flight limit it
	// is the length of its epochs, 5s to 10m.
	Period time.Duration
	// Reset is the calendar of a quota; the empty one makes the limit a rate.
	Reset Calendar
	// Soft limits count tokens and never deny: see [Limit.AsSoft].
	Soft bool
	// InFlight makes it an in-flight limit: Capacity is the number of slots.
	InFlight bool
	// Floors are the percentages of the capacity that classes of requests leave to others, as in
	// "batch=40,free=60": see [Limit.WithFloor].
	Floors string
	// Ahead is how long a busy process may hold tokens that it has taken ahead. It overrides
	// Options.Ahead: 10ms to 10m in whole milliseconds, for a rate that is not soft. Zero does not
	// override. If several limits of a bucket set it, the shortest applies.
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

// PerDay returns a rate of n tokens per 24 hours with a capacity of n. Tokens come back
// continuously, not at midnight: an entity that takes all n at once and then everything that comes
// back has taken 2n within 24 hours. For at most n from one midnight to the next, use a quota:
// [Quota](name, n, [Daily](zone)). PerDay(name, n/2) grants at most n in any 24 hours, and n/2 a
// day in the long run. The same holds for the other periods.
func PerDay(name string, n int64) Limit {
	return Limit{Name: name, Capacity: n, Refill: n, Period: 24 * time.Hour}
}

// WithCapacity returns the limit with another capacity, to allow bursts that are larger or smaller
// than the refill of one period.
func (l Limit) WithCapacity(n int64) Limit {
	l.Capacity = n
	return l
}

// AsSoft returns the limit as a soft one, to be tried on real traffic. It is charged like any
// other, into debt if necessary, but never denies, however large the cost. Statuses show its level.
// [Lease.Overdrawn] and [Event] show which requests it would have denied as a hard limit. Parents
// have soft limits of their own. For requests with soft limits no tokens are taken ahead.
func (l Limit) AsSoft() Limit {
	l.Soft = true
	return l
}

// WithFloor returns the limit with a floor for a class of requests. A request that names the class
// in [Request].Class must leave that percentage of Capacity, 0 to 99, to others. A class that is
// not named here has the highest floor of all named ones; a request without a class has none. At
// most 8 classes, of 1 to 32 letters, digits, '_', '.' and '-'.
//
//	PerMinute("rpm", 600).WithFloor("batch", 40)
//
// Batch is denied if fewer than 240 tokens would be left, so others have 240 at once, and
// everything that comes back, however much batch asks for. Alone, batch has the whole rate. A cost
// of zero needs no floor, soft limits have none, and settlements and refunds ignore floors.
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

// WithAhead returns the limit with a time for which busy processes may hold tokens that they have
// taken ahead, whatever their [Options].Ahead says. A stored one applies as soon as processes have
// read it: for a hot key, without a new release.
func (l Limit) WithAhead(d time.Duration) Limit {
	l.Ahead = d
	return l
}

// String returns the limit as "rpm: 100 per 1m0s, capacity 100"; special limits have a word of
// their own: "images: blocked". If the name of a quota says that it counts money, such as "budget"
// or "spend.day", the capacity is in dollars: "budget: $500 each 0 0 1 * * UTC".
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

// Quota returns a limit of n tokens in each period of a calendar. At the end of a period it is full
// again at once, whatever was left, and any debt is forgiven. Tokens of a past period are never
// given back to a later one. Within a period nothing comes back.
//
//	limiter.Quota("budget", limiter.USD(500), limiter.Monthly(1, "Asia/Tokyo"))
//
// Exactly one request opens each period of a bucket, however many processes there are. In the first
// second of a period requests may still count towards the old one. No period opens early if all
// clocks are within a second of the true time.
func Quota(name string, n int64, c Calendar) Limit { return Limit{Name: name, Capacity: n, Reset: c} }

// USD returns an amount of dollars in millionths, the tokens in which money is counted: all
// arithmetic uses whole numbers. For other currencies, do the same with their unit.
func USD(dollars int64) int64 { return dollars * 1_000_000 }

// IsQuota reports whether the limit is a quota, not a rate.
func (l Limit) IsQuota() bool { return l.Reset != "" }

// InFlight returns a limit of n slots: at any time, the costs of all requests in flight add up to
// at most n.
//
//	limiter.InFlight("jobs", 20, 2*time.Minute)
//
// A request takes slots like tokens, in the same write. Commit and Rollback give all of them back.
// Every lease with slots must be ended by one of them, or by [Limiter.Do]. While a lease is open,
// this process renews its slots, with one write in each epoch for all leases of a bucket. No event
// reports renewals. [Lease.Lost] reports that one was not possible in time.
//
// Slots of a process that has died are free at the end of the epoch after their last renewal:
// between one and two epochs later. So are slots that were taken by a write whose answer was lost.
// The epoch is 5s to 10m, a whole number of seconds. Short epochs free the slots of dead processes
// sooner; long ones cost fewer writes and survive longer trouble with the table.
//
// With Options.Ahead a busy process keeps the slots of a lease that has ended for its next
// requests, which take them over without a write. It gives them back that long after it took them
// from the table, but within an epoch, and within half of the time in which the fastest limit
// fills. It keeps none if less than half of the slots would be free. Until then, they count as
// taken for others, and for requests of a class with a floor, even if the process ends.
//
// A bucket has at most 3 in-flight limits. They cannot be soft. All slots are on one shard, so such
// a bucket is not split. Slots are not counted as usage. Python clients do not know them.
//
// Never more than n are held at once, if clocks are within a second of the true time. A process
// that was frozen, or whose clock stood still, learns that it has lost its slots when it goes on:
// see [Lease.Lost].
func InFlight(name string, n int64, epoch time.Duration) Limit {
	return Limit{Name: name, Capacity: n, Period: epoch, InFlight: true}
}

// During returns the rate with a window of time in which it has the Capacity, Refill and Period of
// another limit; zero ones stay as they are. The window is open while the clocks of the zone (of
// the IANA database, empty: UTC) show a time that a cron expression of five fields matches. If
// windows overlap, the first applies. All windows of a limit are in one zone.
//
//	limiter.PerMinute("rpm", 60).
//		During("* 9-16 * * 1-5", "Europe/Berlin", limiter.PerMinute("", 600)). // from nine to five on working days
//		During("* * * * 0,6", "Europe/Berlin", limiter.Limit{Capacity: 10})   // weekends: bursts of ten
//
// All processes and the functions change over a second after the edges of a window, as at the edge
// of a quota, so that a clock that is ahead does not open one early. Tokens that have come back are
// kept, up to the new capacity; a larger capacity starts from the present level and fills at the
// new rate. Tokens taken ahead ([Options].Ahead) are not held across an edge. A request that the
// limit in force can never hold, but a later one can, is denied until the edge.
// [Status].ChangesAfter says how long the limit in force applies.
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

// Unlimited returns a limit that counts and, in practice, never denies: MaxTokens can be taken at
// once and come back every second. It is stored like any other limit, and Python clients support
// it.
func Unlimited(name string) Limit {
	return Limit{Name: name, Capacity: MaxTokens, Refill: MaxTokens, Period: time.Second}
}

// Blocked returns a limit that denies every request with a cost of it above zero, without a call to
// the table. LimitError.Never is true then, and RetryAfter is ten years. It is stored as one token
// every ten years, because every client needs a capacity above zero. Python clients do not know
// blocked limits: they grant that one token once per bucket.
func Blocked(name string) Limit {
	return Limit{Name: name, Capacity: 1, Refill: 1, Period: blockedPeriod}
}

// blockedPeriod distinguishes a blocked limit from the slowest limit that somebody may want.
const blockedPeriod = validate.MaxPeriod - time.Second

// IsUnlimited reports whether the limit is [Unlimited], whatever its name.
func (l Limit) IsUnlimited() bool { l.Floors, l.Ahead = "", 0; return l == Unlimited(l.Name) }

// IsBlocked reports whether the limit is [Blocked], whatever its name.
func (l Limit) IsBlocked() bool { l.Floors, l.Ahead = "", 0; return l == Blocked(l.Name) }

// Validate returns nil, or an ErrInvalid that names the field, its value and the
// accepted ones. Every function that takes limits validates them.
func (l Limit) Validate() error { return validate.Limit[Calendar](l).Check("Limit") }

// storedLimits validates limits and returns them in order of name.
func storedLimits(field string, limits []Limit) ([]bucket.Limit, error) {
	return validate.Limits(field, limits, func(i int, l Limit) (bucket.Limit, error) {
		return l.stored(), validate.Limit[Calendar](l).CheckAt(field, i)
	})
}

func (l Limit) stored() bucket.Limit { return validate.Limit[Calendar](l).Stored() }

// public turns a stored limit back into its public form.
func public(l bucket.Limit) Limit { return Limit(validate.LimitOf[Calendar](l)) }
