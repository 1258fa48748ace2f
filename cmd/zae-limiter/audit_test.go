package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

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

// Of the details of an event its limits stand first, without a name.
func TestLimitsAreTheFirstDetail(t *testing.T) {
	got := details(map[string]any{"disabled": true, "limits": []any{map[string]any{"a": "b"}}, "on": nil})
	check.Equal(t, got, "a b; disabled: true; on: none")
}
