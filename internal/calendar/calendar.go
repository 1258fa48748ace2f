package calendar

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // the same zones on machines without a time zone database
)

// Never is the edge of a calendar without one.
const Never = math.MaxInt64

// maxAfter is the longest period after a first use, in seconds: ten years.
const maxAfter = 10 * 366 * 24 * 3600

// Calendar computes when periods end. It is safe for concurrent use.
type Calendar struct {
	entries []entry
	zone    *time.Location
	after   int64 // ms after the first use; 0: by the calendar
	spans
}

// spans caches the last two spans used: some buckets ask about a time long past.
type spans struct{ last atomic.Pointer[[2]span] }

// span has no edge between from and to; to is an edge.
type span struct{ from, to int64 }

// until returns the first edge after an instant, or Never. It calls find if no cached span contains
// the instant.
func (k *spans) until(ms int64, find func() int64) int64 {
	last := k.last.Load()
	if last == nil {
		last = &[2]span{}
	}
	for _, s := range last {
		if ms >= s.from && ms < s.to {
			return s.to
		}
	}
	if ms > farthest || ms < -farthest {
		return Never
	}
	next := find()
	known := [2]span{{ms, next}, last[0]}
	if last[0].to == next { // the same span, from an earlier instant
		known[1] = last[1]
	}
	k.last.Store(&known)
	return next
}

var calendars kept[*Calendar]

// Parse parses a canonical form. The error names the problem and the accepted forms; a calendar
// without an edge is an error.
func Parse(canonical string) (*Calendar, error) {
	c, err := calendars.read(canonical, parse)
	if err != nil {
		return nil, fmt.Errorf("calendar %q: %w", shown(canonical), err)
	}
	return c, nil
}

// kept caches parsed values by their form, up to maxKept; then it starts over.
type kept[T any] struct {
	known sync.Map
	count atomic.Int64
}

const maxKept = 1024

func (k *kept[T]) read(form string, parse func(string) (T, error)) (T, error) {
	if found, ok := k.known.Load(form); ok {
		return found.(T), nil
	}
	read, err := parse(form)
	if err == nil {
		if k.count.Add(1) > maxKept {
			k.known.Clear()
			k.count.Store(1)
		}
		k.known.Store(form, read)
	}
	return read, err
}

func parse(canonical string) (*Calendar, error) {
	if seconds, ok := strings.CutPrefix(canonical, "+"); ok {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 1 || n > maxAfter || seconds != strconv.Itoa(n) {
			return nil, fmt.Errorf("want a whole number of seconds from 1 to %d", maxAfter)
		}
		return &Calendar{after: int64(n) * 1000}, nil
	}
	body, name, _ := strings.Cut(canonical, "@")
	zone, err := location(name)
	if err != nil {
		return nil, err
	}
	c := &Calendar{zone: zone}
	for _, one := range strings.Split(body, ";") {
		text, err := parseCompact(one)
		if err != nil {
			return nil, err
		}
		e, err := parseFields(text)
		if err != nil {
			return nil, err
		}
		if _, ok := e.next(0); !ok {
			return nil, e.refusal(text)
		}
		c.entries = append(c.entries, e)
	}
	return c, nil
}

// location returns a zone by its name in the IANA database.
func location(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("time zone %q: want a name of the IANA database, as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// Next returns the first edge after an instant, or Never. If the calendar counts from the first
// use, it returns Never: see [Calendar.After].
func (c *Calendar) Next(ms int64) int64 {
	if c.after > 0 {
		return Never
	}
	return c.until(ms, func() int64 {
		next := int64(Never)
		shown := latest(c.zone, floor(ms, 60_000))
		for _, e := range c.entries {
			if local, ok := e.next(shown); ok {
				next = min(next, local)
			}
		}
		if next < Never {
			next = first(c.zone, next) * 60_000
		}
		return next
	})
}

// farthest is the last instant that has a date: the year 9999.
const farthest = 253_402_300_799_000

// After returns the length of a period that begins with the first use, in milliseconds; 0 for all
// other calendars.
func (c *Calendar) After() int64 { return c.after }

func floor(n, by int64) int64 {
	if q := n / by; n%by >= 0 {
		return q
	}
	return n/by - 1
}
