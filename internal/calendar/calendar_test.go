package calendar

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// edges finds edges by walking through the minutes with the standard library's dates: a second,
// naive version. A local time begins a period if it matches and the minute before does not. The
// period begins in the first minute of [from, to) at which the clocks have shown that time or a
// later one.
func edges(t *testing.T, cron string, zone *time.Location, from, to time.Time) (out []int64) {
	t.Helper()
	parts := strings.Fields(cron)
	matches := func(at time.Time) bool {
		day, weekday := naive(parts[2], at.Day(), 1, 31), naive(parts[4], int(at.Weekday()), 0, 7)
		if at.Weekday() == time.Sunday {
			weekday = weekday || naive(parts[4], 7, 0, 7)
		}
		on := day || weekday
		if parts[2][0] == '*' || parts[4][0] == '*' {
			on = day && weekday
		}
		return on && naive(parts[0], at.Minute(), 0, 59) && naive(parts[1], at.Hour(), 0, 23) &&
			naive(parts[3], int(at.Month()), 1, 12)
	}
	shown := local(from.Add(-48*time.Hour), zone)
	before := matches(shown)
	for at := from.Add(-48 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
		begins := false
		for now := local(at, zone); shown.Before(now); {
			shown = shown.Add(time.Minute)
			is := matches(shown)
			begins, before = begins || is && !before, is
		}
		if begins && !at.Before(from) {
			out = append(out, at.UnixMilli())
		}
	}
	return out
}

// local returns the minute on the clocks of a zone, as if the zone were UTC.
func local(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

// naive reports whether n is a value of a field from first to last. A term is a star, a number or a
// range, perhaps with a step; a number with a step goes on to the last value.
func naive(text string, n, first, last int) bool {
	for _, term := range strings.Split(text, ",") {
		base, steps, stepped := strings.Cut(term, "/")
		from, to, step := first, last, 1
		if low, high, isRange := strings.Cut(base, "-"); base != "*" {
			from, _ = digits(low)
			if to = from; isRange {
				to, _ = digits(high)
			} else if stepped {
				to = last
			}
		}
		if stepped {
			step, _ = digits(steps)
		}
		if from <= n && n <= to && (n-from)%step == 0 {
			return true
		}
	}
	return false
}

func TestEdgesEqualANaiveWalk(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Africa/Cairo", "Asia/Beirut",
		"Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia", "Asia/Tokyo"}
	crons := []string{"0 0 * * *", "30 2 * * *", "0 0 1 * *", "15 */6 * * *", "0 9 * * 1", "0 0 13 * 5", "59 23 31 * *",
		"* 9 * * *", "0 1 * * 0", "0 0 1 1,4,7,10 *", "0 * * * *", "*/20 1,2,3 * * *", "5/25 * * * *", "10-40/15 3-5 * * *",
		"0 12 */10 * 1", "0 0 1-9 * 6,7", "7 0 2-20/6 * 3", "0 0 10 * *", "0 5 * 2-11/3 *", "30 1 * * */3", "0 0 9 1-12 5",
		"* * 9 * *", "* * * * 1", "* * 9 * 1", "* * * 2,4,6,8,10,12 *", "1-59 * * * *", "* 1-23 * * *", "* * 1-30 * *"}
	random := rand.New(rand.NewPCG(18, 1))
	for _, cron := range crons {
		zone, _ := time.LoadLocation(zones[random.IntN(len(zones))])
		from := time.Unix(random.Int64N(130*365*86400)/60*60, 0)
		to := from.AddDate(0, 3, 0)
		canonical, err := Cron(cron, zone.String())
		check.Must(t, err)
		c, _ := Parse(canonical)
		want, at := edges(t, cron, zone, from, to), from.UnixMilli()-1
		for _, edge := range want {
			if at = c.Next(at); at != edge {
				t.Fatalf("%q in %s: edge %s, want %s", cron, zone, time.UnixMilli(at).UTC(), time.UnixMilli(edge).UTC())
			}
		}
		if at = c.Next(at); at < to.UnixMilli() {
			t.Fatalf("%q in %s: edge %s, want none before %s", cron, zone, time.UnixMilli(at).UTC(), to.UTC())
		}
	}
}

