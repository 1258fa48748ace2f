package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Events of a time are those from its beginning to before its end; older ones are not read, and
// what goes wrong is told.
func TestEventsOfATime(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	lost := errors.New("lost")
	for _, c := range []struct {
		from, to time.Time
		want     string
	}{
		{time.Time{}, time.Time{}, "40 30 20 10 lost"}, {at(20), time.Time{}, "40 30 20, 10 read"},
		{at(20), at(40), "30 20, 10 read"}, {time.Time{}, at(20), "10 lost"}, {at(5), at(20), "10 lost"},
	} {
		got, read := "", int64(0)
		events := func(yield func(admin.Event, error) bool) {
			for _, read = range []int64{40, 30, 20, 10} {
				if !yield(admin.Event{At: at(read)}, nil) {
					return
				}
			}
			yield(admin.Event{}, lost)
		}
		for e, err := range during(events, c.from, c.to) {
			if err != nil {
				got += err.Error()
				break
			}
			got += fmt.Sprint(e.At.Unix(), " ")
		}
		if n := len(got); n > 0 && got[n-1] == ' ' {
			got = fmt.Sprintf("%s, %d read", got[:n-1], read)
		}
		check.Equal(t, got, c.want, "from %v to %v", c.from, c.to)
	}
}

// All events may be bounded by time, and one command goes on where another ended, but not both.
func TestAuditOfATime(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10")
	s.says(0, "audit --all --max 0", "ACTION", "gpt-4")
	s.says(0, "audit --all --to 2000-01-01", "nothing there")
	s.says(0, "audit --all --from 2000-01-01", "gpt-4")
	s.says(0, "audit --all --from 2100-01-01", "nothing there")
	s.says(wrong, "audit --all --before x", "no --entity, --resource or --before goes with it")
}

// Where nobody changed the limits of an entity, the trail leads to those who changed everybody's.
func TestAuditLeadsToEverybodysLimits(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "api", "rpm=1")
	s.says(0, "audit -e acme", "audit -r RESOURCE", "for everybody (audit)", "audit --all", "limits resolve")
	s.says(0, "audit -r web", "audit -e ENTITY", "audit --all")
	s.says(0, "audit", "audit --all")
	s.says(0, "audit -r api", "limits_set", "rpm: 1 per 1m0s")
	s.says(0, "audit --all", "limits_set")
}

// Of the details of an event its limits stand first, without a name.
func TestLimitsAreTheFirstDetail(t *testing.T) {
	got := details(map[string]any{"disabled": true, "limits": []any{map[string]any{"a": "b"}}, "on": nil})
	check.Equal(t, got, "a b; disabled: true; on: none")
}

// A cell of details is readable, and no line of them is wider than a terminal has room for.
func TestDetailsOfEventsAreShort(t *testing.T) {
	s := newShell(t)
	args := []string{"limits", "set", "-y", "-r", "api"}
	for _, name := range strings.Fields("a b c d e f g h i j") {
		args = append(args, name+"=1000:2000")
	}
	s.run(0, args...)
	out, _ := s.run(0, "audit", "-r", "api")
	if !strings.Contains(out, "a: 1000 per 1m0s, capacity 2000; b: ") || !strings.Contains(out, "…") {
		t.Error(out)
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(line); n > 170 {
			t.Errorf("%d letters: %s", n, line)
		}
	}
	if out, _ := s.run(0, "audit", "-r", "api", "-o", "csv"); !strings.Contains(out, "j: 1000 per 1m0s, capacity 2000") {
		t.Error(out)
	}
}
