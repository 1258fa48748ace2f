package limiter

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/big"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The bucket of most tests.
const (
	acme = "acme"
	gpt  = "gpt-4"
)

var acmeGPT = decide.Name{Entity: acme, Resource: gpt}

// asks returns a request for that bucket.
func asks(costs Costs, limits ...Limit) Request {
	return Request{Entity: acme, Resource: gpt, Costs: costs, Limits: limits}
}

// must acquires and fails the test if that is denied.
func must(t testing.TB, l *Limiter, req Request) *Lease {
	t.Helper()
	lease, err := l.Acquire(context.Background(), req)
	check.Must(t, err, "acquire %v", req.Costs)
	l.desks.Wait()
	return lease
}

// drain acquires at one instant until it is denied, and returns the number of grants. It waits for
// the splits that this starts.
func drain(t testing.TB, l *Limiter, req Request) int {
	t.Helper()
	for n := 0; ; n++ {
		_, err := l.Acquire(context.Background(), req)
		l.desks.Wait()
		switch {
		case errors.Is(err, ErrLimited):
			return n
		case err != nil:
			t.Fatalf("acquire after %d granted: %v", n, err)
		case n > 1_000_000:
			t.Fatal("never denied")
		}
	}
}

// bystander returns a process whose calls bypass the hook.
func (w *world) bystander(like *Limiter) *Limiter {
	opts := like.opts
	opts.DenyFor = 0
	opts.Observe = nil
	return newLimiter(w.db.Bare(), like.namespace, opts)
}

// shards returns the stored shards of a bucket, in order.
func (w *world) shards(l *Limiter, entity, resource string) []table.Shard {
	w.t.Helper()
	var out []table.Shard
	for _, it := range w.db.Items() {
		if _, e, r, _, ok := layout.ParseBucketPK(item.KeyOf(it).PK); !ok || e != entity || r != resource {
			continue
		}
		b, err := table.DecodeShard(it)
		check.Must(w.t, err)
		if b.Namespace == l.namespace {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b table.Shard) int { return a.State.Shard - b.State.Shard })
	return out
}

// held returns the bucket's current level of a limit, in exact tokens. A missing bucket is full,
// and so is a shard that does not have the limit yet.
func (w *world) held(l *Limiter, limit Limit) *big.Rat {
	w.t.Helper()
	shards := w.shards(l, acme, gpt)
	if len(shards) == 0 {
		return big.NewRat(limit.Capacity, 1)
	}
	var states []bucket.State
	fresh := int64(0)
	for _, b := range shards {
		states = append(states, b.State)
		if b.State.Index(limit.Name) < 0 {
			fresh += b.State.RateOf(limit.stored()).Capacity
		}
	}
	sum := buckettest.HeldAt(states, limit.Name, w.now.Load())
	sum.Add(sum, big.NewRat(fresh, 1))
	return sum.Quo(sum, big.NewRat(bucket.Milli, 1))
}

// used returns the sum of the consumption counters, in tokens.
func (w *world) used(l *Limiter, limit string) (tokens int64) {
	for _, b := range w.shards(l, acme, gpt) {
		if i := b.State.Index(limit); i >= 0 {
			tokens += b.State.Slots[i].Used
		}
	}
	return tokens / bucket.Milli
}

// wantHeld checks the bucket's level, in tokens.
func (w *world) wantHeld(l *Limiter, limit Limit, tokens int64) {
	w.t.Helper()
	if got := w.held(l, limit); got.Cmp(big.NewRat(tokens, 1)) != 0 {
		w.t.Fatalf("the bucket holds %s of %s, want %d", got.FloatString(3), limit.Name, tokens)
	}
}

// sharesAddUp checks I3 at every instant so far: the shares of the existing shards never add up to
// more than the whole.
func (w *world) sharesAddUp(l *Limiter) {
	w.t.Helper()
	counts, whole := map[int]int{}, int64(0)
	count := func(shard, n int) {
		if old := counts[shard]; old > 0 {
			whole -= bucket.Share(1<<20, shard, old)
		}
		if counts[shard] = n; n == 0 {
			delete(counts, shard)
		} else {
			whole += bucket.Share(1<<20, shard, n)
		}
	}
	for _, c := range w.db.Changes(0) {
		ns, e, r, k, ok := layout.ParseBucketPK(c.Key.PK)
		if !ok || ns != l.namespace || e != acme || r != gpt {
			continue
		}
		if c.New == nil {
			count(k, 0)
			continue
		}
		b, err := table.DecodeShard(c.New)
		check.Must(w.t, err)
		// The two halves of a split are two changes of one transaction: the keeping half comes
		// first.
		if count(k, b.State.Shards); whole > 1<<20 {
			w.t.Fatalf("after change %d of shard %d the shares add up to %.3f of the whole; counts by shard: %v",
				c.Seq, k, float64(whole)/(1<<20), counts)
		}
	}
}

