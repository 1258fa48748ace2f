package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func policyCommand(a *app) *cobra.Command {
	return group("policy", "settings of the whole namespace", policyGet(a), policySet(a))
}

func policyGet(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "get", Short: "show the policy for a table that does not answer, and how long audit events are kept",
	}, policyAnswer)
}

func policyAnswer(c *call) (answer, error) {
	config, err := c.stored(admin.Scope{})
	if err != nil {
		return answer{}, err
	}
	p := shownPolicy{config.OnUnavailable, config.AuditRetention}
	policy := cmp.Or(policyOf(p.OnUnavailable), "undecided (block, unless a client says otherwise)")
	kept := fmt.Sprint(days(p.AuditRetention))
	if p.AuditRetention == 0 {
		kept = fmt.Sprintf("undecided (%d)", days(admin.DefaultAuditRetention))
	}
	return single(p, []string{"on unavailable", "audit retention days"}, policy, kept), nil
}

// shownPolicy is the JSON form of a policy. Undecided settings are left out.
type shownPolicy struct {
	OnUnavailable  limiter.Policy
	AuditRetention time.Duration
}

func policySet(a *app) *cobra.Command {
	var unavailable, keep string
	var retention time.Duration
	policies := map[string]limiter.Policy{
		"block": limiter.PolicyBlock, "allow": limiter.PolicyAllow, "undecided": limiter.PolicyDefault,
	}
	cmd := a.inNamespace(&cobra.Command{
		Use:   "set [--on-unavailable block|allow|undecided] [--audit-retention DAYS]",
		Short: "change settings of the whole namespace",
		Long: "Change settings of the whole namespace. The command shows the difference first, and asks\n" +
			"(unless --yes).",
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			if _, ok := policies[unavailable]; unavailable != "" && !ok {
				return usage(c, "--on-unavailable %s: accepted are block, allow and undecided", unavailable)
			}
			if unavailable == "" && keep == "" {
				return usage(c, "nothing to set: --on-unavailable or --audit-retention")
			}
			if retention, err = manifest.ParsePeriod(keep); keep != "" && (err != nil || !strings.HasSuffix(keep, "d")) {
				return usage(c, "--audit-retention: %q: want whole days, at most 3660, like 90d", keep)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		var s admin.Settings
		if unavailable != "" {
			s.OnUnavailable = new(policies[unavailable])
		}
		if keep != "" {
			s.AuditRetention = new(retention)
		}
		return c.configure(s)
	})
	cmd.Flags().StringVar(&unavailable, "on-unavailable", "", "block, allow or undecided")
	complete(cmd, "on-unavailable", []string{"block", "allow", "undecided"})
	cmd.Flags().StringVar(&keep, "audit-retention", "", "like 90d; 0d: undecided")
	return a.asks(cmd)
}

// configure shows the settings before and after, asks, and changes them.
func (c *call) configure(s admin.Settings) (answer, error) {
	was, err := c.stored(admin.Scope{})
	if err != nil {
		return answer{}, err
	}
	var from, to []string
	change := func(name, was, now string) {
		from = append(from, name+": "+cmp.Or(was, "undecided"))
		to = append(to, name+": "+cmp.Or(now, "undecided"))
	}
	if p := s.OnUnavailable; p != nil {
		change("on unavailable", policyOf(was.OnUnavailable), policyOf(*p))
	}
	if keep := s.AuditRetention; keep != nil {
		change("audit retention", dayText(was.AuditRetention), dayText(*keep))
	}
	question := fmt.Sprintf("Change the policy of namespace %q?", c.ns.Name())
	return c.change(question, "", from, to, func() (answer, error) {
		if err := c.ns.Configure(c.ctx, s); err != nil {
			return answer{}, err
		}
		return policyAnswer(c)
	}, func() (answer, error) {
		c.say("nothing to change")
		return policyAnswer(c)
	})
}

// dayText formats a retention in days. Undecided is empty.
func dayText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return count(days(d), "days")
}
