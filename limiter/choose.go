package limiter

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// want is what a request needs of a bucket, worked out from the request and the
// configuration.
type want struct {
	namespace string
	name      name
	limits    []bucket.Limit
	costs     []table.Cost // one per limit in force, in order of name
	life      table.Lifetime
	parent    string
}

// action is what to do next about a request.
type action int

const (
	deny   action = iota // no shard can cover it, and asking again is no use yet
	never                // no shard can ever hold that much
	charge               // write: take the costs from a shard
	create               // write: the bucket does not exist
	reopen               // write: shard 0 of a split bucket has been deleted
	mend                 // write: set a clock that is missing or broken; nothing is taken
)

// choice is the decision about one attempt.
type choice struct {
	action action
	shard  int
	write  item.Write
	from   *bucket.State // the image of the shard, nil if none is known
	asks   bool          // the write is meant to bring a newer image: it is not planned from the one known
	clock  bool          // the write moves the bucket's clock
	hot    bool          // the partition's write meter is exhausted
	at     int64
	short  string // the limit that takes longest, when denied
}

// chooser decides one attempt from a view. It performs no I/O; now and the
// random number that picks the shard are given.
type chooser struct {
	view    view
	want    want
	now     int64
	denyFor int64        // how long, in ms, an image may deny without asking
	asked   map[int]bool // shards written to in this call: their images are as fresh as can be
	pick    uint64
}

// choose picks a shard and a write shape, or denies. Shards are tried from a
// random one on: the first that its image says can pay, or that is not known,
// is written to; then one whose image is too old to deny by; if all known
// images are fresh and cannot pay, the request is denied without I/O (D4).
func (c chooser) choose() choice {
	if z, ok := c.view.shards[0]; ok && z.absent {
		return c.createBucket()
	}
	n := c.view.count
	start := int(c.pick % uint64(n))
	denied := choice{action: never, at: bucket.Never}
	stale, staleAt := -1, int64(bucket.Never)
	seen := make(map[int]bool, n)
	for i := range n {
		k := c.open((start + i) % n)
		if seen[k] {
			continue
		}
		seen[k] = true
		image, known := c.view.shards[k]
		if !known || image.absent {
			return c.ask(k)
		}
		got := c.evaluate(image.bucket)
		if got.action != deny && got.action != never {
			return got
		}
		denied = sooner(denied, got)
		if c.outlived(image, c.denyFor) && (stale < 0 || got.at < staleAt) {
			stale, staleAt = k, got.at
		}
	}
	if stale >= 0 && len(c.asked) == 0 {
		return c.ask(stale) // one look is enough: it is the shard that recovers first
	}
	return denied
}

// sooner returns the denial that ends first. One that ends never yields to any
// other.
func sooner(a, b choice) choice {
	if b.action == deny && (a.action == never || b.at < a.at) || a.short == "" {
		return b
	}
	return a
}

// giveUp returns the denial for a request that has written as often as it may and
// was refused each time, because others took what there was or because there are
// more empty shards than can be asked: until the shard recovers that does so
// first, or if all images show enough, for the time in which the costs refill.
func (c chooser) giveUp() choice {
	got := choice{action: never, at: bucket.Never}
	last := choice{action: deny, at: c.now}
	for _, k := range slices.Sorted(maps.Keys(c.view.shards)) {
		s := c.view.shards[k]
		if s.absent {
			continue
		}
		one := c.evaluate(s.bucket)
		if one.action == deny {
			got = sooner(got, one)
		}
		last.shard = k
	}
	if got.action == deny {
		return got
	}
	state := c.view.shards[last.shard].bucket.State
	for i, l := range c.want.limits {
		at := bucket.AddSat(c.now, bucket.Wait(0, 0, state.RateOf(l), c.want.costs[i].Milli))
		if at >= last.at {
			last.at, last.short = at, l.Name
		}
	}
	return last
}

// open returns the shard to use for pick k: k itself, or the shard it is or
// will be split from when it is not there.
func (c chooser) open(k int) int {
	for k > 0 {
		s, known := c.view.shards[k]
		if known && s.absent && c.outlived(s, absentFor) {
			known = false // somebody may have opened it since
		}
		if known && !s.absent {
			return k
		}
		parent, ok := c.view.shards[bucket.SplitParent(k)]
		opened := !ok || parent.absent || parent.bucket.State.Shards >= bucket.OpenedAt(k)
		if !known && opened {
			return k
		}
		k = bucket.SplitParent(k)
	}
	return 0
}

