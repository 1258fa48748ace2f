package waitqueue

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Moment is a point in the history of a shard. The zero value is not known.
type Moment struct {
	shard      int
	generation int64
	writes     int64 // that the meter has counted
	known      bool
}

// MomentOf returns the moment of an image.
func MomentOf(b table.Shard) Moment {
	i := b.State.Index(bucket.WCU)
	if i < 0 || b.Entity == "" {
		return Moment{}
	}
	return Moment{b.State.Shard, b.Generation, b.State.Slots[i].Used, true}
}

// before reports whether a point was certainly before another.
func (m Moment) before(o Moment) bool {
	return m.known && o.known && m.shard == o.shard && m.generation == o.generation && m.writes < o.writes
}

// Taking is when a lease had taken all that it has: on the shard that one write has charged, and
// in the order of this process, see [Sleepers.Turn]. Each may be zero, which is not known.
type Taking struct {
	Moment Moment
	Turn   int64
}

// before reports whether all was certainly taken before an image that a call has brought which
// began at a turn.
func (t Taking) before(image Moment, asked int64) bool {
	return t.Moment.before(image) || t.Turn > 0 && t.Turn < asked
}

// Return is a lease's give-back on one shard.
type Return struct {
	Name  decide.Name
	Taken Taking
	Given Moment // when it was given back
	Costs []table.Cost
}
