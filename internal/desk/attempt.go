package desk

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Attempt is one request, or one part of it: the waiter at a bucket, and its caller's state. The
// waiter's fields and Standing are set before [Desks.Take].
type Attempt struct {
	decide.Waiter
	GoesOn   int64            // of a request that waits: when it may go on, epoch ms; zero: at once
	Owed     []waitqueue.Owed // of a request that waits: on which shards
	Standing bool             // it is a request that waits, and stands in line
	Room     [1]decide.Want   // for the wants of one entity, as long as it does not cascade
	turn     int64            // of a request that waits: when it went to take into debt, see waitqueue.Queue.Turn
	grant    decide.Grant     // once it was granted; given back if the request fails elsewhere
	err      error            // or why it was not
	others   []Trouble        // and what could not be given back
	desk     *Desk            // of the bucket; held to the end, also if it is evicted meanwhile
	bound    Bound            // of the call
	within   *Bound           // the context of its calls at the bucket
	// ready gets true when the waiter is answered, and false once, when it first waits behind a
	// call of others: both have room. Nil before the first call.
	ready   chan bool
	queues  atomic.Bool    // false was sent
	behind  bool           // and read
	effects decide.Effects // of asking
	first   carrier        // of the first call that it leads
	leads   bool
	few     [1]*Attempt     // for its parts
	grants  [1]decide.Grant // for what it was given
}

// Pending implements [decide.Handle].
func (t *Attempt) Pending() {
	if t.ready == nil {
		t.ready = make(chan bool, 2)
	}
}

// Begin returns the context of all calls of an attempt. The caller ends it.
func (d *Desks) Begin(ctx context.Context, t *Attempt) *Bound {
	t.bound = Bound{caller: ctx, until: time.Now().Add(d.Timeout)}
	return &t.bound
}

// kept reports whether the attempt held something, while it made calls, that others may have
// missed. An attempt that stands in line withholds nothing from others: otherwise the first of two
// lines would wake each other forever. Nor does an attempt without a call: in a flood of such
// denials, the first in line would send a write for each.
func (t *Attempt) kept() bool { return !t.Standing && t.Calls+t.Trips > 0 }

// prepare sets the caller's part of an attempt's waiter; ctx is the caller's context.
func (d *Desks) prepare(ctx context.Context, t *Attempt) {
	if t.Handle != nil {
		return
	}
	t.Handle, t.within = t, d.within(ctx)
	t.Bound = t.within.until
	t.Deadline, _ = ctx.Deadline()
}

// deskOf returns the desk at which an attempt asks.
func (d *Desks) deskOf(t *Attempt) *Desk {
	if t.desk == nil {
		t.desk = d.Of(t.Want.Name)
	}
	return t.desk
}

// await waits for the answer of an attempt. A caller that leaves does not end the call that carries
// its costs; tokens that the call takes for it are given back.
func (d *Desks) await(ctx context.Context, k *Desk, t *Attempt) decide.Answer {
	if t.ready == nil { // it was answered without a call
		return t.answer(ctx)
	}
	done := t.within.caller.Done()
	for {
		if t.behind {
			done = ctx.Done() // the call of others may last longer than its own would
		}
		select {
		case answered := <-t.ready:
			if answered {
				return t.answer(ctx)
			}
			t.behind = true
		case <-done:
			switch k.Leave(&t.Waiter) {
			case decide.OnItsWay:
				return decide.Answer{Result: decide.Failed, Err: left(ctx, store.Unknown)}
			case decide.NotSent:
				return decide.Answer{Result: decide.Failed, Err: left(ctx, store.Unavailable)}
			}
			for !<-t.ready { // it was answered at this moment
			}
			return t.answer(ctx)
		}
	}
}

func (t *Attempt) answer(ctx context.Context) decide.Answer {
	if t.Answer.Result == decide.Ended {
		<-ctx.Done() // it ends at this very instant, if it has not
		return decide.Answer{Result: decide.Failed, Err: left(ctx, store.Unavailable)}
	}
	return t.Answer
}

// carrier is the state of carrying out a call.
type carrier struct {
	bound     Bound
	effects   decide.Effects
	throttled int  // writes that were throttled
	mended    bool // a limit that is half written has explained a write that was rejected
}

func of(w *decide.Waiter) *Attempt { return w.Handle.(*Attempt) }
