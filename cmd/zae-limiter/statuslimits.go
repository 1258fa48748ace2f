package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/admin"
)

// maxRefused is how many refused scopes a detail lists.
const maxRefused = 5

// limitsPart reports how many scopes of the namespaces have stored limits, and which of these
// limits cannot be served. Requests for such limits are refused.
func limitsPart(ctx context.Context, t *admin.Table, namespaces []string) part {
	stored, refused := 0, []string{}
	for _, name := range namespaces {
		ns, err := t.Namespace(ctx, name)
		if err != nil {
			return unknownPart("limits", name, err)
		}
		for config, err := range ns.Configs(ctx, admin.Scope{}) {
			if stored++; err == nil {
				continue
			}
			if config.Err == nil {
				return unknownPart("limits", name, err)
			}
			refused = append(refused, fmt.Sprintf("%s: %v", name, err))
		}
	}
	p := part{Part: "limits", Name: fmt.Sprint(stored), State: "served", OK: len(refused) == 0,
		Figures: map[string]any{"scopes": stored, "refused": refused}}
	if !p.OK {
		p.State = "refused"
		p.Detail = strings.Join(refused[:min(len(refused), maxRefused)], "; ")
		if more := len(refused) - maxRefused; more > 0 {
			p.Detail += fmt.Sprintf("; and %d more: zae-limiter limits list", more)
		}
	}
	return p
}

// refusedLimits returns the answer no if stored limits cannot be served. Parts that cannot be read do
// not count.
func (a *app) refusedLimits(ctx context.Context) error {
	for _, p := range a.contentParts(ctx) {
		if p.State == "refused" {
			return answerNo("limits that are not served: %s", p.Detail)
		}
	}
	return nil
}
