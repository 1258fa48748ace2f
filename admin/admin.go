package admin

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// DynamoDB lists the methods of a DynamoDB client that this package needs; *dynamodb.Client of the
// AWS SDK for Go v2 has them.
type DynamoDB interface {
	limiter.DynamoDB
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchWriteItem(
		context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options),
	) (*dynamodb.BatchWriteItemOutput, error)
}

// Options are the settings of a [Table]. The zero value of every field means its
// default; nil Options mean all defaults.
type Options struct {
	// Timeout bounds each request to DynamoDB, in addition to the caller's context. Default 10s.
	Timeout time.Duration
	// Principal is the author of changes in the audit trail: a name or an ARN of up to 512 bytes of
	// printable text. [Namespace.As] overrides it.
	Principal string
	// Caller finds out the principal if Principal is empty, for instance with GetCallerIdentity of
	// STS. It is called once, before the first change. If it is nil, or fails, the audit trail has
	// no author for the changes.
	Caller func(context.Context) (string, error)
	// AuditRetention is how long audit events are kept if the namespace's stored configuration does
	// not set it. Default DefaultAuditRetention; whole days count.
	AuditRetention time.Duration
	// Now is the clock. Default: the system's.
	Now func() time.Time
}

const day = 24 * time.Hour

// DefaultAuditRetention is how long audit events are kept by default: 90 days.
const DefaultAuditRetention = 90 * day

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	out.Timeout = cmp.Or(out.Timeout, 10*time.Second)
	if out.Timeout < time.Millisecond {
		return out, validate.Invalid("Options.Timeout", out.Timeout, "zero for the default, or at least 1ms")
	}
	out.AuditRetention = cmp.Or(out.AuditRetention, DefaultAuditRetention)
	if out.AuditRetention < day {
		return out, validate.Invalid("Options.AuditRetention", out.AuditRetention, "zero for the default, or at least a day")
	}
	if err := checkPrincipal("Options.Principal", out.Principal); err != nil {
		return out, err
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	return out, nil
}

// Table is a table with its namespaces.
type Table struct {
	calls  calls
	opts   Options
	caller *caller
	ids    *ulids
}

// Open returns the named table. It checks that the table exists, and that this package can share
// its schema with other clients. Open writes nothing. Looking up a namespace makes the same write
// as limiter.Open: it removes the release of a Python aggregator before 0.15 from the version
// record. The error is ErrInvalid, ErrVersion, ErrUnavailable or ErrUnknown.
func Open(ctx context.Context, db DynamoDB, tableName string, opts *Options) (*Table, error) {
	if err := validate.Table(db != nil, tableName); err != nil {
		return nil, err
	}
	if twin, ok := db.(store.Lister); ok {
		return open(ctx, twin, opts) // a table in memory, as tests have it
	}
	return open(ctx, store.NewListing(db, tableName), opts)
}

func open(ctx context.Context, db store.Lister, opts *Options) (*Table, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Table{
		calls: calls{db: db, timeout: o.Timeout}, opts: o,
		caller: &caller{ask: o.Caller, timeout: o.Timeout}, ids: &ulids{},
	}
	items, err := t.calls.read(ctx, layout.VersionKey())
	if err == nil {
		_, err = namespace.CheckVersion(items[0])
	}
	if err != nil {
		return nil, fail(err, "open table")
	}
	return t, nil
}

func (t *Table) now() int64 { return t.opts.Now().UnixMilli() }

// Version is the table's version record.
type Version struct {
	Schema    string // version of the item formats, "0.9.0"
	ClientMin string // the oldest client that may use the table
	Lambda    string // release of Python that the aggregator is as good as; empty: not known
	UpdatedAt time.Time
	UpdatedBy string // empty: not known
}

// Version returns the table's version record; the error is ErrNotFound if there is none, because no
// namespace was ever registered.
func (t *Table) Version(ctx context.Context) (Version, error) {
	items, err := t.calls.read(ctx, layout.VersionKey())
	if err != nil {
		return Version{}, fail(err, "read the version record")
	}
	if items[0] == nil {
		return Version{}, fail(ErrNotFound, "read the version record")
	}
	v, err := config.DecodeVersion(items[0])
	if err != nil {
		return Version{}, fail(limiter.ErrVersion, "%v", err)
	}
	return Version{
		Schema: v.Schema, ClientMin: v.ClientMin, Lambda: v.Lambda,
		UpdatedAt: parseTime(v.UpdatedAt), UpdatedBy: v.UpdatedBy,
	}, nil
}

// parseTime reads an instant as records have it; what cannot be read is zero.
func parseTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t.UTC()
}
