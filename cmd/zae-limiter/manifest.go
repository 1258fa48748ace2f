package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
)

func planCommand(a *app) *cobra.Command {
	return a.does(&cobra.Command{
		Use: "plan FILE", Short: "show what applying a manifest would change; exit status 3 if anything",
		Long: "Show what applying a manifest (YAML or JSON, - for standard input) would change,\n" +
			"and change nothing. The exit status is 3 if there are changes, 0 if there are none.\n" +
			"The manifest names its namespace.",
	}, func(c *call) (answer, error) {
		_, plan, err := a.plan(c)
		if err != nil {
			return answer{}, err
		}
		said := planAnswer(plan)
		if plan.Changes() > 0 || plan.Unfinished {
			said.but = answerNo("%s", summary(plan))
		}
		return said, nil
	})
}

func applyCommand(a *app) *cobra.Command {
	cmd := a.does(&cobra.Command{
		Use: "apply FILE", Short: "store the limits and entities that a manifest declares",
		Long: "Store the declarations of a manifest (YAML or JSON, - for standard input): limits,\n" +
			"switches, and entities with their parents. Items that only an earlier manifest declared\n" +
			"are deleted. Items that none declared stay.",
		PreRunE: func(c *cobra.Command, files []string) error {
			if files[0] == "-" && !a.yes {
				return usage(c, "the manifest comes from where the answer would: --yes is needed")
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		ns, plan, err := a.plan(c)
		if err == nil {
			err = a.print(planAnswer(plan))
		}
		if err == nil && (plan.Changes() > 0 || plan.Unfinished) {
			a.say("%s", summary(plan))
		}
		if err == nil && plan.Changes() > 0 {
			err = a.sure(fmt.Sprintf("Apply %s?", count(plan.Changes(), "changes")))
		}
		if err != nil {
			return answer{}, err
		}
		return answer{}, a.apply(c.ctx, ns, plan)
	})
	return a.asks(cmd)
}

// apply carries out a plan. Even a plan without changes is applied, to record what the manifest
// manages.
func (a *app) apply(ctx context.Context, ns *admin.Namespace, plan *admin.Plan) error {
	var done atomic.Int64
	a.progress.say(func() string { return fmt.Sprintf("%d of %s", done.Load(), count(plan.Changes(), "changes")) })
	plan.Progress = func(n, _ int) { done.Store(int64(n)) }
	err := ns.Apply(ctx, plan)
	left := 0
	for _, s := range plan.Steps {
		if s.Err != nil && s.Action != admin.ActionUnchanged {
			left++
		}
	}
	switch n := plan.Changes(); {
	case err == nil:
		a.say("%s applied", count(n, "changes"))
	case left < n:
		a.say("%d of %s applied; the same command goes on with the rest", n-left, count(n, "changes"))
	}
	return err
}

// plan reads a manifest and compares it with the table.
func (a *app) plan(c *call) (*admin.Namespace, *admin.Plan, error) {
	file := c.args[0]
	text, err := a.read(file)
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", file, err)
	}
	if c.cmd.Flags().Changed("namespace") && a.namespace != m.Namespace {
		return nil, nil, usage(c.cmd, "the manifest is for namespace %q, --namespace says %q", m.Namespace, a.namespace)
	}
	a.namespace = m.Namespace
	t, err := a.open(c.ctx)
	if err != nil {
		return nil, nil, err
	}
	ns, err := t.Namespace(c.ctx, m.Namespace)
	if err != nil {
		return nil, nil, err
	}
	plan, err := ns.Plan(c.ctx, m)
	return ns, plan, err
}

func (a *app) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(file)
}

type shownStep struct {
	Action   admin.Action
	From, To *admin.Config // nil: none

	FromEntity, ToEntity *admin.Entity // set instead by a step about a description
}

func planAnswer(plan *admin.Plan) answer {
	steps := make([]shownStep, len(plan.Steps))
	r := rows{head: []string{"action", "entity", "resource", "from", "to"}}
	for i, s := range plan.Steps {
		steps[i] = shownStep{Action: s.Action, FromEntity: s.FromEntity, ToEntity: s.ToEntity}
		if !describes(s) && s.Action != admin.ActionCreate {
			steps[i].From = &s.From
		}
		if !describes(s) && s.Action != admin.ActionDelete {
			steps[i].To = &s.To
		}
		from, to := s.Before(), s.After()
		r.add(s.Action, s.Scope.Entity, s.Scope.Resource, strings.Join(from, "; "), strings.Join(to, "; "))
	}
	value := map[string]any{"changes": plan.Changes(), "unfinished": plan.Unfinished, "summary": kinds(plan),
		"steps": steps}
	return answer{value: value, rows: r, text: diff(plan)}
}

// describes reports whether a step changes the description of an entity.
func describes(s admin.Step) bool { return s.FromEntity != nil || s.ToEntity != nil }

// kinds counts the steps of a plan by kind.
func kinds(plan *admin.Plan) map[string]int {
	n := map[string]int{}
	for _, s := range plan.Steps {
		n[string(s.Action)]++
	}
	return n
}

// summary summarizes a plan: "2500 changes to apply: 2000 to create, 500 to delete; 12 unchanged".
func summary(plan *admin.Plan) string {
	n := kinds(plan)
	text := count(plan.Changes(), "changes") + " to apply"
	var parts []string
	for _, do := range []admin.Action{admin.ActionCreate, admin.ActionUpdate, admin.ActionDelete} {
		if n := n[string(do)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", n, do))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if n := n[string(admin.ActionUnchanged)]; n > 0 {
		text += fmt.Sprintf("; %d unchanged", n)
	}
	if plan.Unfinished {
		text += "; an application before is unfinished: all buckets are looked at"
	}
	return text
}

// diff returns a plan as lines removed and lines added.
func diff(plan *admin.Plan) string {
	marks := map[admin.Action]string{admin.ActionCreate: "+", admin.ActionUpdate: "~", admin.ActionDelete: "-"}
	var out strings.Builder
	for _, s := range plan.Steps {
		if s.Action == admin.ActionUnchanged {
			continue
		}
		fmt.Fprintln(&out, harmless(fmt.Sprintf("%s %s %s", marks[s.Action], s.Action, s.Subject())))
		for _, l := range differences(s.Before(), s.After()) {
			fmt.Fprintln(&out, "    "+harmless(l))
		}
	}
	if plan.Changes() == 0 {
		return "nothing to change\n"
	}
	return out.String()
}
