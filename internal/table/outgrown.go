package table

import (
	"math/big"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A limit that counts bytes or millionths of a dollar may outgrow 64 bits: at 1 GB/s, its
// millitokens do so in 107 days. States hold the low 64 bits of a counter, because only its growth
// matters. [Shard.Outgrown] has the whole counters.

// Counter is a counter of any size, in millitokens. The zero Counter is 0.
type Counter struct {
	n   int64    // the low 64 bits
	big *big.Int // nil if n is the whole counter
}

// CounterOf returns a counter of n millitokens.
func CounterOf(n int64) Counter { return Counter{n: n} }

// ParseCounter parses a counter of decimal digits with an optional minus sign; ok is false for
// anything else, and beyond [maxCounterBits].
func ParseCounter(digits string) (c Counter, ok bool) {
	return readCounter(&types.AttributeValueMemberN{Value: digits})
}

// maxCounterBits bounds a counter. One of 38 digits, DynamoDB's maximum, may leave no room for
// additions.
const maxCounterBits = 126

func readCounter(v item.Value) (c Counter, ok bool) {
	n, ok := item.Whole(v)
	if !ok || n.BitLen() > maxCounterBits {
		return c, false
	}
	return counterOf(n), true
}

func counterOf(n *big.Int) Counter {
	if n.IsInt64() {
		return Counter{n: n.Int64()}
	}
	return Counter{n: item.LowBits(n), big: n}
}

func (c Counter) whole() *big.Int {
	if c.big != nil {
		return c.big
	}
	return big.NewInt(c.n)
}

// Plus returns the sum of two counters.
func (c Counter) Plus(o Counter) Counter {
	if sum := c.n + o.n; c.big == nil && o.big == nil && (sum > c.n) == (o.n > 0) {
		return Counter{n: sum}
	}
	return counterOf(new(big.Int).Add(c.whole(), o.whole()))
}

// Minus returns c - o.
func (c Counter) Minus(o Counter) Counter {
	if more := c.n - o.n; c.big == nil && o.big == nil && (more < c.n) == (o.n > 0) {
		return Counter{n: more}
	}
	return counterOf(new(big.Int).Sub(c.whole(), o.whole()))
}

// Low returns the low 64 bits, as stored in states.
func (c Counter) Low() int64 { return c.n }

// Milli returns the millitokens, or the nearest number of 64 bits.
func (c Counter) Milli() int64 { return item.Nearest(c.whole()) }

// Tokens returns the whole tokens, rounded down, or the nearest number of 64 bits.
func (c Counter) Tokens() int64 {
	if c.big == nil {
		return bucket.WholeTokens(c.n)
	}
	return item.Nearest(c.tokens())
}

// Mark returns the low 64 bits of the whole tokens, rounded down. The difference of two marks is
// the consumption between them, whatever the size of the counter.
func (c Counter) Mark() int64 {
	if c.big == nil {
		return bucket.WholeTokens(c.n)
	}
	return item.LowBits(c.tokens())
}

func (c Counter) tokens() *big.Int { return new(big.Int).Div(c.big, big.NewInt(bucket.Milli)) } // rounds down

// Outgrow records the counters of a limit that are larger than 64 bits.
func (b *Shard) Outgrow(limit string, used, ended Counter) {
	if used.big != nil {
		b.outgrow(namesOf(limit).used, used)
	}
	if ended.big != nil {
		b.outgrow(namesOf(limit).ended, ended)
	}
}

func (b *Shard) outgrow(attr string, c Counter) {
	if b.Outgrown == nil {
		b.Outgrown = map[string]item.Value{}
	}
	b.Outgrown[attr] = &types.AttributeValueMemberN{Value: c.big.String()}
}

// outgrown decodes a counter attribute larger than 64 bits: it returns the low bits, and stores the
// whole in Outgrown. ok is false if it is not a counter.
func (b *Shard) outgrown(it item.Item, attr string) (low int64, ok bool) {
	c, ok := readCounter(it[attr])
	if ok && c.big != nil {
		b.outgrow(attr, c)
	}
	return c.n, ok
}

// Used returns the counter of a slot of the shard.
func (b Shard) Used(sl bucket.Slot) Counter { return b.whole(namesOf(sl.Name).used, sl.Used) }

// Spent is Used without the prefetched tokens that expired unspent.
func (b Shard) Spent(sl bucket.Slot) Counter {
	return b.Used(sl).Minus(b.whole(namesOf(sl.Name).ended, sl.Ended))
}

func (b Shard) whole(attr string, low int64) Counter {
	if c, ok := readCounter(b.Outgrown[attr]); ok {
		return c
	}
	return CounterOf(low)
}

// counter returns the exact counter of a slot plus some millitokens, allocated among the numbers.
func (b Shard) counter(to *item.Numbers, sl bucket.Slot, plus int64) item.Value {
	if big, ok := b.Outgrown[namesOf(sl.Name).used]; ok {
		return item.Plus(big, plus)
	}
	if n := sl.Used + plus; (n > sl.Used) == (plus > 0) {
		return to.N(n)
	}
	return item.Plus(item.N(sl.Used), plus)
}
