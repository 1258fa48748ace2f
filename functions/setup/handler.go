package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// rounds is how often everything is looked at again because a call was
	// slowed down, met another one or got no answer.
	rounds = 6
	pause  = 200 * time.Millisecond

	// maxIDs is how many bytes of namespace ids are returned: CloudFormation
	// takes answers of 4 KB.
	maxIDs = 3 << 10
)

// handler sets a table up. It keeps nothing from one request to the next.
type handler struct {
	store store.Store
	table string
	now   func() int64 // epoch milliseconds
	log   *slog.Logger
}

// Handle serves one request of CloudFormation. The physical id depends on the
// table alone, so that no update replaces the resource.
func (h *handler) Handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	id = h.table + "/setup"
	if e.RequestType == cfn.RequestDelete {
		return id, nil, nil
	}
	conf, err := config.SetupFromProperties(e.ResourceProperties)
	if err != nil {
		return id, nil, err
	}
	ids, err := h.setUp(ctx, conf)
	if err != nil {
		h.log.ErrorContext(ctx, "table not set up", "err", err)
		return id, nil, fmt.Errorf("set up table %q: %w", h.table, err)
	}
	h.log.InfoContext(ctx, "table set up", "namespaces", len(ids))
	list := strings.Join(ids, ",")
	if len(list) > maxIDs {
		list = ""
	}
	return id, map[string]any{config.SetupNamespaceIDs: list}, nil
}

// setUp brings the table into the state asked for and returns name=id of every
// namespace. What was done before an error stays done.
func (h *handler) setUp(ctx context.Context, conf config.Setup) (ids []string, err error) {
	if err := h.repeat(ctx, func() error { return h.version(ctx, conf.OwnAggregator) }); err != nil {
		return nil, fmt.Errorf("version record: %w", err)
	}
	for _, name := range conf.Namespaces {
		var ns table.Namespace
		if err := h.repeat(ctx, func() (err error) { ns, err = h.namespace(ctx, name); return err }); err != nil {
			return nil, fmt.Errorf("namespace %q: %w", name, err)
		}
		if conf.AuditRetentionDays > 0 {
			keep := table.KeepAudit(ns.ID, conf.AuditRetentionDays)
			if err := h.repeat(ctx, func() error { _, err := h.store.Write(ctx, keep); return err }); err != nil {
				return nil, fmt.Errorf("audit retention of namespace %q: %w", name, err)
			}
		}
		ids = append(ids, name+"="+ns.ID)
	}
	return ids, nil
}

// repeat does something that may be done again until it succeeds, or fails in a
// way that trying again does not change.
func (h *handler) repeat(ctx context.Context, do func() error) (err error) {
	for try := range rounds {
		if err = do(); err == nil {
			return nil
		}
		kind := store.KindOf(err)
		if !refused(err) && kind != store.Unknown && kind != store.Throttled && kind != store.Conflict {
			return err
		}
		if store.Sleep(ctx, store.Jitter(try, pause, 5*time.Second)) != nil {
			return err
		}
	}
	return err
}

// version writes the version record if there is none. With an aggregator of
// ours it takes the release of another one out of it, because Python clients
// would else replace the code of the function they believe in.
func (h *handler) version(ctx context.Context, own bool) error {
	items, err := h.store.Read(ctx, true, table.VersionKey())
	if err != nil {
		return err
	}
	at := table.Timestamp(h.now())
	if items[0] == nil {
		v := table.Version{Schema: table.SchemaVersion, ClientMin: "0.0.0", UpdatedAt: at, UpdatedBy: "deployment"}
		_, err = h.store.Write(ctx, v.Create())
		return err
	}
	v, err := table.DecodeVersion(items[0])
	if err != nil {
		return err
	}
	ours, _, _ := strings.Cut(table.SchemaVersion, ".")
	if major, _, _ := strings.Cut(v.Schema, "."); major != ours {
		return fmt.Errorf("the table has schema version %s, this release needs %s.x", v.Schema, ours)
	}
	if !own || v.Lambda == "" {
		return nil
	}
	_, err = h.store.Write(ctx, v.Disown(at))
	return err
}

// namespace returns the namespace of that name and registers it first if there
// is none.
func (h *handler) namespace(ctx context.Context, name string) (table.Namespace, error) {
	items, err := h.store.Read(ctx, true, table.NamespaceKey(name))
	if err != nil {
		return table.Namespace{}, err
	}
	if items[0] != nil {
		return table.DecodeNamespace(items[0])
	}
	ns := table.Namespace{ID: store.NewNamespaceID(), Name: name, CreatedAt: table.Timestamp(h.now())}
	return ns, h.store.Transact(ctx, store.NewToken(), ns.Register())
}

// refused reports whether a condition did not hold: somebody else was faster, or
// an answer of our own was lost. The next look says which.
func refused(err error) bool {
	_, one := errors.AsType[*store.Refused](err)
	_, several := errors.AsType[*store.Canceled](err)
	return one || several
}