// edit changes attributes of a stored shard like another writer; nil removes one.
func (w *world) edit(l *Limiter, shard int, attrs item.Item) {
	w.t.Helper()
	it := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, shard))
	if it == nil {
		w.t.Fatalf("no shard %d", shard)
	}
	for name, v := range attrs {
		if v == nil {
			delete(it, name)
		} else {
			it[name] = v
		}
	}
	w.db.Store(it)
}

// heat exhausts the write meter of a shard, with a refill so slow that it stays empty: every writer
// to the shard finds a hot partition. The meter's rate changes each time, because a process with an
// earlier image would not notice another change of the level.
func (w *world) heat(l *Limiter, shard int) {
	w.t.Helper()
	rate := item.N(1)
	if it := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, shard)); it != nil && item.Equal(it["b_wcu_ra"], rate) {
		rate = item.N(2)
	}
	w.edit(l, shard, item.Item{"b_wcu_tk": item.N(-1_000_000_000), "b_wcu_ra": rate})
}

// split doubles shard 0 until there are n shards, and the others follow.
func (w *world) split(l *Limiter, n int) {
	w.t.Helper()
	w.splitOf(l, acme, n)
}

// splitOf is split for the bucket of another entity.
func (w *world) splitOf(l *Limiter, entity string, n int) {
	w.t.Helper()
	for count := 1; count < n; count *= 2 {
		for _, b := range w.shards(l, entity, gpt) {
			token := fmt.Sprintf("split-%.9s-%d-%d-%d", entity, b.State.Shard, b.State.Shards, b.State.RF)
			check.Must(w.t, w.db.Bare().Transact(context.Background(), token, table.Split(b, l.now())))
		}
	}
	check.MustEqual(w.t, len(w.shards(l, entity, gpt)), n, "shards")
}

// configure stores limits at a level: entity and resource, the entity's default
// (resource _default_), resource, or system (both empty).
func (w *world) configure(l *Limiter, entity, resource string, limits ...Limit) {
	w.t.Helper()
	stored, err := storedLimits("limits", limits)
	check.Must(w.t, err)
	w.db.Store(config.Config{Namespace: l.namespace, Entity: entity, Resource: resource, Limits: stored}.Item())
}

// configurePolicy stores a system configuration with limits and a policy.
func (w *world) configurePolicy(l *Limiter, policy string, limits ...Limit) {
	w.t.Helper()
	stored, err := storedLimits("limits", limits)
	check.Must(w.t, err)
	w.db.Store(config.Config{Namespace: l.namespace, Limits: stored, OnUnavailable: policy}.Item())
}

// isWrite reports whether a call is one that changes buckets.
func isWrite(op memdynamo.Op) bool { return op.Name != memdynamo.BatchGetItem }

// onCall returns a hook that passes all calls except the nth matching one (from 0), which f
// decides.
func onCall(match func(memdynamo.Op) bool, nth int, f memdynamo.Hook) memdynamo.Hook {
	calls := make(chan int, 1)
	calls <- 0
	return func(op memdynamo.Op) (bool, error) {
		if !match(op) {
			return true, nil
		}
		n := <-calls
		calls <- n + 1
		if n != nth {
			return true, nil
		}
		return f(op)
	}
}

// refusedNow returns the refusal of a write whose condition would have held, as if the item had
// been changed and changed back.
func (w *world) refusedNow(op memdynamo.Op) error {
	if op.Name == memdynamo.TransactWriteItems {
		c := &store.Canceled{Reasons: make([]store.Reason, len(op.Writes))}
		c.Reasons[0] = store.Reason{Refused: true, Old: w.db.Item(op.Writes[0].Target())}
		return c
	}
	return &store.Refused{Old: w.db.Item(op.Writes[0].Target())}
}

// seen returns a process's images of the bucket's shards.
func seen(l *Limiter) map[int]decide.Seen {
	out, k := make(map[int]decide.Seen), l.desks.Of(acmeGPT)
	for i := range bucket.MaxShards {
		if s := k.Seen(i); s.Absent || s.Image.Entity != "" {
			out[i] = s
		}
	}
	return out
}

// kindName names the sentinel of an error, for tables of expected outcomes.
func kindName(err error) string {
	for name, sentinel := range map[string]error{
		"denied": ErrLimited, "unavailable": ErrUnavailable, "unknown": ErrUnknown, "invalid": ErrInvalid,
		"too large": ErrTooLarge, "no limits": ErrNoLimits, "closed": ErrLeaseClosed,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	if err == nil {
		return "granted"
	}
	return "another error: " + err.Error()
}

// sameTable fails the test if the table differs from a snapshot.
func (w *world) sameTable(before *memdynamo.DB) {
	w.t.Helper()
	a, b := before.Items(), w.db.Items()
	if !slices.EqualFunc(a, b, func(x, y item.Item) bool {
		return maps.EqualFunc(x, y, func(p, q item.Value) bool { return item.Equal(p, q) })
	}) {
		w.t.Fatalf("the table has changed:\n%v\nbefore:\n%v", b, a)
	}
}

// oneByOne calls a hook that counts for one call at a time, because the shards of a lease are
// settled in parallel. The hook must not sleep.
func oneByOne(hook memdynamo.Hook) memdynamo.Hook {
	var mu sync.Mutex
	return func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return hook(op)
	}
}

