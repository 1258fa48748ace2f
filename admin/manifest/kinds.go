// Package manifest reads the declared limits of a namespace from YAML or JSON, in
// the form of the Python provisioner:
//
//	namespace: default
//	system:
//	  on_unavailable: block          # or allow; may be left out
//	  limits:
//	    rpm: {capacity: 100}         # 100 per minute
//	resources:
//	  gpt-4:
//	    limits:
//	      tpm: {capacity: 40000, refill_amount: 20000, refill_period: 60}
//	  images:
//	    disabled: true               # or false, or bypass: see admin.Access
//	entities:
//	  acme:
//	    name: Acme                   # see admin.Entity; a hierarchy is what parents say
//	    parent: org
//	    cascade: true                # what it takes is charged to its parent too
//	    metadata: {plan: gold}
//	    resources:
//	      gpt-4: {limits: {rpm: {capacity: 1000}}}
//	      embeddings: {cascade: false}                 # see admin.Cascade; here only
//	      _default_: {limits: {rpm: {capacity: 50}}}   # all other resources
//	  org: {}                        # described too, as it is a parent
//
// A limit has a capacity, and unless it says otherwise that is refilled every 60
// seconds. A quota says when it resets instead, in one of three ways, and may have an
// amount of dollars:
//
//	budget: {amount: $500, reset: monthly Asia/Tokyo}        # see limiter.ParseCalendar
//	rpd: {capacity: 1000, reset_schedule: [{cron: 0 0 * * *, tz: UTC}]}
//	session: {capacity: 100, reset_after_seconds: 18000}     # after the first use
//
//	jobs: {in_flight: 20, epoch_seconds: 120}                # see limiter.InFlight
//
// A rate may have a schedule, in the words of Python: windows of time, of which the first that matches
// holds, with a scale of its capacity and refill, or with others. See limiter.Limit.During.
//
//	rpm:
//	  capacity: 600
//	  schedule:
//	    - {cron: "* 9-16 * * MON-FRI", tz: Europe/Berlin, scale: 0.5}
//	    - {cron: "* * * * SAT,SUN", tz: Europe/Berlin, capacity: 50, refill_amount: 10, refill_period_seconds: 60}
//
// Keys that begin with x- are for people and for anchors, wherever names of ours stand: they are passed
// over. Every other key that is not known is an error that names its line.
//
// Each of the others may be soft: true, which counts and denies nothing. A rate may have
// ahead_milliseconds: 500, see limiter.Limit.Ahead.
//
// It reads single limits too, in the short form of the command-line tool: see [ParseLimit].
//
// It is a package of its own so that only programs that read manifests
// depend on a YAML parser.
package manifest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/internal/yamldoc"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// This file knows how people write each kind of limit: the words of a manifest, the short form and
// its description, and the note of one. A kind to come has all of these here.

// Syntax describes, for the help of a program, what [ParseLimit] reads.
const Syntax = `A limit is NAME=AMOUNT[/PERIOD][:CAPACITY]: AMOUNT tokens come back every PERIOD (s, m,
h, d, or like 90s; default m), up to CAPACITY (default: AMOUNT). Or one of these:

NAME=AMOUNT@CALENDAR is a quota: AMOUNT tokens, or dollars, in each period of the
calendar: daily, weekly, monthly, quarterly, yearly or a cron expression, and a time
zone; or a length, which begins with the first use.
NAME=AMOUNT@in-flight/EPOCH bounds the requests in flight. Slots of processes that died
are free again after one or two epochs.
NAME=blocked denies everything. NAME=unlimited only counts.

A limit may end in +soft: it counts and denies nothing. +floors:CLASS=PERCENT,... is how
much of the capacity requests of a class leave to others. +ahead:TIME lets busy processes
take tokens ahead, and hold them for up to that time.

  rpm=600                            600 per minute
  tpm=40000/m:80000                  40000 per minute, bursts of up to 80000
  images=50/d                        50 per day, coming back one by one
  rpd=1000@daily                     1000 from midnight to midnight, UTC
  "budget=$500@monthly Asia/Tokyo"   500 dollars a month
  "runs=20@5h after first use"       20 in the five hours that begin with the first
  jobs=20@in-flight/2m               20 in flight, epochs of two minutes
  rpm=600+floors:batch=40            600 per minute; batch leaves 40 percent to others
  rps=1000/s+ahead:500ms             1000 per second, taken ahead for at most half a second
  rpm=600+soft                       600 per minute, to be tried on real traffic`

// limit is a limit as a manifest declares it.
type limit struct {
	Capacity *int64 `yaml:"capacity"`
	Amount   *int64 `yaml:"refill_amount"`
	Period   *int64 `yaml:"refill_period"` // seconds
	Burst    *int64 `yaml:"burst"`         // older manifests: the capacity
	Soft     bool   `yaml:"soft"`          // counts, and denies nothing
	Slots    *int64 `yaml:"in_flight"`
	Epoch    *int64 `yaml:"epoch_seconds"`
	// Floors are the percents that classes of requests leave to others.
	Floors map[string]int64 `yaml:"floors"`
	// Ahead is for how long tokens may be held that are taken ahead.
	Ahead *int64 `yaml:"ahead_milliseconds"`
	// Windows are when a rate has other parameters.
	Windows []window `yaml:"schedule"`
	quota   `yaml:",inline"`

	Lines yamldoc.Lines
}

// quota is what a limit has that is a quota; all but amount and reset are the words of the
// Python provisioner.
type quota struct {
	Tokens   *string `yaml:"amount"` // instead of capacity: may be dollars
	Reset    *string `yaml:"reset"`
	Schedule []reset `yaml:"reset_schedule"`
	After    *int64  `yaml:"reset_after_seconds"`
}

