package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"slices"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// calls sends requests, each with a bound of its own, and repeats those that can
// be repeated without harm.
type calls struct {
	db      store.Lister
	timeout time.Duration
}

const (
	callAttempts = 7
	callPause    = 25 * time.Millisecond
)

// again calls f until it succeeds or fails for good. A failure is for good if it does not come from
// the store, if ctx is done, or if attempts are used up. A lost answer is not for good, because f
// can be repeated.
func (c calls) again(ctx context.Context, f func(ctx context.Context) error) error {
	for try := 0; ; try++ {
		err := c.once(ctx, f)
		kind := store.KindOf(err)
		timedOut := errors.Is(err, context.DeadlineExceeded)
		if kind == 0 || kind == store.Setup || kind == store.Unavailable && !timedOut || try+1 == callAttempts {
			return err
		}
		if smithytime.SleepWithContext(ctx, store.Jitter(try, callPause, time.Second)) != nil {
			return err
		}
	}
}

func (c calls) once(ctx context.Context, f func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return f(bounded)
}

// read returns the items at keys as they are now, in the order of keys, nil where
// there is none. Any number of keys.
func (c calls) read(ctx context.Context, keys ...item.Key) ([]item.Item, error) {
	out := make([]item.Item, 0, len(keys))
	for some := range slices.Chunk(keys, item.MaxReadKeys) {
		err := c.again(ctx, func(ctx context.Context) error {
			items, err := c.db.Read(ctx, true, some...)
			if err == nil {
				out = append(out, items...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// found is read without the keys at which there is nothing.
func (c calls) found(ctx context.Context, keys ...item.Key) ([]item.Item, error) {
	items, err := c.read(ctx, keys...)
	return slices.DeleteFunc(items, func(it item.Item) bool { return it == nil }), err
}

// pages yields the pages of a query, without what an index brings that is not what the query
// asks for; an error is the last thing.
func (c calls) pages(ctx context.Context, q item.Query) iter.Seq2[[]item.Item, error] {
	return sequence(func(yield func([]item.Item) bool) error {
		for q := q; ; {
			var page item.Page
			err := c.again(ctx, func(ctx context.Context) (err error) {
				page, err = c.db.List(ctx, q)
				return err
			})
			if err != nil {
				return err
			}
			items := slices.DeleteFunc(page.Items, func(it item.Item) bool { return !layout.Belongs(q, item.KeyOf(it)) })
			if !yield(items) || page.Next == nil {
				return nil
			}
			q.After = page.Next
		}
	})
}

// query yields the items of a query; an error is the last thing.
func (c calls) query(ctx context.Context, q item.Query) iter.Seq2[item.Item, error] {
	return sequence(func(yield func(item.Item) bool) error {
		for items, err := range c.pages(ctx, q) {
			if err != nil {
				return err
			}
			for _, it := range items {
				if !yield(it) {
					return nil
				}
			}
		}
		return nil
	})
}

// transact performs all writes or none, once, however often it has to be sent: the
// token is good for ten minutes.
func (c calls) transact(ctx context.Context, writes ...item.Write) error {
	token := rand.Text()
	return c.again(ctx, func(ctx context.Context) error { return c.db.Transact(ctx, token, writes) })
}

// write performs one conditional write. One that is sent again although it was
// applied must be harmless.
func (c calls) write(ctx context.Context, w item.Write) (out item.Item, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		out, err = c.db.Write(ctx, w)
		return err
	})
	return out, err
}

// remove deletes the items at keys, any number of them, in order. It returns those that are deleted.
func (c calls) remove(ctx context.Context, keys ...item.Key) (gone []item.Key, err error) {
	for some := range slices.Chunk(keys, item.MaxRemoveKeys) {
		if err := c.again(ctx, func(ctx context.Context) error { return c.db.Remove(ctx, some...) }); err != nil {
			return gone, err
		}
		gone = append(gone, some...)
	}
	return gone, nil
}

// refused returns which writes of a transaction were refused; false: it failed
// for another reason.
func refused(err error) ([]store.Reason, bool) {
	c, ok := errors.AsType[*store.Canceled](err)
	if !ok {
		return nil, false
	}
	return c.Reasons, true
}
