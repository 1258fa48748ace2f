package manifest

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/yamldoc"
)

// This file is about what a manifest says besides limits: switches and descriptions.

// described returns the entities of which more is said than their limits, and those that are the
// parents of others.
func (d document) described() (out []admin.Entity) {
	parents := map[string]bool{}
	for _, e := range d.Entities {
		parents[e.Parent] = true
	}
	for _, id := range slices.Sorted(maps.Keys(d.Entities)) {
		e := d.Entities[id]
		said := slices.ContainsFunc([]string{"name", "parent", layout.AttrCascade, "metadata"}, func(key string) bool {
			return e.Lines[key] != 0
		})
		if said || parents[id] {
			out = append(out, admin.Entity{ID: id, Name: e.Name, Parent: e.Parent, Cascade: e.Cascade,
				Metadata: e.Metadata})
		}
	}
	return out
}

// disabled is what a scope says about its requests.
type disabled admin.Access

// UnmarshalYAML reads a truth value, or bypass.
func (d *disabled) UnmarshalYAML(node *yaml.Node) error {
	is, ok := yamldoc.Truth(node)
	switch {
	case is:
		*d = disabled(admin.AccessDisabled)
	case ok:
		*d = disabled(admin.AccessEnabled)
	case node.Value == config.WordBypass:
		*d = disabled(admin.AccessBypassed)
	default:
		return fmt.Errorf("found %q, want true, false or bypass", node.Value)
	}
	return nil
}
