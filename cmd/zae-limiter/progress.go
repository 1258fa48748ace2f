package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go/middleware"
)

// progress shows that work goes on. After two seconds it writes a line to the terminal, with the
// time and the number of requests, and updates it.
type progress struct {
	out      io.Writer
	requests atomic.Int64

	mu      sync.Mutex
	text    func() string // more text for the line; nil: none
	shown   bool          // the line is on the screen
	stop    chan struct{}
	running sync.WaitGroup
}

// terminal reports whether the output is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// startProgress starts the progress. It is shown only on a terminal. The caller must end it.
func startProgress(out io.Writer, isTerminal bool) *progress {
	p := &progress{out: out, stop: make(chan struct{})}
	if isTerminal {
		p.running.Go(p.run)
	}
	return p
}

func (p *progress) run() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began, last := time.Now(), int64(0)
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			n := p.requests.Load()
			if n == last || now.Sub(began) < 1900*time.Millisecond {
				continue
			}
			last = n
			text := fmt.Sprintf("%v, %s", now.Sub(began).Round(time.Second), count(n, "requests"))
			p.mu.Lock()
			if p.text != nil {
				text += ", " + p.text()
			}
			p.shown = true
			fmt.Fprintf(p.out, "\r\x1b[K%s", text)
			p.mu.Unlock()
		}
	}
}

// say adds the result of text to the line.
func (p *progress) say(text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// clear erases the line, before other output.
func (p *progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown = false
}

// end erases the line for good.
func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.stop)
	p.running.Wait()
	p.clear()
}

// count counts the requests of a client.
func (p *progress) count(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("CountRequests", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		p.requests.Add(1)
		return next.HandleInitialize(ctx, in)
	}), middleware.Before)
}
