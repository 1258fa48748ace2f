package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// network determines how long calls take, and which calls get no answer.
type network struct {
	trip  time.Duration // to the table and back, on average
	began time.Time
	// from and to bound the spike, after the network began: a call takes spikeTimes as long.
	from, to time.Duration

	mu      sync.Mutex
	rng     *rand.Rand
	loseOne int // one write in this many gets no answer; 0: none
	lost    int // so far
}

const spikeTimes = 4

func (c Case) network() *network {
	middle := c.Warm + c.For/2
	return &network{trip: cmp.Or(c.Trip, 4*time.Millisecond), began: time.Now(), from: middle, to: middle + c.Spike,
		rng: rand.New(rand.NewPCG(c.Seed, 2))}
}

// way returns how long one direction takes: half of the round trip, give or take a quarter.
func (n *network) way() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	way := n.trip*3/8 + time.Duration(n.rng.Int64N(int64(n.trip/4)))
	if at := time.Since(n.began); at >= n.from && at < n.to {
		way *= spikeTimes
	}
	return way
}

// loses reports whether a write gets no answer, and if so, whether it is performed.
func (n *network) loses() (lost, applied bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loseOne == 0 || n.rng.IntN(n.loseOne) > 0 {
		return false, true
	}
	n.lost++
	return true, n.rng.IntN(2) == 0
}

// tableStore is the twin of a table behind a network. It keeps a witness of the tokens taken from
// the case's bucket. As a [store.Store] it replaces a DynamoDB client in [limiter.Open].
type tableStore struct {
	store.API // never called
	network   *network
	db        *memdynamo.DB

	mu      sync.Mutex
	witness *witness
	limits  []limiter.Limit
	seen    int64 // the last change in the witness
	shards  map[int]table.Shard
}

var _ store.Store = (*tableStore)(nil)

func nowMilli() int64 { return time.Now().UnixMilli() }

func newTable(c Case) *tableStore {
	return &tableStore{
		network: c.network(),
		db:      memdynamo.New(nowMilli), limits: c.Bucket.Limits,
		witness: newWitness(c.Bucket.rates(), nowMilli()), shards: map[int]table.Shard{},
	}
}

// call sends a call to the table and its answer back. If a caller stops waiting, or a call is lost,
// the outcome stays unknown.
func call[T any](
	ctx context.Context, t *tableStore, op string, write bool, f func(context.Context) (T, error),
) (out T, err error) {
	sent := nowMilli()
	time.Sleep(t.network.way())
	lost, applied := false, true
	if write {
		lost, applied = t.network.loses()
	}
	if applied {
		t.mu.Lock()
		out, err = f(context.WithoutCancel(ctx))
		t.follow(sent)
		t.mu.Unlock()
	}
	if lost {
		<-ctx.Done()
	} else if smithytime.SleepWithContext(ctx, t.network.way()) == nil {
		return out, err
	}
	kind := store.Unknown
	if !write {
		kind = store.Unavailable
	}
	return out, &store.Failure{Kind: kind, Op: op, Err: ctx.Err()}
}

// Write implements [store.Store].
func (t *tableStore) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return call(ctx, t, "UpdateItem", true, func(ctx context.Context) (item.Item, error) { return t.db.Write(ctx, w) })
}

// Transact implements [store.Store].
func (t *tableStore) Transact(ctx context.Context, token string, writes []item.Write) error {
	_, err := call(ctx, t, "TransactWriteItems", true, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, t.db.Transact(ctx, token, writes)
	})
	return err
}

// Read implements [store.Store].
func (t *tableStore) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return call(ctx, t, "BatchGetItem", false, func(ctx context.Context) ([]item.Item, error) {
		return t.db.Read(ctx, consistent, keys...)
	})
}

// follow adds the changes of a call to the witness: the growth of the counters.
func (t *tableStore) follow(sent int64) {
	for _, c := range t.db.Changes(t.seen) {
		t.seen = c.Seq
		b, err := table.DecodeShard(c.New)
		if err != nil || b.Entity != entity {
			continue // another record
		}
		old := t.shards[b.State.Shard].State
		for i, l := range t.limits {
			t.witness.took(i, used(b.State, l.Name)-used(old, l.Name), sent, c.CreatedAt)
		}
		t.shards[b.State.Shard] = b
	}
}

func used(s bucket.State, limit string) int64 {
	if i := s.Index(limit); i >= 0 {
		return s.Slots[i].Used
	}
	return 0
}

// sample compares the stored levels with the exact ones.
func (t *tableStore) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.shards) == 0 {
		return
	}
	now := nowMilli()
	shown := make([]float64, len(t.limits))
	for i, l := range t.limits {
		for _, b := range t.shards {
			if j := b.State.Index(l.Name); j >= 0 {
				level, _ := b.State.LevelAt(j, now)
				shown[i] += float64(level)
			}
		}
	}
	t.witness.sample(shown, now)
}

// process opens a new limiter on the table.
func (t *tableStore) process(ctx context.Context, opts limiter.Options) (*limiter.Limiter, error) {
	opts.Register = true
	return limiter.Open(ctx, t, "table", &opts)
}

// process starts a process. If the case has a crash, every tenth process ends then, with all its
// tokens, and another replaces it.
func (c Case) process(ctx context.Context, t *tableStore, i int) (process, error) {
	l, err := t.process(ctx, c.Options)
	if err != nil {
		return nil, err
	}
	next := l
	if c.Crash > 0 && i%10 == 0 {
		if next, err = t.process(ctx, c.Options); err != nil {
			return nil, err
		}
	}
	crash := time.Now().Add(c.Warm + c.Crash)
	return func(ctx context.Context, tokens []int64) error {
		if c.Deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.Deadline)
			defer cancel()
		}
		l := l
		if time.Now().After(crash) {
			l = next
		}
		_, err := l.Acquire(ctx, c.Bucket.request(tokens))
		return err
	}, nil
}
