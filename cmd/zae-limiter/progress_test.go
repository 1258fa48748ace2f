package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Those who wait for long see on their terminal each second that there were more requests, in one line that is
// written over and goes away, and nothing of what is over at once. A program sees nothing.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		p := startProgress(&told, true)
		time.Sleep(time.Second / 2)
		for _, requests := range []int64{1, 0, 6, 0} { // at 0.5 s, 1.5 s, ...
			if requests > 1 {
				p.say(func() string { return "2 of 5 done" })
			}
			p.requests.Add(requests)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		p.end()
		check.Equal(t, told.String(), "\r\x1b[K2s, 1 request\r\x1b[K3s, 7 requests, 2 of 5 done\r\x1b[K", "told")
		told.Reset()
		p = startProgress(&told, false)
		p.requests.Add(9)
		time.Sleep(time.Minute)
		p.end()
		check.Equal(t, told.String(), "", "told a program")
	})
}

// The line is erased before anything else is written, and is back with the next requests.
func TestProgressGivesWayToOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := startProgress(&screen, true)
		a := &app{out: &screen, errs: &screen, progress: p}
		time.Sleep(time.Second / 2)
		for _, write := range []func(){func() {}, func() { io.WriteString(a, "answer\n") }, func() { a.say("note") }} {
			p.requests.Add(1)
			time.Sleep(time.Second)
			write()
		}
		p.end()
		want := "\r\x1b[K2s, 2 requests\r\x1b[Kanswer\n\r\x1b[K3s, 3 requests\r\x1b[Knote\n"
		check.Equal(t, screen.String(), want, "the screen has")
	})
}

// People read a device, unless they say that theirs is dumb; what is written to a file or to
// another program is for nobody's eyes.
func TestTerminalsAreRecognized(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check.Must(t, err)
	defer device.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	check.Must(t, err)
	defer file.Close()
	for _, c := range []struct {
		out  io.Writer
		term string
		want bool
	}{{device, "xterm", true}, {device, "dumb", false}, {file, "xterm", false}, {&strings.Builder{}, "xterm", false}} {
		t.Setenv("TERM", c.term)
		check.Equal(t, terminal(c.out), c.want, "%T, TERM %s", c.out, c.term)
	}
}
