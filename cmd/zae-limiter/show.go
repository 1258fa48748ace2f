package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What is printed as JSON has the names of manifests where those have one.

type limitJSON struct {
	Name         string `json:"name"`
	Capacity     int64  `json:"capacity"`
	RefillAmount int64  `json:"refill_amount"`
	RefillPeriod int64  `json:"refill_period"` // seconds
}

type configJSON struct {
	Entity         string      `json:"entity,omitempty"`
	Resource       string      `json:"resource,omitempty"`
	Limits         []limitJSON `json:"limits"`
	OnUnavailable  string      `json:"on_unavailable,omitempty"`
	AuditRetention int64       `json:"audit_retention_days,omitempty"`
}

type resolvedJSON struct {
	From          configJSON   `json:"from"`
	Shadowed      []configJSON `json:"shadowed"`
	OnUnavailable string       `json:"on_unavailable,omitempty"`
}

func limitsOf(limits []limiter.Limit) []limitJSON {
	out := []limitJSON{}
	for _, l := range limits {
		out = append(out, limitJSON{l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second)})
	}
	return out
}

func policyOf(p limiter.Policy) string {
	if p == limiter.PolicyDefault {
		return ""
	}
	return p.String()
}

func configOf(c admin.Config) configJSON {
	return configJSON{c.Entity, c.Resource, limitsOf(c.Limits), policyOf(c.OnUnavailable), days(c.AuditRetention)}
}

func days(d time.Duration) int64 { return int64(d / (24 * time.Hour)) }

// anyone writes a star for a part of a scope that is not set.
func anyone(s string) string { return cmp.Or(s, "*") }

func limitText(l limiter.Limit) string {
	switch {
	case l.IsBlocked():
		return "blocked"
	case l.IsUnlimited():
		return "unlimited"
	}
	return ""
}

func (a *app) printConfigs(configs ...admin.Config) error {
	r := rows{head: []string{"entity", "resource", "limit", "capacity", "refill", "every", "note"}}
	all := []configJSON{}
	for _, c := range configs {
		all = append(all, configOf(c))
		for _, l := range c.Limits {
			r.add(anyone(c.Entity), anyone(c.Resource), l.Name, l.Capacity, l.Refill, l.Period, limitText(l))
		}
	}
	return a.print(all, r)
}

func (a *app) printResolved(found admin.Resolved) error {
	r := rows{head: []string{"in force", "entity", "resource", "limit", "capacity", "refill", "every", "note"}}
	from := admin.Config{Scope: found.From, Limits: found.Limits}
	value := resolvedJSON{configOf(from), []configJSON{}, policyOf(found.OnUnavailable)}
	for i, c := range append([]admin.Config{from}, found.Shadowed...) {
		word := "yes"
		if i > 0 {
			word = "no"
			value.Shadowed = append(value.Shadowed, configOf(c))
		}
		for _, l := range c.Limits {
			r.add(word, anyone(c.Entity), anyone(c.Resource), l.Name, l.Capacity, l.Refill, l.Period, limitText(l))
		}
	}
	return a.print(value, r)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isNotFound(err error) bool { return errors.Is(err, admin.ErrNotFound) }
