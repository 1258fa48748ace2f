package calendar

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/teambition/rrule-go"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// zones are those in which a calendar can go wrong: clocks that change at midnight or a
// minute after it, by 20 minutes up to a whole day, or back by three hours, and offsets that
// are no whole hours or minutes.
var zones = strings.Fields(`UTC Africa/Cairo Africa/Casablanca Africa/Monrovia America/Asuncion America/Caracas
	America/Havana America/New_York America/Nuuk America/Santiago America/Sao_Paulo America/St_Johns Antarctica/Casey
	Antarctica/Troll Asia/Amman Asia/Beirut Asia/Dhaka Asia/Gaza Asia/Kathmandu Asia/Kolkata Asia/Pyongyang
	Asia/Tehran Asia/Tokyo Atlantic/Azores Australia/Lord_Howe Europe/Berlin Europe/Dublin Europe/London
	Europe/Moscow Pacific/Apia Pacific/Kiritimati Pacific/Kwajalein`)

var (
	first = time.Date(1970, 1, 3, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2100, 12, 30, 0, 0, 0, 0, time.UTC)
)

// all is whether every day of every zone is played, not those at which clocks change.
func all() bool { return os.Getenv("EDGES") == "all" }

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	check.Must(t, err)
	return z
}

// nextChange returns when the clocks change next, or may. On the last day of a leap year the
// standard library names an instant that is over.
func nextChange(at time.Time) time.Time {
	_, next := at.ZoneBounds()
	if !next.IsZero() && !next.After(at) {
		return at.Add(24 * time.Hour)
	}
	return next
}

// begins returns the first minute of the epoch in which the wall clocks of a zone show a local time or a
// later one. Wall is that time as if it were UTC. No clock is ahead of UTC by more than those a day before
// and a day after it.
func begins(z *time.Location, wall time.Time) int64 {
	ahead := func(at time.Time) int64 {
		_, offset := at.In(z).Zone()
		return int64(offset)
	}
	day := 28 * time.Hour
	at := (wall.Unix() - max(ahead(wall.Add(-day)), ahead(wall), ahead(wall.Add(day))) + 59) / 60 * 60
	for at+ahead(time.Unix(at, 0)) < wall.Unix() {
		at += 60
	}
	return at * 1000
}

// changes returns the spans in which the clocks of a zone change, with two days on both
// sides; the whole time if all is wanted.
func changes(z *time.Location) (out [][2]time.Time) {
	if all() {
		return [][2]time.Time{{first, end}}
	}
	for at := first.In(z); ; {
		if at = nextChange(at); at.IsZero() || at.After(end) {
			return out
		}
		out = append(out, [2]time.Time{at.Add(-48 * time.Hour), at.Add(48 * time.Hour)})
	}
}

// same walks a calendar through a span and compares its edges with those wanted.
func same(t *testing.T, c limiter.Calendar, span [2]time.Time, want []int64) bool {
	t.Helper()
	one, err := calendar.Parse(string(c))
	check.Must(t, err)
	at, to, i := span[0].UnixMilli(), span[1].UnixMilli(), 0
	for at = one.Next(at); at < to; at = one.Next(at) {
		if i >= len(want) || at != want[i] {
			break
		}
		i++
	}
	if i == len(want) && at >= to {
		return true
	}
	wanted := "none"
	if i < len(want) {
		wanted = time.UnixMilli(want[i]).UTC().String()
	}
	t.Errorf("%s: edge at %s, want %s", c, time.UnixMilli(at).UTC(), wanted)
	return false
}

// dates returns what rrule-go makes of the dates of a calendar, as if they were UTC.
func dates(t *testing.T, option rrule.ROption) []time.Time {
	t.Helper()
	option.Dtstart, option.Until = first.AddDate(0, 0, -2), end.AddDate(0, 0, 1)
	rule, err := rrule.NewRRule(option)
	check.Must(t, err)
	return rule.All()
}

// kind is a calendar with the rule of its dates.
type kind struct {
	in   func(zone string) limiter.Calendar
	rule rrule.ROption
}

// kinds are the calendars that have a constructor, all of them.
func kinds() map[string]kind {
	out := map[string]kind{
		"daily": {limiter.Daily, rrule.ROption{Freq: rrule.DAILY}},
		"quarterly": {limiter.Quarterly, rrule.ROption{
			Freq: rrule.MONTHLY, Bymonthday: []int{1}, Bymonth: []int{1, 4, 7, 10},
		}},
	}
	// The last of the 28th up to the day that the month has.
	upTo := func(day int) (days, last []int) {
		if day <= 28 {
			return []int{day}, nil
		}
		return []int{28, 29, 30, 31}[:day-27], []int{-1}
	}
	week := []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}
	for day, of := range week {
		out[fmt.Sprint("weekly from ", time.Weekday(day))] = kind{
			func(z string) limiter.Calendar { return limiter.Weekly(time.Weekday(day), z) },
			rrule.ROption{Freq: rrule.WEEKLY, Byweekday: []rrule.Weekday{of}},
		}
	}
	for day := 1; day <= 31; day++ {
		days, last := upTo(day)
		out[fmt.Sprint("monthly from ", day)] = kind{
			func(z string) limiter.Calendar { return limiter.Monthly(day, z) },
			rrule.ROption{Freq: rrule.MONTHLY, Bymonthday: days, Bysetpos: last},
		}
	}
	for month := time.January; month <= time.December; month++ {
		for _, day := range []int{1, 6, 29, 30, 31} {
			days, last := upTo(day)
			out[fmt.Sprint("yearly from ", month, day)] = kind{
				func(z string) limiter.Calendar { return limiter.Yearly(month, day, z) },
				rrule.ROption{Freq: rrule.YEARLY, Bymonth: []int{int(month)}, Bymonthday: days, Bysetpos: last},
			}
		}
	}
	return out
}

