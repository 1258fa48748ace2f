package stream

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Operation is the kind of a bucket change.
type Operation uint8

// Operations.
const (
	Insert Operation = iota + 1 // the bucket was created
	Modify                      // the bucket was changed
	Remove                      // the bucket was removed, for any reason
)

// Change is the content of one stream record about one bucket shard.
type Change struct {
	Operation Operation
	Stream    int64  // when the stream was enabled, epoch seconds; 0 if its name does not show it
	Sequence  string // as delivered: decimal digits, possibly with leading zeros; orders the records of one stream
	Created   int64  // when the change was made, epoch milliseconds

	// New is the shard after the change. Limits with missing attributes or non-positive parameters
	// are in Partial. For a removed shard, only namespace, entity, resource and shard are set.
	New table.Shard

	// Used is the counters of both images, sorted by limit, whether or not they grew. It excludes
	// wcu, and includes [bucket.Denied] if denials were counted.
	Used []Used

	Metered int64 // how much of wcu was taken, in millitokens

	// OldGeneration and OldRF are the generation and the refill instant (epoch milliseconds) of the
	// old image, or 0 if there is none.
	OldGeneration, OldRF int64

	// OldBorn is when the shard of the old image was created, epoch seconds; 0 if there is no old
	// image, or it does not store it.
	OldBorn int64

	OldShards int // count before the change, 0 when the bucket was created
}

// Used is one consumption counter before and after a change, without the prefetched tokens that
// expired unspent, as in [table.Counter.Mark]. A missing counter is 0.
type Used struct {
	Limit         string
	Before, After int64
	Was, Is       bool // whether the old and the new image have the counter

	// Milli is the growth in millitokens, 0 if the new image lacks the counter. It may be negative:
	// tokens were given back, or prefetched and never granted.
	Milli int64
}

// Malformed is a record that can never be decoded.
type Malformed struct {
	Sequence string // empty if it could not be read either
	Created  int64  // epoch milliseconds, 0 if it could not be read
	Reason   string
	Raw      []byte // the record's JSON; part of the payload, not a copy
}

// Batch is a decoded payload.
type Batch struct {
	Records   int // all delivered records
	Changes   []Change
	Malformed []Malformed
	Ignored   int   // items other than buckets
	Oldest    int64 // the smallest Created of the changes, 0 without changes

	// Tumbling is zero unless the event source mapping has a tumbling window.
	Tumbling Tumbling
}

// Tumbling is the payload's part about its tumbling window.
type Tumbling struct {
	On     bool   // there is a tumbling window
	Final  bool   // no more records follow in the window, or it was ended early
	Length int64  // milliseconds; 0: unknown
	State  []byte // JSON that the function returned earlier; part of the payload, not a copy; may be empty
}

// change builds the change of a complete record.
func (d *decoder) change() Change {
	r := &d.rec
	c := Change{Operation: r.operation, Stream: r.stream, Sequence: r.sequence, Created: r.created}
	if r.operation == Remove {
		return d.removal(c)
	}
	c.New = table.Shard{
		Namespace: r.key.ns, Entity: r.key.entity, Resource: r.key.resource,
		TTL: r.new.ttl, Cascade: r.new.cascade, Parent: r.new.parent,
		NoShardCount: !r.new.hasCount, Generation: r.new.generation, Born: r.new.born,
	}
	c.New.State = bucket.State{
		Shard: r.key.shard, Shards: r.new.shards(), RF: r.new.rf, NoClock: !r.new.hasRF,
		HeldUntil: r.new.heldUntil, Undivided: r.new.undivided,
	}
	old := &r.old
	if r.operation == Insert {
		old.reset()
	} else {
		c.OldRF, c.OldGeneration, c.OldBorn = old.rf, old.generation, old.born
		c.OldShards = old.shards()
	}
	r.new.sortLimits()
	limitsOf(&c.New, &r.new)
	c.count(old, &r.new)
	return c
}

// removal builds the change of a removed shard, with its last counters.
func (d *decoder) removal(c Change) Change {
	r := &d.rec
	c.New = table.Shard{Namespace: r.key.ns, Entity: r.key.entity, Resource: r.key.resource}
	c.New.State.Shard = r.key.shard
	c.OldRF, c.OldGeneration, c.OldShards = r.old.rf, r.old.generation, r.old.shards()
	c.OldBorn = r.old.born
	r.new.reset()
	c.count(&r.old, &r.new)
	return c
}

// limitsOf adds the limits of the image to a shard, complete ones as slots.
func limitsOf(b *table.Shard, im *image) {
	if im.quota != nil {
		b.Calendars = table.CalendarsOf(im.quota)
	}
	b.State.Slots = make([]bucket.Slot, 0, len(im.limits))
	for i := range im.limits {
		l := &im.limits[i]
		b.Outgrow(l.name, l.used, l.ended)
		if sl, ok := im.slot(l, b.Calendars); ok {
			b.State.Slots = append(b.State.Slots, sl)
		} else if l.has&(1<<tokens) != 0 {
			b.Partial = append(b.Partial, table.PartialLimit{Name: l.name, Tokens: l.v[tokens], Used: l.v[used]})
		}
	}
}

// slot returns a limit as a slot; ok is false if it is incomplete.
func (im *image) slot(l *limit, calendars table.Calendars) (sl bucket.Slot, ok bool) {
	if !l.whole() || l.v[amount] == 0 && im.quota == nil {
		return sl, false
	}
	sl = bucket.Slot{
		Limit:  bucket.Limit{Name: l.name, Capacity: l.v[capacity], Amount: l.v[amount], Period: l.v[period], Soft: l.soft},
		Tokens: l.v[tokens], Used: l.v[used], Rest: im.rest(l), Held: l.held, Ended: l.ended.Low(),
	}
	if im.quota != nil {
		ends := im.quota[table.AttrRemainders]
		if im.rr.bad || !im.rr.hasRF || im.rr.rf != im.rf {
			ends = nil
		}
		if calendars.Complete(&sl, im.quota, im.rf, ends) != nil {
			return sl, false
		}
	}
	sl.Held = min(sl.Held, sl.Capacity)
	return sl, true
}

// count sets the counters from two images. The new image's limits are sorted.
func (c *Change) count(old, im *image) {
	old.sortLimits()
	was, is := old.limits, im.limits
	c.Used = make([]Used, 0, max(len(was), len(is)))
	for len(was) > 0 || len(is) > 0 {
		order := 1 // which image has the next counter: the new one, the old one, or both
		if len(was) > 0 {
			order = -1
			if len(is) > 0 {
				order = strings.Compare(was[0].name, is[0].name)
			}
		}
		var u Used
		var before, after table.Counter
		if order <= 0 {
			u.Limit = was[0].name
			before, u.Was = was[0].spent()
			was = was[1:]
		}
		if order >= 0 {
			u.Limit = is[0].name
			after, u.Is = is[0].spent()
			is = is[1:]
		}
		u.Before, u.After = before.Mark(), after.Mark()
		if u.Is {
			u.Milli = after.Minus(before).Milli()
		}
		switch {
		case u.Limit == bucket.WCU:
			c.Metered = u.Milli
		case u.Was || u.Is:
			c.Used = append(c.Used, u)
		}
	}
}