// ask returns the write for a shard that is not known well enough to decide: a
// spend that holds only under the limits in force. If it is refused, the image
// comes back.
func (c chooser) ask(k int) choice {
	unseen := table.Unseen(c.want.namespace, c.want.name.entity, c.want.name.resource, k, c.view.count,
		c.want.limits, c.want.costs, c.now)
	u, _ := table.Spend{Image: unseen, Limits: c.want.limits, Costs: c.want.costs, Now: c.now}.Plan()
	out := choice{action: charge, shard: k, write: u, asks: true}
	if s, known := c.view.shards[k]; known && !s.absent {
		out.from = &s.bucket.State
	}
	return out
}

// outlived tells whether an image is older than ms, or was seen when the clock
// showed a later time than now.
func (c chooser) outlived(s seenShard, ms int64) bool {
	return c.now-s.at >= ms || c.now < s.at
}

// evaluate decides on one shard from its image.
func (c chooser) evaluate(b table.Bucket) choice {
	plan := table.Charge{
		Image: b, Limits: c.want.limits, Costs: c.want.costs, Now: c.now, Life: c.want.life,
		Headroom: c.view.headroom(), Guess: !c.asked[b.State.Shard],
	}.Plan()
	out := choice{
		shard: b.State.Shard, from: &b.State, clock: plan.Shape != table.ShapeSpend,
		hot: plan.Hot, at: plan.Verdict.At, short: plan.Short,
	}
	switch {
	case !plan.Verdict.Granted && plan.Verdict.At == bucket.Never:
		out.action = never
	case !plan.Verdict.Granted && (b.State.NoClock || bucket.SubSat(b.State.RF, c.now) > bucket.MaxSkew):
		// Without a clock to refill from, the denial would never end.
		out.action, out.clock = mend, true
		out.write = table.Refill{Image: b, Want: c.want.limits, Now: c.now, Life: c.want.life}.Plan().Update
	case !plan.Verdict.Granted:
		out.action = deny
	default:
		out.action, out.write = charge, plan.Update
	}
	return out
}

// createBucket returns the write for a bucket whose shard 0 is not there: a full
// bucket, unless shards are known to exist whose tokens would be minted a second
// time; then shard 0 comes back empty with the count they have.
func (c chooser) createBucket() choice {
	fresh := table.NewBucket{
		Namespace: c.want.namespace, Entity: c.want.name.entity, Resource: c.want.name.resource,
		Parent: c.want.parent,
		Limits: c.want.limits, Costs: c.want.costs, Life: c.want.life, Now: c.now,
	}
	if c.view.count > 1 {
		fresh.Costs = nil
		put, _ := table.CreateEmpty(fresh, c.view.count)
		return choice{action: reopen, write: put}
	}
	put, _ := table.Create(fresh)
	return choice{action: create, write: put}
}

// remaining sums what the known shards hold of each limit in force at now, in
// whole tokens.
func (c chooser) remaining() []int64 {
	milli := make([]int64, len(c.want.limits))
	for _, s := range c.view.shards {
		if s.absent {
			continue
		}
		st := s.bucket.State.At(c.now)
		for i, l := range c.want.limits {
			if j := st.Index(l.Name); j >= 0 {
				milli[i] = bucket.AddSat(milli[i], st.Slots[j].Tokens)
			}
		}
	}
	for i := range milli {
		milli[i] = floorDiv(milli[i], bucket.Milli)
	}
	return milli
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

const (
	// contended is the share of lost races, of 1024, from which on a bucket
	// counts as contended.
	contended = 300
	// headroom is how much refill, in ms, a full limit gives up then: longer
	// than a write takes, and too short to be missed.
	headroom = 50
)

func (v view) headroom() int64 {
	if v.races >= contended {
		return headroom
	}
	return 0
}

// absentFor is how long, in ms, a missing shard is not asked for again.
const absentFor = 10_000

func random() uint64 { return rand.Uint64() }
