package limiter

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// DynamoDB is what the limiter needs of a DynamoDB client;
// *dynamodb.Client of the AWS SDK for Go v2 has it. The limiter turns the
// client's own retries off for writes, because they would send an update again
// that may have been applied, and classifies its errors by type and code.
type DynamoDB interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// Options are the settings of a [Limiter]. The zero value of every field means
// its default; nil Options mean all defaults.
type Options struct {
	// Namespace is the tenant within the table, "default" by default.
	Namespace string
	// Register makes Open register the namespace if it does not exist, instead
	// of failing with ErrNamespace. Without it a mistyped name is an error, not
	// a fresh namespace with nothing in it.
	Register bool
	// Ahead is for how long a busy process may hold tokens that it has taken ahead. One write
	// takes more than a request needs, and the next requests are granted from that, without a
	// call. Zero, the default: nothing is taken ahead; else 10ms to 10m. It never grants more
	// than the bucket allows. Near full, a level is shown lower by what processes hold. A process
	// that crashes loses what it holds, and what its leases took stays taken; see [Limiter.Close].
	// docs/hot-keys.md says which time suits which bucket. The time is at most half of the time
	// in which the fastest limit of a bucket fills. Nothing is taken ahead if the process asks for
	// the bucket only a few times in that time, or if a write takes two thirds of it. Nothing is
	// taken ahead of a bucket with a soft limit, or over the edge of a quota. Unused tokens of a
	// quota are given back with one write. Wait and Reserve do not use held tokens. Slots of a lease
	// that has ended serve the next requests of the process: see [InFlight]. Not for buckets that
	// Python clients or older releases take from: they do not see held tokens, and grant them
	// once more.
	Ahead time.Duration
	// SettleWithin is how long a Commit or Rollback may wait for a charge of the same bucket to
	// go with. Zero, the default: they wait until it is written. It is sent at once, or with the next
	// write of the bucket where one of this process is on its way. Else 10ms to 1m: Commit and Rollback
	// hand the difference over, and return. It goes with the next charge of the bucket, in its write, or
	// alone when that time is over. Until then the requests of this process are decided as if it were
	// written; others do not know of it. A crash loses the difference, as one before the Commit does.
	// What could not be written is tried again; what may have been written, or is refused for good, is
	// an EventSettle. Slots of in-flight limits, and tokens of the same lease and item, go back at once;
	// so does all where requests of this process wait for the bucket, and while more buckets than
	// MaxBuckets are in use. Programs that end call [Limiter.Close]. Not for Lambda, where a process is
	// frozen between requests.
	SettleWithin time.Duration
	// Timeout bounds every call of the limiter, on top of the caller's
	// context. Default 2s, at least 1ms.
	Timeout time.Duration
	// DenyFor is how long the last image of a bucket may deny requests without
	// asking the table. Default 1s; negative: always ask. It bounds how late
	// tokens given back by other processes are noticed, and how often a
	// rejected flood pays for a write.
	DenyFor time.Duration
	// Slack bounds by how much the level of a nearly full bucket may be shown too low,
	// in percent of its capacity, 1 to 100. Default 30. It never shows too much.
	// A process writes a level from the last image it has seen. In a fleet others have
	// taken since, and near full one write does not know how much was refilled meanwhile.
	// Less slack makes such levels exacter in large fleets, and costs second writes. A
	// request without time for a second write may show the level lower still, instead of
	// being denied. Levels that are too low fill up by themselves; they matter only to a
	// burst in that moment.
	Slack int
	// ConfigTTL is how long stored configuration is cached. Default 60s;
	// negative: read on every call.
	ConfigTTL time.Duration
	// MaxBuckets is how many buckets are remembered, 3 to 7 KB each, the more where
	// limits are stored. Default 10,000.
	// The least recently used is forgotten first; when it is used again, that costs a
	// read. As many again are kept of which tokens were taken ahead, until they are
	// written again, to report unused tokens: without them usage would be too high.
	// Buckets in use are kept in any case: those that requests wait for, those whose slots leases
	// hold, and up to MaxBuckets of which this process keeps a share under PolicyLocal. They leave room
	// for half of MaxBuckets of others.
	MaxBuckets int
	// MaxShards is the most shards a bucket is split into, a power of two.
	// Default 32; 1: never split.
	MaxShards int
	// OnUnavailable holds when neither the call nor the stored configuration
	// decides. Default PolicyBlock.
	OnUnavailable Policy
	// LocalShare is the part of each limit, in percent, 1 to 100, that this process
	// grants by itself under [PolicyLocal]. Default 10, which suits ten processes.
	LocalShare int
	// Now is the clock, read once per attempt. A clock given here is not corrected. Default:
	// the system's clock. DynamoDB's answers have the time in whole seconds. If the system's
	// clock differs from it by more than the seconds leave open, it is corrected, by a day
	// at most. The first answer is believed; after that three in a row have to agree. If the
	// system's clock is set, the correction ends. Observe is called for each change.
	Now func() time.Time
	// Observe is called for every event (see [Event]), with the context of the call, or the
	// background context for changes of the clock. It is called synchronously, by several
	// goroutines at once: it must be quick, and must not call the limiter. Nil: no calls.
	Observe func(context.Context, Event)
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Namespace == "" {
		out.Namespace = "default"
	}
	if namespace.CheckName(out.Namespace) != nil {
		return out, validate.Invalid("Options.Namespace", out.Namespace,
			"up to 256 bytes of text without control characters, other than the reserved \"_\"")
	}
	if err := out.durations(); err != nil {
		return out, err
	}
	for _, n := range []struct {
		name      string
		v         *int
		def, most int
		accepted  string
	}{
		{"Options.MaxBuckets", &out.MaxBuckets, 10_000, math.MaxInt, "a positive number"},
		{"Options.Slack", &out.Slack, 30, 100, "1 to 100 percent"},
		{"Options.MaxShards", &out.MaxShards, bucket.DefaultMaxShards, bucket.MaxShards,
			fmt.Sprintf("a power of two from 1 to %d", bucket.MaxShards)},
		{"Options.LocalShare", &out.LocalShare, 10, 100, "1 to 100 percent"},
	} {
		if *n.v == 0 {
			*n.v = n.def
		}
		if *n.v < 1 || *n.v > n.most || n.v == &out.MaxShards && *n.v&(*n.v-1) != 0 {
			return out, validate.Invalid(n.name, *n.v, n.accepted+", or zero for the default")
		}
	}
	if out.OnUnavailable < PolicyDefault || out.OnUnavailable > PolicyLocal {
		return out, validate.Invalid("Options.OnUnavailable", int(out.OnUnavailable), policies)
	}
	out.OnUnavailable = cmp.Or(out.OnUnavailable, PolicyBlock)
	if out.Now == nil {
		out.Now = time.Now
	}
	return out, nil
}

