package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	namespaceID = "simulated00"
	resource    = "gpt-4"
	guest       = "guest" // an entity of which requests for others take besides
	maxShards   = 4
)

// world is a table, the processes that work with it, and everything that is known
// about what rightly happened.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand // of the schedule; used by its goroutine only
	db      *memdynamo.DB
	clients []*client
	admin   *admin.Namespace
	manager *network
	stream  *mapping
	defect  defect

	faulty  uint64        // per mille of calls that go wrong
	crowd   int           // calls of one client at a time, at most
	spread  time.Duration // between the clock furthest ahead and the one furthest behind
	slack   int64         // percent
	expires bool          // items have expired
	changes bool          // limits and entities change, and buckets are deleted
	hand    *rand.Rand    // of whoever deletes shards by hand; nil: nobody does
	several *rand.Rand    // of what requests take of a second limit in the same write; nil: nothing
	also    *rand.Rand    // of what requests take of the guest besides, see limiter.Request.Also; nil: nothing
	tree    map[string]string
	deleted map[string]bool // entities that were deleted at some time
	removed int             // shards 0 that were deleted
	kinds   *kindsJudge     // nil: all limits are rates

	calls sync.WaitGroup // on their way
	ops   sync.WaitGroup

	mu      sync.Mutex // guards all below
	judge   *judge
	tokens  map[string]int64 // when a transaction was first sent, epoch ms
	leases  map[int]*held
	opened  int // calls begun
	broken  string
	verbose bool
	trace   []string
	log     uint64 // hash of everything that was written
	writes  int
	stats   stats
}

// stats tell what worlds have played.
type stats struct {
	writes, granted, denied, failed, cascaded, settled, waited int
	splits, merges, changes, batches, redelivered, lost, begun int
	byHand, restored                                           int // shards deleted by hand, and put back
	guests                                                     int // granted with a part of the guest
	handed                                                     int // settlements handed over
}

func (s *stats) add(o stats) {
	for _, p := range []struct {
		to   *int
		more int
	}{
		{&s.writes, o.writes}, {&s.granted, o.granted}, {&s.denied, o.denied}, {&s.failed, o.failed},
		{&s.splits, o.splits}, {&s.merges, o.merges}, {&s.cascaded, o.cascaded}, {&s.settled, o.settled},
		{&s.waited, o.waited}, {&s.changes, o.changes}, {&s.batches, o.batches}, {&s.redelivered, o.redelivered},
		{&s.lost, o.lost}, {&s.begun, o.begun}, {&s.byHand, o.byHand}, {&s.restored, o.restored}, {&s.guests, o.guests},
		{&s.handed, o.handed},
	} {
		*p.to += p.more
	}
}

// client is one process with a limiter.
type client struct {
	*network
	l        *limiter.Limiter
	skew     time.Duration
	opts     limiter.Options
	busy     int
	accounts map[[2]string]*account
	paid     map[string]map[string]int64 // by partition key and limit: taken less given back, millitokens
	// returning are its settlements under way.
	returning []*returns
}

// hands reports whether its settlements may wait, and go with charges or alone.
func (c *client) hands() bool { return c.opts.SettleWithin > 0 }

// held is a lease with what it has charged.
type held struct {
	client *client
	lease  *limiter.Lease
	costs  map[string]int64
	more   int64    // of rpm, of which the guest was not charged
	who    []string // the entities that were charged
	period int64    // of what it has of a quota: when it ends; 0 if that is not known
}

// variants are the limits that are in force at times. The periods of a limit never
// change: the judge counts in fractions of them.
var variants = [][]limiter.Limit{
	{limiter.PerMinute("rpm", 24)},
	{limiter.PerMinute("rpm", 12)},
	{
		{Name: "rpm", Capacity: 40, Refill: 240, Period: time.Minute},
		{Name: "tpm", Capacity: 60, Refill: 7, Period: 3 * time.Second},
	},
	{limiter.PerMinute("rpm", 24), {Name: "tpm", Capacity: 100, Refill: 100, Period: 3 * time.Second}},
}

