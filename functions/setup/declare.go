package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
)

// declare applies manifests of limits, in the name of the stack. All of them are
// read before the first one is applied. What was done before an error stays done,
// and doing it again makes up for the rest.
func (h *handler) declare(ctx context.Context, texts []string, stack string, first bool) error {
	manifests := make([]admin.Manifest, len(texts))
	for i, text := range texts {
		var err error
		if manifests[i], err = manifest.Parse([]byte(text)); err != nil {
			return err
		}
	}
	for _, m := range manifests {
		var made []string
		err := repeat(ctx, first, func() error {
			did, err := h.apply(ctx, m, stack, first)
			made = append(made, did...)
			return err
		})
		if err != nil {
			return fmt.Errorf("limits of namespace %q: %w", m.Namespace, err)
		}
		h.log.InfoContext(ctx, "limits applied", "namespace", m.Namespace, "changes", len(made),
			"steps", strings.Join(made, "\n"))
	}
	return nil
}

// apply plans and applies a manifest and returns the steps that changed
// something. After an error planning again makes up for it, except for buckets that
// were not reached: it goes on with those at once.
func (h *handler) apply(ctx context.Context, m admin.Manifest, stack string, first bool) (did []string, err error) {
	all, err := admin.Open(ctx, h.db, h.table, &admin.Options{Principal: stack, Now: h.now})
	if err != nil {
		return nil, err
	}
	ns, err := all.Namespace(ctx, m.Namespace)
	if err != nil {
		return nil, err
	}
	plan, err := ns.Plan(ctx, m)
	if err != nil {
		return nil, err
	}
	report, err := ns.Apply(ctx, plan)
	for _, r := range report {
		if _, stored := errors.AsType[*admin.ReachError](r.Err); stored {
			if err := repeat(ctx, first, func() error { _, err := ns.Reach(ctx, r.Scope()); return err }); err != nil {
				return did, err
			}
			r.Err = nil
		}
		if r.Err == nil && r.Action != admin.Unchanged {
			did = append(did, r.String())
		}
	}
	return did, err
}