type reset struct {
	Cron string `yaml:"cron"`
	TZ   string `yaml:"tz"`
}

func (q quota) resets() bool {
	return q.Tokens != nil || q.Reset != nil || q.Schedule != nil || q.After != nil
}

func (l *limit) quotaOf(name string) (limiter.Limit, error) {
	wrong := func(format string, args ...any) (limiter.Limit, error) {
		return limiter.Limit{}, fmt.Errorf("%w: limit %q "+format, append([]any{limiter.ErrInvalid, name}, args...)...)
	}
	if l.Amount != nil && *l.Amount != 0 || l.Period != nil || l.Burst != nil {
		return wrong("resets, and so has no refill_amount, refill_period nor burst")
	}
	if (l.Capacity == nil) == (l.Tokens == nil) {
		return wrong("resets, and so has either a capacity or an amount")
	}
	var n int64
	var err error
	if l.Capacity != nil {
		n = *l.Capacity
	} else if n, err = validate.AmountOf(name, *l.Tokens); err != nil {
		return wrong("has an amount: %w", err)
	}
	at, ways := limiter.Calendar(""), 0
	if l.Reset != nil {
		ways++
		if at, err = limiter.ParseCalendar(*l.Reset); err != nil {
			return wrong("has a reset: %w", err)
		}
	}
	if l.After != nil {
		ways++
		at = limiter.FromFirstUse(time.Duration(min(max(*l.After, -1), 1<<32)) * time.Second)
	}
	if l.Schedule != nil {
		ways++
		var crons []string
		for _, r := range l.Schedule {
			if crons = append(crons, r.Cron); r.TZ != l.Schedule[0].TZ {
				return wrong("has a reset_schedule with the time zones %q and %q, want one", l.Schedule[0].TZ, r.TZ)
			}
		}
		if len(crons) > 0 {
			at = limiter.Cron(strings.Join(crons, ";"), l.Schedule[0].TZ)
		}
	}
	if ways != 1 || at == "" {
		return wrong("wants one of reset, reset_schedule and reset_after_seconds")
	}
	out := limiter.Quota(name, n, at)
	out.Soft = l.Soft
	return out, nil
}

func (l *limit) kind(name string) (limiter.Limit, error) {
	if l != nil && (l.Slots != nil || l.Epoch != nil) {
		return l.inFlight(name)
	}
	if l != nil && l.resets() {
		return l.quotaOf(name)
	}
	if l == nil || l.Capacity == nil && l.Burst == nil {
		return limiter.Limit{}, fmt.Errorf("%w: limit %q has no capacity", limiter.ErrInvalid, name)
	}
	capacity := cmp.Or(l.Burst, l.Capacity)
	out := limiter.Limit{Name: name, Capacity: *capacity, Refill: *capacity, Period: time.Minute,
		Soft: l.Soft}
	if l.Amount != nil {
		out.Refill = *l.Amount
	}
	if l.Period != nil {
		if *l.Period < 1 || *l.Period > maxDays*24*3600 {
			return out, fmt.Errorf("%w: limit %q has a refill_period of %d seconds, want 1 to %d",
				limiter.ErrInvalid, name, *l.Period, maxDays*24*3600)
		}
		out.Period = time.Duration(*l.Period) * time.Second
	}
	return out, nil
}

func (l *limit) inFlight(name string) (limiter.Limit, error) {
	if l.Slots == nil || l.Epoch == nil || l.Capacity != nil || l.Amount != nil || l.Period != nil || l.Burst != nil ||
		l.Soft || l.resets() {
		return limiter.Limit{}, fmt.Errorf("%w: limit %q wants in_flight and epoch_seconds, and nothing else",
			limiter.ErrInvalid, name)
	}
	epoch := min(max(*l.Epoch, 0), 1<<32)
	return limiter.InFlight(name, *l.Slots, time.Duration(epoch)*time.Second), nil
}

// parseAt reads a limit with an @: "1000" and "daily Europe/Berlin", or "$500" and "monthly", and
// "20" and "in-flight/2m".
func parseAt(name, amount, when string) (limiter.Limit, error) {
	epoch, slots := strings.CutPrefix(when, "in-flight/")
	if slots && strings.HasPrefix(amount, "$") {
		return limiter.Limit{}, notWhole("amount", amount)
	}
	n, err := validate.AmountOf(name, amount)
	if err != nil {
		return limiter.Limit{}, err
	}
	if slots {
		d, err := ParsePeriod(epoch)
		if err != nil {
			return limiter.Limit{}, err
		}
		l := limiter.InFlight(name, n, d)
		return l, l.Validate()
	}
	at, err := limiter.ParseCalendar(when)
	if err != nil {
		return limiter.Limit{}, err
	}
	l := limiter.Quota(name, n, at)
	return l, l.Validate()
}

// Note describes a limit besides its numbers, empty for a plain rate:
// "a quota: 0 0 1 * * Asia/Tokyo, soft".
func Note(l limiter.Limit) string {
	floors, ahead, soft := l.Floors, l.Ahead, l.Soft
	l.Floors, l.Ahead, l.Soft = "", 0, false
	var parts []string
	add := func(is bool, part string) {
		if is {
			parts = append(parts, part)
		}
	}
	add(l.IsBlocked(), "blocked")
	add(l.IsUnlimited(), "unlimited")
	add(l.InFlight, "in flight")
	add(l.IsQuota(), "a quota: "+l.Reset.String())
	add(l.Schedule != "", calendar.ScheduleText(l.Schedule))
	add(floors != "", "floors "+floors)
	add(ahead != 0, "ahead "+ahead.String())
	add(soft, "soft")
	return strings.Join(parts, ", ")
}