// newWorld makes the world of a seed. It has to be called inside a bubble of
// testing/synctest.
func newWorld(t *testing.T, seed uint64, bad defect) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), defect: bad,
		leases: map[int]*held{}, tokens: map[string]int64{},
		tree: map[string]string{}, deleted: map[string]bool{}, slack: 25, crowd: quiet,
	}
	time.Sleep(time.Duration(w.rng.Int64N(int64(time.Hour))) + time.Hour)
	w.db = memdynamo.New(func() int64 { return time.Now().UnixMilli() })
	lags := rand.New(rand.NewPCG(seed, 11))
	w.db.Lags = func(k item.Key) bool {
		_, _, _, _, ok := layout.ParseBucketPK(k.PK)
		return ok && lags.IntN(2) == 0
	}
	w.judge = newJudge(w)
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.faulty = 50 + w.rng.Uint64N(150)
	case 3:
		w.crowd = 2 * quiet
	}
	w.changes = w.rng.IntN(3) == 0
	if hand := rand.New(rand.NewPCG(seed, 5)); hand.IntN(3) == 0 {
		w.hand = hand
	}
	if several := rand.New(rand.NewPCG(seed, 7)); several.IntN(2) == 0 && !w.changes {
		w.several = several
	}
	// One rare defect was seen in some runs only, by the order in which parts are resolved.
	if also := rand.New(rand.NewPCG(seed, 13)); also.IntN(3) == 0 && bad.write == nil {
		w.also = also
	}
	hands := rand.New(rand.NewPCG(seed, 17)) // which clients hand settlements over
	if bad.kinds {
		w.crowd, w.changes, w.hand, w.several, w.also = quiet, false, nil, nil, nil
		w.kinds = newKindsJudge(w)
	}
	w.furnish()
	ahead, behind := time.Duration(0), time.Duration(0)
	for i := range 1 + w.rng.IntN(3) {
		c := &client{
			network:  &network{w: w, id: uint64(i)},
			accounts: map[[2]string]*account{}, paid: map[string]map[string]int64{},
			opts: limiter.Options{
				DenyFor: time.Duration(w.rng.IntN(1500)-300) * time.Millisecond, MaxShards: maxShards, Slack: int(w.slack),
				ConfigTTL: time.Duration(1+w.rng.IntN(5000)) * time.Millisecond, MaxBuckets: 3 + w.rng.IntN(20),
			},
		}
		if c.opts.DenyFor == 0 {
			c.opts.DenyFor = -1
		}
		if hands.IntN(3) == 0 && bad.write == nil {
			c.opts.SettleWithin = time.Duration(10+hands.IntN(1500)) * time.Millisecond
		}
		if w.rng.IntN(8) == 0 {
			c.skew = time.Duration(w.rng.IntN(800)-400) * time.Millisecond
		}
		ahead, behind = max(ahead, c.skew), min(behind, c.skew)
		w.clients = append(w.clients, c)
		w.start(c)
		c.faulty.Store(w.faulty)
	}
	w.spread = ahead - behind
	w.manage()
	w.stream = newMapping(w)
	return w
}

// furnish stores a namespace with entities and limits, as if they had long been there.
func (w *world) furnish() {
	created := layout.Timestamp(time.Now().UnixMilli())
	ns := config.Namespace{ID: namespaceID, Name: "default", CreatedAt: created}
	w.db.Store(config.Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: created}.Create().Item)
	w.db.Store(ns.Forward())
	w.db.Store(ns.Reverse())
	w.tree["org"] = ""
	w.tree["team"] = "org"
	w.tree["key"] = []string{"team", "org", ""}[w.rng.IntN(3)]
	if w.also != nil {
		w.tree[guest] = ""
	}
	for _, id := range []string{"org", "team", "key"} {
		parent := w.tree[id]
		cascade := parent != "" && w.rng.IntN(4) > 0
		e := config.Entity{Namespace: namespaceID, ID: id, Parent: parent, Cascade: cascade, CreatedAt: created}
		w.db.Store(e.Item())
	}
	if w.kinds != nil {
		w.kinds.furnish()
		return
	}
	w.store("", resource, w.variant())
	if w.rng.IntN(2) == 0 {
		w.store("org", resource, w.variant())
	}
	if w.rng.IntN(4) == 0 {
		w.store("key", resource, w.variant())
	}
}

