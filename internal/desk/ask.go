package desk

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// ask gets the answer of a bucket for an attempt.
func (d *Desks) ask(ctx context.Context, k *Desk, t *Attempt) decide.Answer {
	d.prepare(ctx, t)
	answered := false
	defer func() { // an observer may panic: its request has no lease to give the tokens back
		if !answered && k.Leave(&t.Waiter) == decide.Answered && t.Answer.Result == decide.Granted {
			d.dropped(ctx, t.Answer.Grant)
		}
	}()
	t.effects = decide.Effects{}
	k.Ask(&t.Waiter, ctx.Err() == nil, d.Moment, &t.effects)
	d.carryOut(ctx, k, &t.effects)
	a := d.await(ctx, k, t)
	answered = true
	return a
}

// errAbsent: the bucket of a part does not exist, and nothing was written.
var errAbsent = errors.New("no bucket")

// charge decides from the facts about the bucket and writes, until a write holds, the request is
// denied, or a call fails. It always ends: after decide.MaxTrips round trips, or at the latest
// after decide.MaxRounds rounds, the request is denied.
//
// Example: the image, 2 s old, shows 4 of 10 tokens, refilled by 1 per second, so 6 by now. A
// request for 5 is sent as one write under the condition that others have taken at most 1 since. If
// they have taken 3, the write is refused and brings the new image: 3 by now. The next round denies
// without a call, until 2 s later.
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
