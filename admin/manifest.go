package admin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Manifest declares the stored limits of a namespace, and its hierarchy. Package admin/manifest
// reads it from YAML or JSON; [Namespace.Plan] compares it with the table.
type Manifest struct {
	Namespace string // its name
	// System is what holds for everybody else: Limits, which may be empty, and OnUnavailable.
	// Nil: not declared.
	System *Config
	// Resources are the limits of all entities, by resource.
	Resources map[string][]limiter.Limit
	// Entities are the limits of single entities, by entity and resource; those
	// for all other resources are under the empty name.
	Entities map[string]map[string][]limiter.Limit
	// Access and Cascades are what scopes say besides, as [Namespace.SetAccess] and
	// [Namespace.SetCascade] store it. Such a scope needs no limits. What a scope says that is
	// not declared stays, unless the manifest before declared it.
	Access   map[Scope]Access
	Cascades map[Scope]Cascade
	// Described are entities with their names, parents and metadata, as [Namespace.CreateEntity]
	// stores them, each once, in any order. A parent is described too, or stored already.
	Described []Entity
}

// Validate returns nil, or an ErrInvalid that names the field, its value and what it accepts.
func (m Manifest) Validate() error {
	if err := checkNamespace(m.Namespace); err != nil {
		return err
	}
	if s := m.System; s != nil && (s.Scope != Scope{} || s.AuditRetention != 0 || s.Access != AccessInherited ||
		s.Cascade != CascadeInherited) {
		return validate.Invalid("System", s.Scope.String(), "only Limits and OnUnavailable")
	}
	if _, unnamed := m.Entities[""]; unnamed {
		return validate.Invalid("entities", "", layout.EntityNames)
	}
	if _, unnamed := m.Resources[""]; unnamed {
		return validate.Invalid("resources", "", layout.ResourceNames)
	}
	for _, d := range m.declared() {
		if err := m.check(d); err != nil {
			return err
		}
	}
	return m.checkDescribed()
}

// check validates the declaration of one scope.
func (m Manifest) check(d Config) error {
	if _, err := policyWord(d.OnUnavailable); err != nil {
		return err
	}
	err := d.Scope.validate()
	if err == nil {
		_, err = storedLimits(d.Limits)
	}
	if err == nil {
		_, err = storedAccess(d.Access, d.Cascade)
	}
	access, switched := m.Access[d.Scope]
	cascade, cascades := m.Cascades[d.Scope]
	switch {
	case err != nil:
	case (switched || cascades) && d.Scope == Scope{}:
		err = validate.Invalid("Access or Cascade of", d.Scope.String(), "an entity, a resource or both")
	case switched && access == AccessInherited:
		err = validate.Invalid("Access", access.String(), "another one, or none")
	case cascades && cascade == CascadeInherited:
		err = validate.Invalid("Cascade", cascade.String(), "another one, or none")
	case len(d.Limits) == 0 && !switched && !cascades && d.Scope != Scope{}:
		err = validate.Invalid("limits", validate.Plain("empty"), "at least one")
	}
	if err != nil {
		return fmt.Errorf("limits of %s: %w", d.Scope, err)
	}
	return nil
}

// declared returns what the manifest declares, in the order in which it is applied:
// the most specific scopes first, so that nobody falls to a wider one meanwhile.
func (m Manifest) declared() []Config {
	at := map[Scope]Config{}
	add := func(s Scope, limits []limiter.Limit) {
		at[s] = Config{Scope: s, Limits: limits, Access: m.Access[s], Cascade: m.Cascades[s]}
	}
	for s := range m.Access {
		add(s, nil)
	}
	for s := range m.Cascades {
		add(s, nil)
	}
	for resource, limits := range m.Resources {
		add(Scope{Resource: resource}, limits)
	}
	for entity, of := range m.Entities {
		for resource, limits := range of {
			add(Scope{entity, resource}, limits)
		}
	}
	if m.System != nil {
		c := at[Scope{}]
		c.Limits, c.OnUnavailable = m.System.Limits, m.System.OnUnavailable
		at[Scope{}] = c
	}
	return slices.SortedFunc(maps.Values(at), func(a, b Config) int {
		return cmp.Or(a.Scope.width()-b.Scope.width(), strings.Compare(a.Entity, b.Entity),
			strings.Compare(a.Resource, b.Resource))
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
	text, err := json.Marshal([]any{m.Namespace, m.declared(), m.Described})
	if err != nil {
		panic("bug: metadata that were accepted: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
