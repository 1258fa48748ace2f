package limiter

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that waits takes its costs at once, into debt, and may go on when the
// level is back at zero. So everybody who comes later waits for longer, large and
// small, in every process; while there is debt, Acquire is denied. Those who owe are
// the queue, and the debt is bounded; who finds it full stands in line (see line).

// Wait acquires, and waits until the tokens are there, or ctx ends. It sends one write
// that takes them into debt, sleeps for exactly as long as that says, and gives them
// back if ctx ends first. It wakes sooner if this process gives back tokens that were
// taken before, unless they were taken from several shards; what other processes give
// back does not wake it. While others wait, requests that do not wait are denied.
//
// Where the queue is full (see [ErrQueueFull]), it waits until there is room and takes
// the tokens then. The requests of one process are let in in the order in which they
// came, as many at once as there is room for; which of several processes is next is
// chance.
//
// The order is that in which DynamoDB has taken the writes, on one shard and while
// nobody leaves. A bucket of several shards has a queue for each, and a request goes
// to the one that is paid back first: requests may pass others by as much as those
// differ. What somebody who leaves gives back, or a lease that has cost less, is there
// for those who come next, also before sleepers of other processes.
//
// A wait that would exceed the deadline of ctx is denied as soon as that is known,
// with a *LimitError: at once, unless others stand in line before it. Costs above the
// capacity are ErrTooLarge. Other errors are those of [Limiter.Acquire]; when ctx ends
// while it waits, it is ErrCanceled, joined with a *SettleError if the tokens could not
// be given back.
func (l *Limiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	until := int64(bucket.Never)
	if deadline, ok := ctx.Deadline(); ok {
		until = bucket.AddSat(l.now(), time.Until(deadline).Milliseconds())
	}
	begin, tries := l.begin(), &attempt{waits: &waits{until: until}}
	lease, err := l.wait(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, err
}

// wait takes the costs, as soon as the queue has room for them, and sleeps until they
// are paid back.
func (l *Limiter) wait(ctx context.Context, req Request, tries *attempt) (*Lease, error) {
	n := name{req.Entity, req.Resource}
	tries.waits.inLine = l.lines.any(n)
	lease, after, err := l.reserve(ctx, req, tries)
	if queueFull(err) != nil {
		lease, after, err = l.standInLine(ctx, n, req, tries)
	}
	if err != nil || after == 0 {
		return lease, err
	}
	if l.sleep(ctx, lease, after) {
		return lease, nil
	}
	return nil, errors.Join(canceled("wait", lease.name, context.Cause(ctx), nil), lease.Rollback(ctx))
}

// queueFull returns the denial of a request that found the queue full, nil for any other
// error: also if tokens that it had taken could not be given back, for then trying again
// would hide them from the caller.
func queueFull(err error) *LimitError {
	denied, ok := errors.AsType[*LimitError](err)
	if _, kept := errors.AsType[*SettleError](err); !ok || !denied.full || kept {
		return nil
	}
	return denied
}

// Reserve is Wait without the waiting: the tokens are taken, and the request may go
// on after the time that is returned, zero if at once. Roll the lease back if that
// is too long. Where the queue is full, it is denied with [ErrQueueFull]. The deadline
// of ctx bounds the call only.
func (l *Limiter) Reserve(ctx context.Context, req Request) (*Lease, time.Duration, error) {
	begin, tries := l.begin(), &attempt{waits: &waits{until: bucket.Never}}
	lease, after, err := l.reserve(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, after, err
}

// reserve takes the costs, into debt if that is paid back in time.
func (l *Limiter) reserve(ctx context.Context, req Request, tries *attempt) (*Lease, time.Duration, error) {
	lease, err := l.acquire(ctx, req, tries)
	if err != nil || tries.waits.at == 0 {
		return lease, 0, err
	}
	return lease, wait(l.now(), max(tries.waits.at, l.now())), nil
}

// waits is how a request waits.
type waits struct {
	until  int64 // it does not wait for longer, epoch ms
	at     int64 // when it may go on, epoch ms; zero: at once
	inLine bool  // others of this process stand in line, so it owes nothing yet
}

// behind turns the denial of a request that waits into a write that takes the costs into
// debt: on the shard where that is paid back first, or on all of them if no single one
// can hold the costs. Example: 3 tokens are there, 10 are refilled per second. A cost of 8
// leaves a level of -5, which is back at zero in half a second. It stays a denial if that
// is later than the request waits for, or if more is owed already than a capacity.
func (d decider) behind(c choice) choice {
	out := choice{action: deny, shard: -1, at: bucket.Never}
	for n, s := range d.shards {
		if n >= d.count || !s.imaged() {
			continue
		}
		if v, short := s.verdict(d.want, d.now); out.shard < 0 || v.At < out.at {
			out.shard, out.at, out.short = n, v.At, short
		}
	}
	if out.shard < 0 || d.attempt.rounds >= 2*maxRounds { // nothing is known to owe to, or others keep winning
		c.full = c.action == deny
		return c
	}
	together := out.at == bucket.Never && d.count > 1
	room, full, crowded := d.room(out.shard, together)
	if together {
		out.at = max(c.at, d.now)
	}
	late := out.at > d.attempt.waits.until
	full = full || d.attempt.waits.inLine
	switch {
	case (late || full) && c.look && !d.attempt.waits.inLine: // the image is old: ask before denying
		return c
	case late: // it would wait for too long
		out.at = max(out.at, d.now+1)
		return out
	case full:
		return choice{action: deny, full: true, at: max(room, d.now+1), short: cmp.Or(crowded, d.want.costs[0].Limit.Name)}
	case together: // each shard owes its part
		out.action = several
	default: // the shard where the debt is paid back first owes all
		out.action = write
	}
	out.owe = true
	return out
}

// room returns from when the queue of a shard, or of all, has room by their images, and
// whether it is full, which it may be for a moment by what this process has under way.
func (d decider) room(shard int, all bool) (at int64, full bool, limit string) {
	for n, s := range d.shards {
		if n >= d.count || !s.imaged() || n != shard && !all {
			continue
		}
		then, by := roomIn(s.image, d.want, func(string) int64 { return 0 })
		soon, _ := roomIn(s.image, d.want, s.underWay.of)
		if full = full || soon > d.now; then > at {
			at, limit = then, by
		}
	}
	return at, full, limit
}

// roomIn returns from when the queue of a shard has room: when those who came before
// owe no more than its capacity of any limit. The last one who is let in waits for two
// capacities at most. Less is what has been taken beside the image. Example: a level of
// -25 of a capacity of 20 has room when 5 tokens are refilled. It is 0 if there has been
// room all along, else it names the limit.
func roomIn(b table.Shard, w want, less func(limit string) int64) (at int64, limit string) {
	for _, c := range w.costs {
		i := b.State.Index(c.Limit.Name)
		if i < 0 {
			continue
		}
		sl, r := b.State.Slots[i], b.State.RateOf(c.Limit)
		level := bucket.SubSat(sl.Tokens, less(c.Limit.Name))
		if need := bucket.Wait(level, sl.Rest, r, -r.Capacity); need > 0 {
			if then := bucket.AddSat(b.State.RF, need); then > at {
				at, limit = then, c.Limit.Name
			}
		}
	}
	return at, limit
}

// paidBack returns from when the levels of some limits are back at zero.
func paidBack(b table.Shard, limits []string) int64 {
	at := int64(0)
	for _, l := range limits {
		if i := b.State.Index(l); i >= 0 && b.State.Slots[i].Tokens < 0 {
			sl := b.State.Slots[i]
			at = max(at, bucket.AddSat(b.State.RF, bucket.Wait(sl.Tokens, sl.Rest, b.State.Rate(i), 0)))
		}
	}
	return at
}

// place tells a request that waits from when it may go on, by the images of what it
// has been charged to. If that is too late, because others had come before whom the
// limiter did not know of, everything is given back and the request denied.
func (l *Limiter) place(ctx context.Context, k *known, w want, lease *Lease, tries *attempt) error {
	q, images := tries.waits, []table.Shard{lease.image}
	if len(lease.items) > 1 { // a transaction brings no images
		var err error
		if images, err = l.readShards(ctx, k, w); err != nil {
			return keptBy(err, lease.Rollback(ctx))
		}
	}
	q.at = 0
	full := false
	for _, b := range images {
		for _, it := range lease.items {
			if it.shard == b.State.Shard {
				q.at = max(q.at, paidBack(b, limitNames(w.costs)))
				room, _ := roomIn(b, w, func(limit string) int64 { return -it.held(limit) })
				full = full || len(lease.items) == 1 && room > b.State.RF
			}
		}
	}
	if q.at <= q.until && !full {
		return nil
	}
	q.at = 0
	err := lease.Rollback(ctx)
	return errors.Join(k.refusal(w, l.now(), q.until), err)
}

// keptBy is what is known of a request that a call has ended after it had taken its
// costs: if these could not be given back, they may be taken. What somebody has to set
// right stays that.
func keptBy(err, notGivenBack error) error {
	if notGivenBack == nil || store.KindOf(err) == store.Setup {
		return errors.Join(err, notGivenBack)
	}
	return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(err, notGivenBack)}
}

// refusal returns the denial of a request that does not wait for as long as it
// would have to, or is not let into the queue.
func (k *known) refusal(w want, now, until int64) *LimitError {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := decider{known: k, want: w, now: now, attempt: &attempt{waits: &waits{until: until, inLine: true}}}
	return d.explain(d.behind(choice{action: deny, at: now + 1}))
}

// explain is the error of a denial that holds for requests that wait only.
func (d decider) explain(c choice) *LimitError {
	kept := d.denied
	defer func() { d.known.denied = kept }()
	return d.remember(c).error(d.now)
}

// byShares divides the costs among shards by their shares, in whole tokens: a cost of 10
// among four shards of 15 each is 3, 3, 3 and 1.
func byShares(images []table.Shard, w want) []payment {
	images = images[:min(len(images), maxPaying)]
	out := make([]payment, len(images))
	for i := range images {
		out[i] = payment{image: images[i], costs: slices.Clone(w.costs), owe: true}
	}
	for j, c := range w.costs {
		whole, left := int64(0), c.Milli
		for _, b := range images {
			whole = bucket.AddSat(whole, b.State.RateOf(c.Limit).Capacity)
		}
		for i, b := range images {
			part := float64(c.Milli) * float64(b.State.RateOf(c.Limit).Capacity) / float64(max(whole, 1))
			out[i].costs[j].Milli = min(left, int64(math.Ceil(part/bucket.Milli))*bucket.Milli)
			left -= out[i].costs[j].Milli
		}
		out[0].costs[j].Milli += left
	}
	return out
}
