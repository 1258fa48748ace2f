package desk

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Heard passes the end of a call for a bucket to the breakers, and reports breakers that open or close.
// The call may have failed at another bucket, the parent's. If one bucket is throttled, its
// partition alone may be too hot. So throttling opens the bucket's breaker, and the breaker of all buckets
// only if other buckets are throttled too. A throttled read opens its bucket's breaker alone, and
// only while nothing is known of the bucket: a known bucket needs no read.
func (d *Desks) Heard(ctx context.Context, n, at decide.Name, err error) {
	s, throttled := says(ctx, err), store.KindOf(err) == store.Throttled
	var k *Desk
	if slowRead(err) {
		if k = d.Of(n); k.Seen(0).Image.Entity == "" {
			d.opens(ctx, &k.Throttled, s, n, err)
		}
		return
	}
	if throttled {
		k = d.Of(n)
	} else if s == answered {
		k = d.Peek(n)
	}
	if k != nil {
		d.opens(ctx, &k.Throttled, s, n, err)
	}
	if throttled && !d.Breaker.elsewhere(at) {
		return
	}
	d.opens(ctx, &d.Breaker, s, decide.Name{}, err)
}

// opens passes the outcome of a call to a breaker; n is its bucket, empty for the breaker of all.
func (d *Desks) opens(ctx context.Context, b *Breaker, s said, n decide.Name, err error) {
	f, _ := errors.AsType[*store.Failure](err)
	switch open, changed := b.heard(s, f); {
	case changed && open:
		d.observe(ctx, Event{Kind: Switched, Name: n, Open: true, Err: err})
	case changed:
		d.observe(ctx, Event{Kind: Switched, Name: n})
	}
}

// Sends reports whether a request may be sent: not while its bucket is throttled, nor while nothing has an
// answer. Then [Desks.Probes] may be asked.
func (d *Desks) Sends(n decide.Name) bool {
	k := d.Peek(n)
	return !d.Breaker.Open() && (k == nil || !k.Throttled.Open())
}

// Probes probes the calls of a request, where a breaker lets it, and reports whether the request may be sent
// then. Before is what it needs before the calls to its bucket.
func (d *Desks) Probes(ctx context.Context, n decide.Name, before func(context.Context) error) bool {
	if k := d.Peek(n); k != nil && !d.lets(ctx, &k.Throttled, n, before) {
		return false
	}
	return d.lets(ctx, &d.Breaker, n, before)
}

// lets reports whether a breaker lets a request be sent. While it is open it does not,
// and one caller in a while probes: it sends what takes nothing, and waits a moment for
// the answer. One that comes later closes the breaker too, so a table that has become
// slow is used again; in a process that is frozen meanwhile, when that goes on.
func (d *Desks) lets(ctx context.Context, b *Breaker, n decide.Name, before func(context.Context) error) bool {
	if !b.Open() {
		return true
	}
	if !b.probes(time.Now()) {
		return false
	}
	done := make(chan struct{})
	d.background.Go(func() {
		defer close(done)
		ctx := context.WithoutCancel(ctx)
		bounded := d.Bounded(ctx)
		defer bounded.End()
		d.Heard(ctx, n, n, Guarded(func() error { return d.probe(bounded, n, before) }))
	})
	timer := time.NewTimer(ProbeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return !b.Open()
}

// probe tries all the calls that a request needs: before, and a write to its bucket whose condition never
// holds. A bucket that is not there is read before it is created, so it does that, too. In no case does it
// take anything.
func (d *Desks) probe(ctx context.Context, n decide.Name, before func(context.Context) error) error {
	if err := before(ctx); store.KindOf(err) != 0 {
		return err
	}
	d.observe(ctx, Event{Kind: Looked, Name: n})
	_, err := d.Store.Write(ctx, InVain(d.Key(n, 0)))
	if r, ok := errors.AsType[*store.Refused](err); ok && r.Old == nil {
		_, err = d.Store.Read(ctx, true, d.Key(n, 1))
	}
	return err
}

// InVain is an update that writes nothing, because its condition never holds. It costs one
// write unit, and needs the right to write.
func InVain(key item.Key) item.Update {
	return item.Update{Key: key, If: item.All(item.Exists(item.AttrPK), item.Absent(item.AttrPK))}
}
