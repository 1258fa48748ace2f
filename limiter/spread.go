package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// What no single shard covers is taken from several of them, in one transaction.

const (
	// maxPaying is how many shards pay for one request at most.
	maxPaying = item.MaxTransactItems
	// spreadAttempts bounds how often such a transaction is planned anew because
	// others have taken from the shards meanwhile.
	spreadAttempts = 4
)

// spread takes the costs from several shards. It reads them first: their images
// must be of one moment, and a read of all is cheaper than a refused transaction.
// The lease is nil if they do not hold enough; what they hold is known then. Owing,
// every shard pays its part, into debt.
func (l *Limiter) spread(ctx context.Context, k *known, w want, owe bool, tries *attempt) (*Lease, error) {
	images, err := l.readShards(ctx, k, w)
	for _, slack := range [spreadAttempts]int64{1, 1, 1} { // what others may take meanwhile; in the end, any
		if err != nil {
			return nil, err
		}
		now := l.now()
		pay := byLevels(images, w, now)
		if owe {
			pay = byShares(images, w)
		}
		if len(pay) == 0 {
			return nil, nil
		}
		var refused bool
		if refused, err = l.pay(ctx, k, w, pay, now, slack, tries); err == nil && !refused {
			return l.paid(k, w, pay), nil
		}
		if refused {
			images, err = l.readShards(ctx, k, w)
		}
	}
	return nil, err
}

// readShards reads the images of all shards, and remembers them.
func (l *Limiter) readShards(ctx context.Context, k *known, w want) ([]table.Shard, error) {
	k.mu.Lock()
	now, count := l.now(), k.count
	k.readAt, k.raisedAt = now, min(k.raisedAt, now) // the clock may have been set back since
	k.mu.Unlock()
	keys := make([]item.Key, count)
	for i := range keys {
		keys[i] = table.BucketKey(w.namespace, w.name.entity, w.name.resource, i)
	}
	var items []item.Item
	for part := range slices.Chunk(keys, item.MaxReadKeys) {
		some, err := l.store.Read(ctx, true, part...)
		if err != nil {
			return nil, err
		}
		items = append(items, some...)
	}
	var images []table.Shard
	now = l.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, it := range items {
		if it == nil {
			k.missing(i, now)
			continue
		}
		b, err := table.DecodeShard(it)
		if err != nil {
			return nil, err
		}
		images = append(images, b)
		k.see(b, now, k.at(i).serial, nil)
	}
	return images, nil
}

// payment is what one shard pays of a request that is taken from several.
type payment struct {
	image table.Shard
	costs []table.Cost // as those of the request
	owe   bool         // they are taken into debt
}

// byLevels divides the costs among shards, in whole tokens, the fullest first; it
// returns nothing if they do not hold enough. Each shard pays of every limit what
// it has, so few of them are needed. Example: of a cost of 7, shards that hold 3.5, 2.2
// and 4 pay 3, none and 4. A shard that is in debt pays nothing.
func byLevels(images []table.Shard, w want, now int64) []payment {
	left := slices.Clone(w.costs)
	order := slices.Clone(images)
	slices.SortStableFunc(order, func(a, b table.Shard) int { return compareLevels(b, a, w, now) })
	var out []payment
	for _, image := range order {
		if len(out) == maxPaying {
			break
		}
		at := table.Charge{Image: image, Costs: w.costs, Now: now, Refill: true}.Plan().Before
		part := payment{image: image, costs: slices.Clone(left)}
		pays, debt := false, false
		for i, c := range left {
			j := at.Index(c.Limit.Name)
			if j < 0 || at.Slots[j].Tokens < 0 {
				debt = true
				break
			}
			part.costs[i].Milli = min(c.Milli, at.Slots[j].Tokens/bucket.Milli*bucket.Milli)
			pays = pays || part.costs[i].Milli > 0
		}
		if debt || !pays {
			continue
		}
		for i := range left {
			left[i].Milli -= part.costs[i].Milli
		}
		out = append(out, part)
	}
	if slices.ContainsFunc(left, func(c table.Cost) bool { return c.Milli > 0 }) {
		return nil
	}
	return out
}

// compareLevels orders images by what they hold of the first limit with a cost.
func compareLevels(a, b table.Shard, w want, now int64) int {
	for _, c := range w.costs {
		if i, j := a.State.Index(c.Limit.Name), b.State.Index(c.Limit.Name); c.Milli > 0 && i >= 0 && j >= 0 {
			x, y := a.State.At(now).Slots[i].Tokens, b.State.At(now).Slots[j].Tokens
			if x != y {
				return int(max(min(bucket.SubSat(x, y), 1), -1))
			}
		}
	}
	return a.State.Shard - b.State.Shard
}

