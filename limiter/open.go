package limiter

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// schemaVersion is the version of the item formats written here. Clients
	// refuse a table whose major version differs from theirs.
	schemaVersion = "0.9.0"
	openAttempts  = 6
)

// Open returns a limiter on a namespace of a table. It looks the namespace up,
// registers it if need be (see Options.MustExist), and checks that the table's
// schema is one this package can share with other clients. If a Python client has
// put the release of its aggregator into the version record, Open takes it out, so
// that no Python client replaces the table's function. It blocks for one read, or
// a few calls when it writes, bounded by ctx and Options.Timeout.
// The error is ErrInvalid, ErrUnavailable or ErrUnknown.
func Open(ctx context.Context, db DynamoDB, tableName string, opts *Options) (*Limiter, error) {
	if db == nil {
		return nil, invalid("db", "nil", "a DynamoDB client")
	}
	if tableName == "" {
		return nil, invalid("table", tableName, "the name of a table")
	}
	if twin, ok := db.(store.Store); ok {
		return open(ctx, twin, opts) // a table in memory, as tests have it
	}
	return open(ctx, store.NewDynamo(db, tableName), opts)
}

func open(ctx context.Context, s store.Store, opts *Options) (*Limiter, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	id, err := namespaceID(ctx, s, o)
	if err != nil {
		return nil, err
	}
	l := newLimiter(s, id, o)
	if clock, ok := s.(interface{ Offset() time.Duration }); ok && (opts == nil || opts.Now == nil) {
		l.offset = clock.Offset
	}
	return l, nil
}

// namespaceID resolves or registers the namespace.
func namespaceID(ctx context.Context, s store.Store, o Options) (string, error) {
	var err error
	for try := range openAttempts {
		var id string
		if id, err = lookUp(ctx, s, o); err == nil && id != "" {
			return id, nil
		}
		if err != nil && store.KindOf(err) == 0 {
			return "", err
		}
		if err == nil {
			if o.MustExist {
				return "", fmt.Errorf("%w: Options.Namespace is %q, want a registered namespace", ErrInvalid, o.Namespace)
			}
			if err = register(ctx, s, o.Namespace, o.Now()); err == nil {
				continue // read back what won
			}
		}
		if store.Sleep(ctx, store.Jitter(try, 10*time.Millisecond, time.Second)) != nil {
			break
		}
	}
	kind := ErrUnavailable
	if store.KindOf(err) == store.Unknown {
		kind = ErrUnknown
	}
	return "", fmt.Errorf("%w: open namespace %q: %w", kind, o.Namespace, err)
}

// lookUp reads the namespace and the version record; an unregistered namespace
// has the empty id.
func lookUp(ctx context.Context, s store.Store, o Options) (string, error) {
	items, err := s.Read(ctx, true, table.NamespaceKey(o.Namespace), table.VersionKey())
	if err != nil {
		return "", err
	}
	v, err := checkVersion(items[1])
	if err != nil {
		return "", err
	}
	if v.Lambda != "" {
		disown(ctx, s, v, o.Now())
	}
	if items[0] == nil {
		return "", nil
	}
	ns, err := table.DecodeNamespace(items[0])
	if err != nil {
		return "", fmt.Errorf("%w: namespace record: %w", ErrInvalid, err)
	}
	if ns.ID == "" || ns.ID == table.TableNamespace || strings.Contains(ns.ID, "/") {
		return "", fmt.Errorf("%w: namespace record of %q: namespace_id is %q, want an opaque id", ErrInvalid, o.Namespace, ns.ID)
	}
	return ns.ID, nil
}

// disown takes the release of the aggregator out of the version record. Python
// clients put it there when they open a table first, and those of a newer release
// would then push their code into the table's function, or fail to. It is best
// effort: nothing of ours depends on it, and the next Open tries again.
func disown(ctx context.Context, s store.Store, v table.Version, now time.Time) {
	_, _ = s.Write(ctx, v.Disown(table.Timestamp(now.UnixMilli())))
}

// checkVersion reads the version record, which may be nil, and refuses a table
// that this package cannot share.
func checkVersion(it item.Item) (table.Version, error) {
	if it == nil {
		return table.Version{}, nil
	}
	v, err := table.DecodeVersion(it)
	if err != nil {
		return v, fmt.Errorf("%w: version record: %w", ErrInvalid, err)
	}
	ours, _, _ := strings.Cut(schemaVersion, ".")
	if major, _, _ := strings.Cut(v.Schema, "."); major != ours {
		return v, fmt.Errorf("%w: version record: schema_version is %q, want major version %s", ErrInvalid, v.Schema, ours)
	}
	return v, nil
}

// register stores the namespace under a new id, both ways or not at all, and
// the table's version record if there is none. That somebody else registered it
// first is no error.
func register(ctx context.Context, s store.Store, namespace string, now time.Time) error {
	created := table.Timestamp(now.UnixMilli())
	v := table.Version{Schema: schemaVersion, ClientMin: "0.0.0", UpdatedAt: created}
	_, err := s.Write(ctx, v.Create())
	if err != nil && !isRefused(err) {
		return err
	}
	ns := table.Namespace{ID: newNamespaceID(), Name: namespace, CreatedAt: created}
	err = s.Transact(ctx, store.NewToken(), ns.Register())
	if isRefused(err) {
		return nil
	}
	return err
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*store.Refused](err)
	_, canceled := errors.AsType[*store.Canceled](err)
	return refused || canceled
}

// newNamespaceID returns 64 random bits as 11 characters of URL-safe base64,
// never beginning with a dash.
func newNamespaceID() string {
	for {
		var b [8]byte
		rand.Read(b[:])
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

func validateNamespace(s string) error {
	bad := s == table.TableNamespace || len(s) > 256 || !utf8.ValidString(s)
	for _, r := range s {
		bad = bad || unicode.IsControl(r)
	}
	if bad {
		return invalid("Options.Namespace", s, "up to 256 bytes of text without control characters, other than the reserved \"_\"")
	}
	return nil
}
