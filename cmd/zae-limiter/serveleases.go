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

// leases are what clients of the API hold, by id. Each ends by itself after its time, as a Commit of what it
// took: the work may have been done. Make it with newLeases; it is safe for concurrent use.
type leases struct {
	room chan struct{} // has one element for each lease that is held, about to be, or about to end
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

// reserve makes room for a lease, which hold or free must follow. It reports whether there is any.
func (l *leases) reserve() bool {
	select {
	case l.room <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *leases) free() { <-l.room }

// hold keeps a lease for some time, and returns its id.
func (l *leases) hold(lease *limiter.Lease, d time.Duration) string {
	id := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock() // after the timer is set, which may end it at once
	l.held[id] = &heldLease{lease, time.Now().Add(d), time.AfterFunc(d, func() {
		_ = l.end(id, func(le *limiter.Lease) error { return le.Commit(context.Background()) }) // the limiter reports it
	})}
	return id
}

// take removes a lease, so that one caller only can end it. It is nil if there is none.
func (l *leases) take(id string) *heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[id]
	delete(l.held, id)
	return h
}

// errNoLease: no lease has the id, or it has ended.
var errNoLease = errors.New("no such lease")

// end ends a lease by f. If that fails and may succeed later, the lease is held until its time is over, and committed
// then.
func (l *leases) end(id string, f func(*limiter.Lease) error) error {
	h := l.take(id)
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
	if again { // its time has passed meanwhile
		_ = h.Commit(context.Background()) // the limiter reports it
	}
	h.expiry.Stop()
	l.free()
	return err
}

// close ends all of them as their time would, and returns the first error.
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
