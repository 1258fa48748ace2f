package admin

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Bucket is what an entity has left on a resource, all shards together.
type Bucket struct {
	Entity, Resource string
	// Exists reports whether it is stored. A bucket that is not stored is full: nothing was taken
	// yet, or so long ago that it does not matter.
	Exists bool
	Shards int // that exist
	// Denied is how many requests were denied in the life of the existing shards. A process counts
	// them with its next write on the bucket; denials that it has not written when it ends are not
	// counted.
	Denied int64
	// Stored reports whether limits are stored for it; From is the scope whose limits are in force
	// then.
	Stored bool
	From   Scope
	// Levels has one entry per limit of the bucket, sorted by name. For a bucket that does not
	// exist they are the stored limits.
	Levels []Level
	// Parent and Cascade are the entity's, as stored in the bucket.
	Parent  string
	Cascade bool
	// Expires is when an unused bucket is removed; zero: never.
	Expires time.Time
}

// Level is the state of one limit.
type Level struct {
	// Limit is the limit as it is in force: in a window of its Schedule, with what that changes,
	// and raised.
	limiter.Limit
	// Raises are part of it while they last: see [Namespace.Raise].
	Raises []Raise
	// ChangesIn is how long its Schedule and Raises leave it so; zero: it has none, or they no
	// longer change it.
	ChangesIn time.Duration
	// Stored reports whether the limit is stored as it is here. A limit that is not came with a
	// request, or was stored before.
	Stored    bool
	Remaining int64 // whole tokens, rounded down; negative when in debt
	// Used is how many whole tokens were taken and not given back, in the life of the bucket. Tokens
	// taken ahead no longer count once a process has reported that they expired unused. For an
	// in-flight limit it is how many slots are taken.
	Used int64
	// Held is the most tokens that processes may hold in addition to Remaining (see
	// limiter.Options.Ahead).
	Held int64
	// FullIn is how long it takes to fill up; zero if it is full, negative if it never will be: the
	// limit is blocked, or owes more than is refilled in 292 years. Held tokens leave no room to
	// refill until they are spent or expire.
	FullIn time.Duration
}

const never time.Duration = -1

// longestIn is how many milliseconds a Duration holds.
const longestIn = math.MaxInt64 / int64(time.Millisecond)

// maxCharged is how many generations above an entity are ever charged with it.
const maxCharged = 4

// Peek returns the bucket of an entity on a resource, refilled to now, followed by its parents'
// buckets for as long as each cascades. It takes nothing and writes nothing. The error is
// limiter.ErrNoLimits if no limits are stored for the entity and it has no bucket. A bucket that
// cannot be read is left out; the others are returned together with a limiter.ErrUnreadable that
// names it.
func (n *Namespace) Peek(ctx context.Context, entity, resource string) ([]Bucket, error) {
	if err := checkPair(entity, resource); err != nil {
		return nil, err
	}
	var out []Bucket
	var odd error // of what cannot be read
	for id, above := entity, 0; id != "" && above <= maxCharged; above++ {
		b, err := n.peek(ctx, id, resource)
		if err == nil && len(b.Levels) == 0 {
			err = limiter.ErrNoLimits
		}
		err = fail(err, "peek %q", id+"/"+resource)
		switch {
		case err == nil:
			out = append(out, b)
		case errors.Is(err, limiter.ErrUnreadable):
			odd = errors.Join(odd, err)
		default:
			return out, err
		}
		e, err := n.entity(ctx, id)
		if err != nil {
			return out, fail(err, "peek %q: parent", id+"/"+resource)
		}
		if id = ""; e.Cascade && !slices.ContainsFunc(out, func(b Bucket) bool { return b.Entity == e.Parent }) {
			id = e.Parent
		}
	}
	return out, odd
}

func (n *Namespace) peek(ctx context.Context, entity, resource string) (Bucket, error) {
	in, err := n.inForce(ctx, entity, resource)
	if err != nil {
		return Bucket{}, err
	}
	shards, err := n.shards(ctx, entity, resource)
	if err != nil {
		return Bucket{}, err
	}
	return whole(Scope{entity, resource}, in, shards, n.table.now()), nil
}

