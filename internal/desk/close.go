package desk

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// closers is how many buckets are written at once when the desks close.
const closers = 32

// Close rejects further calls, waits for those under way and for the work that they have begun, and
// gives back everything that is held, with one write for each shard of which something is held. It
// ends with ctx. It returns the failures to give back. If closed already, it does nothing.
func (d *Desks) Close(ctx context.Context) (failed []Trouble) {
	if !d.calls.close() {
		return nil
	}
	d.background.close() // calls under way may still begin what they need
	close(d.closing)
	for _, all := range []*background{&d.calls, &d.background} {
		select {
		case <-all.rest():
		case <-ctx.Done():
			gone := &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: context.Cause(ctx)}
			return []Trouble{{"close", decide.Name{}, []error{gone}}}
		}
	}
	for some := range slices.Chunk(d.all(), closers) {
		names := make([]decide.Name, len(some))
		for i, k := range some {
			names[i] = k.Name
		}
		failed = append(failed, troubles("close", names, func(i int) []error { return d.release(ctx, some[i]) })...)
	}
	d.ObserveLost()
	return failed
}

// release gives back the held tokens and slots of a bucket.
func (d *Desks) release(ctx context.Context, k *Desk) (failed []error) {
	slots := d.Slots.Close(k.Name, d.Now())
	all := k.Release(d.Moment())
	give := func(shard int, r table.Released) {
		bounded := d.Bounded(ctx)
		defer bounded.End()
		s := d.settling(k.Name, shard, table.Shard{}, r.Back)
		s.gives, s.ends = r, true
		e := Event{Kind: Ahead, Name: k.Name, Op: "give back", Writes: 1,
			Ended: append(table.Negative(slices.DeleteFunc(slices.Clone(r.Back), isSlots)), r.Ended...)}
		if e.Err = Guarded(func() error { return s.run(bounded, waitqueue.Taking{}) }); e.Err != nil {
			failed, e.Ended = append(failed, e.Err), nil
		}
		d.Observe(ctx, e)
	}
	for _, dues := range k.DueAll() {
		bounded := d.Bounded(ctx)
		if err := d.settleAlone(bounded, k, dues); err != nil {
			failed = append(failed, err)
		}
		bounded.End()
	}
	for i, costs := range slots { // slots are on shard 0; each epoch is written by itself
		r := table.Released{}
		if i == 0 {
			r = all[0]
			delete(all, 0)
		}
		r.Back = append(r.Back, costs...)
		give(0, r)
	}
	for shard, r := range all {
		give(shard, r)
	}
	return failed
}
