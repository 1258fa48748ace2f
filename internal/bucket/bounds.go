package bucket

const (
	// MaxLimits is how many limits of users one bucket has at most.
	MaxLimits = 32
	// MaxSlots is how many limits, the write meter included, one write names at most,
	// so that it stays within DynamoDB's bounds on expressions.
	MaxSlots = MaxLimits + 1
	// MaxAtOnce is how many limits of slots one bucket has at most, for the same reason.
	MaxAtOnce = 3
	// DefaultMaxShards is the most shards of a bucket, unless a client or the aggregator is
	// configured otherwise.
	DefaultMaxShards = 32
	// MaxShards is the highest count of shards that is believed: the most that any
	// configuration allows. Looking at shards and catching up with a count cost a write
	// for every shard, so one wrong attribute could ask for a million of them.
	MaxShards = 1024
)

// WholeTokens turns millitokens into whole tokens, rounding down also below zero.
func WholeTokens(milli int64) int64 {
	t := milli / Milli
	if milli%Milli < 0 {
		t--
	}
	return t
}
