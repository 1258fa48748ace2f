package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func planCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "plan FILE", Short: "show what applying a manifest would change; exit status 3 if anything",
		Long: "Show what applying a manifest (YAML or JSON, - for standard input) would change,\n" +
			"and change nothing. The exit status is 3 if there are changes, 0 if there are none.\n" +
			"The manifest names its namespace.",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, files []string) error {
			_, plan, err := a.plan(c.Context(), c, files[0])
			if err != nil {
				return err
			}
			if err := a.printPlan(plan); err != nil {
				return err
			}
			if plan.Changes() > 0 {
				return fmt.Errorf("%w: %d changes to apply", errNo, plan.Changes())
			}
			return nil
		},
	}
}

func applyCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "store the limits that a manifest declares",
		Long: "Store the limits that a manifest (YAML or JSON, - for standard input) declares,\n" +
			"and delete those that an earlier one declared. What nobody declared stays.",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, files []string) error {
			if files[0] == "-" && !yes {
				return usage(c, "the manifest comes from where the answer would: --yes is needed")
			}
			ns, plan, err := a.plan(c.Context(), c, files[0])
			if err != nil {
				return err
			}
			if err := a.printPlan(plan); err != nil {
				return err
			}
			if plan.Changes() > 0 {
				if err := a.sure(yes, fmt.Sprintf("Apply %d changes?", plan.Changes())); err != nil {
					return err
				}
			}
			return a.apply(c.Context(), ns, plan)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// apply carries out a plan, also one without changes: what is managed is recorded.
func (a *app) apply(ctx context.Context, ns *admin.Namespace, plan *admin.Plan) error {
	var done atomic.Int64
	a.progress.say(func() string { return fmt.Sprintf("%d of %d changes", done.Load(), plan.Changes()) })
	plan.Progress = func(n, _ int) { done.Store(int64(n)) }
	report, err := ns.Apply(ctx, plan)
	left := 0
	for _, r := range report {
		if r.Err != nil {
			left++
		}
	}
	switch n := plan.Changes(); {
	case err == nil:
		a.say("%d changes applied", n)
	case report != nil:
		a.say("%d of %d changes applied; the same command goes on with the rest", n-left, n)
	}
	return a.where(err)
}

// plan reads a manifest and compares it with what is stored.
func (a *app) plan(ctx context.Context, c *cobra.Command, file string) (*admin.Namespace, *admin.Plan, error) {
	text, err := a.read(file)
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", file, err)
	}
	if c.Flags().Changed("namespace") && a.namespace != m.Namespace {
		return nil, nil, usage(c, "the manifest is for namespace %q, --namespace says %q", m.Namespace, a.namespace)
	}
	a.namespace = m.Namespace
	t, err := a.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	ns, err := t.Namespace(ctx, m.Namespace)
	if err != nil {
		return nil, nil, a.where(err)
	}
	plan, err := ns.Plan(ctx, m)
	return ns, plan, a.where(err)
}

func (a *app) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", file)
	}
	return text, err
}

type stepJSON struct {
	Action string      `json:"action"`
	From   *configJSON `json:"from,omitempty"`
	To     *configJSON `json:"to,omitempty"`
}

func (a *app) printPlan(plan *admin.Plan) error {
	if a.format == "table" {
		a.printDiff(plan)
		return nil
	}
	steps := []stepJSON{}
	r := rows{head: []string{"action", "entity", "resource", "from", "to"}}
	for _, s := range plan.Steps {
		from, to := configOf(s.From), configOf(s.To)
		step := stepJSON{Action: string(s.Action)}
		if s.Action != admin.Create {
			step.From = &from
		}
		if s.Action != admin.Delete {
			step.To = &to
		}
		steps = append(steps, step)
		before, after := strings.Join(lines(s.From), "; "), strings.Join(lines(s.To), "; ")
		r.add(s.Action, s.Scope().Entity, s.Scope().Resource, before, after)
	}
	return a.print(map[string]any{"changes": plan.Changes(), "steps": steps}, r)
}

// printDiff writes a plan for people: what leaves, and what comes.
func (a *app) printDiff(plan *admin.Plan) {
	marks := map[admin.Action]string{admin.Create: "+", admin.Update: "~", admin.Delete: "-"}
	colours := map[admin.Action]string{admin.Create: green, admin.Update: yellow, admin.Delete: red}
	for _, s := range plan.Steps {
		if s.Action == admin.Unchanged {
			continue
		}
		head := fmt.Sprintf("%s %s %s", marks[s.Action], s.Action, s.Scope())
		fmt.Fprintln(a.out, a.paint(colours[s.Action], harmless(head)))
		from, to := lines(s.From), lines(s.To)
		for _, l := range from {
			if !slices.Contains(to, l) {
				fmt.Fprintln(a.out, a.paint(red, "    - "+l))
			}
		}
		for _, l := range to {
			if !slices.Contains(from, l) {
				fmt.Fprintln(a.out, a.paint(green, "    + "+l))
			}
		}
	}
	if plan.Changes() == 0 {
		fmt.Fprintln(a.out, "nothing to change")
	}
}

// lines are what a scope holds.
func lines(c admin.Config) []string {
	var out []string
	for _, l := range c.Limits {
		out = append(out, l.String())
	}
	if c.OnUnavailable != limiter.PolicyDefault {
		out = append(out, "on unavailable: "+c.OnUnavailable.String())
	}
	return out
}
