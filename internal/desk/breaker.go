package desk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const (
	// BreaksAfter is how many calls in a row must go without an answer until
	// further ones are not sent.
	BreaksAfter = 3
	// ProbesEvery is how often a caller probes all the same, to see whether the
	// table answers again.
	ProbesEvery = 250 * time.Millisecond
	// ProbeWait is how long such a caller waits for that.
	ProbeWait = 100 * time.Millisecond
)

// Breaker keeps callers from waiting, one after the other, for a table that does not
// answer. The zero breaker is closed: everything is sent. It uses the process's own
// time, because it is about waiting.
type Breaker struct {
	mu     sync.Mutex
	Silent int            // calls without an answer in a row; guarded by mu
	last   *store.Failure // the last of them, which all have that went out together
	probed time.Time      // when a call was last sent while it was open, or had no answer
	at     decide.Name    // where a call was throttled last
}

// ErrOpen is the error of a request that a breaker does not let be sent.
var ErrOpen = &store.Failure{Kind: store.Unavailable, Op: "Acquire", Err: errSilent}

type silence struct{}

func (silence) Error() string { return "the calls before had no answer, or were throttled" }

var errSilent error = silence{}

// Open reports whether calls are not sent.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Silent >= BreaksAfter
}

// probes reports whether the caller is to probe, while the breaker is open.
func (b *Breaker) probes(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := b.Silent >= BreaksAfter && now.Sub(b.probed) >= ProbesEvery
	if due {
		b.probed = now
	}
	return due
}

// said is what a call that was sent says of the table.
type said int

const (
	nothing  said = iota
	answered      // also with a refusal, a denial, or what cannot be read
	silent        // no answer, or throttled up to its last attempt
)

// says is the one place that decides what opens the breaker and what closes it. ctx is
// the caller's: when that has ended, silence says nothing about the table.
func says(ctx context.Context, err error) said {
	switch kind := store.KindOf(err); {
	case kind == 0, kind == store.Setup, kind == store.Conflict:
		return answered
	case ctx.Err() != nil:
		return nothing
	}
	return silent
}

// slowRead reports whether a call failed because a read was throttled.
func slowRead(err error) bool {
	f, ok := errors.AsType[*store.Failure](err)
	return ok && f.Kind == store.Throttled && f.Op == "BatchGetItem"
}

// heard counts the outcome of a call, with its failure if it had one, and reports whether the breaker is open
// and whether that is new. Eleven acquires that went out as one write have the same failure, which counts once.
func (b *Breaker) heard(s said, f *store.Failure) (open, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.Silent >= BreaksAfter
	switch {
	case s == answered:
		b.Silent = 0
	case s == silent && f != b.last:
		b.Silent++
		b.last, b.probed = f, time.Now()
	}
	open = b.Silent >= BreaksAfter
	return open, open != was
}

// elsewhere notes where a call was throttled, and reports whether that is another bucket
// than the last time.
func (b *Breaker) elsewhere(at decide.Name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.at
	b.at = at
	return was != at
}
