package calendar

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The versions of the stored form. The first is Python's. A last day of the month, or a zone per
// calendar, needs the second, which Python clients refuse by name.
const (
	pythons = "1"
	ours    = "2"
)

// Cron returns the canonical form of a five-field cron expression in a zone, or of several
// expressions separated by semicolons. The error names the problem and the accepted forms; the
// caller adds the expression.
func Cron(expression, zone string) (canonical string, err error) {
	var entries []string
	for _, one := range strings.Split(expression, ";") {
		text, err := parseExpression(one)
		if err != nil {
			return "", err
		}
		entries = append(entries, compact(text))
	}
	canonical = strings.Join(entries, ";") + "@" + zone
	if _, err = parse(canonical); err != nil {
		return "", err
	}
	return canonical, nil
}

// Stored returns the stored form of a canonical form, without its zone if that is the given one:
// Python's form if possible.
func Stored(canonical, zone string) string {
	body, own, _ := strings.Cut(canonical, "@")
	if own != zone || strings.Contains(body, "L") {
		return ours + canonical
	}
	return pythons + body
}

// Zone returns the zone of a canonical form, or "".
func Zone(canonical string) string {
	_, zone, _ := strings.Cut(canonical, "@")
	return zone
}

// Read returns the canonical form of a stored calendar; zone is the item's zone.
func Read(stored, zone string) (canonical string, err error) {
	if canonical, err = unstored(stored, zone); err == nil {
		_, err = Parse(canonical)
	}
	return canonical, err
}

// ReadSchedule returns the form of a stored [Schedule]; zone is the item's zone.
func ReadSchedule(stored, zone string) (form string, err error) {
	if form, err = unstored(stored, zone); err == nil {
		_, err = ParseSchedule(form)
	}
	return form, err
}

// unstored returns a stored calendar or schedule with its zone.
func unstored(stored, zone string) (string, error) {
	switch {
	case strings.HasPrefix(stored, ours):
		return stored[len(ours):], nil
	case strings.HasPrefix(stored, pythons) && !strings.Contains(stored, "L"):
		if zone == "" {
			zone = "UTC"
		}
		return stored[len(pythons):] + "@" + zone, nil
	}
	return "", fmt.Errorf("calendar %q: want version 1 or 2", stored)
}

// shown returns a canonical form in cron notation, and any other text unchanged.
func shown(canonical string) string {
	body, _, ok := strings.Cut(canonical, "@")
	for part := range strings.SplitSeq(body, ";") {
		if _, err := parseCompact(part); err != nil || !ok {
			return canonical
		}
	}
	return Text(canonical)
}

// Text formats a canonical form for people: its cron expressions and its zone.
func Text(canonical string) string {
	body, zone, ok := strings.Cut(canonical, "@")
	if !ok {
		if seconds, err := strconv.Atoi(strings.TrimPrefix(canonical, "+")); err == nil {
			return (time.Duration(seconds) * time.Second).String() + " after first use"
		}
		return canonical
	}
	parts := strings.Split(body, ";")
	for i, p := range parts {
		if text, err := parseCompact(p); err == nil {
			parts[i] = strings.Join(text[:], " ")
		}
	}
	return strings.Join(parts, "; ") + " " + zone
}
