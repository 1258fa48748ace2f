// Package inforce finds the limits in force for an entity and resource, from a cache of the stored
// configuration or from the limits of a request.
package inforce

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Configs resolves stored configuration through a cache of single items, so defaults shared by many
// entities are read once. It is safe for concurrent use: concurrent misses for the same entity and
// resource share one read, and no lock is held during the read.
//
// The resolved configuration of an entity and resource is stored at the desk of the bucket until
// the first of its records must be read again. That is all a busy process uses.
type Configs struct {
	desks     *desk.Desks   // hold the resolved configuration of warm buckets
	ttl       int64         // ms; zero or less: every resolution reads
	Patience  time.Duration // the least time that a caller with old records waits for a read
	flight    singleflight.Group
	mu        sync.Mutex
	cache     *simplelru.LRU[cacheKey, cached]
	forgotten atomic.Int64 // how often the cache was dropped; incremented under mu
	hungAt    int64        // when a read last used up its time, epoch ms
}

// New returns a cache for the namespace of ds, whose desks were made with [Notes]. Records are
// valid for ttl ms.
func New(ds *desk.Desks, ttl int64) *Configs {
	cache, err := simplelru.NewLRU[cacheKey, cached](int(records)*ds.Size, nil)
	if err != nil {
		panic("bug: " + err.Error()) // the size is validated
	}
	return &Configs{desks: ds, ttl: ttl, Patience: desk.ProbeWait, cache: cache}
}

// NoLimitsFor is how long, in ms, the cache keeps the answer that no level has limits, or a record
// that cannot be read and decides nothing. A tenant whose first request came before its limits were
// stored must not wait for a whole ttl.
const NoLimitsFor = 3000

// Found records that the namespace existed at now. The first resolution then need not ask again.
func (c *Configs) Found(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Add(cacheKey{rec: recNamespace}, cached{found: true, at: now})
}

// Resolve returns the configuration in force for n, with the limits of the request, or with stored
// limits if own is nil. A warm call does no I/O; a cold one sends one BatchGetItem. If own is set,
// the stored limits are not needed, only the rest of the configuration. If a read fails, expired
// records still serve; without them the error is a *store.Failure, or names the stored value that
// is invalid.
//
// If fresh is false, it reads nothing, and uses the last records, however old. It then fails if
// they contain no limits, and with ErrDisabled if they grant nothing.
func (c *Configs) Resolve(ctx context.Context, n decide.Name, own *Own, now int64, fresh bool) (Config, error) {
	if out, ok := c.Ready(c.desks.Peek(n), own, now); ok {
		return out, nil
	}
	keys := keysOf(n)
	recs, missing, until, forgotten := c.cached(keys, own != nil, now)
	var got fetched
	err := errNoLimits
	stale := !slices.ContainsFunc(missing, func(i int) bool { return recs[i].at == 0 }) // all have an old version
	if fresh && len(missing) > 0 && !(stale && c.quiet(now)) {
		got, err = c.refresh(ctx, stale, keys, missing, now)
	}
	for j, i := range missing {
		switch {
		case got.records != nil:
			recs[i] = got.records[j]
		case recs[i].at != 0: // an old record serves
		case !fresh && (own != nil || i >= recMeta): // nothing shows that the entity or the namespace is gone
			recs[i].found = true
		default:
			return Config{Policy: recs[recSystem].config.OnUnavailable, Exists: true}, err
		}
	}
	var given []bucket.Limit
	if own != nil {
		given = own.Limits
	}
	out, err := combine(recs, given)
	if err == nil && got.met && !out.Bypass { // otherwise the bucket is not needed
		c.desks.Met(n, got.bucket)
	}
	if k := c.desks.Peek(n); err == nil && len(missing) == 0 && until > now && k != nil {
		keptAt(k).Store(&kept{own, out, now, until, forgotten})
	}
	return out, err
}

func keysOf(n decide.Name) [records]cacheKey {
	return [records]cacheKey{
		recEntity:        {recEntity, n},
		recEntityDefault: {recEntityDefault, decide.Name{Entity: n.Entity}},
		recResource:      {recResource, decide.Name{Resource: n.Resource}},
		recSystem:        {rec: recSystem},
		recMeta:          {recMeta, decide.Name{Entity: n.Entity}},
		recNamespace:     {rec: recNamespace},
	}
}

// refresh is fetch with old records as a fallback. A store that hangs must not slow down every
// call. So a call waits only as long as for a probe, or until the read counts as late on a slow
// table. After a read that hung, calls do not wait for a while. The read itself goes on, and serves
// later calls. If every call reads (a ttl of zero), a call waits for half of its remaining time.
func (c *Configs) refresh(ctx context.Context, stale bool, keys [records]cacheKey, missing []int,
	now int64) (fetched, error) {
	if !stale {
		return c.fetch(ctx, keys, missing, now)
	}
	half := c.desks.Timeout / 2
	if c.ttl > 0 {
		half = min(half, max(c.Patience, c.desks.Late()))
	}
	if deadline, ok := ctx.Deadline(); ok {
		half = min(half, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, half)
	defer cancel()
	got, err := c.fetch(ctx, keys, missing, now)
	if err != nil && ctx.Err() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hungAt = now
	}
	return got, err
}