// variant returns limits; all have the second one where requests take of it.
func (w *world) variant() []limiter.Limit {
	v := variants[w.rng.IntN(len(variants))]
	if w.several != nil && len(v) == 1 {
		return variants[2+w.several.IntN(2)]
	}
	return v
}

func (w *world) store(entity, resource string, limits []limiter.Limit) {
	c := config.Config{Namespace: namespaceID, Entity: entity, Resource: resource}
	for _, l := range limits {
		c.Limits = append(c.Limits, validate.Limit[limiter.Calendar](l).Stored())
	}
	w.db.Store(c.Item())
}

// start gives a client a limiter that knows nothing.
func (w *world) start(c *client) {
	opts := c.opts
	if c.skew != 0 {
		opts.Now = func() time.Time { return time.Now().Add(c.skew) }
	}
	faulty := c.faulty.Swap(0)
	l, err := limiter.Open(context.Background(), c, "table", &opts)
	check.Must(w.t, err, "seed %d: open", w.seed)
	c.l = l
	c.faulty.Store(faulty)
}

func (w *world) manage() {
	w.manager = &network{w: w, id: 1001}
	tab, err := admin.Open(context.Background(), w.manager, "table", &admin.Options{Principal: "simulation"})
	if err == nil {
		w.admin, err = tab.Namespace(context.Background(), "default")
	}
	check.Must(w.t, err, "seed %d: admin", w.seed)
	w.manager.faulty.Store(w.faulty)
}

// violated notes a broken promise; the first one counts. The lock is held.
func (w *world) violated(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.tracef("BROKEN: %s", w.broken)
	}
}

// tracef notes a step. The lock is held.
func (w *world) tracef(format string, args ...any) {
	if w.verbose {
		w.trace = append(w.trace, time.Now().UTC().Format("15:04:05.000000000 ")+fmt.Sprintf(format, args...))
	}
}

// record takes a change into the log. The lock is held.
func (w *world) record(c memdynamo.Change) {
	w.writes++
	if c.Key.SK != layout.SKBucketState {
		return
	}
	w.log = mix(mix(w.log, uint64(c.CreatedAt)), hash(c.Key.PK))
	if b, err := table.DecodeShard(c.New); err == nil {
		w.log = mix(mix(w.log, uint64(b.State.RF)), uint64(b.State.Shards))
		for _, sl := range b.State.Slots {
			w.log = mix(mix(w.log, uint64(sl.Tokens)), uint64(sl.Used))
		}
		if w.verbose {
			w.tracef("  write %s gen %d: %v", c.Key.PK, b.Generation, b.State)
		}
	} else {
		if _, _, _, shard, _ := layout.ParseBucketPK(c.Key.PK); shard == 0 {
			w.removed++
		}
		if w.verbose {
			w.tracef("  gone %s", c.Key.PK)
		}
	}
}

// play plays so many steps, lets the world come to rest and returns what is broken.
func (w *world) play(steps int) string {
	for range steps {
		time.Sleep(w.pause())
		if w.kinds != nil {
			w.kinds.linger()
		}
		w.step()
		if w.isBroken() {
			break
		}
	}
	w.rest()
	w.stats.writes = w.writes
	return w.broken
}

func (w *world) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != ""
}

// pause is mostly so short that calls overlap, and sometimes long enough to fill a
// bucket.
func (w *world) pause() time.Duration {
	switch n := w.rng.IntN(40); {
	case n < 22:
		return time.Duration(w.rng.Int64N(int64(4 * time.Millisecond)))
	case n < 30:
		return time.Duration(w.rng.Int64N(int64(40 * time.Millisecond)))
	case n < 38:
		return time.Duration(w.rng.Int64N(int64(3 * time.Second)))
	default:
		return time.Duration(w.rng.Int64N(int64(90 * time.Second)))
	}
}

var entities = []string{"key", "key", "key", "team", "org"}

