package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

type policyJSON struct {
	OnUnavailable  string `json:"on_unavailable"`       // empty: not decided
	AuditRetention int64  `json:"audit_retention_days"` // 0: not decided
}

func policyCommand(a *app) *cobra.Command {
	return group("policy", "what holds for the whole namespace", policyGet(a), policySet(a))
}

func policyGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "show what holds when the table does not answer, and how long audit events are kept",
		Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				return a.printPolicy(c.Context(), ns)
			})
		},
	}
}

func (a *app) printPolicy(ctx context.Context, ns *admin.Namespace) error {
	config, err := ns.Config(ctx, admin.Scope{})
	if err != nil && !isNotFound(err) {
		return err
	}
	r := rows{head: []string{"on unavailable", "audit retention days"}}
	r.add(policyOf(config.OnUnavailable), days(config.AuditRetention))
	return a.print(policyJSON{policyOf(config.OnUnavailable), days(config.AuditRetention)}, r)
}

func policySet(a *app) *cobra.Command {
	var unavailable, keep string
	cmd := &cobra.Command{
		Use:   "set [--on-unavailable block|allow|undecided] [--audit-retention DAYS]",
		Short: "change what holds for the whole namespace",
		Args:  args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			policy, ok := map[string]limiter.Policy{
				"block": limiter.PolicyBlock, "allow": limiter.PolicyAllow, "undecided": limiter.PolicyDefault,
			}[unavailable]
			if unavailable != "" && !ok {
				return usage(c, "--on-unavailable %s: accepted are block, allow and undecided", unavailable)
			}
			if unavailable == "" && keep == "" {
				return usage(c, "nothing to set: --on-unavailable or --audit-retention")
			}
			retention, err := parsePeriod(keep)
			if keep != "" && err != nil {
				return usage(c, "--audit-retention: %v", err)
			}
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				var errs []error
				if unavailable != "" {
					errs = append(errs, ns.SetPolicy(c.Context(), policy))
				}
				if keep != "" {
					errs = append(errs, ns.SetAuditRetention(c.Context(), retention))
				}
				if err := errors.Join(errs...); err != nil {
					return err
				}
				return a.printPolicy(c.Context(), ns)
			})
		},
	}
	cmd.Flags().StringVar(&unavailable, "on-unavailable", "", "block, allow or undecided")
	complete(cmd, "on-unavailable", []string{"block", "allow", "undecided"})
	cmd.Flags().StringVar(&keep, "audit-retention", "", "like 90d; 0d: undecided")
	return cmd
}
