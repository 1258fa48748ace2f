package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
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
		if got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

// All events may be bounded by time, and one command goes on where another ended, but not both.
func TestAuditOfATime(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10")
	s.says(0, "audit --all --max 0", "ACTION", "gpt-4")
	s.says(0, "audit --all --to 2000-01-01", "nothing there")
	s.says(0, "audit --all --from 2000-01-01", "gpt-4")
	s.says(wrong, "audit --all --before x", "no --entity, --resource or --before goes with it")
}