func (w *world) step() {
	if w.hand != nil && w.hand.IntN(8) == 0 && w.deleteByHand() && w.hand.IntN(2) == 0 {
		w.restart(w.clients[w.hand.IntN(len(w.clients))])
	}
	c := w.clients[w.rng.IntN(len(w.clients))]
	entity := entities[w.rng.IntN(len(entities))]
	n := w.rng.IntN(100)
	switch {
	case n < 8: // a burst
		for range 5 {
			w.acquire(c, entity, "acquire", int64(1+w.rng.IntN(9)), 0)
			time.Sleep(time.Duration(w.rng.Int64N(int64(8 * time.Millisecond))))
		}
	case n < 52:
		within := time.Duration(w.rng.IntN(8)/7) * time.Duration(1+w.rng.Int64N(9_000_000)) // of one in eight
		w.acquire(c, entity, "acquire", int64(w.rng.IntN(5)), within)
	case n < 57:
		w.acquire(c, entity, "wait", int64(1+w.rng.IntN(9)), time.Duration(1+w.rng.Int64N(20_000_000_000)))
	case n < 80:
		w.settle()
	case n < 88:
		w.heat(entity)
	case n < 90:
		w.restart(c)
	case n < 92:
		w.expire()
	case !w.changes:
		w.acquire(c, entity, "acquire", int64(1+w.rng.IntN(24)), 0)
	default:
		w.manageSomething(entity)
	}
}

// free reports whether a client begins one more call. Calls that wait for the same
// read of configuration would go on at the same instant, in any order.
func (w *world) free(c *client) bool {
	return c.busy < w.crowd && (w.crowd > quiet || c.reading.Load() == 0)
}

// quiet is how many calls of one client at a time can be played again exactly: in a
// group of more, several go on at the same instant.
const quiet = 2

// acquire begins a call of a limiter, unless the client is busy enough. Within is
// when its caller goes away; zero is never.
func (w *world) acquire(c *client, entity, kind string, cost int64, within time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.free(c) {
		return
	}
	c.busy++
	w.opened++
	o := &op{
		id: w.opened, began: time.Now().UnixMilli(), client: c, kind: kind, costs: map[string]int64{"rpm": cost},
		removed: w.removed,
	}
	if w.kinds != nil {
		w.kinds.ask(o)
	}
	if w.several != nil && kind != "wait" && w.several.IntN(3) > 0 {
		o.costs["tpm"] = w.several.Int64N(16)
	}
	o.guest = w.also != nil && w.also.IntN(2) == 0
	w.ops.Go(func() { w.acquired(o, entity, within) })
}

// finish notes that a call has ended; an idle client's accounts must balance.
func (w *world) finish(c *client) {
	if c.busy--; c.busy == 0 && !c.hands() {
		c.settled(w)
	}
}

// lateWrite is how long after its caller has gone a write may arrive.
const lateWrite = 5 * time.Second

