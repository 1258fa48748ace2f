package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func limitsSet(a *app) *cobra.Command {
	var at target
	var limits []limiter.Limit
	replace := false
	cmd := at.flags(true, a.inNamespace(&cobra.Command{
		Use: "set [-e ENTITY] [-r RESOURCE] LIMIT...", Short: "store limits; others stay",
		Long: "Store limits, and bring them to all buckets. Limits with other names stay. The command\n" +
			"shows the difference first, and asks (unless --yes).\n\n" + manifest.Syntax,
		Example: "  zae-limiter limits set -r gpt-4 rpm=600 tpm=40000\n" +
			"  zae-limiter limits set -e acme -r gpt-4 rpm=6000:12000\n" +
			"  zae-limiter limits set --everybody --replace rpm=100",
		PreRunE: func(c *cobra.Command, texts []string) (err error) {
			limits, err = parseLimits(c, texts)
			return err
		},
	}, func(c *call) (answer, error) {
		return c.setLimits(at, limits, replace)
	}))
	cmd.Flags().BoolVar(&replace, "replace", false, "remove the limits that are not named")
	return a.asks(cmd)
}

// setLimits stores limits at a scope and shows the result.
func (c *call) setLimits(at target, limits []limiter.Limit, replace bool) (answer, error) {
	was, err := c.stored(at.Scope)
	if unanswered(err) {
		return answer{}, err
	}
	if err != nil && !replace {
		return answer{}, fmt.Errorf("%w (--replace stores others in their place)", err)
	}
	now := was
	now.Limits, now.Err = limits, nil
	if !replace {
		now.Limits = merge(was.Limits, limits)
	}
	if err != nil { // unreadable limits cannot be compared
		question := fmt.Sprintf("Replace the limits of %s, which cannot be read (%v)?", at.Scope, err)
		return c.sure(question, func() (answer, error) {
			return configsAnswer(now), c.ns.SetLimits(c.ctx, at.Scope, now.Limits...)
		})
	}
	question := fmt.Sprintf("Change the limits of %s?", at.words())
	return c.change(question, at.String()+" ", was.Lines(), now.Lines(), func() (answer, error) {
		return configsAnswer(now), c.ns.ChangeLimits(c.ctx, was, now.Limits...)
	}, func() (answer, error) {
		c.say("nothing to change")
		return configsAnswer(now), nil
	})
}

// stored returns the configuration of a scope, or an empty one.
func (c *call) stored(at admin.Scope) (admin.Config, error) {
	was, err := c.ns.Config(c.ctx, at)
	if was.Scope = at; isNotFound(err) {
		err = nil
	}
	return was, err
}

// unanswered reports whether a read failed without an answer. A stored configuration that cannot be
// decoded may be replaced; an unknown one must not be.
func unanswered(err error) bool {
	if errors.Is(err, admin.ErrConfig) {
		return false
	}
	return errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrSetup) ||
		errors.Is(err, limiter.ErrInvalid) || errors.Is(err, context.Canceled)
}

// words names the scope in a question.
func (t *target) words() string {
	if t.everybody {
		return "everybody, wherever nothing more specific is stored"
	}
	return t.String()
}

// merge adds the limits to the present ones, replaces those with the same name, and sorts by name.
func merge(there, limits []limiter.Limit) []limiter.Limit {
	named := map[string]limiter.Limit{}
	for _, l := range slices.Concat(there, limits) {
		named[l.Name] = l
	}
	return slices.SortedFunc(maps.Values(named), func(x, y limiter.Limit) int {
		return strings.Compare(x.Name, y.Name)
	})
}

func limitsDelete(a *app) *cobra.Command {
	var at target
	return a.asks(at.flags(true, a.inNamespace(&cobra.Command{
		Use:   "delete [-e ENTITY] [-r RESOURCE]",
		Short: "remove the limits of one scope; then the next wider one applies",
		Long: "Remove all limits of one scope; then the next wider one applies. The command shows them\n" +
			"first, and asks (unless --yes).",
	}, func(c *call) (answer, error) {
		return c.removeLimits(at)
	})))
}

// removeLimits deletes the limits of a scope and shows them.
func (c *call) removeLimits(at target) (answer, error) {
	was, unread := c.stored(at.Scope)
	question := fmt.Sprintf("Remove the limits of %s?", at.words())
	if unanswered(unread) {
		return answer{}, unread
	}
	if unread != nil {
		c.leaves(fmt.Sprintf("%s what cannot be read: %v", at.Scope, unread))
		return c.sure(question, func() (answer, error) {
			return removedLimits(was), c.ns.DeleteLimits(c.ctx, at.Scope)
		})
	}
	now, gone := was, admin.Config{Scope: at.Scope, Limits: was.Limits}
	now.Limits = nil
	return c.change(question, at.String()+" ", was.Lines(), now.Lines(), func() (answer, error) {
		return removedLimits(gone), c.ns.ChangeLimits(c.ctx, was)
	}, func() (answer, error) { return removedLimits(now), nil })
}

// removedLimits shows the limits that were deleted.
func removedLimits(was admin.Config) answer {
	r := rows{head: []string{"removed: entity", "resource", "limit"}}
	for _, limit := range was.Limits {
		r.add(anyone(was.Entity), anyone(was.Resource), limit.Name)
	}
	return answer{value: map[string]any{"deleted": was}, rows: r}
}
