package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Config is what an operator decides. All fields are required.
type Config struct {
	Windows         []Window
	SnapshotTTLDays int // days that a snapshot outlives its window
	MaxShards       int
}

// Plan is what a batch asks for, usage apart. Its parts do not depend on each other: each is
// conditional, and each may be written twice, or half, or not at all, without
// harm to the others.
type Plan struct {
	Refills   []Refill   // buckets that would run dry
	Splits    []Split    // shards to be opened or to catch up
	Lifetimes []Lifetime // ttls that would end too early
}

// Decide returns the plan for a folded batch, usage apart. If the batch arrives
// again, everything is refused by the image it was planned from. Shards that were
// removed need nothing.
func Decide(buckets []Bucket, now int64, conf Config) Plan {
	var p Plan
	buckets = slices.DeleteFunc(slices.Clone(buckets), func(b Bucket) bool { return !b.alive() })
	for len(buckets) > 0 {
		n := 1
		for n < len(buckets) && buckets[n].sibling(buckets[0]) {
			n++
		}
		shards := buckets[:n]
		splits := splits(shards, conf.MaxShards)
		p.Splits = append(p.Splits, splits...)
		for _, b := range shards {
			p.keepWarm(b, now, splits)
		}
		buckets = buckets[n:]
	}
	return p
}

// keepWarm plans the refill of a shard, or else what its lifetime needs. A
// shard that is about to be split is left alone: the split is planned from the
// same image.
func (p *Plan) keepWarm(b Bucket, now int64, splits []Split) {
	for _, s := range splits {
		if s.changes(b.Shard) {
			return
		}
	}
	r := Refill{Bucket: b}
	if _, due := r.Write(b.last().New, now); due {
		p.Refills = append(p.Refills, r)
		return
	}
	l := Lifetime{Bucket: b}
	if _, due := l.Write(now); due {
		p.Lifetimes = append(p.Lifetimes, l)
	}
}

// Refill is the refill of one shard.
type Refill struct{ Bucket }

// Resume is the sequence number to resume from if the refill is not written.
func (r Refill) Resume() string { return r.last().Sequence }

// Image is the newest image that the batch holds.
func (r Refill) Image() table.Bucket { return r.last().New }

// Write returns the refill of the shard as it is in image; due is false if none
// is called for. One is called for when the stored level of some limit does not
// cover what this batch took from it once more, or the stored write meter is below
// half, and that limit gains a token or more by it: less is not worth a write. All
// limits are credited. An image with limits that cannot be refilled is left to the
// clients, who know what the limits should be.
func (r Refill) Write(image table.Bucket, now int64) (w item.Update, due bool) {
	if len(image.Partial) > 0 {
		return item.Update{}, false
	}
	spent := r.spent(image.State)
	plan := table.Charge{Image: image, Now: now}.Plan()
	for i, sl := range image.State.Slots {
		low := spent[i] > 0 && sl.Tokens < spent[i]
		if sl.Name == bucket.WCU { // other clients double the shards when it seems empty
			low = low || sl.Tokens < sl.Capacity/2
		}
		if j := plan.Before.Index(sl.Name); low && j >= 0 && plan.Before.Slots[j].Tokens-sl.Tokens >= bucket.Milli {
			return plan.Update, true
		}
	}
	return item.Update{}, false
}

// Lifetime mends the ttl of one shard: a split bucket must not expire at all,
// an unsplit one not before it is full.
type Lifetime struct{ Bucket }

// Resume is the sequence number to resume from if it is not written.
func (l Lifetime) Resume() string { return l.last().Sequence }

// Write returns the update; due is false if the ttl is as it should be.
func (l Lifetime) Write(now int64) (w item.Update, due bool) {
	image := l.last().New
	if image.TTL != 0 && image.State.Shards > 1 {
		return table.KeepForever(l.key()), true
	}
	if len(image.Partial) > 0 {
		return item.Update{}, false
	}
	return table.Prolong(image, now)
}

// maxCount is the highest count of shards that is believed: the most that any
// configuration allows. Catching up with a count costs writes for every shard
// below it, so one wrong attribute could ask for a million of them.
const maxCount = 1024

// Split is a step in the life of a bucket's shards: shard 0 doubles, or others
// catch up with it.
type Split struct {
	Zero   table.Bucket   // image of shard 0; for a single shard, its own
	Others []table.Bucket // images of other shards, if known
	Double bool           // shard 0 is to be doubled; otherwise the others catch up
	Count  int            // the count to reach
	First  string         // sequence number to resume from if it is not written
}

// Resume is the sequence number to resume from if the split is not finished.
func (s Split) Resume() string { return s.First }