// quietFor is how long, in ms, calls use old configuration after a read that hung.
const quietFor = 1000

func (c *Configs) quiet(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hungAt != 0 && now >= c.hungAt && now-c.hungAt < quietFor
}

// cached returns the cached records, and the indexes of the records that must be read: never seen,
// or too old (old ones are returned too). If none is missing, the answer is valid until the instant
// until, unless the cache is dropped before.
func (c *Configs) cached(keys [records]cacheKey, limitsGiven bool, now int64) (recs [records]cached, missing []int,
	until, forgotten int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until = bucket.Never
	limited := limitsGiven
	for i, k := range keys {
		recs[i], _ = c.cache.Get(k)
		limited = limited || len(recs[i].config.Limits) > 0
	}
	decided := limitsGiven
	for i, r := range recs {
		ttl := c.ttl
		switch {
		case r.bad != nil && (!decided || i == recMeta): // a repaired record takes effect at once
			ttl = 0
		case r.bad != nil, !limited && i <= recSystem:
			ttl = min(ttl, NoLimitsFor)
		}
		decided = decided || len(r.config.Limits) > 0
		if r.at == 0 || ttl <= 0 || now-r.at >= ttl || now < r.at {
			missing = append(missing, i)
		}
		until = min(until, bucket.AddSat(r.at, ttl))
	}
	return recs, missing, until, c.forgotten.Load()
}

// fetched is the result of a read: records in the order of their keys, and if met is set, the
// bucket, nil if absent.
type fetched struct {
	records []cached
	met     bool
	bucket  item.Item
}

// fetch reads the missing records. Concurrent callers that miss the same records share one read.
// The read is not cut short when one of them gives up or has less time than the others: only
// Options.Timeout bounds it.
func (c *Configs) fetch(ctx context.Context, keys [records]cacheKey, missing []int, now int64) (fetched, error) {
	if err := ctx.Err(); err != nil { // the shared read would go out without this caller
		return fetched{}, &store.Failure{Kind: store.Unavailable, Op: "BatchGetItem", Err: err}
	}
	want := make([]cacheKey, len(missing))
	for j, i := range missing {
		want[j] = keys[i]
	}
	var unmet []decide.Name
	if n := keys[recEntity].name; c.desks.Unmet(n) {
		unmet = append(unmet, n)
	}
	flight := c.flight.DoChan(fmt.Sprintf("%#v%#v", want, unmet), func() (any, error) {
		shared, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.desks.Timeout)
		defer cancel()
		var got fetched
		err := desk.Guarded(func() (err error) { // a panic in a separate goroutine would end the process
			got, err = c.read(shared, want, unmet, now)
			return err
		})
		return got, err
	})
	select {
	case r := <-flight:
		if r.Err != nil {
			return fetched{}, r.Err
		}
		return r.Val.(fetched), nil
	case <-ctx.Done():
		return fetched{}, &store.Failure{Kind: store.Unavailable, Op: "BatchGetItem", Err: ctx.Err()}
	}
}

// read reads records, together with the buckets that were never seen, so the first charge has an
// image to plan from.
func (c *Configs) read(ctx context.Context, keys []cacheKey, unmet []decide.Name, now int64) (fetched, error) {
	stored := make([]item.Key, 0, len(keys)+1)
	for _, k := range keys {
		stored = append(stored, k.item(c.desks.Namespace))
	}
	for _, n := range unmet {
		stored = append(stored, c.desks.Key(n, 0))
	}
	items, err := c.desks.Store.Read(ctx, false, stored...)
	if err != nil {
		return fetched{}, err
	}
	got := fetched{records: make([]cached, len(keys)), met: len(unmet) > 0}
	if got.met {
		got.bucket = items[len(keys)]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range keys {
		got.records[i] = decodeRecord(items[i], now)
		c.cache.Add(k, got.records[i])
	}
	return got, nil
}

// Notes creates the room for a configuration at each desk, see [desk.Options].
func Notes() any { return new(atomic.Pointer[kept]) }

func keptAt(k *desk.Desk) *atomic.Pointer[kept] { return k.Notes.(*atomic.Pointer[kept]) }

// LastOwn returns the limits of the last request for a bucket, or nil if it had none or they are
// unknown.
func (c *Configs) LastOwn(n decide.Name) *Own {
	if k := c.desks.Peek(n); k != nil {
		if last := keptAt(k).Load(); last != nil {
			return last.own
		}
	}
	return nil
}

// Ready returns the configuration in force at a desk, like Resolve, if it is available without I/O
// and without checking each record.
func (c *Configs) Ready(k *desk.Desk, own *Own, now int64) (cfg Config, ok bool) {
	if k == nil {
		return cfg, false
	}
	last := keptAt(k).Load()
	if last == nil || last.own != own || last.forgotten != c.forgotten.Load() || now < last.from || now >= last.until {
		return cfg, false
	}
	return last.cfg, true
}

// Forget drops all cached configuration.
func (c *Configs) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Purge()
	c.forgotten.Add(1)
}
