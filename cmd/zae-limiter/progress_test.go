package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Those who wait for long are told each second that there were more requests, and nothing
// of what is over at once.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		p := startProgress(&told, "always")
		p.say(func() string { return "2 of 5 done" })
		time.Sleep(time.Second / 2)
		for _, requests := range []int64{4, 3, 0, 1} { // at 0.5 s, 1.5 s, ...
			p.requests.Add(requests)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		p.end()
		if want := "2s, 7 requests, 2 of 5 done\n4s, 8 requests, 2 of 5 done\n"; told.String() != want {
			t.Errorf("told %q, want %q", told.String(), want)
		}
		told.Reset()
		p = startProgress(&told, "auto")
		p.requests.Add(9)
		time.Sleep(time.Minute)
		if p.end(); told.String() != "" {
			t.Errorf("told a program %q", told.String())
		}
	})
}
