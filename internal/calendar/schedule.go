package calendar

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule gives the parameters of a rate at an instant, from the first window that matches, or
// the rate's own. A window matches while the zone's clocks show a time that its cron expression
// matches: "* 9-16 * * 1-5" is from nine to five on working days. It follows the clocks when they
// are set forward or back. Its form is like a calendar's, with the parameters after each
// expression:
//
//	h9-16w1-5s2000;h0-5c50a10p60@Europe/Berlin
//
// A Schedule is safe for concurrent use.
type Schedule struct {
	windows []window
	zone    *time.Location
	spans
}

// window is an expression, and the parameters in force while it matches.
type window struct {
	entry
	Change
}

// Change is the parameters of a window: a scale of capacity and refill in thousandths, or capacity
// and refill in tokens and the period in seconds. 0 means the rate's own value.
type Change struct{ Scale, Capacity, Refill, Period int64 }

// The tags of a window's parameters, in order.
const changeTags = "scap"

// MaxWindows is the greatest number of windows in a schedule.
const MaxWindows = 64

// MaxChange bounds each parameter of a window.
const MaxChange = 1_000_000_000_000_000

func (c *Change) fields() [len(changeTags)]*int64 {
	return [...]*int64{&c.Scale, &c.Capacity, &c.Refill, &c.Period}
}

// String returns the parameters in stored form: "s500", or "c50a10p60".
func (c Change) String() string {
	var b strings.Builder
	for i, n := range c.fields() {
		if *n != 0 {
			b.WriteByte(changeTags[i])
			b.WriteString(strconv.FormatInt(*n, 10))
		}
	}
	return b.String()
}

var schedules kept[*Schedule]

// ParseSchedule parses a form. The error names the problem and the accepted forms; a window that
// never matches is an error.
func ParseSchedule(form string) (*Schedule, error) { return schedules.read(form, parseSchedule) }

func parseSchedule(form string) (*Schedule, error) {
	body, name, _ := strings.Cut(form, "@")
	zone, err := location(name)
	if err != nil {
		return nil, err
	}
	s := &Schedule{zone: zone}
	if n := strings.Count(body, ";") + 1; n > MaxWindows {
		return nil, fmt.Errorf("it has %d windows, want at most %d", n, MaxWindows)
	}
	for one := range strings.SplitSeq(body, ";") {
		w, err := parseWindow(one)
		if err != nil {
			return nil, fmt.Errorf("window %q: %w", one, err)
		}
		s.windows = append(s.windows, w)
	}
	return s, nil
}

func parseWindow(one string) (w window, err error) {
	cron, rest := one, ""
	if i := strings.IndexAny(one, changeTags); i >= 0 {
		cron, rest = one[:i], one[i:]
	}
	text, err := parseCompact(cron)
	if err != nil {
		return w, err
	}
	if w.entry, err = parseFields(text); err != nil {
		return w, err
	}
	for i, n := range w.fields() {
		if rest == "" || rest[0] != changeTags[i] {
			continue
		}
		var value string
		value, rest = tagged(rest, changeTags)
		if *n, err = strconv.ParseInt(value, 10, 64); err != nil || *n < 1 || *n > MaxChange {
			return w, fmt.Errorf("the parameter %q: want 1 to %d", changeTags[i:i+1]+value, int64(MaxChange))
		}
	}
	if rest != "" || w.Change == (Change{}) || w.Scale != 0 && w.Change != (Change{Scale: w.Scale}) {
		return w, fmt.Errorf("the parameters %q: want a scale s, or some of capacity c, refill a and period p",
			one[len(cron):])
	}
	if _, begins := w.next(0); !begins && !w.matches(wall(0)) {
		return w, w.refusal(text)
	}
	return w, nil
}

// Window returns the form of a window without its zone: a five-field cron expression and its
// parameters. The error names the problem and the accepted forms.
func Window(expression string, c Change) (form string, err error) {
	text, err := parseExpression(expression)
	if err != nil {
		return "", err
	}
	form = compact(text) + c.String()
	_, err = parseWindow(form)
	return form, err
}

// WindowOf returns the cron expression and the parameters of a window.
func WindowOf(form string) (expression string, c Change, err error) {
	w, err := parseWindow(form)
	if err != nil {
		return "", c, err
	}
	text, err := parseCompact(strings.TrimSuffix(form, w.Change.String()))
	return strings.Join(text[:], " "), w.Change, err
}

// At returns the parameters of the window in force at an instant; without one, the zero Change.
func (s *Schedule) At(ms int64) Change {
	if i, _, _, _ := s.inForce(floor(ms, 60_000)); i >= 0 {
		return s.windows[i].Change
	}
	return Change{}
}

// Changes returns the parameters of all windows.
func (s *Schedule) Changes() (out []Change) {
	for _, w := range s.windows {
		out = append(out, w.Change)
	}
	return out
}

// inForce returns the window in force in a minute (-1 for none), its local time, and how far the
// clocks are ahead, until when.
func (s *Schedule) inForce(m int64) (i int, local, ahead, until int64) {
	ahead, until = stretch(s.zone, m)
	local = floor(m*60+ahead, 60)
	t := wall(local)
	for i, w := range s.windows {
		if w.matches(t) {
			return i, local, ahead, until
		}
	}
	return -1, local, ahead, until
}

// Next returns the first instant after another one at which another window is in force, or Never.
func (s *Schedule) Next(ms int64) int64 {
	return s.until(ms, func() int64 { return s.next(floor(ms, 60_000)) })
}

func (s *Schedule) next(m int64) int64 {
	was, _, _, _ := s.inForce(m)
	for at := m; at < m+horizon; {
		i, local, ahead, until := s.inForce(at)
		if i != was {
			return at * 60_000
		}
		deciding := s.windows // windows after the one in force have no effect
		if i >= 0 {
			deciding = deciding[:i+1]
		}
		next := int64(Never)
		for _, w := range deciding {
			next = min(next, w.same(local))
		}
		at = min(max(at+1, ceil(next*60-ahead)), until)
	}
	return Never
}

// ScheduleText formats a form for people: "during * 9-16 * * 1-5 UTC capacity 600", with semicolons
// between windows.
func ScheduleText(form string) string {
	windows, zone, _ := strings.Cut(form, "@")
	var out []string
	for window := range strings.SplitSeq(windows, ";") {
		cron, c, err := WindowOf(window)
		if err != nil {
			return form
		}
		text := "during " + cron + " " + zone
		if c.Scale != 0 {
			text += fmt.Sprintf(" times %g", float64(c.Scale)/1000)
		}
		for i, n := range [...]int64{c.Capacity, c.Refill, c.Period} {
			if n != 0 {
				text += fmt.Sprintf(" %s %d", [...]string{"capacity", "refill", "seconds"}[i], n)
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
