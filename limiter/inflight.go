package limiter

import (
	"context"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// inFlight keeps goroutines of one process from doing the same thing at the same
// time. The zero value is ready for use.
type inFlight[K comparable] struct {
	mu   sync.Mutex
	busy map[K]chan struct{}
}

// begin returns nil if nobody is at k; the caller then is, until end. Otherwise it
// returns a channel that is closed when the other is done.
func (f *inFlight[K]) begin(k K) (busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.busy[k]; ok {
		return c
	}
	if f.busy == nil {
		f.busy = map[K]chan struct{}{}
	}
	f.busy[k] = make(chan struct{})
	return nil
}

func (f *inFlight[K]) end(k K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.busy[k])
	delete(f.busy, k)
}

// shardName identifies one shard of a bucket.
type shardName struct {
	name
	shard int
}

// enter lets a write go ahead. Of the writes that move the clock of one shard,
// this process has one under way at a time, because all others would be refused;
// when there is one, enter waits for it and returns no leave: the image is newer
// then, and the caller decides again. leave must be called after the write. The
// error is a *store.Failure when ctx is done first.
func (l *Limiter) enter(ctx context.Context, n name, c choice) (leave func(), err error) {
	if !c.clock {
		return func() {}, nil
	}
	k := shardName{n, c.shard}
	busy := l.clocks.begin(k)
	if busy == nil {
		return func() { l.clocks.end(k) }, nil
	}
	l.images.lost(n)
	select {
	case <-busy:
		return nil, nil
	case <-ctx.Done():
		return nil, &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: ctx.Err()}
	}
}
