package calendar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func instant(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	check.Must(t, err)
	return at.UnixMilli()
}

// Business hours of a zone, in a week in which its clocks are set forward.
func TestWindowsOfASchedule(t *testing.T) {
	s, err := ParseSchedule("h9-16w1-5s2000;w6,7c5@Europe/Berlin")
	check.Must(t, err)
	hours, weekend, own := Change{Scale: 2000}, Change{Capacity: 5}, Change{}
	for _, c := range []struct {
		at   string
		want Change
		next string
	}{
		{"2026-03-27T07:59:59Z", own, "2026-03-27T08:00:00Z"}, // 8:59 in Berlin
		{"2026-03-27T08:00:00Z", hours, "2026-03-27T16:00:00Z"},
		{"2026-03-27T15:59:59Z", hours, "2026-03-27T16:00:00Z"},
		{"2026-03-27T16:00:00Z", own, "2026-03-27T23:00:00Z"},
		{"2026-03-27T23:00:00Z", weekend, "2026-03-29T22:00:00Z"}, // until midnight, then in summer time
		{"2026-03-29T22:00:00Z", own, "2026-03-30T07:00:00Z"},
	} {
		at := instant(t, c.at)
		if got, next := s.At(at), s.Next(at); got != c.want || next != instant(t, c.next) {
			t.Errorf("%s: %v until %s, want %v until %s", c.at, got, time.UnixMilli(next).UTC(), c.want, c.next)
		}
	}
}

// A window that is always in force hides the windows after it, so there is no next edge.
func TestAScheduleWithoutEdges(t *testing.T) {
	for _, form := range []string{"s500@UTC", "s500;m*/2c5@UTC", "c7;s500;m5s2000@Asia/Tokyo"} {
		s, err := ParseSchedule(form)
		check.Must(t, err)
		check.Equal(t, s.Next(1_700_000_000_000), Never, form)
	}
	s, err := ParseSchedule("D29M2w*c7@UTC")
	if err != nil || s.Next(instant(t, "2096-03-01T00:00:00Z")) != instant(t, "2104-02-29T00:00:00Z") {
		t.Errorf("%v: no leap day in 2100", err)
	}
}

// Random windows have the same edges as a walk through every minute, even when clocks change by an
// hour at night, or by half an hour.
func TestEdgesEqualAWalkThroughEveryMinute(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
		"Asia/Kathmandu"}
	clocks := []string{"2026-03-28T12:00:00Z", "2026-10-24T20:00:00Z", "2026-04-04T10:00:00Z", "2026-12-31T00:00:00Z",
		"2026-10-31T22:00:00Z", "2028-02-28T00:00:00Z"}
	for range 100 {
		var windows []string
		for range 1 + rnd.IntN(3) {
			windows = append(windows, pick("", "m0-29", "m*/20", "m30")+pick("", "h9-16", "h2", "h1,3", "h22-23")+
				pick("", "", "D1", "D28-31", "D*/2")+pick("", "", "M3", "M10-12")+pick("", "", "w1-5", "w0", "w7")+
				pick("s500", "c5a6p7", "s2000", "c9"))
		}
		form := strings.Join(windows, ";") + "@" + pick(zones...)
		s, err := ParseSchedule(form)
		check.Must(t, err, form)
		at := instant(t, pick(clocks...)) + rnd.Int64N(24*3600_000)
		for range 4 {
			next := s.Next(at)
			zone, _ := time.LoadLocation(s.zone.String())
			naive := func(ms int64) int {
				local := time.UnixMilli(ms).In(zone)
				return slices.IndexFunc(s.windows, func(w window) bool { return w.matches(local) })
			}
			want, m := at, at-at%60_000
			for m += 60_000; m < at+4*24*3600_000 && naive(m) == naive(at); m += 60_000 {
			}
			if want = m; m >= at+4*24*3600_000 {
				if next < m {
					t.Fatalf("%s: an edge at %s, where nothing changes", form, time.UnixMilli(next).UTC())
				}
				break
			}
			if next != want {
				t.Fatalf("%s after %s: %s, want %s", form, time.UnixMilli(at).UTC(), time.UnixMilli(next).UTC(),
					time.UnixMilli(want).UTC())
			}
			at = next
		}
	}
}

func TestInvalidSchedulesNameTheirMistake(t *testing.T) {
	for form, want := range map[string]string{
		"h9s500":                             `time zone "": want a name of the IANA database`,
		"h9@UTC":                             `window "h9": the parameters "": want a scale s`,
		"h9s500c5@UTC":                       `want a scale s, or some of capacity c`,
		"h9c0@UTC":                           `the parameter "c0": want 1 to 1000000000000000`,
		"h9c-1@UTC":                          `the parameter "c-1"`,
		"h9a5c5@UTC":                         `the parameters "a5c5"`, // Python stores c before a
		"h9c9x@UTC":                          `the parameter "c9x"`,
		"h9sc5@UTC":                          `the parameter "s"`,
		"h99s500@UTC":                        `the hour "99"`,
		"h9s99999999999999999999@UTC":        `the parameter "s99999999999999999999"`,
		strings.Repeat("s5;", 64) + "s5@UTC": "it has 65 windows, want at most 64",
		";h9s500@UTC":                        `window "": the parameters ""`,
	} {
		check.Says(t, check.Err(ParseSchedule(form)), want, form)
	}
	check.Must(t, check.Err(ParseSchedule(strings.Repeat("s5;", MaxWindows-1)+"s5@UTC")))
	for cron, want := range map[string]string{
		"0 0 30 2 *": "never comes", "* * *": "want five fields", "61 * * * *": `the minute "61"`,
	} {
		check.Says(t, check.Err(Window(cron, Change{Scale: 500})), want, cron)
	}
}

// A window survives writing and reading, in Python's spelling.
func TestWindowsSurviveStorage(t *testing.T) {
	for cron, want := range map[string]string{
		"* 9-17 * * MON-FRI": "h9-17w1-5c500a10p60", "* * * * *": "c500a10p60", "0 0 1 JAN SUN": "m0h0D1M1w7c500a10p60",
	} {
		form, err := Window(cron, Change{Capacity: 500, Refill: 10, Period: 60})
		if err != nil || form != want {
			t.Errorf("%s: %q, %v, want %q", cron, form, err, want)
		}
		back, c, err := WindowOf(form)
		if again, _ := Window(back, c); err != nil || again != form {
			t.Errorf("%s: read as %q %v, %v", form, back, c, err)
		}
	}
	for stored, want := range map[string]string{"1h9s500": "h9s500@Asia/Tokyo", "2h9s500@UTC": "h9s500@UTC"} {
		form, err := ReadSchedule(stored, "Asia/Tokyo")
		if err != nil || form != want || Stored(form, "Asia/Tokyo") != stored {
			t.Errorf("%s: %q, %v, stored %q", stored, form, err, Stored(form, "Asia/Tokyo"))
		}
	}
	for _, stored := range []string{"3h9s500", "1h99s500"} { // an unknown version, and an invalid hour
		if _, err := ReadSchedule(stored, ""); err == nil {
			t.Errorf("%s is read", stored)
		}
	}
}
