package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Manifest declares the stored limits of a namespace. Package admin/manifest reads
// it from YAML or JSON; [Namespace.Plan] compares it with what is stored.
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
}

// Validate returns nil, or an ErrInvalid that names what is not accepted.
func (m Manifest) Validate() error {
	if err := checkNamespace(m.Namespace); err != nil {
		return err
	}
	if s := m.System; s != nil && (s.Scope != Scope{} || s.AuditRetention != 0 || s.Access != AccessInherited) {
		return argument.Invalid("System", s.Scope.String(), "only Limits and OnUnavailable")
	}
	for _, d := range m.declared() {
		if _, err := policyWord(d.OnUnavailable); err != nil {
			return err
		}
		if err := d.Scope.validate(); err != nil {
			return fmt.Errorf("limits of %s: %w", d.Scope, err)
		}
		if _, err := storedLimits(d.Limits); err != nil {
			return fmt.Errorf("limits of %s: %w", d.Scope, err)
		}
		if len(d.Limits) == 0 && d.Scope != (Scope{}) {
			return fmt.Errorf("limits of %s: %w", d.Scope, argument.Invalid("limits", argument.Plain("empty"), "at least one"))
		}
	}
	if _, unnamed := m.Entities[""]; unnamed {
		return argument.Invalid("entities", "", layout.EntityNames)
	}
	if _, unnamed := m.Resources[""]; unnamed {
		return argument.Invalid("resources", "", layout.ResourceNames)
	}
	return nil
}

// declared returns what the manifest declares, in the order in which it is applied:
// the most specific scopes first, so that nobody falls to a wider one meanwhile.
func (m Manifest) declared() []Config {
	var own, rest []Config
	for _, entity := range slices.Sorted(maps.Keys(m.Entities)) {
		for _, resource := range slices.Sorted(maps.Keys(m.Entities[entity])) {
			c := Config{Scope: Scope{entity, resource}, Limits: m.Entities[entity][resource]}
			if resource == "" {
				rest = append(rest, c)
			} else {
				own = append(own, c)
			}
		}
	}
	out := append(own, rest...)
	for _, resource := range slices.Sorted(maps.Keys(m.Resources)) {
		out = append(out, Config{Scope: Scope{Resource: resource}, Limits: m.Resources[resource]})
	}
	if m.System != nil {
		out = append(out, Config{Limits: m.System.Limits, OnUnavailable: m.System.OnUnavailable})
	}
	return out
}

// hash returns "sha256:" and a hash of what is declared, the same as the Python
// provisioner's for the same manifest.
func (m Manifest) hash() string {
	doc := object{"namespace": quoted(m.Namespace)}
	if m.System != nil {
		system := object{"limits": limitsJSON(m.System.Limits)}
		if word, _ := policyWord(m.System.OnUnavailable); word != "" {
			system[config.AttrOnUnavailable] = quoted(word)
		}
		doc["system"] = system.String()
	}
	if len(m.Resources) > 0 {
		resources := object{}
		for name, limits := range m.Resources {
			resources[name] = object{"limits": limitsJSON(limits)}.String()
		}
		doc["resources"] = resources.String()
	}
	if len(m.Entities) > 0 {
		entities := object{}
		for name, of := range m.Entities {
			resources := object{}
			for resource, limits := range of {
				if resource == "" {
					resource = layout.DefaultResource
				}
				resources[resource] = object{"limits": limitsJSON(limits)}.String()
			}
			entities[name] = object{"resources": resources.String()}.String()
		}
		doc["entities"] = entities.String()
	}
	sum := sha256.Sum256([]byte(doc.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func limitsJSON(limits []limiter.Limit) string {
	out := object{}
	for _, l := range limits {
		o := object{}
		for word, value := range argument.Limit[limiter.Calendar](l).Words() {
			if text, ok := value.(string); ok {
				value = quoted(text)
			}
			o[word] = fmt.Sprint(value)
		}
		if l.Floors != "" { // Python knows none
			o["floors"] = quoted(l.Floors)
		}
		if l.Ahead != 0 {
			o["ahead_milliseconds"] = strconv.FormatInt(l.Ahead.Milliseconds(), 10)
		}
		out[l.Name] = o.String()
	}
	return out.String()
}

// object is a JSON object with members that are JSON already.
type object map[string]string

// String returns the object in the form that the hash is defined over: sorted, a
// space after every comma and colon, nothing but ASCII.
func (o object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(key) + ": " + o[key])
	}
	b.WriteByte('}')
	return b.String()
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
