package manifest

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		"rpm=600":                          limiter.PerMinute("rpm", 600),
		"rpd=1000@daily":                   limiter.Quota("rpd", 1000, limiter.Daily("")),
		"budget=$12.50@monthly Asia/Tokyo": limiter.Quota("budget", 12_500_000, limiter.Monthly(1, "Asia/Tokyo")),
		"s=5@5h after first use":           limiter.Quota("s", 5, limiter.FromFirstUse(5*time.Hour)),
		"rpm=600/m":                        limiter.PerMinute("rpm", 600),
		"tpm=40000/m:80000":                limiter.PerMinute("tpm", 40000).WithCapacity(80000),
		"tpm=5:10":                         limiter.PerMinute("tpm", 5).WithCapacity(10),
		"images=50/d":                      limiter.PerDay("images", 50),
		"x=1/90s":                          {Name: "x", Capacity: 1, Refill: 1, Period: 90 * time.Second},
		"x=1/30d":                          {Name: "x", Capacity: 1, Refill: 1, Period: 720 * time.Hour},
		"x=1/3660d":                        {Name: "x", Capacity: 1, Refill: 1, Period: 3660 * 24 * time.Hour},
		"rpm=600/m:900+soft":               limiter.PerMinute("rpm", 600).WithCapacity(900).AsSoft(),
		"jobs=20@in-flight/2m":             limiter.InFlight("jobs", 20, 2*time.Minute),
		"jobs=20@in-flight/m":              limiter.InFlight("jobs", 20, time.Minute),
		"rpd=1000@daily+soft":              limiter.Quota("rpd", 1000, limiter.Daily("")).AsSoft(),
		"rpm=60+floors:free=60,batch=40":   limiter.PerMinute("rpm", 60).WithFloor("batch", 40).WithFloor("free", 60),
		"rpm=60+floors:batch=40+soft":      limiter.PerMinute("rpm", 60).WithFloor("batch", 40).AsSoft(),
		"jobs=20@in-flight/m+floors:a=5":   limiter.InFlight("jobs", 20, time.Minute).WithFloor("a", 5),
		"rps=5/s+ahead:500ms":              limiter.PerSecond("rps", 5).WithAhead(500 * time.Millisecond),
		"rpm=60+ahead:1s+floors:a=5":       limiter.PerMinute("rpm", 60).WithAhead(time.Second).WithFloor("a", 5),
		"rpm=60+floors:a=5+ahead:1s":       limiter.PerMinute("rpm", 60).WithAhead(time.Second).WithFloor("a", 5),
		"x=blocked":                        limiter.Blocked("x"),
		"x=unlimited":                      limiter.Unlimited("x"),
	} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	const (
		forms  = "want NAME=AMOUNT[/PERIOD][:CAPACITY], like rpm=600, or NAME=AMOUNT@CALENDAR, like budget=$500@monthly"
		tokens = ", want 1 to 1000000000000000 tokens"
		period = ", want a whole number of seconds from 1s to 87840h0m0s"
		ahead  = ", want 10ms to 10m, for a rate that is not soft; or zero"
		amount = ", want a whole number, or dollars with at most six digits behind the point, like $12.50"
		floor  = ": want a class and a whole number of percent, like batch=40"
		days   = ": want a whole number of days, 3660 at most"
		units  = ": want s, m, h, d, or like 90s"
	)
	for text, want := range map[string]string{
		"":                               forms,
		"rpm":                            forms,
		"rpm=":                           `amount "": want a whole number`,
		"rpm=x":                          `amount "x": want a whole number`,
		"rpm=1.5":                        `amount "1.5": want a whole number`,
		"rpm=9223372036854775808":        `amount "9223372036854775808": want a whole number`,
		"=5":                             `Limit.Name is "", want 1 to 64 letters, digits, '_', '.' or '-', the first a letter`,
		"wcu=5":                          `Limit.Name is "wcu", want a name other than the reserved "wcu"`,
		"rpm=0":                          `Limit "rpm" Capacity is 0` + tokens,
		"rpm=-1":                         `Limit "rpm" Capacity is -1` + tokens,
		"rpm=5:":                         `capacity "": want a whole number`,
		"rpm=+soft":                      `amount "": want a whole number`,
		"rpm=0x5":                        `amount "0x5": want a whole number`,
		"rpm=5:0x10":                     `capacity "0x10": want a whole number`,
		"rpm=5:0":                        `Limit "rpm" Capacity is 0` + tokens,
		"rpm=5/m:x":                      `capacity "x": want a whole number`,
		"rpm=5/":                         `period ""` + units,
		"rpm=5/x":                        `period "x"` + units,
		"rpm=5/m/m":                      `period "m/m"` + units,
		"rpm=5/0s":                       `Limit "rpm" Period is 0s` + period,
		"rpm=5/500ms":                    `Limit "rpm" Period is 500ms` + period,
		"rpm=5/99999999999d":             `period "99999999999d"` + days,
		"rpm=5/3661d":                    `period "3661d"` + days,
		"rpm=5/36500d":                   `period "36500d"` + days,
		"rpm=5/0d":                       `Limit "rpm" Period is 0s` + period,
		"rpm=5/87841h":                   `Limit "rpm" Period is 87841h0m0s` + period,
		"rpm=5/xd":                       `period "xd"` + days,
		"rpd=x@daily":                    `amount is "x"` + amount,
		"rpd=0@daily":                    `Limit "rpd" Capacity is 0` + tokens,
		"rpd=$5@daily":                   `amount is "$5", want a whole number: the name "rpd" counts no dollars`,
		"rpd=5@at 5":                     `calendar "at 5": want five fields, minute, hour, day of month`,
		"jobs=5@in-flight/x":             `period "x"` + units,
		"jobs=5@in-flight/3s":            `Limit "jobs" Period is 3s, want an epoch of a whole number of seconds from 5s to 10m0s`,
		"rpm=5+floors:":                  `floor ""` + floor,
		"rpm=5+floors:batch":             `floor "batch"` + floor,
		"rpm=5+floors:a=4,batch=%":       `floor "batch=%"` + floor,
		"rpm=5+floors:batch=100":         `Limit "rpm" Floors is "batch=100", want 8 classes at most, by name, with 0 to 99 percent`,
		"rpm=x+floors:batch=4":           `amount "x": want a whole number`,
		"rpm=5+ahead:":                   `ahead "": want a time like 500ms`,
		"rpm=5+ahead:5":                  `ahead "5": want a time like 500ms`,
		"rpm=5+ahead:1ms":                `Limit "rpm" Ahead is 1ms` + ahead,
		"rpm=5+ahead:1h":                 `Limit "rpm" Ahead is 1h0m0s` + ahead,
		"rpm=5+ahead:1s+soft":            `Limit "rpm" Ahead is 1s` + ahead,
		"rpd=5@daily+ahead:1s":           `Limit "rpd" Ahead is 1s` + ahead,
		"rpm=x+ahead:1s":                 `amount "x": want a whole number`,
		"rpm=5+softly":                   `"ly" after +soft: want nothing, or another +`,
		"rpm=10+soft+soft":               `+soft twice in "10+soft+soft": want it once`,
		"rpm=5+ahead:1s+ahead:2s":        `+ahead: twice in "5+ahead:1s+ahead:2s": want it once`,
		"b=5+floors:a=1+soft+floors:b=2": `+floors: twice in "5+floors:a=1+soft+floors:b=2": want it once`,
	} {
		got, err := ParseLimit(text)
		if err == nil {
			t.Errorf("%q is accepted: %v", text, got)
		} else if says := strings.TrimPrefix(err.Error(), "limiter: invalid: "); !strings.HasPrefix(says, want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// A note says what the numbers do not, in the same order always.
func TestNotes(t *testing.T) {
	for text, want := range map[string]string{
		"x=6":                        "",
		"x=6@daily":                  "a quota: 0 0 * * * UTC",
		"x=2@in-flight/m":            "in flight",
		"x=blocked":                  "blocked",
		"x=unlimited":                "unlimited",
		"x=6+soft":                   "soft",
		"x=6+ahead:1s":               "ahead 1s",
		"x=6+floors:a=5,b=4":         "floors a=5,b=4",
		"x=6+ahead:1s+floors:a=5":    "floors a=5, ahead 1s",
		"x=6@daily+soft+floors:a=5":  "a quota: 0 0 * * * UTC, floors a=5, soft",
		"x=2@in-flight/m+floors:a=5": "in flight, floors a=5",
	} {
		l, err := ParseLimit(text)
		if got := Note(l); err != nil || got != want {
			t.Errorf("%s has the note %q, %v, want %q", text, got, err, want)
		}
	}
}

// A period is a number and a unit, or a unit alone. One that cannot be read is none.
func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{"m": time.Minute, "90s": 90 * time.Second, "2h": 2 * time.Hour,
		"d": 24 * time.Hour, "0d": 0, "30d": 720 * time.Hour, "3660d": 87840 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParsePeriod(text); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "5", "3661d", "-1d", "1.5d", "xd", "99999999999999999999d"} {
		if got, err := ParsePeriod(text); err == nil || got != 0 {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
}

// What the help shows as limits is accepted.
func TestSyntaxIsAccepted(t *testing.T) {
	_, examples, _ := strings.Cut(Syntax, "\n\n  ")
	n := 0
	for line := range strings.Lines(examples) {
		text, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		check.NoError(t, check.Err(ParseLimit(strings.Trim(text, `"`))), "%s", text)
		n++
	}
	if n < 9 {
		t.Errorf("%d examples", n)
	}
}

func TestNoteOfASchedule(t *testing.T) {
	l := limiter.PerMinute("rpm", 6).During("* 9 * * *", "", limiter.Limit{Capacity: 3}).AsSoft()
	l.Schedule = "h8s1500;" + l.Schedule
	const want = "during * 8 * * * UTC times 1.5; during * 9 * * * UTC capacity 3, soft"
	check.Equal(t, Note(l), want)
}
