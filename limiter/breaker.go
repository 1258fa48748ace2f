package limiter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// breaksAfter is how many calls in a row must go without an answer until
	// further ones are not sent.
	breaksAfter = 3
	// probesEvery is how often a caller probes all the same, to see whether the
	// table answers again.
	probesEvery = 250 * time.Millisecond
	// probeWait is how long such a caller waits for that.
	probeWait = 100 * time.Millisecond
)

// breaker keeps callers from waiting, one after the other, for a table that does not
// answer. The zero breaker is closed: everything is sent. It goes by the process's
// own time, because it is about waiting.
type breaker struct {
	mu     sync.Mutex
	silent int            // calls without an answer in a row
	last   *store.Failure // the last of them, which all have that went out together
	probed time.Time      // when a call was last sent while it was open, or had no answer
	at     known.Name     // where a call was throttled last
}

var errOpen = &store.Failure{Kind: store.Unavailable, Op: "Acquire", Err: errSilent}

type silence struct{}

func (silence) Error() string { return "the calls before had no answer, or were throttled" }

var errSilent error = silence{}

// state reports whether calls are not sent, and if so whether the caller is to probe.
func (b *breaker) state(now time.Time) (open, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if open = b.silent >= breaksAfter; !open {
		return false, false
	}
	if probe = now.Sub(b.probed) >= probesEvery; probe {
		b.probed = now
	}
	return true, probe
}

// said is what a call that was sent says of the table.
type said int

const (
	nothing  said = iota
	answered      // also with a refusal, a denial, or what cannot be read
	silent        // no answer, or throttled up to its last attempt
)

// says is the one place that decides what opens the breaker and what closes it. ctx is
// the caller's: when that has ended, silence says nothing about the table. Nor does a
// read that was throttled: buckets that are known need none.
func says(ctx context.Context, err error) said {
	f, _ := errors.AsType[*store.Failure](err)
	switch kind := store.KindOf(err); {
	case kind == 0, kind == store.Setup, kind == store.Conflict:
		return answered
	case ctx.Err() != nil, kind == store.Throttled && f.Op == "BatchGetItem":
		return nothing
	}
	return silent
}

// heard takes in what a call says, with its failure if it had one, and reports whether
// the breaker is open and whether that is new. Eleven acquires that went out as one write
// are told the same failure, and that is one call.
func (b *breaker) heard(s said, f *store.Failure) (open, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.silent >= breaksAfter
	switch {
	case s == answered:
		b.silent = 0
	case s == silent && f != b.last:
		b.silent++
		b.last, b.probed = f, time.Now()
	}
	open = b.silent >= breaksAfter
	return open, open != was
}

// heard tells the breakers what came of a call for a bucket, which failed at another one
// perhaps, its parent's, and who observes what became of them. What throttles one bucket
// may be that bucket alone, as hot as a partition can be: it opens the breaker of the
// bucket, and that of all only if others are throttled too.
func (l *Limiter) heard(ctx context.Context, n, at known.Name, err error) {
	s, throttled := says(ctx, err), store.KindOf(err) == store.Throttled
	var k *desk
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
	l.opens(ctx, &l.breaker, s, known.Name{}, err)
}

// elsewhere notes where a call was throttled, and reports whether that is another bucket
// than the last time.
func (b *breaker) elsewhere(at known.Name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.at
	b.at = at
	return was != at
}

// opens tells a breaker what a call says; n is its bucket, empty for that of all.
func (l *Limiter) opens(ctx context.Context, b *breaker, s said, n known.Name, err error) {
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
func (l *Limiter) answers(ctx context.Context, n known.Name, costs Costs, own []bucket.Limit) bool {
	if k := l.desks.peek(n); k != nil && !l.lets(ctx, &k.throttled, n, costs, own) {
		return false
	}
	return l.lets(ctx, &l.breaker, n, costs, own)
}

// lets reports whether a breaker lets a request be sent. While it is open it does not,
// and one caller in a while probes: it sends what takes nothing, and waits a moment for
// the answer. One that comes later closes the breaker too, so a table that has become
// slow is used again; in a process that is frozen meanwhile, when that goes on.
func (l *Limiter) lets(ctx context.Context, b *breaker, n known.Name, costs Costs, own []bucket.Limit) bool {
	open, probe := b.state(time.Now())
	if !probe {
		return !open
	}
	done := make(chan struct{})
	l.background.Go(func() {
		defer close(done)
		ctx := context.WithoutCancel(ctx)
		bounded := l.bounded(ctx)
		defer bounded.end()
		var err error
		if p := guarded(func() { err = l.probe(bounded, n, costs, own) }); p != nil {
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
	open, _ = b.state(time.Time{})
	return !open
}

// probe asks for all that a request needs: its configuration, as far as that is not
// known, and a write to its bucket whose condition never holds. Whatever becomes of it,
// nothing was taken.
func (l *Limiter) probe(ctx context.Context, n known.Name, costs Costs, own []bucket.Limit) error {
	cfg, err := l.configs.resolve(ctx, n, own, l.now())
	if err == nil {
		_, _, err = l.levels(ctx, n, costs, cfg, nil)
	}
	if store.KindOf(err) != 0 {
		return err
	}
	l.tell(ctx, Event{Kind: EventLook, Entity: n.Entity, Resource: n.Resource})
	_, err = l.store.Write(ctx, inVain(table.BucketKey(l.namespace, n.Entity, n.Resource, 0)))
	return err
}

// inVain is an update that writes nothing, because its condition never holds. It costs one
// write unit, and needs the right to write.
func inVain(key item.Key) item.Update {
	return item.Update{Key: key, If: item.All(item.Exists(item.AttrPK), item.Absent(item.AttrPK))}
}