func TestLastDaysOfMonths(t *testing.T) {
	for canonical, want := range map[string][]string{
		"m0h0DL@UTC":          {"2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30"},
		"m0h0D30L@UTC":        {"2027-01-30", "2027-02-28", "2027-03-30", "2027-04-30"},
		"m0h0D29L@UTC":        {"2027-01-29", "2027-02-28", "2027-03-29", "2027-04-29"},
		"m0h0D31@UTC":         {"2027-01-31", "2027-03-31", "2027-05-31"}, // as in Python: no clamping
		"m0h0D29M2@UTC":       {"2028-02-29", "2032-02-29"},
		"m0h0D1;m0h0D15@UTC":  {"2027-01-01", "2027-01-15", "2027-02-01"},
		"m0h0D1M1,4,7,10@UTC": {"2027-01-01", "2027-04-01", "2027-07-01", "2027-10-01", "2028-01-01"},
	} {
		c, err := Parse(canonical)
		check.Must(t, err)
		at := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC).UnixMilli()
		for _, day := range want {
			if at = c.Next(at); time.UnixMilli(at).UTC().Format("2006-01-02") != day {
				t.Errorf("%s: %s, want %s", canonical, time.UnixMilli(at).UTC(), day)
			}
		}
	}
}

// A leap day on a Sunday comes every 28 years, or after forty if a year like 2100 has none. It is
// found from the beginning of 1970, which shows that there is one, and from any other instant.
func TestLeapDaysOnSundays(t *testing.T) {
	c, err := Parse("m0h0D29M2w*/7@UTC")
	check.Must(t, err)
	at := int64(0)
	for _, year := range []int{1976, 2004, 2032, 2060, 2088, 2128} {
		at = c.Next(at)
		if want := time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC); at != want.UnixMilli() {
			t.Errorf("%s, want %s", time.UnixMilli(at).UTC(), want)
		}
	}
}

// A local time that the clocks skip begins its period when they are set forward, in every calendar:
// by half an hour, an hour, or a whole day.
func TestSkippedLocalTimesBeginTheirPeriod(t *testing.T) {
	play(t, map[string][]string{
		"m0h0w7@America/Santiago": {"2026-08-30 04:00", "2026-09-06 04:00", "2026-09-13 03:00"},
		"m0h0@Africa/Cairo":       {"2027-04-28 22:00", "2027-04-29 22:00", "2027-04-30 21:00"},
		"m0h0D1M10@America/Asuncion": {"1974-10-01 04:00", "1975-10-01 04:00", "1976-10-01 04:00", "1977-10-01 04:00",
			"1978-10-01 04:00"},
		"m30h2@Europe/Berlin":         {"2027-03-27 01:30", "2027-03-28 01:00", "2027-03-29 00:30"},
		"m0@Europe/Berlin":            {"2027-03-28 00:00", "2027-03-28 01:00", "2027-03-28 02:00"},
		"m0h2;m0h3@Europe/Berlin":     {"2027-03-28 01:00", "2027-03-29 00:00", "2027-03-29 01:00"},
		"m*/15h2@Australia/Lord_Howe": {"2026-10-03 15:30", "2026-10-03 15:45", "2026-10-04 15:00"},
		"h2@Europe/Berlin":            {"2027-03-27 01:00", "2027-03-28 01:00", "2027-03-29 00:00"},
		"m0h0D30@Pacific/Apia":        {"2011-11-30 10:00", "2011-12-30 10:00", "2012-01-29 10:00"},
		"m0h12w5@Pacific/Apia":        {"2011-12-23 22:00", "2011-12-30 10:00", "2012-01-05 22:00"},
		"m0h0DL@America/Asuncion":     {"1976-08-31 04:00", "1976-09-30 04:00", "1976-10-31 03:00"},
		"m0h0@Africa/Monrovia":        {"1972-01-06 00:45", "1972-01-07 00:45", "1972-01-08 00:00"},
	})
}