// whole adds the shards of a bucket up, with the limits in force.
func whole(of Scope, in inForce, shards []table.Shard, now int64) Bucket {
	out := Bucket{Entity: of.Entity, Resource: of.Resource, Exists: len(shards) > 0, Shards: len(shards),
		Stored: in.limits != nil, From: in.at}
	for _, b := range shards {
		out.Denied += b.Denied / bucket.Milli
	}
	limits := in.limits
	if len(shards) > 0 {
		first := shards[0]
		out.Parent, out.Cascade = first.Parent, first.Cascade
		if first.TTL > 0 {
			out.Expires = time.Unix(first.TTL, 0).UTC()
		}
		limits = limitsOf(shards)
	}
	for _, l := range limits {
		i := slices.IndexFunc(in.limits, func(stored bucket.Limit) bool { return inBucket(stored) == inBucket(l) })
		if i >= 0 {
			l = in.limits[i]
		}
		one := level(l, shards, now)
		one.Stored = i >= 0
		out.Levels = append(out.Levels, one)
	}
	return out
}

// inBucket returns what buckets store of a limit: neither floors nor for how long it is taken
// ahead.
func inBucket(l bucket.Limit) bucket.Limit {
	l = l.Own().WithRaises("")
	l.Floors, l.Ahead = "", 0
	return l
}

// limitsOf returns the limits that any shard has, in order of name.
func limitsOf(shards []table.Shard) (out []bucket.Limit) {
	for _, s := range shards {
		for _, l := range s.State.Limits() {
			if !slices.ContainsFunc(out, func(o bucket.Limit) bool { return o.Name == l.Name }) {
				out = append(out, l)
			}
		}
	}
	slices.SortFunc(out, func(a, b bucket.Limit) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// level adds one limit up over the shards.
func level(l bucket.Limit, shards []table.Shard, now int64) Level {
	out := levelOf(l.InForce(now), now)
	if edge := l.Changes(now); edge != bucket.Never {
		out.ChangesIn = time.Duration(min(bucket.SubSat(edge, now), longestIn)) * time.Millisecond
	}
	if out.IsBlocked() {
		out.Remaining, out.FullIn = 0, never // nobody gets the token that it is stored with
		return out
	}
	if len(shards) == 0 {
		return out
	}
	var used table.Counter
	var tokens, held, wait int64
	for _, b := range shards {
		s, _ := b.State.At(now).Adopt(l)
		i := s.Index(l.Name)
		tokens = bucket.AddSat(tokens, s.Slots[i].Tokens)
		used = used.Plus(b.Spent(s.Slots[i]))
		if s.HeldAfter(s.RF) > s.RF {
			held = bucket.AddSat(held, s.Slots[i].Held)
		}
		wait = max(wait, s.Wait(i, s.Rate(i).Capacity))
	}
	if out.FullIn = time.Duration(wait) * time.Millisecond; wait > longestIn {
		out.FullIn = never
	}
	out.Remaining, out.Used = bucket.WholeTokens(tokens), used.Tokens()
	out.Held = held / bucket.Milli
	if l.Returns() {
		out.Used = out.Capacity - out.Remaining
	}
	return out
}

// levelOf is a full level of a limit with the parameters that it has now.
func levelOf(l bucket.Limit, now int64) Level {
	schedule, raises := l.Schedule(), l.Raises()
	l.Plan = ""
	out := Level{Limit: publicLimit(l), Remaining: l.Capacity / bucket.Milli}
	out.Schedule = schedule
	out.Raises = raisesOf(l.Name, bucket.LastingRaises(raises, now))
	return out
}

// Buckets lists the buckets that exist in a scope: of an entity, of a resource, of an entity on a
// resource, or all. One that cannot be read comes with a limiter.ErrUnreadable and only its Entity
// and Resource, and the listing goes on; any other error ends it.
func (n *Namespace) Buckets(ctx context.Context, at Scope) iter.Seq2[Bucket, error] {
	if err := at.validate(); err != nil {
		return failing[Bucket](err)
	}
	return func(yield func(Bucket, error) bool) {
		for of, err := range n.bucketsAt(ctx, at) {
			var b Bucket
			if err == nil {
				b, err = n.peek(ctx, of.Entity, of.Resource)
			}
			err = fail(err, "list buckets of %s", at)
			if errors.Is(err, limiter.ErrUnreadable) {
				if !yield(Bucket{Entity: of.Entity, Resource: of.Resource}, err) {
					return
				}
				continue
			}
			if err != nil {
				yield(Bucket{}, err)
				return
			}
			if b.Exists && !yield(b, nil) {
				return
			}
		}
	}
}