// Steps returns the plan of the steps.
func (s Split) Steps() *shard.Plan {
	switch {
	case s.Double:
		return shard.Double(s.Zero)
	case s.Zero.State.Shard != 0:
		return shard.Follow(s.Zero, s.Count)
	}
	return shard.Propagate(s.Zero, s.Others...)
}

// changes tells whether the split is likely to write the shard.
func (s Split) changes(k int) bool {
	if s.Double || s.Zero.State.Shard != 0 {
		return k == s.Zero.State.Shard
	}
	for _, o := range s.Others {
		if o.State.Shard == k {
			return o.State.Shards < s.Count
		}
	}
	return false
}

// splits returns what the shards of one bucket, sorted, ask for.
//
//   - Shard 0 has grown: the others catch up. Growth is in the stream once, so
//     it counts whether or not anything was consumed.
//   - A shard is seen behind the count of shard 0: it catches up. That mends
//     what an earlier invocation left unfinished.
//   - Shard 0 is hot or at its limit: it doubles.
//
// A count above maxCount is not followed.
func splits(shards []Bucket, maxShards int) []Split {
	zero := shards[0]
	if zero.Shard != 0 || len(zero.last().New.Partial) > 0 {
		return nil
	}
	image := zero.last().New
	count := image.State.Shards
	if count > maxCount {
		return nil
	}
	var out []Split
	if at := grown(zero); at != "" {
		s := Split{Zero: image, Count: count, First: at}
		for _, b := range shards[1:] {
			s.Others = append(s.Others, b.last().New)
		}
		out = append(out, s)
	} else {
		for _, b := range shards[1:] {
			if o := b.last().New; o.State.Shards < count && b.Shard < count && len(o.Partial) == 0 {
				out = append(out, Split{Zero: o, Count: count, First: b.last().Sequence})
			}
		}
	}
	if hot(zero) && image.State.CanSplit(maxShards) {
		out = append(out, Split{Zero: image, Double: true, Count: 2 * count, First: zero.last().Sequence})
	}
	return out
}

// grown returns the sequence number of the first change that raised the shard
// count, empty if none did. A shard 0 that appears with more than one shard has
// siblings somewhere.
func grown(zero Bucket) string {
	for _, c := range zero.Changes {
		if c.Kind != stream.Remove && c.New.State.Shards > max(1, c.OldShards) {
			return c.Sequence
		}
	}
	return ""
}

// hot tells whether the partition of shard 0 is written to, at the newest count,
// nearly as often as it can be: either its write meter was exhausted, or it was
// busy for a second.
func hot(zero Bucket) bool {
	newest := zero.last().New.State.Shards
	for _, c := range zero.Changes {
		if c.New.State.Shards == newest && exhausted(c) {
			return true
		}
	}
	return busy(zero.Changes, newest)
}

// busy tells whether the changes created within one second took four fifths of
// what the meter refills in a second. The meter of a key that is written to at
// its very limit is never exhausted: DynamoDB refuses what would exhaust it, and
// a refused write is not in the stream. A stand-in that rounds the time of
// creation more coarsely is seen through by the refill instants: those of one
// second lie within one.
func busy(changes []*stream.Change, shards int) bool {
	var second, taken, first, last int64
	for _, c := range changes {
		i := c.New.State.Index(bucket.WCU)
		if c.New.State.Shards != shards || i < 0 {
			continue
		}
		if s := c.Created - mod(c.Created, 1000); s != second {
			second, taken, first, last = s, 0, 0, 0
		}
		for _, d := range c.Deltas {
			if d.Limit == bucket.WCU {
				taken = bucket.AddSat(taken, d.Milli)
			}
		}
		if c.Refilled {
			if first == 0 {
				first = c.New.State.RF
			}
			last = c.New.State.RF
		}
		wcu := c.New.State.Slots[i]
		perSecond := bucket.Potential(0, bucket.Rate{Amount: wcu.Amount, Period: wcu.Period}, 1000)
		if last-first <= 1000 && taken >= perSecond-perSecond/5 {
			return true
		}
	}
	return false
}

// exhausted tells whether the meter, refilled to the instant of the change, could
// not pay one more write. Instants are known to the second and rounded down, so
// the refill is not overestimated.
func exhausted(c *stream.Change) bool {
	s := c.New.State
	i := s.Index(bucket.WCU)
	if i < 0 || s.NoClock {
		return false
	}
	wcu := s.Slots[i]
	second := c.Created - mod(c.Created, 1000)
	gain := bucket.Refill(wcu.Tokens, wcu.Rest, s.Rate(i), max(0, second-s.RF))
	return bucket.AddSat(wcu.Tokens, gain.Credit) < bucket.WCUPerWrite
}