// A local time that occurs twice begins its period once, at the first time. In Casey clocks are set
// back by three hours, the largest change.
func TestRepeatedLocalTimesBeginOnePeriod(t *testing.T) {
	play(t, map[string][]string{
		"m0h0@Antarctica/Casey":       {"2023-03-07 13:00", "2023-03-08 13:00", "2023-03-09 16:00"},
		"m0h0w4@Antarctica/Casey":     {"2023-03-01 13:00", "2023-03-08 13:00", "2023-03-15 16:00"},
		"m0h0@America/Havana":         {"2027-11-06 04:00", "2027-11-07 04:00", "2027-11-08 05:00"},
		"m0h0D1@America/Havana":       {"2026-10-01 04:00", "2026-11-01 04:00", "2026-12-01 05:00"},
		"m0h0@America/St_Johns":       {"2010-11-06 02:30", "2010-11-07 02:30", "2010-11-08 03:30"},
		"m30h2@Europe/Berlin":         {"2027-10-30 00:30", "2027-10-31 00:30", "2027-11-01 01:30"},
		"m0@Europe/Berlin":            {"2027-10-31 00:00", "2027-10-31 02:00", "2027-10-31 03:00"},
		"h2@Europe/Berlin":            {"2027-10-30 00:00", "2027-10-31 00:00", "2027-11-01 01:00"},
		"m45h1@Australia/Lord_Howe":   {"2027-04-02 14:45", "2027-04-03 14:45", "2027-04-04 15:15"},
		"m59h23DL@America/Sao_Paulo":  {"2018-01-01 01:59", "2018-02-01 01:59", "2018-03-01 02:59"},
		"m30h23D17@America/Sao_Paulo": {"2018-01-18 01:30", "2018-02-18 01:30", "2018-03-18 02:30"},
	})
}

// play compares the edges of calendars with the wanted ones, from the first of them.
func play(t *testing.T, want map[string][]string) {
	t.Helper()
	for canonical, edges := range want {
		c, err := Parse(canonical)
		check.Must(t, err)
		begin, _ := time.Parse("2006-01-02 15:04", edges[0])
		at := begin.UnixMilli() - 1
		for _, edge := range edges {
			if at = c.Next(at); time.UnixMilli(at).UTC().Format("2006-01-02 15:04") != edge {
				t.Errorf("%s: edge at %s, want %s", canonical, time.UnixMilli(at).UTC(), edge)
				break
			}
		}
	}
}

func TestStoredCalendarsRoundTrip(t *testing.T) {
	for _, c := range []struct{ cron, zone, item, stored string }{
		{"0 0 1 * *", "UTC", "UTC", "1m0h0D1"},
		{"0 0 * * MON-FRI", "Asia/Tokyo", "Asia/Tokyo", "1m0h0w1-5"},
		{"0 9 * JAN,jul SUN", "UTC", "UTC", "1m0h9M1,7w7"},
		{"0 0 * * SUN-THU", "UTC", "UTC", "1m0h0w0-4"},
		{"0 0 * * 0", "UTC", "UTC", "1m0h0w7"},
		{"0 0 * * sun,FRI,3", "UTC", "UTC", "1m0h0w7,5,3"},
		{"0 0 * * SUN/2", "UTC", "UTC", "1m0h0w0/2"},
		{"1-59 * * * *", "UTC", "UTC", "1m1-59"},
		{"* 1-23 * * *", "UTC", "UTC", "1h1-23"},
		{"* * * 2-12 *", "UTC", "UTC", "1M2-12"},
		{"0 0 1 1 *; 0 0 1 7 *", "UTC", "UTC", "1m0h0D1M1;m0h0D1M7"},
		{"0 0 1 * *", "Asia/Tokyo", "UTC", "2m0h0D1@Asia/Tokyo"},
		{"0 0 L * *", "UTC", "UTC", "2m0h0DL@UTC"},
	} {
		canonical, err := Cron(c.cron, c.zone)
		check.Must(t, err)
		check.Equal(t, Stored(canonical, c.item), c.stored, "%q in %s is stored as", c.cron, c.zone)
		if got, err := Read(c.stored, c.item); got != canonical || err != nil {
			t.Errorf("%q is read as %q, %v, want %q", c.stored, got, err, canonical)
		}
	}
}

func TestInvalidCalendarsAreRefused(t *testing.T) {
	for _, canonical := range []string{"", "m0h0", "m0h0@", "m0h0@Local", "m0h0@Mars/Olympus", "m60@UTC", "h0m0@UTC",
		"m00005@UTC",
		"m0m1@UTC", "D30M2@UTC", "@UTC", "D28L@UTC", "D32L@UTC", "DW@UTC", "wFRI@UTC",
		"w1#2@UTC", "m*/0@UTC", "m5-1@UTC", "+0", "+-5", "+1.5",
		"+01", "+99999999999"} {
		check.Says(t, check.Err(Parse(canonical)), "want", "%q", canonical)
	}
}

