package decide

import (
	"math"
	"slices"
	"sort"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// If no single shard covers the costs, they are taken from several of them, in one transaction.

// MaxPaying is the most shards that pay for one request.
const MaxPaying = item.MaxTransactItems

// Payment is one shard's part of a request that is taken from several.
type Payment struct {
	Image table.Shard
	Costs []table.Cost // as the request has them
	Owe   bool         // they are taken into debt
}

// Write returns the shard's write. slack is how much too low it may leave a full limit, in percent
// of its capacity.
func (p Payment) Write(w Want, now, slack int64) item.Write {
	return table.Charge{
		Image: p.Image, Costs: p.Costs, Now: now, Lifetime: w.Lifetime, Slack: slack, Force: p.Owe, Owe: p.Owe,
	}.Plan().Update
}

// Taken returns what the shard has paid by that write, and of slots in which epoch.
func (p Payment) Taken(now int64) []table.Cost {
	out := slices.Clone(p.Costs)
	for i, c := range out {
		if c.Limit.Returns() && c.Milli > 0 {
			before := table.Charge{Image: p.Image, Costs: p.Costs, Now: now}.Plan().Before
			out[i].End = before.Slots[before.Index(c.Limit.Name)].End
		}
	}
	return out
}

// ByLevels divides the costs among shards, in whole tokens, the fullest first; it returns nothing
// if they do not hold enough. Each shard pays as much of every limit as it has, so few of them are
// needed. Example: of a cost of 7, shards that hold 3.5, 2.2 and 4 pay 3, none and 4. A shard in
// debt pays nothing. Shards that pay for other limits also pay what they have of soft limits, and
// the first of them owes the rest.
func ByLevels(images []table.Shard, w Want, now int64) []Payment {
	left := slices.Clone(w.Costs)
	order := slices.Clone(images)
	slices.SortStableFunc(order, func(a, b table.Shard) int { return compareLevels(b, a, w, now) })
	var out []Payment
	for _, image := range order {
		if len(out) == MaxPaying {
			break
		}
		at := table.Charge{Image: image, Costs: w.Costs, Now: now, Refill: true}.Plan().Before
		part := Payment{Image: image, Costs: slices.Clone(left)}
		pays, debt := false, false
		for i, c := range left {
			j := at.Index(c.Limit.Name)
			if j < 0 || at.Slots[j].Tokens < 0 && !c.Limit.Soft {
				debt = true
				break
			}
			part.Costs[i].Milli = min(c.Milli,
				max(bucket.SubSat(at.Slots[j].Tokens, c.FloorIn(at)), 0)/bucket.Milli*bucket.Milli)
			pays = pays || part.Costs[i].Milli > 0 && !c.Limit.Soft
		}
		if debt || !pays {
			continue
		}
		for i := range left {
			left[i].Milli -= part.Costs[i].Milli
		}
		out = append(out, part)
	}
	for i, c := range left {
		switch {
		case c.Milli == 0:
		case !c.Limit.Soft || len(out) == 0:
			return nil
		default:
			out[0].Costs[i].Milli += c.Milli
		}
	}
	return out
}

// compareLevels orders images by their level of the first limit with a cost.
func compareLevels(a, b table.Shard, w Want, now int64) int {
	for _, c := range w.Costs {
		i, j := a.State.Index(c.Limit.Name), b.State.Index(c.Limit.Name)
		if c.Milli > 0 && !c.Limit.Soft && i >= 0 && j >= 0 {
			x, y := a.State.At(now).Slots[i].Tokens, b.State.At(now).Slots[j].Tokens
			if x != y {
				return int(max(min(bucket.SubSat(x, y), 1), -1))
			}
		}
	}
	return a.State.Shard - b.State.Shard
}

// ByShares divides the costs among shards by their shares, in whole tokens: a cost of 10
// among four shards of 15 each is 3, 3, 3 and 1.
func ByShares(images []table.Shard, w Want) []Payment {
	images = images[:min(len(images), MaxPaying)]
	out := make([]Payment, len(images))
	for i := range images {
		out[i] = Payment{Image: images[i], Costs: slices.Clone(w.Costs), Owe: true}
	}
	for j, c := range w.Costs {
		whole, left := int64(0), c.Milli
		for _, b := range images {
			whole = bucket.AddSat(whole, b.State.RateOf(c.Limit).Capacity)
		}
		for i, b := range images {
			part := float64(c.Milli) * float64(b.State.RateOf(c.Limit).Capacity) / float64(max(whole, 1))
			out[i].Costs[j].Milli = min(left, int64(math.Ceil(part/bucket.Milli))*bucket.Milli)
			left -= out[i].Costs[j].Milli
		}
		out[0].Costs[j].Milli += left
	}
	return out
}

// together returns the instant from which all shards together hold the costs in whole tokens, or
// Never. An unknown shard counts as full, because it may be. Example: the cost is 2, and two shards
// hold 0.9 each and get a token in a second. Now neither has a whole token; after 0.1 s each has
// one. Levels only grow until the shards are full, so the instant is found by bisection.
func (d decider) together() int64 {
	at, full := d.now, d.now
	for _, s := range d.shards {
		if s.imaged() {
			full = max(full, s.image.State.FullAt(d.now))
		}
	}
	for _, c := range d.want.Costs {
		if c.Milli == 0 || c.Limit.Soft {
			continue
		}
		if d.holds(c, full) < c.Milli {
			return bucket.Never
		}
		at = bucket.AddSat(at, int64(sort.Search(int(min(bucket.SubSat(full, at), math.MaxInt)), func(ms int) bool {
			return d.holds(c, bucket.AddSat(at, int64(ms))) >= c.Milli
		})))
	}
	return at
}

// holds returns how much of a limit all shards together hold for a request at an instant, counting
// whole tokens above the floor of each shard. If there are more shards than can pay at once, only
// the fullest count.
func (d decider) holds(c table.Cost, at int64) (milli int64) {
	var all []int64
	for k := range d.count {
		share := bucket.State{Shard: k, Shards: d.count}
		level := share.CapacityOf(c.Limit)
		if s := d.shards[k]; s.imaged() {
			level = 0
			if !s.owes(d.want, at) {
				level, share = s.level(c.Limit, at), s.image.State
			}
		} else if d.nearest(k) != k {
			continue // it is part of another
		}
		level = max(bucket.SubSat(level, c.FloorIn(share)), 0) / bucket.Milli * bucket.Milli
		milli = bucket.AddSat(milli, level)
		if d.count > MaxPaying {
			all = append(all, level)
		}
	}
	if len(all) <= MaxPaying {
		return milli
	}
	slices.Sort(all)
	milli = 0
	for _, level := range all[len(all)-MaxPaying:] {
		milli = bucket.AddSat(milli, level)
	}
	return milli
}

// A request for several shards reads all of them first, and then sends a transaction. The tokens in
// the images may be gone by then: others take them, or this process has another such request under
// way. So costs under way count as taken; and after two late requests in a row, only one is sent
// per DenyFor, until one is granted. The first time the images may have been old; the second time
// they were just read, and others took the refill since.

// several is the state of this process's requests to several shards of a bucket at once. The zero
// value has none.
type several struct {
	underWay underWay
	vain     int // requests in a row that were denied after all shards were read
}

// vainAtMost is how many requests in a row may read all shards in vain before they pause.
const vainAtMost = 2

// gathers decides on taking the costs from several shards, which hold them together. It denies for
// as long as that is known to fail.
func (d decider) gathers(denial Choice) Choice {
	if d.attempt.Waits {
		return Choice{Do: Several}
	}
	denial.Do, denial.guess = Deny, true
	if until, paused := d.paused(); paused {
		denial.at = until
		return denial
	}
	for _, c := range d.want.Costs {
		own := d.several.underWay.of(c.Limit.Name)
		if c.Milli == 0 || own == 0 || c.Limit.Soft {
			continue
		}
		if short := bucket.SubSat(bucket.AddSat(c.Milli, own), d.holds(c, d.now)); short > 0 {
			at := bucket.AddSat(d.now, max(1, min(bucket.Wait(0, 0, c.Limit.Whole(), short), d.DenyFor)))
			denial.at, denial.Limit = at, c.Limit.Name
			return denial
		}
	}
	return Choice{Do: Several}
}

// until denies until the shards hold the costs together, and no pause is left.
func (d decider) until(denial Choice, at int64) Choice {
	denial.Do, denial.at = Deny, max(at, d.now+1)
	denial.guess = denial.guess || at <= d.now // others were faster
	if until, paused := d.paused(); paused && !d.attempt.Waits {
		denial.at, denial.guess = max(denial.at, until), true
	}
	return denial
}

// paused returns the instant until which no request reads all shards, and whether that is still to
// come.
func (d decider) paused() (until int64, paused bool) {
	return bucket.AddSat(d.readAt, d.DenyFor), d.several.vain >= vainAtMost && !d.again(d.readAt)
}

// Gather notes that a request for which [Several] was decided goes on to read all shards.
// [Bucket.Gathered] must follow, whatever the result: a decision alone may lead to nothing.
func (b *Bucket) Gather(w Want) {
	k := b.lock()
	defer b.mu.Unlock()
	k.several.underWay.add(w.Costs)
}

// Gathered notes the result of such a request: whether it was granted, or found that the shards do
// not hold enough. If it failed, neither is known.
func (b *Bucket) Gathered(w Want, granted, short bool) {
	k := b.lock()
	defer b.mu.Unlock()
	k.several.underWay.remove(w.Costs)
	k.denied = nil
	switch {
	case granted:
		k.several.vain = 0
	case short:
		k.several.vain++
	}
}