func (w *world) acquired(o *op, entity string, within time.Duration) {
	ctx := o.context(context.Background())
	if within > 0 {
		o.client.hurried.Store(time.Now().Add(within + lateWrite).UnixMilli())
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	req := limiter.Request{Entity: entity, Resource: resource, Costs: o.costs, Class: w.defect.classOf(o.class)}
	if o.guest {
		req.Also = []limiter.Part{{Entity: guest, Resource: resource, Costs: o.costs}}
	}
	var lease *limiter.Lease
	var err error
	begin := time.Now()
	if o.kind == "wait" {
		lease, err = o.client.l.Wait(ctx, req)
	} else {
		lease, err = o.client.l.Acquire(ctx, req)
	}
	if w.defect.outcome != nil {
		err = w.defect.outcome(entity, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.finish(o.client)
	o.ended = time.Now().UnixMilli()
	w.tracef("op %d: client %d %s %s %v: %v", o.id, o.client.id, o.kind, entity, o.costs, outcomeName(err))
	now := time.Now()
	slow := now.Sub(begin).Milliseconds()
	if o.kind == "wait" { // it is let go when the tokens are there; how long the call took is not known
		slow = min(slow, 30)
		if w.faulty > 0 {
			slow = min(now.Sub(begin).Milliseconds(), 2100)
		}
		w.stats.waited++
	}
	switch {
	case err == nil:
		w.stats.granted++
		who := charged(lease, entity)
		if slices.Contains(who, guest) {
			w.stats.guests++
		} else if len(who) > 1 {
			w.stats.cascaded++
		}
		for _, e := range who {
			o.client.told(e, o.costs, true)
			if o.kind == "wait" && len(who) > 1 {
				continue // some entities were paid long before the last one, and it is let go with that
			}
			for limit, n := range o.costs {
				w.judge.granted(e, limit, o.began, now.UnixMilli(), n*bucket.Milli, slow)
			}
		}
		h := &held{client: o.client, lease: lease, costs: maps.Clone(o.costs), who: who}
		if w.leases[o.id] = h; w.kinds != nil {
			w.kinds.holds(o, h)
		}
	default:
		w.refused(o, entity, err)
	}
}

// refused judges a call that was not granted.
func (w *world) refused(o *op, entity string, err error) {
	failed, unsettled := errors.AsType[*limiter.SettleError](err)
	denied, limited := errors.AsType[*limiter.LimitError](err)
	vanished := w.removed != o.removed // a bucket was deleted meanwhile: nothing could be given back to it
	if errors.Is(err, limiter.ErrUnknown) || unsettled && failed != nil || vanished {
		for e := range w.tree {
			o.client.told(e, o.costs, false)
		}
	}
	switch {
	case limited:
		w.stats.denied++
		if denied.RetryAfter <= 0 || denied.Limit == bucket.WCU {
			w.violated("W3: op %d: a denial by %q with a wait of %s", o.id, denied.Limit, denied.RetryAfter)
		}
	case errors.Is(err, limiter.ErrTooLarge):
		w.stats.denied++
	case errors.Is(err, limiter.ErrUnknown), errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrCanceled):
		w.stats.failed++
		if w.faulty == 0 && !errors.Is(err, limiter.ErrCanceled) {
			w.violated("I9: op %d: %v, though nothing went wrong", o.id, err)
		}
	case w.changes && (errors.Is(err, limiter.ErrNoLimits) || errors.Is(err, limiter.ErrInvalid)):
	default:
		w.violated("W3: op %d: %s on %s ended in %v", o.id, o.kind, entity, err)
	}
}

// charged returns the entities that a lease has charged.
func charged(lease *limiter.Lease, entity string) []string {
	who := []string{entity}
	for _, s := range lease.Status() {
		if !slices.Contains(who, s.Entity) {
			who = append(who, s.Entity)
		}
	}
	return who
}

func outcomeName(err error) string {
	if err == nil {
		return "granted"
	}
	return err.Error()
}

// settle ends a lease, or charges more for it.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leases) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(w.leases))
	id := ids[w.rng.IntN(len(ids))]
	h := w.leases[id]
	if !w.free(h.client) {
		return
	}
	delete(w.leases, id)
	h.client.busy++
	w.opened++
	o := &op{id: w.opened, began: time.Now().UnixMilli(), client: h.client, kind: "settle", costs: h.costs,
		removed: w.removed}
	how, actual := w.rng.IntN(5), map[string]int64{"rpm": int64(w.rng.IntN(7))}
	if w.kinds != nil {
		w.kinds.ends(h, how, actual)
	} else if how == 1 {
		actual["tpm"] = int64(w.rng.IntN(30))
	}
	if how == 4 {
		o.kind = "charge"
		w.ops.Go(func() { w.chargedMore(o, id, h, int64(1+how)) })
		return
	}
	w.ops.Go(func() { w.settled(o, h, how, actual) })
}

// settled rolls a lease back, or commits what it has really cost.
func (w *world) settled(o *op, h *held, how int, actual map[string]int64) {
	ctx := o.context(context.Background())
	diff := map[string]int64{}
	var err error
	if how >= 2 {
		for limit, n := range h.costs {
			diff[limit] = -n
		}
	} else if err = h.lease.Settle(w.defect.settles(h.costs, actual)); err != nil { // no such limit
		actual = map[string]int64{"rpm": actual["rpm"]}
		err = h.lease.Settle(actual)
	}
	if how < 2 && err == nil {
		for limit, n := range actual {
			diff[limit] = n - h.costs[limit]
		}
	}
	guests := maps.Clone(diff)
	if how < 2 && err == nil && slices.Contains(h.who, guest) {
		if err = h.lease.SettlePart(guest, resource, actual); err != nil { // no such limit
			guests = map[string]int64{"rpm": diff["rpm"]}
			err = h.lease.SettlePart(guest, resource, map[string]int64{"rpm": actual["rpm"]})
		}
	}
	if _, ok := guests["rpm"]; ok {
		guests["rpm"] += h.more
	}
	r := &returns{map[[2]string]int64{}, map[string]bool{}}
	for _, e := range h.who {
		costs := diff
		if e == guest {
			costs = guests
		}
		for limit, n := range costs {
			r.milli[[2]string{e, limit}] = max(0, -n*bucket.Milli)
		}
	}
	w.mu.Lock()
	o.client.returning = append(o.client.returning, r)
	w.mu.Unlock()
	for range 3 {
		if how >= 2 {
			err = h.lease.Rollback(ctx)
		} else {
			err = h.lease.Commit(ctx)
		}
		if err == nil || !errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrUnknown) {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.finish(o.client)
	if err == nil && o.client.hands() {
		w.stats.handed++
		w.ops.Go(func() {
			time.Sleep(o.client.opts.SettleWithin + lateWrite)
			w.mu.Lock()
			defer w.mu.Unlock()
			o.client.returned(w.judge, r, nil)
		})
	} else {
		o.client.returned(w.judge, r, err)
	}
	w.tracef("op %d: client %d settles %v of %v by %v: %v", o.id, h.client.id, h.costs, h.who, diff, outcomeName(err))
	w.stats.settled++
	certain := err == nil && !w.changes && !w.expires && w.hand == nil && // what is gone needs no settling
		(w.faulty == 0 || !o.client.hands()) // it may go with a charge without an answer
	for _, e := range h.who {
		if e == guest {
			h.client.told(e, guests, certain)
		} else {
			h.client.told(e, diff, certain)
		}
		if w.changes { // it may have been charged for more on some levels than on others
			h.client.told(e, h.costs, false)
			h.client.told(e, actual, false)
		}
	}
	if w.kinds != nil {
		w.kinds.ended(h, how, actual, err)
	}
	if _, failed := errors.AsType[*limiter.SettleError](err); err != nil && (!failed || w.faulty == 0) && !w.changes {
		w.violated("I4: op %d: a settlement ended in %v", o.id, err)
	}
}

// chargedMore charges more for a lease.
func (w *world) chargedMore(o *op, id int, h *held, cost int64) {
	more := map[string]int64{"rpm": cost}
	begin := time.Now()
	err := h.lease.Charge(o.context(context.Background()), more)
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.finish(o.client)
	w.tracef("op %d: client %d charges %v more for op %d: %v", o.id, h.client.id, more, id, outcomeName(err))
	w.leases[id] = h
	o.costs = more
	if err != nil {
		w.refused(o, h.who[0], err)
		return
	}
	h.who = charged(h.lease, h.who[0])
	for _, e := range h.who {
		if e == guest { // the first part is charged more
			continue
		}
		certain := !w.changes || e == h.who[0] // it may have another parent now
		if h.client.told(e, more, certain); !certain {
			continue
		}
		took := time.Since(begin).Milliseconds()
		w.judge.granted(e, "rpm", o.began, time.Now().UnixMilli(), cost*bucket.Milli, took)
	}
	h.costs["rpm"] += cost
	h.more += cost
}

// heat exhausts the write meter of a shard, as a thousand writes in a second would.
func (w *world) heat(entity string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.judge.buckets[entity]
	if b == nil || len(b.shards) == 0 {
		return
	}
	shards := slices.Sorted(maps.Keys(b.shards))
	k := shards[w.rng.IntN(len(shards))]
	it := w.db.Item(layout.BucketKey(namespaceID, entity, resource, k))
	writes := int64(1000+w.rng.IntN(1500)) * bucket.WCUPerWrite
	meter := b.shards[k].image.State.Slots[b.shards[k].image.State.Index(bucket.WCU)]
	it["b_wcu_tk"], it["b_wcu_tc"] = item.N(meter.Tokens-writes), item.N(meter.Used+writes)
	w.tracef("heat %s shard %d", entity, k)
	w.db.Store(it)
	w.judge.follow(nil, nil, 0, w.db.Changes(w.judge.seq))
}

// deleteByHand deletes shard 0 of a bucket whose other shards live on, with another one
// at times, or another one alone; and reports whether there was such a bucket. Without
// shards 0 and 1 a bucket would count as deleted.
func (w *world) deleteByHand() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var split []*judged
	for _, e := range entities[2:] {
		if b := w.judge.buckets[e]; b != nil && b.shards[1] != nil {
			split = append(split, b)
		}
	}
	if len(split) == 0 {
		return false
	}
	b := split[w.hand.IntN(len(split))]
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(b.shards)), func(k int) bool { return k < 2 })
	gone := []int{0}
	if n := w.hand.IntN(4); n < 2 && len(others) > 0 {
		gone = append(gone[:n], others[w.hand.IntN(len(others))])
	}
	for _, k := range gone {
		w.tracef("shard %d of %s is deleted by hand", k, b.entity)
		w.stats.byHand++
		key := layout.BucketKey(namespaceID, b.entity, resource, k)
		w.db.Delete(key)
		for _, c := range w.clients { // what they have charged there, nobody can give back
			for limit, milli := range c.paid[key.PK] {
				c.account(b.entity, limit).most += max(milli, 0)
			}
		}
	}
	w.judge.follow(nil, nil, 0, w.db.Changes(w.judge.seq))
	return true
}

