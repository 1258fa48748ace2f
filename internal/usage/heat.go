package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A partition is hot from four fifths of its ceiling, and cool up to a tenth. A merge at most
// doubles its writes, so it stays far from hot.
const (
	hotFifths  = 4
	coolTenths = 1
)

// hot reports whether the partition of shard 0, at the newest count, is written to nearly as often
// as possible: its write meter was exhausted, or it was busy for a second.
func hot(zero History) bool {
	newest := zero.last().New.State.Shards
	for _, c := range zero.Changes {
		if c.New.State.Shards == newest && exhausted(c) {
			return true
		}
	}
	return busy(zero.Changes, newest)
}

// cool reports whether half the shards are enough for the bucket: shard 0, the first of the batch,
// must be at rest, and no shard of the batch may have had more than a tenth of the writes that its
// partition can take.
func cool(shards []History, after int64) bool {
	last := shards[0].last()
	return atRest(last.New, last.Created, after) &&
		!slices.ContainsFunc(shards, func(b History) bool { return lively(b.Changes) })
}

// atRest reports whether shard 0 has neither split nor merged for after milliseconds, and its meter
// is nearly full. If other clients have written shard 0, it has no generation, and so no known time
// of its last split or merge. It is then not at rest until a refill has begun a generation.
func atRest(zero table.Shard, at, after int64) bool {
	i := zero.State.Index(bucket.WCU)
	if i < 0 || zero.State.NoClock || zero.Generation == 0 || bucket.SubSat(at, table.Began(zero.Generation)) < after {
		return false
	}
	m := zero.State.Slots[i]
	return metered(zero.State, at) >= m.Capacity-tenth(m.Capacity)
}

// rested reports whether a shard 0 that was read from the table can merge: it is at rest, and was
// not written for a second. If it is being written, the stream has its records, and they decide.
func rested(zero table.Shard, now, after int64) bool {
	return len(zero.Partial) == 0 && bucket.SubSat(now, zero.State.RF) >= 1000 && atRest(zero, now, after)
}

func tenth(n int64) int64 { return n / 10 * coolTenths }

// few is the number of writes of a shard in one batch that is too small to show a rate.
const few = 10

// lively reports whether some second had more than a tenth of the writes that a partition can take.
// A batch may begin and end within a second, so the rate within the refill instants counts too.
func lively(changes []*stream.Change) bool {
	var second, taken, later, first, last, ceiling int64
	for _, c := range changes {
		i := c.New.State.Index(bucket.WCU)
		if c.Operation == stream.Remove || i < 0 {
			continue
		}
		if s := floor(c.Created, 1000); s != second {
			second, taken = s, 0
		}
		n := max(c.Metered, bucket.WCUPerWrite)
		if ceiling = tenth(perSecond(c, i)); bucket.AddSat(taken, n) > ceiling {
			return true
		}
		taken += n
		if first == 0 {
			first = c.New.State.RF
		} else {
			later = bucket.AddSat(later, n)
		}
		last = max(last, c.New.State.RF)
	}
	span := last - first
	return len(changes) > few && span < 1000 && later > ceiling*max(span, 1)/1000
}

// busy reports whether the changes created within one second took four fifths of the meter's refill
// per second. A key written at its limit never exhausts the meter: DynamoDB refuses all further
// writes, and refused writes are not in the stream. An emulator may round creation times more
// coarsely, so that many seconds of changes seem to be in one. So their refill instants must also
// be within a second.
func busy(changes []*stream.Change, shards int) bool {
	var second, taken, first, last int64
	for _, c := range changes {
		i := c.New.State.Index(bucket.WCU)
		if c.New.State.Shards != shards || i < 0 {
			continue
		}
		if s := floor(c.Created, 1000); s != second {
			second, taken, first, last = s, 0, 0, 0
		}
		taken = bucket.AddSat(taken, c.Metered)
		if c.OldRF != c.New.State.RF {
			if first == 0 {
				first = c.New.State.RF
			}
			last = c.New.State.RF
		}
		if last-first <= 1000 && taken >= perSecond(c, i)/5*hotFifths {
			return true
		}
	}
	return false
}

// perSecond returns how much of the meter, slot i, refills per second.
func perSecond(c *stream.Change, i int) int64 {
	wcu := c.New.State.Slots[i]
	return bucket.Potential(0, bucket.Rate{Amount: wcu.Amount, Period: wcu.Period}, 1000)
}

// exhausted reports whether the meter, refilled to the instant of the change, could not pay for one
// more write.
func exhausted(c *stream.Change) bool {
	s := c.New.State
	return !s.NoClock && s.Index(bucket.WCU) >= 0 && metered(s, c.Created) < bucket.WCUPerWrite
}

// metered returns the level of the meter, which must exist, at an instant. The instants of changes
// have a precision of a second and are rounded down, so the refill is not overestimated.
func metered(s bucket.State, at int64) int64 {
	i := s.Index(bucket.WCU)
	wcu := s.Slots[i]
	gain := bucket.Refill(wcu.Tokens, wcu.Rest, s.Rate(i), max(0, floor(at, 1000)-s.RF))
	return bucket.AddSat(wcu.Tokens, gain.Credit)
}
