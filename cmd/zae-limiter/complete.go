package main

import (
	"context"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// Names to complete come from the table. A completion takes at most two seconds, or --timeout, and
// offers at most a hundred names.
const (
	completionTime = 2 * time.Second
	mostOffered    = 100
)

// harmlessInShell matches names that need no quoting in a shell. Other names, such as $(reboot),
// are not offered.
var harmlessInShell = regexp.MustCompile(`^[\pL\pN_.,:/@%+-]+$`)

// complete makes the shell offer the values of a flag.
func complete(c *cobra.Command, flag string, values []string) {
	register(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func register(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("bug: " + err.Error())
	}
}

// In the completion script for bash, wordsInBash gets the typed words from the package
// bash-completion. ownWordsInBash does it without that package.
const (
	wordsInBash    = `    _get_comp_words_by_ref "$@" cur prev words cword` + "\n"
	ownWordsInBash = `    IFS=$' \t\n' read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
`
)

// completesAnyBash makes completion work in a bash without the package bash-completion.
func (a *app) completesAnyBash(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic("bug: " + err.Error())
	}
	before, after, _ := strings.Cut(bash.Long, "This script depends on")
	_, after, _ = strings.Cut(after, "\n\n")
	bash.Long = before + after
	bash.RunE = func(c *cobra.Command, _ []string) error {
		plain, err := c.Flags().GetBool("no-descriptions")
		var script strings.Builder
		if err == nil {
			err = root.GenBashCompletionV2(&script, !plain)
		}
		if err == nil {
			_, err = io.WriteString(a, strings.Replace(script.String(), wordsInBash, ownWordsInBash, 1))
		}
		return err
	}
}

// offerNames completes names from the table, for every flag and argument that is a name.
func (a *app) offerNames(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.offerNames(sub)
	}
	for flag, list := range map[string]lister{
		"entity": a.entities, "resource": a.resources, "parent": a.entities, "namespace": a.namespaces,
	} {
		if f := cmd.LocalFlags().Lookup(flag); f != nil && !cmd.HasParent() == (flag == "namespace") {
			register(cmd, flag, a.offers(list))
		}
	}
	words := arguments(cmd)
	if len(words) == 0 || cmd.ValidArgs != nil || cmd.ValidArgsFunction != nil {
		return
	}
	group := ""
	if cmd.HasParent() {
		group = cmd.Parent().Name()
	}
	cmd.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		word := words[min(len(args), len(words)-1)]
		if len(args) >= len(words) && !strings.Contains(word, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := map[string]lister{"ENTITY": a.entities, "RESOURCE": a.resources, "[LIMIT...]": a.limits}[word]
		switch {
		case strings.HasPrefix(word, "LIMIT"): // LIMIT=AMOUNT
			offered, _ := a.offers(a.limits)(c, args, typed)
			for i := range offered {
				offered[i] += "="
			}
			return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		case group == "entity" && word == "ID":
			list = a.entities
		case group == "namespace":
			list = map[string]lister{"delete": a.namespaces, "recover": a.orphaned, "purge": a.orphaned}[c.Name()]
		case word == "FILE":
			return nil, cobra.ShellCompDirectiveDefault
		}
		if list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offers(list)(c, args, typed)
	}
}

// lister calls offer with each name, until offer returns false.
type lister func(c *call, offer func(name string, err error) bool)

// offers completes the names of a list.
func (a *app) offers(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if !cmd.Flags().Changed("timeout") {
			a.timeout = completionTime
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		found := map[string]bool{}
		t, err := a.open(ctx)
		if err == nil {
			list(&call{app: a, ctx: ctx, cmd: cmd, args: args, all: t}, func(name string, err error) bool {
				if err == nil && strings.HasPrefix(name, typed) && harmlessInShell.MatchString(name) {
					found[name] = true
				}
				return len(found) < mostOffered && ctx.Err() == nil
			})
		}
		return slices.Sorted(maps.Keys(found)), cobra.ShellCompDirectiveNoFileComp
	}
}

// scope returns the scope that the flags and the earlier arguments name.
func (c *call) scope() (at admin.Scope) {
	at.Entity, _ = c.cmd.Flags().GetString("entity") // empty without such a flag
	at.Resource, _ = c.cmd.Flags().GetString("resource")
	for i, word := range arguments(c.cmd)[:min(len(c.args), len(arguments(c.cmd)))] {
		switch word {
		case "ENTITY":
			at.Entity = c.args[i]
		case "RESOURCE":
			at.Resource = c.args[i]
		}
	}
	return at
}

// named lists one part of the scopes' names.
func (c *call) named(at admin.Scope, part func(admin.Scope) string, offer func(string, error) bool) {
	ns, err := c.all.Namespace(c.ctx, c.namespace)
	if err != nil {
		return
	}
	for s, err := range ns.Names(c.ctx, at) {
		if name := part(s); name != "" && !offer(name, err) {
			return
		}
	}
}

func (a *app) entities(c *call, offer func(string, error) bool) {
	c.named(admin.Scope{Resource: c.scope().Resource}, func(s admin.Scope) string { return s.Entity }, offer)
}

func (a *app) resources(c *call, offer func(string, error) bool) {
	part := func(s admin.Scope) string { return s.Resource }
	c.named(admin.Scope{Entity: c.scope().Entity}, part, offer)
	c.named(admin.Scope{}, part, offer)
}

// limits lists the limits of a scope's bucket, or the limits stored at the scope.
func (a *app) limits(c *call, offer func(string, error) bool) {
	ns, err := c.all.Namespace(c.ctx, c.namespace)
	if err != nil {
		return
	}
	at := c.scope()
	if at.Entity != "" && at.Resource != "" {
		buckets, _ := ns.Peek(c.ctx, at.Entity, at.Resource)
		for _, b := range buckets[:min(len(buckets), 1)] {
			for _, l := range b.Levels {
				offer(l.Name, nil)
			}
		}
	}
	config, _ := ns.Config(c.ctx, at)
	for _, l := range config.Limits {
		offer(l.Name, nil)
	}
}

func (a *app) namespaces(c *call, offer func(string, error) bool) {
	for n, err := range c.all.Namespaces(c.ctx) {
		if !offer(n.Name, err) {
			return
		}
	}
}

// orphaned lists the IDs of deleted namespaces.
func (a *app) orphaned(c *call, offer func(string, error) bool) {
	for n, err := range c.all.Orphans(c.ctx) {
		if !offer(n.ID, err) {
			return
		}
	}
}