// restart replaces an idle client by one that knows nothing. Its leases stay.
func (w *world) restart(c *client) {
	w.mu.Lock()
	idle := c.busy == 0
	if idle {
		c.busy = w.crowd // nobody else begins meanwhile
		w.tracef("client %d begins anew", c.id)
	}
	w.mu.Unlock()
	if idle {
		w.start(c)
		w.mu.Lock()
		c.busy = 0
		w.mu.Unlock()
	}
}

// expire lets the sweeper remove what has expired, as it does after hours.
func (w *world) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Unix()
	if n := w.db.Sweep(at); n > 0 {
		w.expires = true
		w.tracef("%d items expired", n)
		w.judge.follow(nil, nil, 0, w.db.Changes(w.judge.seq))
	}
}

// rest ends all trouble, lets everybody finish and the stream be read, and checks
// what must hold then.
func (w *world) rest() {
	w.ops.Wait()
	for _, c := range w.clients {
		c.faulty.Store(0)
	}
	w.manager.faulty.Store(0)
	time.Sleep(5 * time.Second) // the breakers close, and what is on its way arrives
	w.calls.Wait()
	w.mu.Lock()
	for _, c := range w.clients {
		c.settled(w)
	}
	w.mu.Unlock()
	if w.kinds != nil {
		w.kinds.inTheEnd()
		time.Sleep(5 * time.Second) // what it gives back may wait
	}
	if !w.isBroken() && w.defect.name == "" {
		w.grantedInTheEnd()
	}
	w.stream.finish()
	time.Sleep(5 * time.Second) // what limiters do in the background comes to its end
	w.calls.Wait()
	synctest.Wait()
}

// grantedInTheEnd checks I9: what fits is granted to somebody who waits for as long
// as he is told, also to a process that knows nothing.
func (w *world) grantedInTheEnd() {
	if w.rng.IntN(4) > 0 {
		return
	}
	c := w.clients[0]
	if w.rng.IntN(2) == 0 {
		w.restart(c)
	}
	entity := entities[w.rng.IntN(len(entities))]
	o := &op{id: -1, began: time.Now().UnixMilli(), client: c, kind: "last"}
	cost := int64(1 + w.rng.IntN(12))
	for try := 0; ; try++ {
		_, err := c.l.Acquire(o.context(context.Background()), limiter.Request{
			Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": cost},
		})
		if err == nil {
			return
		}
		denied, ok := errors.AsType[*limiter.LimitError](err)
		if w.changes && (errors.Is(err, limiter.ErrInvalid) || errors.Is(err, limiter.ErrNoLimits)) {
			return
		}
		if !ok || try > 20 {
			w.mu.Lock()
			w.violated("I9: %d of %s was never granted: try %d: %v", cost, entity, try, err)
			w.mu.Unlock()
			return
		}
		time.Sleep(denied.RetryAfter)
	}
}