// Every calendar with a constructor ends its periods at midnight of the dates that rrule-go names: the
// first one where it comes twice, and when clocks are set forward where it is left out. Looked at are days
// on which clocks change, with each calendar in some zones and all in every one together; with EDGES=all
// each in every zone, throughout.
func TestEdgesAreTheDatesOfRRule(t *testing.T) {
	edges, walks := 0, 0
	for i, name := range slices.Sorted(maps.Keys(kinds())) {
		k := kinds()[name]
		days := dates(t, k.rule)
		for j, in := range zones {
			if !all() && (i+j)%len(zones) != 0 && name != "daily" {
				continue
			}
			z := zone(t, in)
			walks++
			for _, span := range changes(z) {
				n, _ := slices.BinarySearchFunc(days, span[0].Add(-48*time.Hour), time.Time.Compare)
				var want []int64
				for ; n < len(days) && days[n].Before(span[1].Add(48*time.Hour)); n++ {
					want = append(want, begins(z, days[n]))
				}
				want = slices.Compact(within(want, span)) // a whole day may be left out
				if edges += len(want); !same(t, k.in(in), span, want) {
					break
				}
			}
		}
	}
	if edges < 20_000 {
		t.Errorf("only %d edges were compared", edges)
	}
	t.Logf("%d edges of %d calendars, %d walks in %d zones from 1970 to 2100", edges, len(kinds()), walks, len(zones))
}

func within(at []int64, span [2]time.Time) []int64 {
	return slices.DeleteFunc(at, func(ms int64) bool { return ms <= span[0].UnixMilli() || ms >= span[1].UnixMilli() })
}

// crons are expressions with ranges, lists, steps and names, on days of the month, of the
// week, and on both. None matches two minutes in a row, but for the last: then an edge is
// the first minute of a run.
var crons = []string{"0 0 * * *", "30 2 * * *", "0 0 1 * *", "15 */6 * * *", "0 9 * * 1-5", "0 0 13 * 5",
	"59 23 31 * *", "0 0 29 2 *", "0 6 1,15 JAN-MAR,oct *", "5/20 1-3 * * sun", "0 12 10-20/5 * MON-FRI/2", "* 9 * * *"}

// Cron expressions begin to match when robfig/cron fires, on days on which clocks do not
// change. On those it leaves hours out: see TestEdgesAreTheDatesOfRRule, TestEdgesEqualCronsim beside
// the Python client, and the tests of internal/calendar for them.
func TestEdgesEqualRobfigCron(t *testing.T) {
	edges, walks := 0, 0
	for i, expression := range crons {
		for j, in := range zones {
			if (i+j)%len(zones) != 0 {
				continue
			}
			z := zone(t, in)
			walks++
			schedule, err := cron.ParseStandard("CRON_TZ=" + in + " " + expression)
			check.Must(t, err)
			for _, span := range quiet(z) {
				var want []int64
				last := span[0].Add(-time.Minute)
				for at := schedule.Next(span[0].Add(-time.Second)); !at.IsZero() && at.Before(span[1]); at = schedule.Next(at) {
					if at.Sub(last) != time.Minute { // ours are minutes of the epoch
						want = append(want, (at.Unix()+59)/60*60_000)
					}
					last = at
				}
				want = within(want, span)
				if edges += len(want); !same(t, limiter.Cron(expression, in), span, want) {
					break
				}
			}
		}
	}
	if edges < 15_000 {
		t.Errorf("only %d edges were compared", edges)
	}
	t.Logf("%d edges of %d expressions, %d walks in %d zones from 1970 to 2100", edges, len(crons), walks, len(zones))
}

// quiet returns spans in which the clocks of a zone do not change, at most thirty days after
// each change. They begin a month later: robfig/cron looks from the beginning of the month on,
// and passes days over where that is left out.
func quiet(z *time.Location) (out [][2]time.Time) {
	for from := first.In(z); from.Before(end); {
		to := nextChange(from)
		if to.IsZero() || to.After(end) {
			to = end
		}
		span := [2]time.Time{from.Add(32 * 24 * time.Hour).Truncate(time.Hour), to.Add(-24 * time.Hour)}
		if limit := span[0].AddDate(0, 0, 30); limit.Before(span[1]) {
			span[1] = limit
		}
		if span[0].Before(span[1]) {
			out = append(out, span)
		}
		from = to
	}
	return out
}
