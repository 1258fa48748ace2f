package desk

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Attempt is one request, or one part of it: the waiter at a bucket, and what its caller has done so far.
// The waiter's fields and Standing are set before [Desks.Take].
type Attempt struct {
	decide.Waiter
	GoesOn   int64            // of a request that waits: when it may go on, epoch ms; zero: at once
	Owed     []waitqueue.Owed // of a request that waits: on which shards
	Standing bool             // it is a request that waits, and stands in line
	Room     [1]decide.Want   // for the wants of one entity, as long as it does not cascade
	held     bool             // it was granted from prefetched tokens, without a call
	turn     int64            // of a request that waits: when it went to take into debt, see waitqueue.Queue.Turn
	grant    decide.Grant     // once it was granted; given back if the request fails elsewhere
	err      error            // or why it was not
	others   []Trouble        // and what could not be given back
	desk     *Desk            // of the bucket; held to the end, also if it is evicted meanwhile
	bound    Bound            // of the call
	within   *Bound           // the context of its calls at the bucket
	// ready gets true when the waiter is answered, and false once, when it first waits behind a call of
	// others: both have room. Nil before the first call.
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

// kept reports whether others may have missed what the attempt had while it made calls. An attempt that
// stands in line keeps nothing from others: the first of two lines would wake each other for ever. Nor does
// an attempt without a call: in a flood of such denials, the first in line would ask for each.
func (t *Attempt) kept() bool { return !t.Standing && t.Calls+t.Trips > 0 }

// prepare sets what the waiter of an attempt needs to know of its caller, whose context is ctx.
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

// ask gets an attempt its answer at a bucket.
func (d *Desks) ask(ctx context.Context, k *Desk, t *Attempt) decide.Answer {
	d.prepare(ctx, t)
	answered := false
	defer func() {
		if !answered { // an observer panics
			d.abandon(ctx, k, t)
		}
	}()
	t.effects = decide.Effects{}
	k.Ask(&t.Waiter, ctx.Err() == nil, d.Moment, &t.effects)
	d.carryOut(ctx, k, &t.effects)
	a := d.await(ctx, k, t)
	answered = true
	return a
}

// abandon gives back what an attempt has taken, or takes yet, whose caller panics.
func (d *Desks) abandon(ctx context.Context, k *Desk, t *Attempt) {
	if k.Leave(&t.Waiter) == decide.Answered && t.Answer.Result == decide.Granted {
		d.dropped(ctx, t.Answer.Grant)
	}
}

// await waits for the answer of an attempt. A caller that leaves does not end the call that has its
// costs; what that turns out to have taken is given back.
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
				return left(ctx, store.Unknown)
			case decide.NotSent:
				return left(ctx, store.Unavailable)
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
		return left(ctx, store.Unavailable)
	}
	return t.Answer
}

// left is the answer of an attempt whose context has ended.
func left(ctx context.Context, kind store.Kind) decide.Answer {
	return decide.Answer{Result: decide.Failed, Err: &store.Failure{Kind: kind, Op: "UpdateItem", Err: ctx.Err()}}
}

// errAbsent: the bucket of a part is not there, and nothing was written.
var errAbsent = errors.New("no bucket")

// charge decides from the facts about the bucket and writes, until a write holds,
// the request is denied, or a call fails. It ends: after decide.MaxTrips round trips, or in any
// case after decide.MaxRounds rounds, the request is denied.
//
// Example: the image, 2 s old, shows 4 of 10 tokens, refilled by 1 per second, so 6 by
// now. A request for 5 is sent as one write under the condition that others have
// taken at most 1 since. If they have taken 3, the write is refused and brings the
// new image: 3 by now. The next round denies without a call, until 2 s later.
func (d *Desks) charge(ctx context.Context, tries *Attempt) (decide.Grant, error) {
	k := d.deskOf(tries)
	for {
		a := d.ask(ctx, k, tries)
		switch a.Result {
		case decide.Failed:
			return decide.Grant{}, a.Err
		case decide.Denied: // no shard covers the costs, and the images are fresh
			return decide.Grant{}, &Denied{a.Decision}
		case decide.Absent: // of a cascade: all its buckets are created at once
			return decide.Grant{}, errAbsent
		}
		g := a.Grant
		if a.Result == decide.Gathers {
			if a.Owes {
				tries.turn = d.Waiting.Turn()
			}
			var err error
			if g, err = d.Spread(ctx, k, a.Want, a.Owes, tries); err != nil {
				return decide.Grant{}, err
			}
			if g.Parts == nil { // they do not hold enough: decide again
				continue
			}
		}
		if a.Owes { // taken into debt by a request that waits: keep its place
			if err := d.place(ctx, k, a.Want, g, tries); err != nil {
				return decide.Grant{}, err
			}
		}
		return g, nil
	}
}
