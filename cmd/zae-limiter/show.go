package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func policyOf(p limiter.Policy) string {
	word, _ := validate.PolicyWord(p)
	return word
}

// saidText describes the settings of a scope other than limits: "disabled, cascade: off".
func saidText(a admin.Access, c admin.Cascade) string {
	return strings.Join(admin.Config{Access: a, Cascade: c}.Lines(), ", ")
}

func days(d time.Duration) int64 { return int64(d / (24 * time.Hour)) }

// anyone writes a star for an unset part of a scope.
func anyone(s string) string { return cmp.Or(s, "*") }

// addConfig adds a row for access and cascade, and one for each limit. Each row begins with the
// cells of first.
func addConfig(r *rows, c admin.Config, first ...any) {
	add := func(limit string, figures ...any) {
		r.add(slices.Concat(first, []any{anyone(c.Entity), anyone(c.Resource), limit}, figures)...)
	}
	if said := saidText(c.Access, c.Cascade); said != "" {
		add("", "", "", "", said)
	}
	if c.Err != nil {
		add("", "", "", "", "refused: "+plain(c.Err.Error()))
	}
	for _, l := range c.Limits {
		add(l.Name, figures(l)...)
	}
	for _, raise := range c.Raises {
		add(raise.Limit, "", "", "", raise.String())
	}
}

// figures are the capacity, refill, period and note of a limit. A cell is empty if the limit's kind
// does not use the number.
func figures(l limiter.Limit) []any {
	row := []any{"", "", "", manifest.Note(l)}
	if l.IsBlocked() || l.IsUnlimited() {
		return row
	}
	row[0] = amountOf(l, l.Capacity)
	if l.Refill != 0 {
		row[1] = amountOf(l, l.Refill)
	}
	if l.Period != 0 {
		row[2] = l.Period
	}
	return row
}

var configsHead = []string{"entity", "resource", "limit", "capacity", "refill", "every", "note"}

func configsAnswer(configs ...admin.Config) answer {
	r := rows{head: configsHead}
	for _, c := range configs {
		addConfig(&r, c)
	}
	return answer{value: configs, rows: r}
}

func resolvedAnswer(found admin.Resolved) answer {
	r := rows{head: append([]string{"in force"}, configsHead...)}
	if said := saidText(found.Access, found.Cascade); said != "" {
		r.add("yes", "", "", "", "", "", "", said)
	}
	show := func(c admin.Config, inForce string) {
		// The row above shows the settings of all scopes together.
		c.Access, c.Cascade, c.Raises = admin.AccessInherited, admin.CascadeInherited, nil
		addConfig(&r, c, inForce)
	}
	show(found.From, "yes")
	addConfig(&r, admin.Config{Scope: found.From.Scope, Raises: found.Raises}, "yes")
	for _, c := range found.Shadowed {
		show(c, "no")
	}
	return answer{value: found, rows: r}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isNotFound(err error) bool { return errors.Is(err, admin.ErrNotFound) }
