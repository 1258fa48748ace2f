package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// heard tells the breakers how a call for a bucket ended, and the observer how that changed them.
// The call may have failed at another bucket, that of the parent. If one bucket is throttled, its
// partition alone may be too hot. So that opens the bucket's breaker, and the breaker for all
// only if other buckets are throttled too. A throttled read opens its bucket's breaker alone, and
// only while nothing is known of the bucket: a known bucket needs no read.
func (l *Limiter) heard(ctx context.Context, n, at decide.Name, err error) {
	s, throttled := says(ctx, err), store.KindOf(err) == store.Throttled
	var k *desk
	if slowRead(err) {
		if k = l.desks.of(n); k.Seen(0).Image.Entity == "" {
			l.opens(ctx, &k.throttled, s, n, err)
		}
		return
	}
	if throttled {
		k = l.desks.of(n)
	} else if s == answered {
		k = l.desks.peek(n)
	}
	if k != nil {
		l.opens(ctx, &k.throttled, s, n, err)
	}
	if throttled && !l.breaker.elsewhere(at) {
		return
	}
	l.opens(ctx, &l.breaker, s, decide.Name{}, err)
}

// opens tells a breaker what a call says; n is its bucket, empty for that of all.
func (l *Limiter) opens(ctx context.Context, b *breaker, s said, n decide.Name, err error) {
	f, _ := errors.AsType[*store.Failure](err)
	switch open, changed := b.heard(s, f); {
	case changed && open:
		l.tell(ctx, Event{Kind: EventBreaker, Entity: n.Entity, Resource: n.Resource, Open: true, Err: err})
	case changed:
		l.tell(ctx, Event{Kind: EventBreaker, Entity: n.Entity, Resource: n.Resource})
	}
}

// answers reports whether a request may be sent: not while its bucket is throttled, nor
// while nothing has an answer.
func (l *Limiter) answers(ctx context.Context, n decide.Name, req Request, own []bucket.Limit) bool {
	if k := l.desks.peek(n); k != nil && !l.lets(ctx, &k.throttled, n, req, own) {
		return false
	}
	return l.lets(ctx, &l.breaker, n, req, own)
}

// lets reports whether a breaker lets a request be sent. While it is open it does not,
// and one caller in a while probes: it sends what takes nothing, and waits a moment for
// the answer. One that comes later closes the breaker too, so a table that has become
// slow is used again; in a process that is frozen meanwhile, when that goes on.
func (l *Limiter) lets(ctx context.Context, b *breaker, n decide.Name, req Request, own []bucket.Limit) bool {
	if !b.open() {
		return true
	}
	if !b.probes(time.Now()) {
		return false
	}
	done := make(chan struct{})
	l.background.Go(func() {
		defer close(done)
		ctx := context.WithoutCancel(ctx)
		bounded := l.bounded(ctx)
		defer bounded.end()
		var err error
		if p := guarded(func() { err = l.probe(bounded, n, req, own) }); p != nil {
			err = p
		}
		l.heard(ctx, n, n, err)
	})
	timer := time.NewTimer(probeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return !b.open()
}

// probe tries all the calls that a request needs: it reads the configuration if that is not known,
// and sends its bucket a write whose condition never holds. A bucket that is not there is read
// before it is created, so it does that, too. In no case does it take anything.
func (l *Limiter) probe(ctx context.Context, n decide.Name, req Request, own []bucket.Limit) error {
	cfg, err := l.configs.resolve(ctx, n, own, l.now())
	if err == nil {
		_, _, err = l.levels(ctx, n, req, cfg, nil)
	}
	if store.KindOf(err) != 0 {
		return err
	}
	l.tell(ctx, Event{Kind: EventLook, Entity: n.Entity, Resource: n.Resource})
	_, err = l.store.Write(ctx, inVain(layout.BucketKey(l.namespace, n.Entity, n.Resource, 0)))
	if r, ok := errors.AsType[*store.Refused](err); ok && r.Old == nil {
		_, err = l.store.Read(ctx, true, layout.BucketKey(l.namespace, n.Entity, n.Resource, 1))
	}
	return err
}
