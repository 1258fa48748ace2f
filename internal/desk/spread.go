package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that no single shard covers takes from several of them, in one transaction.

// spreadAttempts bounds how often a transaction is sent again that met another one.
const spreadAttempts = 4

// Spread takes the costs from several shards. It reads them first: their images
// must be of one moment, and a read of all is cheaper than a refused transaction. If others
// take from the shards meanwhile, and a round trip is left, it is planned once more from the
// images that the refusal brings. The grant is empty if they do not hold enough; what they hold
// is known then. Owing, every shard pays its part, into debt.
func (d *Desks) Spread(ctx context.Context, k *Desk, w decide.Want, owe bool,
	tries *Attempt) (g decide.Grant, err error) {
	k.Gather(w)
	defer func() { k.Gathered(w, g.Parts != nil, g.Parts == nil && err == nil) }()
	images, _, err := d.readShards(ctx, k)
	tries.Waited(false)
	for again := true; err == nil && again; {
		now, slack, last := d.clock(), int64(1), tries.Last(d.Moment()) // slack is what others may take meanwhile
		if last {
			slack = 0 // any
		}
		pay := decide.ByLevels(images, w, now)
		if owe {
			pay = decide.ByShares(images, w)
		}
		if len(pay) == 0 {
			return g, nil
		}
		writes := make([]item.Write, len(pay))
		for i, p := range pay {
			writes[i] = p.Write(w, now, slack)
		}
		grants, refused, err := d.transact(ctx, writes, tries, func() []decide.Grant {
			g := k.Paid(pay, writes, w, now, d.clock())
			g.Turn = d.Waiting.Turn()
			return []decide.Grant{g}
		})
		switch {
		case err != nil:
			return g, err
		case refused == nil:
			return grants[0], nil
		}
		tries.Waited(true)
		if again, err = d.outpaid(k, images, pay, refused); err != nil {
			return g, err
		}
		again = again && !last
	}
	return g, err
}

// outpaid puts the images that a refused transaction brings in the place of the images that it was
// planned from. It reports whether it can be planned again from them: not if shards have split
// or merged meanwhile.
func (d *Desks) outpaid(k *Desk, images []table.Shard, pay []decide.Payment,
	refused *store.Canceled) (again bool, err error) {
	again = true
	for i, r := range refused.Reasons {
		old := pay[i].Image.State
		if !r.Refused {
			continue
		}
		if r.Old == nil {
			k.Missing(d.clock(), old.Shard)
			again = false
			continue
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil {
			return false, err
		}
		k.See(b, d.clock(), decide.Unsent)
		j := slices.IndexFunc(images, func(o table.Shard) bool { return o.State.Shard == old.Shard })
		images[j] = b
		again = again && b.State.Count() == old.Count()
	}
	return again, nil
}

// readShards reads the images of all shards that are known of, the first so many, and remembers them.
func (d *Desks) readShards(ctx context.Context, k *Desk) (images []table.Shard, count int, err error) {
	keys := make([]item.Key, k.ReadAll(d.clock()))
	for i := range keys {
		keys[i] = d.Key(k.Name, i)
	}
	var items []item.Item
	for part := range slices.Chunk(keys, item.MaxReadKeys) {
		some, err := d.Store.Read(ctx, true, part...)
		if err != nil {
			return nil, 0, err
		}
		items = append(items, some...)
	}
	images, err = k.SeeAll(items, d.clock())
	return images, len(keys), err
}

// transact sends a transaction on a goroutine of its own. It returns what that has taken, or what has refused it. If
// the caller leaves meanwhile, what it then takes is given back.
func (d *Desks) transact(ctx context.Context, writes []item.Write, tries *Attempt,
	taken func() []decide.Grant) (grants []decide.Grant, refused *store.Canceled, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &store.Failure{Kind: store.Unavailable, Op: "TransactWriteItems", Err: err}
	}
	caller, mine := d.within(ctx), &decide.Attempt{Calls: tries.Calls}
	answers, left := make(chan error), make(chan struct{})
	d.background.Go(func() {
		within := caller.outliving()
		defer within.End()
		err := Guarded(func() error { return d.transactAs(&within, rand.Text(), writes, mine) })
		select {
		case answers <- err:
		case <-left:
			if err == nil {
				d.dropped(&within, taken()...)
			}
		}
	})
	select {
	case err = <-answers:
		tries.Calls = mine.Calls
	case <-caller.caller.Done():
		close(left)
		tries.Calls++
		return nil, nil, &store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: ctx.Err()}
	}
	if refused, ok := errors.AsType[*store.Canceled](err); ok {
		return nil, refused, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return taken(), nil, nil
}

// transactAs sends a transaction, again with the same token when its answer is lost,
// which carries it out once. If it never is answered, nobody knows.
func (d *Desks) transactAs(ctx context.Context, token string, writes []item.Write,
	tries *decide.Attempt) error {
	var lost error
	for {
		tries.Calls++
		err := store.Retry(ctx, spreadAttempts, contentionPause,
			func() error { return d.Store.Transact(ctx, token, writes) })
		switch _, canceled := errors.AsType[*store.Canceled](err); {
		case err == nil, canceled:
			return err
		case store.KindOf(err) == store.Unknown && tries.Calls < decide.MaxRounds && ctx.Err() == nil:
			lost = err
			continue
		case lost != nil:
			return lost
		}
		return err
	}
}
