package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
)

// declare applies manifests of limits on behalf of the stack. It reads all of them before it
// applies the first one. An error undoes nothing; repeating it completes the rest.
func (h *handler) declare(ctx context.Context, texts []string, stack string) error {
	manifests := make([]admin.Manifest, len(texts))
	for i, text := range texts {
		var err error
		if manifests[i], err = manifest.Parse([]byte(text)); err != nil {
			return err
		}
	}
	var all *admin.Table
	err := repeat(ctx, func() (err error) {
		all, err = admin.Open(ctx, h.db, h.table, &admin.Options{Principal: stack, Now: h.now})
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if err := h.apply(ctx, all, m); err != nil {
			return fmt.Errorf("limits of namespace %q: %w", m.Namespace, err)
		}
	}
	return nil
}

// perChange is how long a change may take. With the function's memory, a wave of 96 takes well
// below a second; changes of existing buckets take more.
const perChange = 20 * time.Millisecond

// fits returns an error if there is not enough time for the changes.
func fits(ctx context.Context, changes int) error {
	end, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := max(0, time.Until(end))
	if most := int(left / perChange); changes > most {
		return fmt.Errorf("%d to change, time for %d in the %v that are left; nothing was begun: "+
			"store the manifest by zae-limiter apply, then deploy, which finds nothing to change",
			changes, most, left.Round(time.Second))
	}
	return nil
}

// apply plans and applies a manifest, and repeats that after an error, to complete the rest.
func (h *handler) apply(ctx context.Context, all *admin.Table, m admin.Manifest) error {
	did := map[string]string{} // by subject
	err := repeat(ctx, func() error {
		ns, err := all.Namespace(ctx, m.Namespace)
		if err != nil {
			return err
		}
		plan, err := ns.Plan(ctx, m)
		if err != nil {
			return err
		}
		if len(did) == 0 { // none was begun
			if err := fits(ctx, plan.Changes()); err != nil {
				return err
			}
		}
		for _, s := range plan.Steps {
			if s.Action != admin.ActionUnchanged {
				did[s.Subject()] = s.String()
			}
		}
		return ns.Apply(ctx, plan)
	})
	if err != nil {
		return err
	}
	h.log.InfoContext(ctx, "limits applied", "namespace", m.Namespace, "changes", len(did), "steps",
		strings.Join(slices.Sorted(maps.Values(did)), "\n"))
	return nil
}