// An error names the mistake, and what is accepted. The caller adds the expression.
func TestErrorsSayWhatIsAccepted(t *testing.T) {
	const numbers = "numbers from %d to %d, ranges, steps and lists of them"
	for _, c := range []struct{ cron, zone, want string }{
		{"0 0 * *", "UTC", `want five fields, minute, hour, day of month, month and weekday, not 4`},
		{"0 0 0 * * *", "UTC", `want five fields, minute, hour, day of month, month and weekday, not 6`},
		{"@monthly", "UTC", `want five fields, minute, hour, day of month, month and weekday, not 1`},
		{"0 0 30 2 *", "UTC", `the day of month "30" never comes in the month "2": want a date that there is`},
		{"* * * * *", "UTC", `it matches every minute, and a period begins where one matches after ` +
			`one that does not: want one that begins now and then, as 0 * * * * or */5 * * * *`},
		{"0 0 1 * *; 0 0 31 4,6 *", "UTC", `the day of month "31" never comes in the month "4,6": want a date that there is`},
		{"60 0 * * *", "UTC", `the minute "60": want ` + fmt.Sprintf(numbers, 0, 59)},
		{"0 0 * 0 *", "UTC", `the month "0": want ` + fmt.Sprintf(numbers, 1, 12)},
		{"0 0 * * 8", "UTC", `the weekday "8": want ` + fmt.Sprintf(numbers, 0, 7)},
		{"0 */0 * * *", "UTC", `the hour "*/0": want ` + fmt.Sprintf(numbers, 0, 23)},
		{"0 0 28L * *", "UTC", `the day of month "28L": want L, 29L, 30L or 31L`},
		{"0 0 1 * *", "Mars", `time zone "Mars": want a name of the IANA database, as Europe/Berlin or UTC`},
	} {
		got, err := Cron(c.cron, c.zone)
		if err == nil || err.Error() != c.want || got != "" {
			t.Errorf("%q: %q, %v\nwant %s", c.cron, got, err, c.want)
		}
	}
	for stored, want := range map[string]string{
		"3m0":  `calendar "3m0": want version 1 or 2`,
		"":     `calendar "": want version 1 or 2`,
		"1DL":  `calendar "1DL": want version 1 or 2`, // Python has no last days
		"1h0m": `calendar "h0m@UTC": "h0m": want the fields m, h, D, M and w, each once at most and in this order`,
	} {
		if _, err := Read(stored, ""); err == nil || err.Error() != want {
			t.Errorf("stored %q: %v, want %s", stored, err, want)
		}
	}
	for canonical, want := range map[string]string{
		"+0":          `calendar "+0": want a whole number of seconds from 1 to 316224000`,
		"+0x10":       `calendar "+0x10": want a whole number of seconds from 1 to 316224000`,
		"m,0@UTC":     `calendar ",0 * * * * UTC": the minute "": want ` + fmt.Sprintf(numbers, 0, 59),
		"m0h0D1@Mars": `calendar "0 0 1 * * Mars": time zone "Mars": want a name of the IANA database, as Europe/Berlin or UTC`,
		"+1":          "", "+316224000": "", "+316224001": `calendar "+316224001": want a whole number of seconds from 1 to 316224000`,
	} {
		if _, err := Parse(canonical); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %s", canonical, err, want)
		}
	}
}

func TestTextForPeople(t *testing.T) {
	for canonical, want := range map[string]string{
		"+60": "1m0s after first use", "+18000": "5h0m0s after first use", "odd": "odd", "m0h0D1@UTC": "0 0 1 * * UTC",
		"m0;m30w7@Asia/Tokyo": "0 * * * *; 30 * * * 7 Asia/Tokyo",
		"odd@UTC":             "odd UTC",
	} {
		check.Equal(t, Text(canonical), want, "%q", canonical)
	}
	for canonical, want := range map[string]string{"m0@UTC": "UTC", "+60": "", "m0": ""} {
		check.Equal(t, Zone(canonical), want, "the zone of %q", canonical)
	}
}

// An instant without a date has no edge.
func TestInstantsWithoutADateHaveNoEdge(t *testing.T) {
	c, err := Parse("m0@UTC")
	check.Must(t, err)
	for _, ms := range []int64{farthest + 1, -farthest - 1, math.MaxInt64, math.MinInt64} {
		check.Equal(t, c.Next(ms), Never, "the edge after %d", ms)
	}
	const hour = 3_600_000
	for ms, want := range map[int64]int64{-1: 0, 0: hour, hour - 1: hour, -hour - 1: -hour, -hour: 0, -hour + 1: 0,
		farthest: farthest + 1000} {
		check.Equal(t, c.Next(ms), want, "the edge after %d", ms)
	}
}

