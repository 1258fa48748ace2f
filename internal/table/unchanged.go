package table

import (
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// MaxLag is how much later, in milliseconds, the refill instant may be than the charge that
// replaces it. It bounds the harm of clocks that differ and of late writes. Say a charge of nothing
// is planned at 95 s from a full image (tk=10, tc=90), and others take all 10 at 100 s before it
// arrives. It would set rf back to 95 s, and at 100 s there would be 5 tokens for which the full
// bucket had no room. So it is refused, the answer brings the later instant, and it is planned
// again from that.
const MaxLag = 1000

// sameLife adds the conditions that the item has the image's generation and shard count, for a
// write that moves the refill instant to an instant. If another client made the item, the image has
// no generation, and the refill instant itself replaces it. A refill instant more than MaxLag after
// the write's own refuses the write, unless the write replaces the image's own clock.
func sameLife(c []item.Cond, n *item.Numbers, b Shard, to int64) []item.Cond {
	switch {
	case b.Generation != 0:
		c = append(c, n.Compare(AttrGeneration, item.Eq, n.N(b.Generation)))
		if !b.State.NoClock && b.State.RF <= to {
			c = append(c, n.Compare(layout.AttrRF, item.Le, n.N(bucket.AddSat(to, MaxLag))))
		}
	case b.State.NoClock:
		c = append(c, item.Exists(item.AttrPK), noGeneration, item.Absent(layout.AttrRF))
	default:
		c = append(c, noGeneration, n.Compare(layout.AttrRF, item.Eq, n.N(b.State.RF)))
	}
	if b.NoShardCount {
		return append(c, item.Absent(AttrShardCount))
	}
	return append(c, n.Compare(AttrShardCount, item.Eq, n.N(int64(b.State.Count()))))
}

// noGeneration holds where DecodeShard finds none: another writer may have left a zero, which must
// not refuse every write.
var noGeneration = item.Any(item.Absent(AttrGeneration), item.Compare(AttrGeneration, item.Eq, item.N(0)))

// counted compares the stored shard count.
func counted(is item.Op, n int) item.Cond { return item.Compare(AttrShardCount, is, item.N(int64(n))) }

// sameLimits holds while every limit of the image is stored unchanged.
func sameLimits(b Shard) []item.Cond {
	out := make([]item.Cond, 0, 3*len(b.State.Slots))
	for _, sl := range b.State.Slots {
		out = append(out, storedAs(sl.Limit)...)
	}
	return out
}

// storedAs holds while the limit is stored exactly like this. The conditions of the limits used
// first are cached, because every write needs them.
func storedAs(l bucket.Limit) []item.Cond {
	if known, ok := storedConds.Load(l); ok {
		return known.([]item.Cond)
	}
	cond := formOf(l).is(l)
	if storedCondCount.Add(1) <= maxKnownLimits {
		storedConds.Store(l, cond[:len(cond):len(cond)])
	}
	return cond
}

var (
	storedConds     sync.Map // bucket.Limit -> []item.Cond, never changed
	storedCondCount atomic.Int64
)

// heldNotAfter holds while no tokens may be held later than an instant.
func heldNotAfter(until int64) item.Cond {
	return item.Any(item.Absent(AttrHeldUntil), item.Compare(AttrHeldUntil, item.Le, item.N(until)))
}
