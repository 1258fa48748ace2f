package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// document is a manifest as it is written.
type document struct {
	Namespace string               `yaml:"namespace"`
	System    *system              `yaml:"system"`
	Resources map[string]*section  `yaml:"resources"`
	Entities  map[string]*entities `yaml:"entities"`

	lines map[string]int // of limits, by their place
}

type system struct {
	OnUnavailable *string           `yaml:"on_unavailable"`
	Limits        map[string]*limit `yaml:"limits"`
}

type entities struct {
	Name      *string             `yaml:"name"`
	Parent    *string             `yaml:"parent"`
	Cascade   *flag               `yaml:"cascade"`
	Metadata  map[string]any      `yaml:"metadata"`
	Resources map[string]*section `yaml:"resources"`
}

type section struct {
	Disabled *disabled         `yaml:"disabled"`
	Cascade  *flag             `yaml:"cascade"`
	Limits   map[string]*limit `yaml:"limits"`
}

// whole is a number without a fraction, written as decimal digits: the parser's own
// integers are octal with a zero in front, and accept 1_000.
type whole int64

// UnmarshalYAML reads decimal digits, with a sign maybe.
func (w *whole) UnmarshalYAML(node *yaml.Node) error {
	n, err := strconv.ParseInt(node.Value, 10, 64)
	plain := node.Tag == "!!int" && strings.TrimPrefix(node.Value, "+") == strconv.FormatInt(n, 10)
	if err != nil || !plain {
		return fmt.Errorf("found %q, want a whole number", node.Value)
	}
	*w = whole(n)
	return nil
}

// Parse reads a manifest, YAML or JSON, and validates it. Keys that are not known,
// or that are there twice, are errors. The error is a limiter.ErrInvalid that names
// the place.
func Parse(text []byte) (admin.Manifest, error) {
	doc, err := read(text)
	if err != nil {
		return admin.Manifest{}, fmt.Errorf("%w: manifest: %w", limiter.ErrInvalid, err)
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

func read(text []byte) (doc document, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var node yaml.Node
	if err = d.Decode(&node); errors.Is(err, io.EOF) {
		return doc, nil // nothing there, which says no namespace
	}
	if err == nil { // finds aliases without end; keys that are there twice are found below
		err = node.Load(new(any), yaml.WithUniqueKeys(false))
	}
	if err != nil {
		return doc, err
	}
	r := reader{lines: map[string]int{}}
	if r.read(node.Content[0], reflect.ValueOf(&doc).Elem(), nil); r.wrong != nil {
		return doc, errors.New(strings.Join(r.wrong, "; "))
	}
	doc.lines = r.lines
	if more := d.Decode(&node); !errors.Is(more, io.EOF) {
		err = errors.New("more than one document")
	}
	return doc, err
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
	case bool(*s.Cascade):
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
			if line := d.lines[place+": limits: "+name]; line > 0 {
				place = fmt.Sprintf("line %d: %s", line, place)
			}
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
		out = append(out, public)
	}
	return out, errors.Join(errs...)
}

// limit returns the limit that is declared: a kind, and what all kinds may have.
func (l *limit) limit(name string) (limiter.Limit, error) {
	out, err := l.kind(name)
	if err != nil || l.Floors == nil && l.Ahead == nil && len(l.Windows) == 0 {
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
