package simulation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/streams"
)

// network is the way of one process to the table. It implements [store.Lister],
// and takes the place of a DynamoDB client.
//
// What happens to a call follows from the world's seed, the process, the item and
// the instant, not from the order in which goroutines run: so the same seed plays
// the same world.
type network struct {
	streams.DynamoDB // never called
	w                *world
	id               uint64
	faulty           atomic.Uint64 // per mille of calls that go wrong
	reading          atomic.Int64  // reads under way
	gives            bool          // it fills buckets: what it writes may be more than there was
	hurried          atomic.Int64  // until when writes may arrive for callers with hardly any time, epoch ms
}

var _ store.Lister = (*network)(nil)

// fate is what becomes of a call.
type fate struct {
	out, back time.Duration
	lost      bool // it never arrives
	silent    bool // nobody answers
	err       error
}

// mix is a hash of two numbers.
func mix(a, b uint64) uint64 {
	x := a ^ b*0x9e3779b97f4a7c15 + 0x7f4a7c159e3779b9
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (n *network) fate(o *op, target string, write bool) fate {
	h := mix(n.w.seed^n.id<<32, uint64(time.Now().UnixNano()))
	if o != nil {
		h = mix(h, uint64(o.id))
	}
	h = mix(h, hash(target))
	next := func(below uint64) uint64 { h = mix(h, 1); return h % below }
	f := fate{
		out:  time.Duration(500_000 + next(3_000_000)),
		back: time.Duration(500_000 + next(3_000_000)),
	}
	if next(1000) >= n.faulty.Load() {
		return f
	}
	failure := func(k store.Kind) error { return &store.Failure{Kind: k, Op: "simulated", Err: errInjected} }
	switch kind := next(9); {
	case kind == 0:
		f.lost, f.err = true, failure(store.Unavailable)
	case kind <= 2:
		f.lost, f.err = true, failure(store.Throttled)
	case kind == 3 && write:
		f.lost, f.err = true, failure(store.Conflict)
	case kind == 4 && write:
		f.lost, f.err = true, failure(store.Unknown)
	case kind <= 6 && write:
		f.err = failure(store.Unknown) // carried out, the connection breaks
	case kind == 7:
		f.lost, f.silent = true, true
	default:
		f.silent = true
		f.out += time.Duration(next(600_000_000)) // it arrives late, and nobody answers
	}
	return f
}

var errInjected = errors.New("injected")

// call carries a call to the table and its answer back. One whose caller stops
// waiting may be carried out all the same.
func call[T any](
	ctx context.Context, n *network, token, target string, write bool, f func() (T, error),
) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, &store.Failure{Kind: store.Unavailable, Op: "simulated", Err: err}
	}
	fate, sent := n.fate(opOf(ctx), target, write), time.Now().UnixMilli()
	kind := store.Unavailable
	if write {
		kind = store.Unknown
	}
	gone := func() (T, error) { return none, &store.Failure{Kind: kind, Op: opName(write), Err: ctx.Err()} }
	var a answer
	if token != "" {
		sent = n.w.firstSent(token, sent)
	}
	carryOut := func() { n.w.carryOut(n, opOf(ctx), sent, func() { a.v, a.err = f() }) }
	if begin := time.Now(); smithytime.SleepWithContext(ctx, fate.out) != nil {
		if !fate.lost { // it is on its way
			left := fate.out - time.Since(begin)
			n.w.calls.Go(func() { time.Sleep(left); carryOut() })
		}
		return gone()
	}
	if !fate.lost {
		carryOut()
	}
	if fate.err != nil {
		a = answer{err: fate.err}
	}
	if fate.silent {
		<-ctx.Done()
	} else if smithytime.SleepWithContext(ctx, fate.back) == nil {
		return a.v, a.err
	}
	return gone()
}

func opName(write bool) string {
	if write {
		return "UpdateItem"
	}
	return "BatchGetItem"
}

// Write implements [store.Store].
func (n *network) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if n.w.defect.write != nil {
		w = n.w.defect.write(n, opOf(ctx), w)
	}
	what := w.Target().PK
	if u, ok := w.(item.Update); ok && u.SetLess == nil {
		what += " adds"
	}
	return call(ctx, n, "", what, true, func() (item.Item, error) {
		return n.w.db.Write(context.Background(), w)
	})
}

// Transact implements [store.Store].
func (n *network) Transact(ctx context.Context, token string, writes []item.Write) error {
	_, err := call(ctx, n, token, writes[0].Target().PK+" and others", true, func() (struct{}, error) {
		return struct{}{}, n.w.db.Transact(context.Background(), token, writes)
	})
	return err
}

// Read implements [store.Store].
func (n *network) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	n.reading.Add(1)
	defer n.reading.Add(-1)
	return call(ctx, n, "", keys[0].PK, false, func() ([]item.Item, error) {
		items, err := n.w.db.Read(context.Background(), consistent, keys...)
		if _, _, _, shard, ok := layout.ParseBucketPK(keys[0].PK); ok && shard > 0 && n.w.defect.blind {
			clear(items)
		}
		return items, err
	})
}

// List implements [store.Lister].
func (n *network) List(ctx context.Context, q item.Query) (item.Page, error) {
	return call(ctx, n, "", "", false, func() (item.Page, error) { return n.w.db.List(context.Background(), q) })
}

// Remove implements [store.Lister].
func (n *network) Remove(ctx context.Context, keys ...item.Key) error {
	_, err := call(ctx, n, "", "", true, func() (struct{}, error) {
		return struct{}{}, n.w.db.Remove(context.Background(), keys...)
	})
	return err
}

// firstSent returns when a transaction was sent for the first time: it is planned
// since then.
func (w *world) firstSent(token string, now int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tokens[token] == 0 {
		w.tokens[token] = now
	}
	return w.tokens[token]
}

// carryOut changes the table and lets the judge look at what has changed.
func (w *world) carryOut(n *network, o *op, sent int64, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.judge.follow(n, o, sent, w.db.Changes(w.judge.seq))
}

// op is one call of a limiter, as far as the judge has to know.
type op struct {
	id      int
	client  *client
	kind    string
	costs   map[string]int64 // tokens that are taken at most
	began   int64            // epoch ms
	ended   int64            // when its caller had an answer; zero: not yet
	removed int              // see world.removed, when it began
	class   string
	guest   bool // it takes of the guest besides
}

type opKey struct{}

func opOf(ctx context.Context) *op { o, _ := ctx.Value(opKey{}).(*op); return o }

func (o *op) context(ctx context.Context) context.Context { return context.WithValue(ctx, opKey{}, o) }
