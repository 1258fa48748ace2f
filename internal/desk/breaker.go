package desk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const (
	// BreaksAfter is how many calls in a row must go without an answer before calls are no longer
	// sent.
	BreaksAfter = 3
	// ProbesEvery is how often a caller probes meanwhile, to find out whether the table answers
	// again.
	ProbesEvery = 250 * time.Millisecond
	// ProbeWait is how long such a caller waits for the answer.
	ProbeWait = 100 * time.Millisecond
)

// Breaker keeps callers from waiting, one after the other, for a table that does not answer. The
// zero breaker is closed: everything is sent. It uses the process's own time, because it is about
// waiting.
type Breaker struct {
	mu     sync.Mutex
	Silent int            // calls without an answer in a row; guarded by mu
	last   *store.Failure // the last of them, which all have that went out together
	probed time.Time      // when a call was last sent while it was open, or had no answer
	at     decide.Name    // where a call was throttled last
}

// ErrOpen is the error of a request that is not sent because a breaker is open.
var ErrOpen = &store.Failure{Kind: store.Unavailable, Op: "Acquire",
	Err: errors.New("the calls before had no answer, or were throttled")}

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

// said is what the outcome of a call shows about the table.
type said int

const (
	nothing  said = iota
	answered      // also with a refusal, a denial, or what cannot be read
	silent        // no answer, or throttled up to its last attempt
)

// says is the one place that decides what opens and closes the breaker. ctx is the caller's: if
// that has ended, silence shows nothing about the table.
func says(ctx context.Context, err error) said {
	switch kind := store.KindOf(err); {
	case kind == 0, kind == store.Setup, kind == store.Conflict:
		return answered
	case ctx.Err() != nil:
		return nothing
	}
	return silent
}

// heard counts the outcome of a call, with its failure if it had one, and reports whether the
// breaker is open and whether that is new. Eleven acquires that went out as one write share one
// failure, which counts once.
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

// elsewhere notes where a call was throttled, and reports whether that is another bucket than last
// time.
func (b *Breaker) elsewhere(at decide.Name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.at
	b.at = at
	return was != at
}

// Heard passes the outcome of a call for a bucket to the breakers, and reports breakers that open
// or close. The call may have failed at another bucket, the parent's. If one bucket is throttled,
// perhaps only its partition is too hot. So throttling opens the bucket's breaker, and the breaker
// of all buckets only if other buckets are throttled too. A throttled read opens only its bucket's
// breaker, and only while nothing is known of the bucket: a known bucket needs no read.
func (d *Desks) Heard(ctx context.Context, n, at decide.Name, err error) {
	s, throttled := says(ctx, err), store.KindOf(err) == store.Throttled
	var k *Desk
	if f, ok := errors.AsType[*store.Failure](err); ok && throttled && f.Op == "BatchGetItem" {
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
		d.Observe(ctx, Event{Kind: Switched, Name: n, Open: true, Err: err})
	case changed:
		d.Observe(ctx, Event{Kind: Switched, Name: n})
	}
}

// Sends reports whether a request may be sent: not while its bucket is throttled, nor while no call
// is answered. Then [Desks.Probes] may be asked.
func (d *Desks) Sends(n decide.Name) bool {
	k := d.Peek(n)
	return !d.Breaker.Open() && (k == nil || !k.Throttled.Open())
}

// Probes probes the calls of a request, if a breaker allows it, and reports whether the request may
// then be sent. before makes the calls that it needs before the ones to its bucket.
func (d *Desks) Probes(ctx context.Context, n decide.Name, before func(context.Context) error) bool {
	if k := d.Peek(n); k != nil && !d.lets(ctx, &k.Throttled, n, before) {
		return false
	}
	return d.lets(ctx, &d.Breaker, n, before)
}

// lets reports whether a breaker allows a request to be sent. While it is open it does not, but
// from time to time one caller probes: it sends a write that takes nothing, and waits a moment for
// the answer. A late answer closes the breaker too, so a table that has become slow is used again;
// in a process that was frozen, as soon as it goes on.
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

// probe tries all the calls that a request needs: before, and a write to its bucket whose condition
// never holds. A missing bucket is read before it is created, so probe reads it, too. It never
// takes anything.
func (d *Desks) probe(ctx context.Context, n decide.Name, before func(context.Context) error) error {
	if err := before(ctx); store.KindOf(err) != 0 {
		return err
	}
	d.Observe(ctx, Event{Kind: Looked, Name: n})
	_, err := d.Store.Write(ctx, InVain(d.Key(n, 0)))
	if r, ok := errors.AsType[*store.Refused](err); ok && r.Old == nil {
		_, err = d.Store.Read(ctx, true, d.Key(n, 1))
	}
	return err
}

// InVain is an update that writes nothing, because its condition never holds. It costs one write
// unit, and needs the right to write.
func InVain(key item.Key) item.Update {
	return item.Update{Key: key, If: item.All(item.Exists(item.AttrPK), item.Absent(item.AttrPK))}
}
