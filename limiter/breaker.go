package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

const (
	// breaksAfter is how many calls in a row must go without an answer until
	// further ones are not sent.
	breaksAfter = 3
	// probesEvery is how often one call is sent all the same, to see whether the
	// table answers again.
	probesEvery = 250 * time.Millisecond
)

// breaker keeps callers from waiting, one after the other, for a table that does not
// answer. The zero breaker is closed: everything is sent. It goes by the process's
// own time, because it is about waiting.
type breaker struct {
	mu     sync.Mutex
	silent int       // calls without an answer in a row
	probed time.Time // when the last call was sent while it was open, or had no answer
}

var errOpen = &store.Failure{Kind: store.Unavailable, Op: "Acquire", Err: errSilent}

type silence struct{}

func (silence) Error() string { return "the calls before had no answer" }

var errSilent error = silence{}

// admits reports whether a call may be sent.
func (b *breaker) admits(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent < breaksAfter {
		return true
	}
	if now.Sub(b.probed) < probesEvery {
		return false
	}
	b.probed = now
	return true
}

// heard takes in what came of a call, and reports whether the breaker is open and
// whether that is new. An answer of any kind closes it; that the caller has gone says
// nothing about the table.
func (b *breaker) heard(ctx context.Context, err error) (open, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.silent >= breaksAfter
	switch kind := store.KindOf(err); {
	case kind != store.Unknown && kind != store.Unavailable:
		b.silent = 0
	case ctx.Err() == nil && err != errOpen:
		b.silent++
		b.probed = time.Now()
	}
	open = b.silent >= breaksAfter
	return open, open != was
}

// heard tells the breaker what came of a call, and who observes what became of the
// breaker.
func (l *Limiter) heard(ctx context.Context, err error) {
	switch open, changed := l.breaker.heard(ctx, err); {
	case changed && open:
		l.tell(ctx, Event{Kind: EventBreaker, Open: true, Err: err})
	case changed:
		l.tell(ctx, Event{Kind: EventBreaker})
	}
}
