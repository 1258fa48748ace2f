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
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// DynamoDB lists the methods of a DynamoDB client that the limiter needs; *dynamodb.Client of the
// AWS SDK for Go v2 has them. For writes the limiter turns the client's own retries off, because
// they would resend an update that may have been applied. It classifies the client's errors by type
// and code.
type DynamoDB interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// Options are the settings of a [Limiter]. The zero value of every field means its default; nil
// Options mean all defaults.
type Options struct {
	// Namespace is the tenant within the table, "default" by default.
	Namespace string
	// Register makes Open register the namespace if it does not exist, instead of failing with
	// ErrNamespace. Without it a mistyped name is an error, not a new empty namespace.
	Register bool
	// Ahead is how long a busy process may hold tokens that it has taken ahead. One write takes
	// more than the request needs, and the next requests are granted from the rest, without a call.
	// 10ms to 10m; zero, the default, takes nothing ahead. It never grants more than the bucket
	// allows. Near full, tokens that processes hold make the level look lower. A process that
	// crashes loses the tokens that it holds, and its leases' tokens stay taken; see
	// [Limiter.Close]. docs/hot-keys.md says which time suits which bucket.
	//
	// The time is at most half of the time in which the fastest limit of a bucket fills. Nothing is
	// taken ahead if the process asks for the bucket only a few times in that time, or if a write
	// takes two thirds of it. Nor is anything taken ahead of a bucket with a soft limit, or over
	// the edge of a quota. Unused tokens of a quota are given back with one write. Wait and Reserve
	// do not use held tokens. Slots of a lease that has ended serve the next requests of the
	// process: see [InFlight]. Do not use it for buckets that Python clients or older releases take
	// from: they do not see held tokens, and grant them a second time.
	Ahead time.Duration
	// SettleWithin is how long a Commit or Rollback may wait for a charge of the same bucket to go
	// with. Zero, the default: Commit and Rollback send the difference at once, or with the next
	// write of the bucket if this process has one under way, and return when it is written. 10ms to
	// 1m: they hand the difference over and return. It goes with the next charge of the bucket, in
	// the same write, or alone when that time is over. Until then this process decides its requests
	// as if it were written; other processes do not know of it. A crash loses the difference, as
	// does a crash before the Commit. A difference that could not be written is tried again; one
	// that may have been written, or that is refused for good, is an EventSettle.
	//
	// Slots of in-flight limits, and tokens of the same lease and item, go back at once. So does
	// everything if requests of this process wait for the bucket, or while more than MaxBuckets
	// buckets are in use. Programs that end call [Limiter.Close]. Do not use it on Lambda, where a
	// process is frozen between requests.
	SettleWithin time.Duration
	// Timeout bounds every call of the limiter, in addition to the caller's context. Default 2s, at
	// least 1ms.
	Timeout time.Duration
	// DenyFor is how long the last image of a bucket may deny requests without asking the table.
	// Default 1s; negative: always ask. It bounds the delay after which tokens given back by other
	// processes are noticed, and how often a flood of denied requests costs a write.
	DenyFor time.Duration
	// Slack is how far the level of a nearly full bucket may be too low, in percent of its
	// capacity, 1 to 100. Default 30. The level is never too high. A process writes a level based
	// on the last image it has seen. In a fleet others have taken tokens since then, and near full
	// a single write does not know how much has refilled in between. Less slack makes such levels
	// more exact in large fleets, and costs second writes. A request without time for a second
	// write may leave an even lower level, instead of being denied. Levels that are too low fill up
	// by themselves; they matter only to a burst at that moment.
	Slack int
	// ConfigTTL is how long stored configuration is cached. Default 60s; negative: read it for
	// every call.
	ConfigTTL time.Duration
	// MaxBuckets is how many buckets are remembered, with 3 to 7 KB each, more if limits are
	// stored. Default 10,000. The least recently used one is forgotten first; using it again costs
	// a read. For as many buckets again the limiter remembers which tokens were taken ahead, until
	// their next write reports the unused ones: otherwise usage would be too high. Buckets in use
	// always stay: those that requests wait for, those whose slots leases hold, and up to
	// MaxBuckets of which this process holds a share under PolicyLocal. They leave room for half of
	// MaxBuckets of others.
	MaxBuckets int
	// MaxShards is the most shards that a bucket is split into, a power of two. Default 32; 1:
	// never split.
	MaxShards int
	// OnUnavailable applies if neither the call nor the stored configuration sets a policy. Default
	// PolicyBlock.
	OnUnavailable Policy
	// LocalShare is the part of each limit, in percent, 1 to 100, that this process grants by
	// itself under [PolicyLocal]. Default 10, which suits ten processes.
	LocalShare int
	// Now is the clock, read once per attempt. A clock given here is not corrected. Default: the
	// system's clock. DynamoDB's answers contain the time in whole seconds. If the system's clock
	// differs from it by more than that resolution explains, it is corrected, by a day at most. The
	// first answer is trusted; after that, three in a row have to agree. If the system's clock is
	// set, the correction ends. Observe is called for each change. A time before 1970 counts as the
	// beginning of 1970.
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

// durations fills in and checks the durations among the options.
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