// pay writes the charges of all shards that pay, as one transaction.
func (l *Limiter) pay(ctx context.Context, k *known, w want, payments []payment, now, slack int64,
	tries *attempt) (refused bool, err error) {
	writes := make([]item.Write, len(payments))
	for i, s := range payments {
		writes[i] = table.Charge{Image: s.image, Costs: s.costs, Now: now, Life: w.life,
			Slack: slack, Force: s.owe}.Plan().Update
	}
	err = l.transact(ctx, writes, tries)
	if _, ok := errors.AsType[*store.Canceled](err); ok {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range payments { // a transaction brings no images: they are worked out
		if it, held, err := writes[i].Apply(s.image.Item()); err == nil && held {
			if b, err := table.DecodeShard(it); err == nil {
				k.see(b, l.now(), k.at(b.State.Shard).serial, s.costs)
				k.confirm(b, w, l.now())
			}
		}
	}
	return false, nil
}

// transact sends a transaction, again with the same token when its answer is lost,
// which carries it out once. If it never is answered, nobody knows.
func (l *Limiter) transact(ctx context.Context, writes []item.Write, tries *attempt) error {
	token := rand.Text()
	var lost error
	for {
		tries.calls++
		err := store.Retry(ctx, spreadAttempts, contentionPause,
			func() error { return l.store.Transact(ctx, token, writes) })
		switch _, canceled := errors.AsType[*store.Canceled](err); {
		case err == nil, canceled:
			return err
		case store.KindOf(err) == store.Unknown && tries.calls < maxRounds && ctx.Err() == nil:
			lost = err
			continue
		case lost != nil:
			return lost
		}
		return err
	}
}

// paid makes the lease on several shards.
func (l *Limiter) paid(k *known, w want, payments []payment) *Lease {
	lease := &Lease{limiter: l, name: w.name, limits: table.LimitsOf(w.costs)}
	for _, s := range payments {
		lease.items = append(lease.items,
			leaseItem{name: w.name, key: s.image.Key(), shard: s.image.State.Shard, taken: s.costs})
	}
	k.mu.Lock()
	image := k.at(payments[0].image.State.Shard).image
	lease.status = k.status(w.name.entity, w.costs, l.now())
	k.mu.Unlock()
	lease.learn(image)
	return lease
}

// together returns from when all shards together hold the costs in whole tokens, as
// far as they are known, or Never. A shard that is not known counts as full, because it
// may be. Example: a cost of 2, and two shards that hold 0.9 each and get a token in a
// second: 1.8 are no two whole tokens now, but after 0.1 s each shard has one. What the
// shards hold only grows until they are full, so the instant is found by bisection.
func (d decider) together() int64 {
	at, full := d.now, d.now
	for _, s := range d.shards {
		if s.imaged() {
			full = max(full, s.image.State.FullAt(d.now))
		}
	}
	for _, c := range d.want.costs {
		if c.Milli == 0 {
			continue
		}
		if d.holds(c.Limit, full) < c.Milli {
			return bucket.Never
		}
		at = bucket.AddSat(at, int64(sort.Search(int(min(bucket.SubSat(full, at), math.MaxInt)), func(ms int) bool {
			return d.holds(c.Limit, bucket.AddSat(at, int64(ms))) >= c.Milli
		})))
	}
	return at
}

// holds returns what all shards together hold of a limit at an instant, in whole
// tokens of each; of more shards than can pay at once, the fullest.
func (d decider) holds(l bucket.Limit, at int64) (milli int64) {
	var all []int64
	for k := range d.count {
		level := bucket.State{Shard: k, Shards: d.count}.RateOf(l).Capacity
		if s := d.shards[k]; s.imaged() {
			level = 0
			if !s.owes(d.want, at) {
				level = s.level(l, at)
			}
		} else if d.nearest(k) != k {
			continue // it is part of another
		}
		level = max(level, 0) / bucket.Milli * bucket.Milli
		milli = bucket.AddSat(milli, level)
		if d.count > maxPaying {
			all = append(all, level)
		}
	}
	if len(all) <= maxPaying {
		return milli
	}
	slices.Sort(all)
	milli = 0
	for _, level := range all[len(all)-maxPaying:] {
		milli = bucket.AddSat(milli, level)
	}
	return milli
}

// owes reports whether the image is in debt at an instant, of any limit in force: then
// the shard pays nothing, see byLevels.
func (s *seen) owes(w want, at int64) bool {
	for i, sl := range s.image.State.Slots {
		if sl.Tokens >= 0 {
			continue
		}
		level, _ := s.image.State.LevelAt(i, at)
		if _, inForce := table.Find(w.costs, sl.Name); inForce && level < 0 {
			return true
		}
	}
	return false
}

// level is what the image holds of a limit at an instant, beside what this process
// has under way. What a limit that was lowered leaves no room for goes with the charge.
func (s *seen) level(l bucket.Limit, at int64) int64 {
	state := s.image.State
	share := state.RateOf(l).Capacity
	i := state.Index(l.Name)
	if i < 0 {
		return share
	}
	level, _ := state.LevelAt(i, at)
	return bucket.SubSat(min(level, share), s.underWay.of(l.Name))
}