// draws are the random choices of this package's tests: which shard a request tries, and how long
// pauses are. Each world has its own sequence, derived from the name of the test, so a sequential
// test is the same in every run; parallel tests, which run after those, are the same with -parallel=1.
// With -count each run has another one: -count=200 runs 200 of them. DRAWS=7 shifts them all.
type draws struct {
	state atomic.Uint64
	begun sync.Map // test name -> *atomic.Uint64, how many worlds have begun
	shift uint64
}

var chance draws

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // takes memory, and saves a quarter of the time
	chance.shift, _ = strconv.ParseUint(os.Getenv("DRAWS"), 10, 64)
	store.SetRandom(chance.next)
	os.Exit(m.Run())
}

// begin starts the draws of a world.
func (d *draws) begin(test string) {
	before, _ := d.begun.LoadOrStore(test, new(atomic.Uint64))
	h := fnv.New64a()
	h.Write([]byte(test))
	d.state.Store(h.Sum64() + before.(*atomic.Uint64).Add(1)<<32 + d.shift<<16)
}

// longestPauses makes every pause as long as possible, until the test ends.
func longestPauses(t *testing.T) {
	// Except for some nanoseconds: 3.2 s are a multiple of every bound of a pause.
	before := store.SetRandom(func() uint64 { return 3_200_000_000 })
	t.Cleanup(func() { store.SetRandom(before) })
}

// next returns 64 random bits (splitmix64).
func (d *draws) next() uint64 {
	x := d.state.Add(0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// world is a table in memory with a clock that only the test moves.
type world struct {
	t   testing.TB
	db  *memdynamo.DB
	now atomic.Int64

	mended item.Item // the original of the item that spoil has damaged
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	chance.begin(t.Name())
	w.now.Store(1_700_000_000_000)
	w.db = memdynamo.New(w.now.Load)
	return w
}

func (w *world) advance(d time.Duration) { w.now.Add(d.Milliseconds()) }

// ages is a bound that no call reaches, however slow the machine is, for tests bounded by real
// time.
const ages = 24 * time.Hour

const ms = time.Millisecond

// process returns a limiter with its own caches, on a namespace that it registers if necessary.
// Only tests that set a bound have a relevant one; they run in a bubble of testing/synctest,
// because bounds are about real time.
func (w *world) process(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	calm := opts.Timeout == 0 // nothing hangs: a read takes as long as the machine needs
	if calm {
		opts.Timeout = ages
	}
	opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()) }
	l, err := open(context.Background(), w.db, &opts)
	check.Must(w.t, err)
	if calm {
		l.configs.Patience = ages
	}
	return l
}

// newProcess returns a world and its first process.
func newProcess(t testing.TB, opts Options) (*world, *Limiter) {
	t.Helper()
	w := newWorld(t)
	return w, w.process(opts)
}

// inBubble runs f in a bubble of testing/synctest, with a world and its first process.
func inBubble(t *testing.T, opts Options, f func(t *testing.T, w *world, l *Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, l := newProcess(t, opts)
		f(t, w, l)
	})
}

// bubble returns f, run in a bubble of testing/synctest.
func bubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// virtual returns a world within a bubble: it uses the bubble's clock, and a call takes a trip.
func virtual(t testing.TB, trip time.Duration) *world {
	w := &world{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })}
	w.db.SetHook(takes(trip))
	return w
}

// takes returns a hook with which every call takes a trip.
func takes(trip time.Duration) memdynamo.Hook {
	return func(memdynamo.Op) (bool, error) { time.Sleep(trip); return true, nil }
}

// started returns a process of a virtual world.
func (w *world) started(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	l, err := open(w.t.Context(), w.db, &opts)
	check.Must(w.t, err)
	return l
}

// inTime runs f in a virtual world in which a call takes two milliseconds.
func inTime(t *testing.T, f func(t *testing.T, w *world, process func() *Limiter)) {
	synctest.Test(t, func(t *testing.T) {
		w := virtual(t, 2*ms)
		f(t, w, func() *Limiter { return w.started(Options{Timeout: 10 * time.Second}) })
	})
}

// wantGranted checks how many requests are granted at one instant.
func wantGranted(t testing.TB, l *Limiter, req Request, want int) {
	t.Helper()
	check.MustEqual(t, drain(t, l, req), want, "granted")
}

func rpm(n int64) []Limit { return []Limit{PerMinute("rpm", n)} }
