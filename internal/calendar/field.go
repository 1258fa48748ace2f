package calendar

import (
	"fmt"
	"strconv"
	"strings"
)

// field is one of the five fields of a cron expression.
type field struct {
	tag         byte
	name        string
	first, last int
	names       []string // of the values from first
}

var fields = [...]field{
	{tag: 'm', name: "minute", first: 0, last: 59},
	{tag: 'h', name: "hour", first: 0, last: 23},
	{tag: 'D', name: "day of month", first: 1, last: 31},
	{tag: 'M', name: "month", first: 1, last: 12,
		names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")},
	{tag: 'w', name: "weekday", first: 0, last: 7, names: strings.Fields("SUN MON TUE WED THU FRI SAT")},
}

const (
	minute = iota
	hour
	day
	month
	weekday
)

// set is a set of field values, as bits.
type set uint64

func (s set) has(n int) bool { return s>>n&1 == 1 }

// values returns the set of all numbers from the first to the last.
func values(first, last int) set { return 1<<(last+1) - 1<<first }

// all returns every value of the field.
func (f field) all() set { return values(f.first, f.last) }

// parse returns the values of a field: "*", a number or a range, each with an optional step, or a
// list of these.
func (f field) parse(text string) (out set, err error) {
	for _, term := range strings.Split(text, ",") {
		s, err := f.term(term)
		if err != nil {
			return 0, err
		}
		out |= s
	}
	return out, nil
}

func (f field) term(text string) (set, error) {
	base, steps, stepped := strings.Cut(text, "/")
	in, err := f.span(base)
	if err != nil || !stepped {
		return in, err
	}
	step, ok := digits(steps)
	if !ok || step == 0 {
		return 0, f.wrong(text)
	}
	if in&(in-1) == 0 { // 5/10 continues from 5 to the end
		in = f.all() &^ (in - 1)
	}
	out, at := set(0), 0
	for n := f.first; n <= f.last; n++ {
		if in.has(n) {
			if at%step == 0 {
				out |= 1 << n
			}
			at++
		}
	}
	return out, nil
}

func (f field) span(text string) (set, error) {
	if text == "*" {
		return f.all(), nil
	}
	from, to, isRange := strings.Cut(text, "-")
	first, ok := f.value(from)
	last := first
	if ok && isRange {
		last, ok = f.value(to)
	}
	if !ok || last < first {
		return 0, f.wrong(text)
	}
	return values(first, last), nil
}

func (f field) value(text string) (n int, ok bool) {
	n, ok = digits(text)
	return n, ok && n >= f.first && n <= f.last
}

func (f field) wrong(text string) error {
	return fmt.Errorf("the %s %q: want numbers from %d to %d, ranges, steps and lists of them",
		f.name, text, f.first, f.last)
}

// digits parses a number of at most four decimal digits.
func digits(s string) (int, bool) {
	if len(s) == 0 || len(s) > 4 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// numbers returns a field with names replaced by numbers, in its unique stored spelling. Sunday is
// 7, but 0 at the beginning of a range or a step.
func (f field) numbers(text string) string {
	terms := strings.Split(text, ",")
	for i, term := range terms {
		if f.tag == 'w' && (term == "0" || strings.EqualFold(term, "SUN")) {
			terms[i] = "7"
			continue
		}
		for j, name := range f.names {
			term = strings.ReplaceAll(strings.ToUpper(term), name, strconv.Itoa(f.first+j))
		}
		terms[i] = term
	}
	return strings.Join(terms, ",")
}
