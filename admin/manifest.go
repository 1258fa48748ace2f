package admin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Manifest declares the stored limits of a namespace, and its hierarchy. Package admin/manifest
// reads it from YAML or JSON; [Namespace.Plan] compares it with the table.
type Manifest struct {
	Namespace string // its name
	// Scopes are the declared scopes, each once, in any order: Limits, and Access and Cascade as
	// [Namespace.SetAccess] and [Namespace.SetCascade] store them, at least one of the three. The
	// zero Scope, for everybody else, declares Limits and OnUnavailable, or neither. Stored
	// settings of a scope that are not declared stay, unless the manifest before declared them.
	Scopes []Config
	// Entities are described with their names, parents and metadata, as [Namespace.CreateEntity]
	// stores them, each once, in any order. A parent must be described too, or stored already.
	Entities []Entity
}

// Validate returns nil, or an ErrInvalid that names the field, its value and the accepted values.
func (m Manifest) Validate() error {
	if err := checkNamespace(m.Namespace); err != nil {
		return err
	}
	seen := make(scopeSet, len(m.Scopes))
	for _, c := range m.declared() {
		if seen[c.Scope] {
			return validate.Invalid("Scopes", validate.Plain(c.Scope.String()+" twice"), "every scope once")
		}
		seen[c.Scope] = true
		if err := c.checkDeclared(); err != nil {
			return fmt.Errorf("limits of %s: %w", c.Scope, err)
		}
	}
	return m.checkDescribed()
}

// checkDeclared validates what a scope declares.
func (c Config) checkDeclared() error {
	if err := c.Scope.validate(); err != nil {
		return err
	}
	if _, err := storedLimits(c.Limits); err != nil {
		return err
	}
	if _, err := storedAccess(c.Access, c.Cascade); err != nil {
		return err
	}
	if _, err := policyWord(c.OnUnavailable); err != nil {
		return err
	}
	everybody, says := c.Scope == Scope{}, c.Access != AccessInherited || c.Cascade != CascadeInherited
	switch {
	case everybody && says:
		return validate.Invalid("Access or Cascade of", c.Scope.String(), "an entity, a resource or both")
	case !everybody && c.OnUnavailable != limiter.PolicyDefault:
		return validate.Invalid("OnUnavailable of", c.Scope.String(), "the zero Scope")
	case c.AuditRetention != 0 || len(c.Raises) > 0 || c.Err != nil:
		return validate.Invalid("AuditRetention, Raises or Err of", c.Scope.String(), "none: they are not declared")
	case !everybody && !says && len(c.Limits) == 0:
		return validate.Invalid("limits", validate.Plain("empty"), "at least one")
	}
	return nil
}

// declared returns what scopes declare, in the order in which it is applied:
// the most specific scopes first, so that nobody falls to a wider one meanwhile.
func (m Manifest) declared() []Config {
	return slices.SortedFunc(slices.Values(m.Scopes), func(a, b Config) int {
		return cmp.Or(a.Scope.width()-b.Scope.width(), compareScopes(a.Scope, b.Scope))
	})
}

// width is how many others a scope is for: none, resources, entities, both.
func (s Scope) width() int {
	switch {
	case s.Entity != "" && s.Resource != "":
		return 0
	case s.Entity != "":
		return 1
	case s.Resource != "":
		return 2
	}
	return 3
}

// hash returns "sha256:" and a hash of the declarations, for the record of the last manifest. No client
// compares it.
func (m Manifest) hash() string {
	text, err := json.Marshal([]any{m.Namespace, m.declared(), m.Entities})
	if err != nil {
		panic("bug: metadata that were accepted: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
