package limiter

import (
	"context"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// attempt is one call of Acquire at one bucket: the waiter, and what its caller has done so far. One that
// cascades has parts, which are attempts of their own.
type attempt struct {
	decide.Waiter
	goesOn   int64        // when a request that waits may go on, epoch ms; zero: at once
	owed     []queue.Owed // of a request that waits: on which shards
	turn     int64        // of a request that waits: when it went to take into debt, see queue.Sleepers.Turn
	standing bool         // it is a request that waits, and stands in line
	held     bool         // it was granted from what was taken ahead, without a call
	grant    decide.Grant // once it was granted; given back if the request fails elsewhere
	err      error        // or why it was not
	desk     *desk        // of the bucket; held to the end, also if it is evicted meanwhile
	bound    bound        // of the call
	within   *bound       // the context of its calls at the bucket
	// ready gets true when the waiter is answered, and false once, when it first waits behind a call of
	// others: both have room. Nil before the first call.
	ready   chan bool
	queues  atomic.Bool    // false was sent
	behind  bool           // and read
	effects decide.Effects // of asking
	first   carrier        // of the first call that it leads
	leads   bool
	room    [1]decide.Want  // for what is wanted of one entity, as long as it does not cascade
	few     [1]*attempt     // for its parts
	grants  [1]decide.Grant // for what it was given
}

// Pending implements [decide.Handle].
func (t *attempt) Pending() {
	if t.ready == nil {
		t.ready = make(chan bool, 2)
	}
}

// kept reports whether others may have missed what the attempt had while it made calls. Who stands in
// line keeps nothing from others: the first of two lines would wake each other for ever. Nor does who
// made no call: in a flood of such denials, the first in line would ask for each.
func (t *attempt) kept() bool { return !t.standing && t.Calls+t.Trips > 0 }

// prepare sets what the waiter of an attempt needs to know of its caller, whose context is ctx.
func (l *Limiter) prepare(ctx context.Context, t *attempt) {
	if t.Handle != nil {
		return
	}
	t.Handle, t.within = t, l.within(ctx)
	t.Bound = t.within.until
	t.Deadline, _ = ctx.Deadline()
}

// deskOf returns the desk at which an attempt asks.
func (l *Limiter) deskOf(t *attempt) *desk {
	if t.desk == nil {
		t.desk = l.desks.of(t.Want.Name)
	}
	return t.desk
}

// ask gets an attempt its answer at a bucket.
func (l *Limiter) ask(ctx context.Context, k *desk, t *attempt) decide.Answer {
	l.prepare(ctx, t)
	answered := false
	defer func() {
		if !answered { // an observer panics
			l.abandon(ctx, k, t)
		}
	}()
	t.effects = decide.Effects{}
	k.Ask(&t.Waiter, ctx.Err() == nil, l.moment, &t.effects)
	l.carryOut(ctx, k, &t.effects)
	a := l.await(ctx, k, t)
	answered = true
	return a
}

// abandon gives back what an attempt has taken, or takes yet, whose caller panics.
func (l *Limiter) abandon(ctx context.Context, k *desk, t *attempt) {
	if k.Leave(&t.Waiter) == decide.Answered && t.Answer.Result == decide.Granted {
		l.dropped(ctx, l.lease(t.Answer.Grant))
	}
}

// await waits for the answer of an attempt. A caller that leaves does not end the call that has its
// costs; what that turns out to have taken is given back.
func (l *Limiter) await(ctx context.Context, k *desk, t *attempt) decide.Answer {
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

// answer is that of the waiter.
func (t *attempt) answer(ctx context.Context) decide.Answer {
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
