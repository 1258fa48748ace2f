package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// maxLeases is how many leases clients may hold at once.
const maxLeases = 10_000

// leases holds the leases of the API's clients, by id. When its time is over, a lease is committed
// with its costs, because the work may have been done. Make it with newLeases; it is safe for
// concurrent use.
type leases struct {
	room chan struct{} // one element for each lease that is held, reserved, or ending
	mu   sync.Mutex
	held map[string]*heldLease
}

type heldLease struct {
	*limiter.Lease
	until  time.Time
	expiry *time.Timer
}

func newLeases(n int) *leases {
	return &leases{room: make(chan struct{}, n), held: map[string]*heldLease{}}
}

// reserve makes room for a lease, and reports whether there is any. Call hold or free next.
func (l *leases) reserve() bool {
	select {
	case l.room <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *leases) free() { <-l.room }

// hold keeps a lease for a time, and returns its id.
func (l *leases) hold(lease *limiter.Lease, d time.Duration) string {
	id := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock() // after the timer is set: it may fire at once
	l.held[id] = &heldLease{lease, time.Now().Add(d), time.AfterFunc(d, func() {
		_ = l.end(id, func(le *limiter.Lease) error { return le.Commit(context.Background()) }) // it reports errors
	})}
	return id
}

// errNoLease means that no lease has the id, or that it has ended.
var errNoLease = errors.New("no such lease")

// end ends a lease with f. If f fails and a retry may succeed, the lease is held until its time is
// over, and then committed.
func (l *leases) end(id string, f func(*limiter.Lease) error) error {
	l.mu.Lock()
	h := l.held[id]
	delete(l.held, id) // only one caller can end it
	l.mu.Unlock()
	if h == nil {
		return errNoLease
	}
	err := f(h.Lease)
	again := errors.Is(err, limiter.ErrInvalid) || errors.Is(err, limiter.ErrUnavailable)
	if left := time.Until(h.until); again && left > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held[id] = h
		h.expiry.Reset(left)
		return err
	}
	if again { // its time is already over
		_ = h.Commit(context.Background()) // the limiter reports errors
	}
	h.expiry.Stop()
	l.free()
	return err
}

// close commits all leases, and returns the first error.
func (l *leases) close(ctx context.Context) error {
	l.mu.Lock()
	all := l.held
	l.held = map[string]*heldLease{}
	l.mu.Unlock()
	var parallel errgroup.Group
	parallel.SetLimit(100)
	for _, h := range all {
		h.expiry.Stop()
		parallel.Go(func() error { return h.Commit(ctx) })
	}
	return parallel.Wait()
}
