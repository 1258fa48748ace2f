package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// limitsChange is what set and delete are asked to do.
type limitsChange struct {
	at                 admin.Scope
	everybody, replace bool
}

func (l *limitsChange) flags(a *app, cmd *cobra.Command) *cobra.Command {
	return a.asks(everybodyFlag(scopeFlags(cmd, &l.at), &l.everybody))
}

// check wants either a scope or everybody.
func (l *limitsChange) check(c *cobra.Command) error {
	if l.at == (admin.Scope{}) && !l.everybody {
		return usage(c, "neither --entity nor --resource is given: --everybody changes everybody's default")
	}
	return notBoth(c, l.at, l.everybody)
}

func limitsSet(a *app) *cobra.Command {
	var l limitsChange
	var limits []limiter.Limit
	cmd := l.flags(a, a.inNamespace(&cobra.Command{
		Use: "set [-e ENTITY] [-r RESOURCE] LIMIT...", Short: "store limits; others stay",
		Long: "Store limits, and bring them to all buckets. Limits with other names stay. The command\n" +
			"shows the difference first, and asks (unless --yes).\n\n" + manifest.Syntax,
		Example: "  zae-limiter limits set -r gpt-4 rpm=600 tpm=40000\n" +
			"  zae-limiter limits set -e acme -r gpt-4 rpm=6000:12000\n" +
			"  zae-limiter limits set --everybody --replace rpm=100",
		PreRunE: func(c *cobra.Command, texts []string) (err error) {
			if limits, err = parseLimits(c, texts); err != nil {
				return err
			}
			return l.check(c)
		},
	}, func(c *call) (answer, error) {
		return l.set(c, limits)
	}))
	cmd.Flags().BoolVar(&l.replace, "replace", false, "remove the limits that are not named")
	return cmd
}

// set stores limits at the scope and answers with what it holds then.
func (l *limitsChange) set(c *call, limits []limiter.Limit) (answer, error) {
	was, err := c.stored(l.at)
	if unanswered(err) {
		return answer{}, err
	}
	if err != nil && !l.replace {
		return answer{}, fmt.Errorf("%w (--replace stores others in their place)", err)
	}
	now := was
	now.Limits, now.Err = limits, nil
	if !l.replace {
		now.Limits = merge(was.Limits, limits)
	}
	if err != nil { // what cannot be read cannot be compared either
		question := fmt.Sprintf("Replace the limits of %s, which cannot be read (%v)?", l.at, err)
		return c.sure(question, func() (answer, error) {
			return configsAnswer(now), c.ns.SetLimits(c.ctx, l.at, now.Limits...)
		})
	}
	question := fmt.Sprintf("Change the limits of %s?", l.of())
	return c.change(question, l.at.String()+" ", was.Lines(), now.Lines(), func() (answer, error) {
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

// unanswered reports whether a read has failed without an answer. A stored configuration that cannot be
// decoded may be replaced; an unknown one may not.
func unanswered(err error) bool {
	if errors.Is(err, admin.ErrConfig) {
		return false
	}
	return errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrSetup) ||
		errors.Is(err, limiter.ErrInvalid) || errors.Is(err, context.Canceled)
}

// of names the scope in a question.
func (l *limitsChange) of() string {
	if l.everybody {
		return "everybody, wherever nothing more specific is stored"
	}
	return l.at.String()
}

// merge returns limits, with the ones there that have other names, in order of name.
func merge(there, limits []limiter.Limit) []limiter.Limit {
	out := slices.Clone(limits)
	for _, l := range there {
		if !slices.ContainsFunc(limits, func(x limiter.Limit) bool { return x.Name == l.Name }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(x, y limiter.Limit) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func limitsDelete(a *app) *cobra.Command {
	var l limitsChange
	return l.flags(a, a.inNamespace(&cobra.Command{
		Use:   "delete [-e ENTITY] [-r RESOURCE]",
		Short: "remove the limits of one scope; then the next wider one applies",
		Long: "Remove all limits of one scope; then the next wider one applies. The command shows them\n" +
			"first, and asks (unless --yes).",
		PreRunE: func(c *cobra.Command, _ []string) error { return l.check(c) },
	}, func(c *call) (answer, error) {
		return l.remove(c)
	}))
}

// remove deletes the limits of the scope and answers with them.
func (l *limitsChange) remove(c *call) (answer, error) {
	was, unread := c.stored(l.at)
	question := fmt.Sprintf("Remove the limits of %s?", l.of())
	if unanswered(unread) {
		return answer{}, unread
	}
	if unread != nil {
		c.leaves(fmt.Sprintf("%s what cannot be read: %v", l.at, unread))
		return c.sure(question, func() (answer, error) {
			return l.removed(was), c.ns.DeleteLimits(c.ctx, l.at)
		})
	}
	now, gone := was, admin.Config{Scope: l.at, Limits: was.Limits}
	now.Limits = nil
	return c.change(question, l.at.String()+" ", was.Lines(), now.Lines(), func() (answer, error) {
		return l.removed(gone), c.ns.ChangeLimits(c.ctx, was)
	}, func() (answer, error) { return l.removed(now), nil })
}

// removed answers with what has left the scope.
func (l *limitsChange) removed(was admin.Config) answer {
	r := rows{head: []string{"removed: entity", "resource", "limit"}}
	for _, limit := range was.Limits {
		r.add(anyone(l.at.Entity), anyone(l.at.Resource), limit.Name)
	}
	return answer{value: map[string]any{"deleted": was}, rows: r}
}