// durations fills in and checks the options that are durations.
func (o *Options) durations() error {
	const ms, longest = time.Millisecond, time.Duration(math.MaxInt64)
	for _, d := range []struct {
		name             string
		v                *time.Duration
		def, least, most time.Duration
		negative         bool
		accepted         string
	}{
		{"Options.Timeout", &o.Timeout, 2 * time.Second, ms, longest, false, "zero for the default, or at least 1ms"},
		{"Options.DenyFor", &o.DenyFor, time.Second, ms, longest, true, "zero for the default, or at least 1ms"},
		{"Options.ConfigTTL", &o.ConfigTTL, time.Minute, ms, longest, true, "zero for the default, or at least 1ms"},
		{"Options.Ahead", &o.Ahead, 0, 10 * ms, bucket.MaxAhead * ms, false, "10ms to 10m, or zero to take nothing ahead"},
		{"Options.SettleWithin", &o.SettleWithin, 0, 10 * ms, time.Minute, false, "10ms to 1m, or zero to settle at once"},
	} {
		switch {
		case *d.v == 0:
			*d.v = d.def
		case *d.v < 0 && d.negative:
			*d.v = 0
		case *d.v < d.least || *d.v > d.most:
			return validate.Invalid(d.name, *d.v, d.accepted)
		}
	}
	return nil
}

// observeClock returns a function that reports changes of the clock's correction.
func (o *Options) observeClock() func(store.ClockChange) {
	return func(c store.ClockChange) {
		o.Observe(context.Background(), Event{Kind: EventClock, Clock: ClockInfo{c.Before, c.After, c.Reported, c.Set}})
	}
}