// The search for an edge is slow. If requests for two periods alternate, each is searched once,
// even from an earlier instant of the same period.
func TestTheLatestPeriodsAreCached(t *testing.T) {
	const day = 24 * 3_600_000
	c, err := parse("m0h0@UTC") // no other test uses this calendar
	check.Must(t, err)
	for _, ms := range []int64{7*day + 5, day + 5, day + 4} {
		c.Next(ms)
	}
	check.Equal(t, *c.last.Load(), [2]span{{day + 4, 2 * day}, {7*day + 5, 8 * day}}, "known")
	was := c.last.Load()
	for _, ms := range []int64{day + 4, 2*day - 1, 7*day + 5, 8*day - 1} {
		c.Next(ms)
		check.Equal(t, c.last.Load(), was, "the edge after %d was looked for again", ms)
	}
	if c.Next(2 * day); *c.last.Load() != [2]span{{2 * day, 3 * day}, {day + 4, 2 * day}} {
		t.Errorf("cached are %v, want the two latest", *c.last.Load())
	}
}

func TestFirstUse(t *testing.T) {
	c, err := Parse("+18000")
	if err != nil || c.After() != 18_000_000 || c.Next(0) != Never {
		t.Errorf("a period of five hours is %+v, %v", c, err)
	}
}

// Every reader of an item parses its calendar. A calendar without edges must not take seconds.
func TestCalendarsWithoutEdgesAreRefusedAtOnce(t *testing.T) {
	for _, form := range []string{"@UTC", "m0-59@Europe/Berlin", "m*/1h0-23@UTC", "w0-6@UTC", "w1-7@UTC",
		"D1-31w1@UTC", "D*/1w1-7@UTC", "D3w0-6@UTC", "m0;@UTC"} {
		check.Says(t, check.Err(Parse(form)), "matches every minute", form)
		body, _, _ := strings.Cut(form, "@")
		entries := strings.Split(body, ";")
		text, err := parseCompact(entries[len(entries)-1])
		check.Must(t, err)
		if e, _ := parseFields(text); e.finest != month {
			t.Errorf("%q is searched within months", form)
		}
	}
}

// steps returns how many local times are visited until a calendar begins after one.
func steps(t *testing.T, canonical, after string) (n int) {
	c, err := Parse(canonical)
	check.Must(t, err)
	from, err := time.Parse("2006-01-02 15:04", after)
	check.Must(t, err)
	for m := from.Unix()/60 + 1; ; {
		n++
		next, begins := c.entries[0].look(m)
		if begins {
			return n
		}
		if next <= m {
			t.Fatalf("%s: from minute %d back to %d", canonical, m, next)
		}
		m = next
	}
}

// A beginning is searched by months, days and hours, and by minutes only within one hour.
func TestSearchesSkipMonthsDaysAndHours(t *testing.T) {
	for _, c := range []struct {
		canonical, after string
		want             int
	}{
		{"m0h0D1M1@UTC", "2027-01-01 00:00", 124},
		{"m0h0D1M1@UTC", "2027-01-15 12:30", 29},
		{"m0h0D1@UTC", "2027-01-15 12:30", 18},
		{"m0h0DL@UTC", "2027-01-15 12:30", 17},
		{"m0h0w1@UTC", "2027-01-15 12:30", 4},
		{"m0h0@UTC", "2027-01-15 12:30", 13},
		{"m0@UTC", "2027-01-15 12:30", 30},
		{"m30h9@UTC", "2027-01-15 09:30", 83},
		{"h9@UTC", "2027-01-15 09:30", 25},
		{"w1@UTC", "2027-01-18 09:30", 8},
		{"M1-6@UTC", "2027-01-18 09:30", 13},
	} {
		check.Equal(t, steps(t, c.canonical, c.after), c.want, "%s after %s: minutes", c.canonical, c.after)
	}
}

// Only a bounded number of parsed forms is kept. When there are more, the cache starts again.
func TestTheCacheOfFormsIsBounded(t *testing.T) {
	var k kept[int]
	reads := 0
	parse := func(form string) (int, error) { reads++; return strconv.Atoi(form) }
	for n := range 2*maxKept + 1 {
		for range 2 {
			if got, err := k.read(strconv.Itoa(n), parse); got != n || err != nil {
				t.Fatal(got, err)
			}
		}
	}
	are := 0
	k.known.Range(func(any, any) bool { are++; return true })
	if _, err := k.read("x", parse); err == nil || are != 1 || reads != 2*maxKept+2 {
		t.Errorf("%d kept, %d parsed, %v", are, reads, err)
	}
}
