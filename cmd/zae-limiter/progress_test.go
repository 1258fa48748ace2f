package main

import (
	"io"
	"os"
	"path/filepath"
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
		for _, when := range []string{"always", "auto", "never"} { // of one request, without more to say
			told.Reset()
			p = startProgress(&told, when)
			p.requests.Add(1)
			time.Sleep(time.Minute)
			p.end()
			if want := map[string]string{"always": "2s, 1 request\n"}[when]; told.String() != want {
				t.Errorf("%s: told %q, want %q", when, told.String(), want)
			}
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

// On a terminal it is one line, which is written over and goes away.
func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		p := &progress{out: &told, line: true, stop: make(chan struct{}), done: make(chan struct{})}
		go p.run()
		time.Sleep(time.Second / 2)
		for range 3 { // at 0.5 s, 1.5 s and 2.5 s
			p.requests.Add(1)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		p.end()
		if want := "\r\x1b[K2s, 2 requests\r\x1b[K3s, 3 requests\r\x1b[K"; told.String() != want {
			t.Errorf("told %q, want %q", told.String(), want)
		}
	})
}

// The line is erased before anything else is written, and is back with the next requests.
func TestProgressGivesWayToOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := &progress{out: &screen, line: true, stop: make(chan struct{}), done: make(chan struct{})}
		a := &app{out: &screen, errs: &screen, progress: p}
		go p.run()
		time.Sleep(time.Second / 2)
		for _, write := range []func(){func() {}, func() { io.WriteString(a, "answer\n") }, func() { a.say("note") }} {
			p.requests.Add(1)
			time.Sleep(time.Second)
			write()
		}
		p.end()
		want := "\r\x1b[K2s, 2 requests\r\x1b[Kanswer\n\r\x1b[K3s, 3 requests\r\x1b[Knote\n"
		if screen.String() != want {
			t.Errorf("the screen has %q, want %q", screen.String(), want)
		}
	})
}

// People read a device, unless they say that theirs is dumb; what is written to a file or to
// another program is for nobody's eyes, and has no colours.
func TestTerminalsAreRecognized(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		out        io.Writer
		term, want string
		plain      string // NO_COLOR
	}{
		{device, "xterm", green + "new" + uncoloured, ""}, {device, "dumb", "new", ""}, {device, "xterm", "new", "1"},
		{file, "xterm", "new", ""}, {&strings.Builder{}, "xterm", "new", ""},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.plain)
		a := &app{out: c.out}
		if got := a.paint(green, "new"); got != c.want {
			t.Errorf("%T, TERM %s, NO_COLOR %q: %q, want %q", c.out, c.term, c.plain, got, c.want)
		}
	}
}
