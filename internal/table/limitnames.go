package table

import (
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Attributes of bucket items, besides the limits' own. The stream decoder compares these names byte
// by byte instead of building items.
const (
	AttrShardCount = "shard_count"
	// AttrRemainders holds the fractions of millitokens that the last refill could not credit: a
	// map {rf: N, r: {limit: N}} that is valid only while its rf equals the item's. It is a map
	// because other clients take number attributes with certain names for limits.
	AttrRemainders = "rr"
	RemaindersOf   = "r"
	EndsOf         = "e" // in AttrRemainders: periods of quotas that do not end at vu
	// AttrGeneration numbers the lives of an item and the sets of rules within each (see Charge); a
	// later number is higher.
	AttrGeneration = "gn"
	// AttrBorn is when the item was created with zero counters, epoch seconds.
	AttrBorn = "bn"
	// AttrHeldUntil is the instant until which prefetched tokens may be held.
	AttrHeldUntil = "hu"
	// AttrDenied counts the denied requests, in thousandths like the counters of limits; see [CountDenials].
	AttrDenied = "dn"
)

// The attributes of a limit in a bucket item: LimitPrefix, its name, "_" and a field. Some fields
// are also in configurations, see internal/layout.
const (
	LimitPrefix = "b_"
	FieldTokens = "tk" // level
	FieldUsed   = "tc" // counter of taken tokens
)

// Prefixes of attributes that a limit has only after tokens of it were prefetched. Other clients
// recognize limits by names that begin with "b_".
const (
	HeldPrefix  = "o_" // held tokens, as a negative number: see Ahead
	EndedPrefix = "x_" // counter of prefetched tokens that were never granted
)

// Attributes of slots, see inflight.go.
const (
	prefixSlots = "s_"
	fieldEpoch  = "ep"
)

func slotsAttr(limit, field string) string { return prefixSlots + limit + "_" + field }

// attrLimit returns a limit's attribute of a field.
func attrLimit(limit, field string) string { return LimitPrefix + limit + "_" + field }

// fields are the fields of all limits stored by their level, in the order of limitNames.level.
// Quotas have more, see quota.go.
var fields = [...]string{FieldTokens, layout.FieldCapacity, layout.FieldAmount, layout.FieldPeriod, FieldUsed}

// limitNames are the attributes of a limit that every write or answer needs.
type limitNames struct {
	tokens, capacity, amount, period, used string
	soft, schedule, raises                 string
	held, ended, epoch                     string
}

// level returns the attributes of all limits stored by their level.
func (n *limitNames) level() [len(fields)]string {
	return [...]string{n.tokens, n.capacity, n.amount, n.period, n.used}
}

// namesOf returns the attributes of a limit. The result must not be changed.
func namesOf(limit string) *limitNames {
	if known, ok := knownLimits.Load(limit); ok {
		return known.(*limitNames)
	}
	n := &limitNames{
		attrLimit(limit, FieldTokens), attrLimit(limit, layout.FieldCapacity), attrLimit(limit, layout.FieldAmount),
		attrLimit(limit, layout.FieldPeriod), attrLimit(limit, FieldUsed),
		attrLimit(limit, layout.FieldSoft), attrLimit(limit, layout.FieldSchedule), attrLimit(limit, layout.FieldRaises),
		HeldPrefix + limit, EndedPrefix + limit, slotsAttr(limit, fieldEpoch),
	}
	if len(limit) <= 64 && knownLimitCount.Add(1) <= maxKnownLimits {
		knownLimits.Store(limit, n)
	}
	return n
}

// knownLimits caches the attribute names of the limits used first. Their number is bounded because
// limit names may come from any client.
var (
	knownLimits     sync.Map // limit name -> *limitNames
	knownLimitCount atomic.Int64
)

const maxKnownLimits = 1024
