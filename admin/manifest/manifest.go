package manifest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/internal/yamldoc"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// document is a manifest as it is written.
type document struct {
	Namespace string               `yaml:"namespace"`
	System    *system              `yaml:"system"`
	Resources map[string]*section  `yaml:"resources"`
	Entities  map[string]*entities `yaml:"entities"`
}

type system struct {
	OnUnavailable *string           `yaml:"on_unavailable"`
	Limits        map[string]*limit `yaml:"limits"`
}

type entities struct {
	Name      string              `yaml:"name"`
	Parent    string              `yaml:"parent"`
	Cascade   bool                `yaml:"cascade"`
	Metadata  map[string]any      `yaml:"metadata"`
	Resources map[string]*section `yaml:"resources"`
	Lines     yamldoc.Lines
}

type section struct {
	Disabled *disabled         `yaml:"disabled"`
	Cascade  *bool             `yaml:"cascade"`
	Limits   map[string]*limit `yaml:"limits"`
}

// special are the keys that are for people and for anchors, and those that manifests of Python, or other parts of
// ours, have, and why they are refused where they stand.
var special = yamldoc.Options{PassOver: "x-", Refused: map[reflect.Type]map[string]string{
	reflect.TypeFor[system](): {
		config.AttrDisabled: "a whole namespace cannot be disabled; disable its resources",
		layout.AttrCascade:  "a whole namespace has no policy; its resources and entities have",
	},
	reflect.TypeFor[section](): {config.AttrOnUnavailable: "only system has it"},
}}

// Parse reads a manifest, YAML or JSON, and validates it. Keys that are not known,
// or that are there twice, are errors. The error is a limiter.ErrInvalid that names
// the place.
func Parse(text []byte) (admin.Manifest, error) {
	var doc document // without a document it says no namespace
	var wrong []string
	for _, mistake := range yamldoc.Read(text, &doc, special) {
		wrong = append(wrong, mistake.String())
	}
	if wrong != nil {
		return admin.Manifest{}, fmt.Errorf("%w: manifest: %s", limiter.ErrInvalid, strings.Join(wrong, "; "))
	}
	m, err := doc.manifest()
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return admin.Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

func (d document) manifest() (admin.Manifest, error) {
	m := admin.Manifest{Namespace: d.Namespace}
	if d.System != nil {
		c := admin.Config{}
		var err error
		if c.Limits, err = d.limits(d.System.Limits, "system"); err != nil {
			return m, err
		}
		if c.OnUnavailable, err = policy(d.System.OnUnavailable); err != nil {
			return m, err
		}
		m.Scopes = append(m.Scopes, c)
	}
	declare := func(at admin.Scope, s *section, where ...string) error {
		c, err := d.section(s, where...)
		c.Scope = at
		m.Scopes = append(m.Scopes, c)
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Resources)) {
		if err := declare(admin.Scope{Resource: name}, d.Resources[name], "resources", name); err != nil {
			return m, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Entities)) {
		e := d.Entities[name]
		if e == nil {
			return m, fmt.Errorf("%w: entities: %s is empty, want resources, name, parent, cascade or metadata",
				limiter.ErrInvalid, name)
		}
		if name == "" {
			return m, validate.Invalid("entities", name, layout.EntityNames)
		}
		for _, resource := range slices.Sorted(maps.Keys(e.Resources)) {
			at := admin.Scope{Entity: name, Resource: resource}
			if resource == layout.DefaultResource {
				at.Resource = ""
			}
			if err := declare(at, e.Resources[resource], "entities", name, "resources", resource); err != nil {
				return m, err
			}
		}
	}
	m.Entities = d.described()
	return m, nil
}

// section returns what a section declares.
func (d document) section(s *section, where ...string) (c admin.Config, err error) {
	if where[len(where)-1] == "" {
		return c, validate.Invalid("resources", "", layout.ResourceNames)
	}
	if s == nil {
		return c, fmt.Errorf("%w: %s is empty, want limits, disabled or cascade", limiter.ErrInvalid,
			strings.Join(where, ": "))
	}
	if s.Disabled != nil {
		c.Access = admin.Access(*s.Disabled)
	}
	switch {
	case s.Cascade == nil:
	case *s.Cascade:
		c.Cascade = admin.CascadeOn
	default:
		c.Cascade = admin.CascadeOff
	}
	c.Limits, err = d.limits(s.Limits, where...)
	return c, err
}

func policy(s *string) (limiter.Policy, error) {
	if s == nil {
		return limiter.PolicyDefault, nil
	}
	if p, ok := validate.PolicyOf[limiter.Policy](*s); ok && p != limiter.PolicyDefault {
		return p, nil
	}
	return 0, fmt.Errorf("%w: system: on_unavailable is %q, want allow or block", limiter.ErrInvalid, *s)
}

// limits returns the limits that stand at a place.
func (d document) limits(all map[string]*limit, where ...string) ([]limiter.Limit, error) {
	var out []limiter.Limit
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		public, err := all[name].limit(name)
		if err != nil {
			place := strings.Join(where, ": ")
			if l := all[name]; l != nil {
				place = fmt.Sprintf("line %d: %s", l.Lines[""], place)
			}
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
		out = append(out, public)
	}
	return out, errors.Join(errs...)
}

// limit returns the limit that is declared: a kind, and what all kinds may have. It is valid.
func (l *limit) limit(name string) (limiter.Limit, error) {
	out, err := l.kind(name)
	if err != nil {
		return out, err
	}
	if len(l.Windows) > 0 {
		if out.Schedule, err = l.schedule(name); err != nil {
			return out, err
		}
	}
	if l.Ahead != nil {
		out.Ahead = time.Duration(min(max(*l.Ahead, -1), 1<<32)) * time.Millisecond
	}
	for class, percent := range l.Floors {
		out = out.WithFloor(class, int(min(max(percent, -1), 100)))
	}
	return out, out.Validate()
}
