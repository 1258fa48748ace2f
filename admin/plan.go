package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Action is what applying a manifest does to one scope.
type Action string

// The actions.
const (
	Create    Action = "create"
	Update    Action = "update" // also where what is stored lacks keys or marks of ours
	Delete    Action = "delete" // it was declared before
	Unchanged Action = "unchanged"
)

// Step is what is to be done at one scope.
type Step struct {
	Action
	From, To Config // zero limits: nothing there

	item item.Item // what was there, exactly
}

// Scope returns where.
func (s Step) Scope() Scope { return s.To.Scope }

// String returns the step as "update acme/gpt-4: rpm 100 per 1m0s -> ...".
func (s Step) String() string {
	text := string(s.Action) + " " + s.Scope().String()
	switch s.Action {
	case Create:
		return text + ": " + describe(s.To)
	case Delete:
		return text + ": " + describe(s.From)
	case Update:
		return text + ": " + describe(s.From) + " -> " + describe(s.To)
	}
	return text
}

func describe(c Config) string {
	var parts []string
	for _, l := range c.Limits {
		parts = append(parts, l.String())
	}
	if c.OnUnavailable != limiter.PolicyDefault {
		parts = append(parts, "on unavailable "+c.OnUnavailable.String())
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// Plan is what applying a manifest would do, in order.
type Plan struct {
	Steps []Step

	hash  string
	state table.Provisioner // when the plan was made
	known item.Item         // its item; nil: there is none
	after table.Provisioner // when all is done
}

// Changes returns how many steps change something.
func (p *Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		if s.Action != Unchanged {
			n++
		}
	}
	return n
}

// Plan compares a manifest with what is stored, and changes nothing. What is
// stored but neither declared nor was when a manifest was applied last stays: it
// belongs to somebody else. The error is ErrInvalid, or one that all calls have.
func (n *Namespace) Plan(ctx context.Context, m Manifest) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Namespace != n.name {
		return nil, argument.Invalid("namespace", m.Namespace, fmt.Sprintf("%q, which it is applied to", n.name))
	}
	p := &Plan{hash: m.Hash(), state: table.Provisioner{Namespace: n.id}}
	items, err := n.calls.read(ctx, table.ProvisionerKey(n.id))
	if err == nil && items[0] != nil {
		p.known = items[0]
		p.state, err = table.DecodeProvisioner(items[0])
	}
	if err != nil {
		return nil, fail(err, "plan: what is managed")
	}
	declared := m.declared()
	p.after = managed(n.id, declared)
	for _, s := range managedScopes(p.state) {
		if !slices.ContainsFunc(declared, func(c Config) bool { return c.Scope == s }) {
			declared = append(declared, Config{Scope: s})
		}
	}
	keys := make([]item.Key, len(declared))
	for i, c := range declared {
		keys[i] = n.config(c.Scope).Key()
	}
	if items, err = n.calls.read(ctx, keys...); err != nil {
		return nil, fail(err, "plan: what is stored")
	}
	for i, to := range declared {
		step, err := n.step(items[i], to, p.after)
		if err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}

// step compares one scope. What cannot be read is to be replaced.
func (n *Namespace) step(stored item.Item, to Config, after table.Provisioner) (Step, error) {
	s := Step{From: Config{Scope: to.Scope}, To: to, item: stored}
	was := n.config(to.Scope)
	if stored != nil {
		if c, err := table.DecodeConfig(stored); err == nil {
			was = c
			s.From = configOf(c)
		}
	}
	want, err := n.edited(was, to)
	if err != nil {
		return s, err
	}
	s.To = configOf(want)
	gone := !slices.Contains(managedScopes(after), to.Scope)
	switch {
	case gone && (stored == nil || to.Scope == Scope{} && len(was.Limits) == 0 && was.OnUnavailable == ""):
		s.Action = Unchanged // deleted by somebody else
	case gone:
		s.Action = Delete
	case stored == nil && len(want.Limits) == 0 && want.OnUnavailable == "":
		s.Action = Unchanged // nothing is declared
	case stored == nil:
		s.Action = Create
	case item.EqualItems(stored, want.Item()):
		s.Action = Unchanged
	default:
		s.Action = Update
	}
	return s, nil
}

// edited returns the stored form of a declaration. How long events are kept is
// declared nowhere and stays.
func (n *Namespace) edited(was table.Config, to Config) (table.Config, error) {
	limits, err := storedLimits(to.Limits)
	was.Limits = limits
	was.OnUnavailable, _ = argument.PolicyWord(to.OnUnavailable)
	return was, err
}

// managed returns the state of the provisioner when everything declared is stored.
func managed(ns string, declared []Config) table.Provisioner {
	p := table.Provisioner{Namespace: ns}
	for _, c := range declared {
		p = withScope(p, c.Scope)
	}
	return p
}

func withScope(p table.Provisioner, s Scope) table.Provisioner {
	switch {
	case slices.Contains(managedScopes(p), s):
	case s.Entity != "":
		entities := maps.Clone(p.Entities)
		if entities == nil {
			entities = map[string][]string{}
		}
		resource := s.Resource
		if resource == "" {
			resource = table.DefaultResource
		}
		entities[s.Entity] = append(slices.Clip(entities[s.Entity]), resource)
		slices.Sort(entities[s.Entity])
		p.Entities = entities
	case s.Resource != "":
		p.Resources = append(slices.Clip(p.Resources), s.Resource)
		slices.Sort(p.Resources)
	default:
		p.System = true
	}
	return p
}

// managedScopes returns the scopes of a state, the most specific first.
func managedScopes(p table.Provisioner) []Scope {
	var own, out []Scope
	for _, entity := range slices.Sorted(maps.Keys(p.Entities)) {
		for _, resource := range p.Entities[entity] {
			if resource == table.DefaultResource {
				out = append(out, Scope{Entity: entity})
			} else {
				own = append(own, Scope{entity, resource})
			}
		}
	}
	out = append(own, out...)
	for _, resource := range p.Resources {
		out = append(out, Scope{Resource: resource})
	}
	if p.System {
		out = append(out, Scope{})
	}
	return out
}
