// Package namespace finds and registers the namespaces of a table. It checks that this module can
// share the table with the other clients that its version record names.
package namespace

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Permanent errors of a table or a namespace: trying again does not help.
var (
	// ErrMissing means that no namespace of this name is registered, or that the namespace with
	// this id is deleted.
	ErrMissing = errors.New("limiter: no such namespace")
	// ErrVersion means that the table's version record excludes this module, or that the
	// namespace's record cannot be read.
	ErrVersion = errors.New("limiter: incompatible table")
	// ErrName means that a namespace cannot have this name.
	ErrName = errors.New("name not accepted")
)

// maxName bounds the name of a namespace, in bytes.
const maxName = 256

// CheckName returns an ErrName if the name is not valid for a namespace.
func CheckName(name string) error {
	bad := name == "" || name == layout.TableNamespace || len(name) > maxName || !utf8.ValidString(name)
	for _, r := range name {
		bad = bad || unicode.IsControl(r)
	}
	if bad {
		return ErrName
	}
	return nil
}

// Find looks up a namespace by name, and checks the version record in the same read. If that record
// names a Python aggregator before 0.15, Find removes it from the record; a newer one stays, and
// its clients may store everything. The error is an ErrMissing, an ErrVersion or a *store.Failure.
func Find(ctx context.Context, s store.Store, name string, now time.Time) (config.Namespace, error) {
	items, err := s.Read(ctx, true, layout.NamespaceKey(name), layout.VersionKey())
	if err != nil {
		return config.Namespace{}, err
	}
	v, err := CheckVersion(items[1])
	if err != nil {
		return config.Namespace{}, err
	}
	if outdated(v.Lambda) {
		disown(ctx, s, v, now)
	}
	if items[0] == nil {
		return config.Namespace{}, fmt.Errorf("%w: %q is not registered", ErrMissing, name)
	}
	ns, err := config.DecodeNamespace(items[0])
	if err != nil {
		return config.Namespace{}, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return ns, nil
}

// disown removes the aggregator's release from the version record. Python clients write it there
// when they first open a table. Clients of a newer release would then push their code into Python's
// function, or fail to open. It is best effort: nothing of ours depends on it, and the next process
// that opens the table tries again.
func disown(ctx context.Context, s store.Store, v config.Version, now time.Time) {
	_, _ = s.Write(ctx, v.Disown(layout.Timestamp(now.UnixMilli())))
}

// Active checks the record that maps a namespace's id to its name. The error is
// an ErrMissing.
func Active(it item.Item) error {
	if it == nil {
		return fmt.Errorf("%w: its id is not registered any more", ErrMissing)
	}
	ns, err := config.DecodeNamespace(it)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if ns.Status != config.NamespaceActive {
		return fmt.Errorf("%w: %q is %s", ErrMissing, ns.Name, ns.Status)
	}
	return nil
}

// Register stores the namespace under a new id, in both directions or not at all, and the table's
// version record if there is none. It is no error if another process registered the name first. It
// can be repeated after any failure: every try has its own id, and only one of them can be stored.
// The error is an ErrVersion or a *store.Failure.
func Register(ctx context.Context, s store.Store, name string, now time.Time) error {
	created := layout.Timestamp(now.UnixMilli())
	if err := stamp(ctx, s, created); err != nil {
		return err
	}
	ns := config.Namespace{ID: newID(), Name: name, CreatedAt: created}
	err := s.Transact(ctx, rand.Text(), ns.Register())
	if _, taken := errors.AsType[*store.Canceled](err); taken {
		return nil
	}
	return err
}

// stamp stores the version record if there is none, and checks an existing one. A new record names
// the Python release that our aggregator corresponds to, so Python stores all its attributes.
func stamp(ctx context.Context, s store.Store, now string) error {
	v := config.Version{Schema: Schema, Lambda: Client, ClientMin: "0.0.0", UpdatedAt: now}
	_, err := s.Write(ctx, v.Create())
	if r, refused := errors.AsType[*store.Refused](err); refused {
		_, err = CheckVersion(r.Old)
	}
	return err
}

// newID returns 64 random bits as 11 characters of URL-safe base64. It never begins with a dash.
func newID() string {
	for {
		var b [8]byte
		rand.Read(b[:])
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}
