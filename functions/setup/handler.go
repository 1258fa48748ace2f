package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

const (
	// patience is how long everything is retried after a call was throttled, collided with another
	// one, got no answer or was refused. The deployment may have created the role, or the rights
	// for manifests or a key, seconds ago, and they may not be in effect everywhere yet.
	patience = 20 * time.Second

	// The pauses between two attempts grow from up to minPause to up to maxPause.
	minPause = 200 * time.Millisecond
	maxPause = 5 * time.Second

	// margin is how long before the end of an invocation it gives up, to report why: CloudFormation
	// waits for an answer.
	margin = 5 * time.Second

	// maxIDs is the greatest total size of the returned namespace ids, in bytes: CloudFormation
	// accepts answers of 4 KB.
	maxIDs = 3 << 10
)

// handler sets up a table. It keeps no state between requests.
type handler struct {
	store store.Store
	db    admin.DynamoDB // of the same table
	table string
	// check returns an error unless the table has the required keys, indexes and stream, and the
	// stream has the ARN, if one is given.
	check func(ctx context.Context, stream string) error
	now   func() time.Time
	log   *slog.Logger
}

// Handle serves one request of CloudFormation. The physical id depends only on the table, so no
// update replaces the resource.
func (h *handler) Handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	id = h.table + "/setup"
	switch e.RequestType {
	case cfn.RequestDelete:
		return id, nil, nil
	case cfn.RequestCreate, cfn.RequestUpdate:
	default:
		return id, nil, fmt.Errorf("RequestType=%q: want Create, Update or Delete", e.RequestType)
	}
	conf, err := function.SetupFromProperties(e.ResourceProperties)
	if err != nil {
		return id, nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-margin))
		defer cancel()
	}
	var ids []string
	if err = h.look(ctx, conf.StreamARN); err == nil {
		ids, err = h.setUp(ctx, conf)
	}
	if err == nil {
		err = h.declare(ctx, conf.Manifests, e.StackID)
	}
	if err != nil {
		h.log.ErrorContext(ctx, "table not set up", "err", err)
		return id, nil, fmt.Errorf("set up table %q: %w", h.table, err)
	}
	h.log.InfoContext(ctx, "table set up", "namespaces", len(ids))
	list := strings.Join(ids, ",")
	if len(list) > maxIDs {
		list = ""
	}
	return id, map[string]any{function.SetupNamespaceIDs: list}, nil
}

// look refuses a table that the functions could not work with. The worst case is a stream without
// images, or one that they no longer read: nothing would be counted.
func (h *handler) look(ctx context.Context, stream string) error {
	return repeat(ctx, func() error {
		err := h.check(ctx, stream)
		_, differs := errors.AsType[*limitertable.DiffError](err)
		if err == nil || differs || errors.Is(err, limitertable.ErrNotFound) {
			return err
		}
		return &store.Failure{Kind: store.Unavailable, Op: "DescribeTable", Err: err}
	})
}

// setUp brings the table into the requested state, and returns name=id for every namespace. An
// error undoes nothing.
func (h *handler) setUp(ctx context.Context, conf function.Setup) (ids []string, err error) {
	for _, name := range conf.Namespaces {
		var ns config.Namespace
		err := repeat(ctx, func() (err error) { ns, err = h.register(ctx, name); return err })
		if err != nil {
			return nil, fmt.Errorf("namespace %q: %w", name, err)
		}
		if conf.AuditRetentionDays > 0 {
			keep := config.KeepAudit(ns.ID, conf.AuditRetentionDays)
			if err := repeat(ctx, func() error { _, err := h.store.Write(ctx, keep); return err }); err != nil {
				return nil, fmt.Errorf("audit retention of namespace %q: %w", name, err)
			}
		}
		ids = append(ids, name+"="+ns.ID)
	}
	return ids, nil
}

// register returns the namespace with a name, registering it if there is none.
func (h *handler) register(ctx context.Context, name string) (config.Namespace, error) {
	ns, err := namespace.Find(ctx, h.store, name, h.now())
	if !errors.Is(err, namespace.ErrMissing) {
		return ns, err
	}
	if err := namespace.Register(ctx, h.store, name, h.now()); err != nil {
		return ns, err
	}
	return namespace.Find(ctx, h.store, name, h.now())
}

// repeat calls a repeatable function until it succeeds, fails with a permanent error, or patience
// is over.
func repeat(ctx context.Context, do func() error) error {
	end := time.Now().Add(patience)
	for try := 0; ; try++ {
		err := do()
		if err == nil || store.KindOf(err) == 0 && !errors.Is(err, admin.ErrBusy) || time.Now().After(end) {
			return err
		}
		if smithytime.SleepWithContext(ctx, store.Jitter(try, minPause, maxPause)) != nil {
			return err
		}
	}
}
