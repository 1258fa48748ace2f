package decide

import (
	"math"
	"math/bits"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// underWay is, by limit, the amount that writes under way to a shard will take. It counts as taken
// already, so that goroutines do not send writes that cannot all hold.
type underWay map[string]exact

// add notes costs, before the write that takes them is sent or queued. Each acquire of
// a group adds and removes its own.
func (u *underWay) add(costs []table.Cost) {
	for _, c := range costs {
		if c.Milli == 0 {
			continue
		}
		if *u == nil {
			*u = make(underWay, len(costs))
		}
		(*u)[c.Limit.Name] = (*u)[c.Limit.Name].plus(c.Milli)
	}
}

// remove takes out added costs, once their write is answered or will not be sent.
func (u underWay) remove(costs []table.Cost) {
	for _, c := range costs {
		if c.Milli == 0 {
			continue
		}
		left := u[c.Limit.Name].plus(-c.Milli)
		if u[c.Limit.Name] = left; left == (exact{}) {
			delete(u, c.Limit.Name)
		}
	}
}

// of returns the costs under way of a limit, in millitokens, at most as much as a bucket can hold.
func (u underWay) of(limit string) int64 {
	e := u[limit]
	if e.high > 0 {
		return math.MaxInt64
	}
	return int64(min(e.low, math.MaxInt64))
}

// exact is a sum of costs, a number of 128 bits in two's complement. A sum that saturates
// would not do: a cost added to it could not be taken out again.
type exact struct{ high, low uint64 }

func (e exact) plus(milli int64) exact {
	low, carry := bits.Add64(e.low, uint64(milli), 0)
	high, _ := bits.Add64(e.high, uint64(milli>>63), carry)
	return exact{high, low}
}
