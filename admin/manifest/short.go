package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// ParseLimit reads one limit in the short form that [Syntax] describes, and validates it:
// "rpm=600" is 600 per minute. The error names the part of the text that is not accepted.
func ParseLimit(text string) (limiter.Limit, error) {
	name, rule, ok := strings.Cut(text, "=")
	if !ok {
		return limiter.Limit{}, fmt.Errorf("want NAME=AMOUNT[/PERIOD][:CAPACITY], like rpm=600, or NAME=AMOUNT@CALENDAR, " +
			"like budget=$500@monthly")
	}
	if bare, with, more := cutLast(rule, "+soft", "+ahead:", "+floors:"); more != "" {
		if strings.Contains(bare, more) {
			return limiter.Limit{}, fmt.Errorf("%s twice in %q: want it once", more, rule)
		}
		l, err := ParseLimit(name + "=" + bare)
		if err == nil {
			l, err = parseMore(l, more, with)
		}
		return l, err
	}
	switch rule {
	case "blocked":
		return limiter.Blocked(name), nil
	case "unlimited":
		return limiter.Unlimited(name), nil
	}
	if amount, when, at := strings.Cut(rule, "@"); at {
		return parseAt(name, amount, when)
	}
	rule, capacity, burst := strings.Cut(rule, ":")
	amount, period, every := strings.Cut(rule, "/")
	l := limiter.Limit{Name: name, Period: time.Minute}
	var err error
	if l.Refill, err = strconv.ParseInt(amount, 10, 64); err != nil {
		return l, notWhole("amount", amount)
	}
	l.Capacity = l.Refill
	if burst {
		if l.Capacity, err = strconv.ParseInt(capacity, 10, 64); err != nil {
			return l, notWhole("capacity", capacity)
		}
	}
	if every {
		if l.Period, err = ParsePeriod(period); err != nil {
			return l, err
		}
	}
	return l, l.Validate()
}

// notWhole is the error of a number that is none.
func notWhole(what, text string) error {
	if strings.HasPrefix(text, "$") {
		return fmt.Errorf("%s %q: want a whole number; dollars are for quotas, like budget=$500@monthly", what, text)
	}
	return fmt.Errorf("%s %q: want a whole number", what, text)
}

// cutLast cuts a rule at the last of the marks, and returns which one that is.
func cutLast(rule string, marks ...string) (before, after, mark string) {
	last := -1
	for _, m := range marks {
		if at := strings.LastIndex(rule, m); at > last {
			last, mark = at, m
		}
	}
	if mark == "" {
		return rule, "", ""
	}
	return rule[:last], rule[last+len(mark):], mark
}

// parseMore reads what stands behind a mark, and adds it to a limit.
func parseMore(l limiter.Limit, mark, text string) (limiter.Limit, error) {
	var err error
	switch {
	case mark == "+soft" && text != "":
		return l, fmt.Errorf("%q after +soft: want nothing, or another +", text)
	case mark == "+soft":
		l = l.AsSoft()
	case mark == "+ahead:":
		if l.Ahead, err = time.ParseDuration(text); err != nil {
			return l, fmt.Errorf("ahead %q: want a time like 500ms", text)
		}
	default:
		for part := range strings.SplitSeq(text, ",") {
			class, percent, _ := strings.Cut(part, "=")
			n, err := strconv.Atoi(percent)
			if err != nil {
				return l, fmt.Errorf("floor %q: want a class and a whole number of percent, like batch=40", part)
			}
			l = l.WithFloor(class, n)
		}
	}
	return l, l.Validate()
}

// maxDays is how long a period may be that is stored: ten years.
const maxDays = 3660

// ParsePeriod reads a period as people write it: "m", "90s", "2h", "30d".
func ParsePeriod(text string) (time.Duration, error) {
	number := text
	if text != "" && (text[0] < '0' || text[0] > '9') {
		number = "1" + text
	}
	if days, ok := strings.CutSuffix(number, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("period %q: want a whole number of days, %d at most", text, maxDays)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(number)
	if err != nil {
		return 0, fmt.Errorf("period %q: want s, m, h, d, or like 90s", text)
	}
	return d, nil
}
