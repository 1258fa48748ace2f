package desk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// ErrUndrainable is the error of a drain of a bucket without a limit that can be drained.
var ErrUndrainable = errors.New("no limit of the bucket refills and denies")

// draining serializes the drains of one bucket in this process.
type draining struct {
	mu    sync.Mutex
	until int64        // the latest instant that was asked for since a drain began
	turn  chan drained // room for one: the goroutine that takes it out has the turn
}

// ask notes until when the bucket is to be drained.
func (d *draining) ask(until int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = max(d.until, until)
	if d.turn == nil {
		d.turn = make(chan drained, 1)
		d.turn <- drained{}
	}
}

// begin returns the drain that begins now, for its caller and all that have asked.
func (d *draining) begin(until int64) drained {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, d.until = max(until, d.until), 0
	return drained{time.Now(), until}
}

// drained is the last drain that has succeeded.
type drained struct {
	began time.Time
	until int64
}

// Drain lowers a bucket so that it holds nothing before an instant, epoch ms: see [table.Drain].
// Calls that arrive while this process drains the bucket share the next drain: if a provider
// refuses a hundred requests at once, two drains serve them.
func (d *Desks) Drain(ctx context.Context, n decide.Name, until int64) error {
	asked, bounded := time.Now(), d.Bounded(ctx)
	defer bounded.End()
	k := d.Pin(n)
	defer d.Unpin(n)
	k.drain.ask(until)
	select {
	case last := <-k.drain.turn:
		defer func() { k.drain.turn <- last }()
		if last.until >= until && last.began.After(asked) {
			return nil
		}
		now := k.drain.begin(until)
		err := d.drainAll(bounded, k, now.until)
		if err == nil {
			last = now
		}
		return err
	case <-bounded.Done():
		return &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: bounded.Err()}
	}
}

// drainAll reads all shards and drains them at the same time, until they did not change between the
// read and their writes: then no split or merge has moved tokens past it. Otherwise a merge may
// have brought undrained tokens to a drained shard.
func (d *Desks) drainAll(ctx context.Context, k *Desk, until int64) error {
	for try := 1; ; try++ {
		images, read, err := d.readShards(ctx, k)
		if err != nil || len(images) == 0 {
			return err // it is not there
		}
		if !slices.ContainsFunc(images, func(b table.Shard) bool {
			return slices.ContainsFunc(b.State.Slots, bucket.Slot.Drains)
		}) {
			return ErrUndrainable
		}
		k.Drain(until)
		same := d.complete(ctx, k, images, read, try < 3)
		held := make([]bool, len(images))
		switch err = errors.Join(InParallel(len(images), func(i int) (err error) {
			held[i], err = d.drainShard(ctx, images[i], until)
			return err
		})...); {
		case err != nil, same && !slices.Contains(held, false):
			return err
		case try == SettleAttempts:
			return &store.Failure{Kind: store.Unavailable, Op: "UpdateItem", Err: errContended}
		}
	}
}

// complete reports whether the images are of all existing shards; so many were read. If it
// restores, a missing shard is put back, empty. Otherwise it would be put back later, and grant its
// refill before the instant.
func (d *Desks) complete(ctx context.Context, k *Desk, images []table.Shard, read int, restores bool) bool {
	all := true
	for _, b := range images {
		all = all && b.State.Count() <= read
	}
	for shard := range read {
		if !restores || !k.Seen(shard).Absent {
			continue
		}
		d.Mend(ctx, k) // all that are missing
		return false
	}
	return all
}

var errContended = errors.New("its shards change all the time")

// drainShard drains one shard, and reports whether it is as in the image, or was until it was
// drained. A write without an answer is sent again, which does no harm. One more write is needed if
// others have given tokens back to a limit that an earlier drain had lowered.
func (d *Desks) drainShard(ctx context.Context, b table.Shard, until int64) (held bool, err error) {
	u, ok := table.Drain(b, until, d.Now())
	for try := 1; ok; try++ {
		it, err := d.Store.Write(ctx, u)
		_, refused := errors.AsType[*store.Refused](err)
		switch {
		case err == nil:
			if b, err = table.DecodeShard(it); err != nil {
				return false, err
			}
			d.see(b, d.Now(), decide.Unsent)
			if u, ok = table.Drain(b, until, d.Now()); try >= SettleAttempts { // others give back all the time
				return !ok, nil
			}
		case refused:
			return false, nil
		case store.KindOf(err) == store.Unknown && try < UnavailableAttempts && ctx.Err() == nil:
		case !sentAgain(ctx, try, err):
			return false, err
		}
	}
	return true, nil
}
