package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Action is what applying a manifest does to one scope.
type Action string

// The actions.
const (
	ActionCreate    Action = "create"
	ActionUpdate    Action = "update" // also where the item lacks keys or marks of ours
	ActionDelete    Action = "delete" // it was declared before
	ActionUnchanged Action = "unchanged"
)

// Step is the work at one scope, or on the description of one entity.
type Step struct {
	Action
	Scope    Scope  // of a description: its entity
	From, To Config // zero limits: nothing there
	// FromEntity and ToEntity are the description of an entity before and after, in a step about a
	// description. Nil: none.
	FromEntity, ToEntity *Entity
	// Err is the result of [Namespace.Apply]; nil: the step is done. ErrBusy: the scope has changed
	// since the plan, and was left alone. ErrReach: it is stored, but not all buckets have it yet;
	// to continue, plan and apply again.
	Err error

	item   item.Item     // before, exactly
	want   config.Config // after
	entity *description  // of a step about a description; nil: the step is about a scope
}

// String returns the step as "update acme/gpt-4: rpm 100 per 1m0s -> ...".
func (s Step) String() string {
	text := string(s.Action) + " " + s.Subject()
	before, after := strings.Join(s.Before(), "; "), strings.Join(s.After(), "; ")
	switch s.Action {
	case ActionCreate:
		return text + ": " + after
	case ActionDelete:
		return text + ": " + cmp.Or(before, "nothing")
	case ActionUpdate:
		return text + ": " + cmp.Or(before, "nothing") + " -> " + cmp.Or(after, "nothing")
	}
	return text
}

// Subject returns the subject of the step: a scope like "acme/gpt-4", or "entity acme" for a
// description.
func (s Step) Subject() string {
	if s.entity != nil {
		return "entity " + s.Scope.Entity
	}
	return s.Scope.String()
}

// Before returns the stored state as text, line by line.
func (s Step) Before() []string {
	if s.entity != nil {
		return s.FromEntity.lines()
	}
	return s.From.Lines()
}

// After returns the state that the step stores, as Before does.
func (s Step) After() []string {
	if s.entity != nil {
		return s.ToEntity.lines()
	}
	return s.To.Lines()
}

// Lines returns the contents of a scope as text, line by line: "rpm: 100 per 1m0s, capacity 100".
func (c Config) Lines() (out []string) {
	if c.Err != nil {
		out = append(out, "what is not served ("+c.Err.Error()+")")
	}
	for _, l := range c.Limits {
		out = append(out, l.String())
	}
	for _, r := range c.Raises {
		out = append(out, r.Limit+": "+r.String())
	}
	if c.OnUnavailable != limiter.PolicyDefault {
		out = append(out, "on unavailable: "+c.OnUnavailable.String())
	}
	if c.Access != AccessInherited {
		out = append(out, c.Access.String())
	}
	if c.Cascade != CascadeInherited {
		out = append(out, "cascade: "+c.Cascade.String())
	}
	return out
}

// lines are what a description says.
func (e *Entity) lines() (out []string) {
	if e == nil {
		return nil
	}
	out = append(out, "name: "+e.Name)
	if e.Parent != "" {
		out = append(out, "parent: "+e.Parent)
	}
	if e.Cascade {
		out = append(out, "charges its parent")
	}
	for _, key := range slices.Sorted(maps.Keys(e.Metadata)) {
		text, err := json.Marshal(e.Metadata[key])
		if err != nil {
			text = []byte(err.Error())
		}
		out = append(out, fmt.Sprintf("metadata %s: %s", key, text))
	}
	return out
}

// Plan is what applying a manifest would do, in order.
type Plan struct {
	Steps []Step
	// Unfinished: a manifest was applied in part, or still is being applied. So buckets may lack
	// limits of unchanged steps, and Apply brings them to all.
	Unfinished bool
	// Progress, if it is not nil, is called by Apply with the number of changes that are done.
	Progress func(done, changes int)

	hash      string
	state     managed  // when the plan was made
	after     scopeSet // when all is done
	described []string // when all is done
}

// Changes returns how many steps change something.
func (p *Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		if s.Action != ActionUnchanged {
			n++
		}
	}
	return n
}

// Plan compares a manifest with the table, and changes nothing. It deletes a stored scope that the
// manifest does not declare only if the manifest before declared it. The same applies to
// descriptions of entities; the entity's limits and usage stay. The error is ErrInvalid, ErrParent,
// or one that all calls have.
func (n *Namespace) Plan(ctx context.Context, m Manifest) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Namespace != n.name {
		return nil, validate.Invalid("namespace", m.Namespace, fmt.Sprintf("%q, which it is applied to", n.name))
	}
	state, err := n.managed(ctx)
	if err != nil {
		return nil, fail(err, "plan: what is managed")
	}
	all := m.declared()
	declared := len(all)
	p := &Plan{hash: m.hash(), state: state, after: make(scopeSet, declared)}
	p.Unfinished = state.LastApplied != "" && state.Hash == ""
	for _, c := range all {
		p.after[c.Scope] = true
	}
	for _, s := range managedScopes(state.Provisioner) {
		if !p.after[s] {
			all = append(all, Config{Scope: s})
		}
	}
	keys := make([]item.Key, len(all))
	for i, c := range all {
		keys[i] = n.config(c.Scope).Key()
	}
	items, err := n.calls.read(ctx, keys...)
	if err != nil {
		return nil, fail(err, "plan: what is stored")
	}
	entities, err := n.planEntities(ctx, m, state.Described)
	if err != nil {
		return nil, fail(err, "plan: what is described")
	}
	for i, to := range all {
		p.Steps = append(p.Steps, n.step(items[i], to, i < declared))
	}
	p.Steps = slices.Insert(p.Steps, declared, entities...)
	for _, e := range m.Entities {
		p.described = append(p.described, e.ID)
	}
	return p, nil
}

// step compares one scope. What cannot be read is to be replaced. How long events are kept is
// declared nowhere and stays. What the scope says besides is taken back only if a manifest said it.
func (n *Namespace) step(stored item.Item, to Config, declared bool) Step {
	was := n.configIn(stored, to.Scope)
	want := was
	limits, _ := storedLimits(to.Limits) // Validate has accepted both
	want.SetLimits(limits)
	want.OnUnavailable, _ = policyWord(to.OnUnavailable)
	says, _ := storedAccess(to.Access, to.Cascade)
	want.Declared = config.Declared{Switch: to.Access != AccessInherited, Cascade: to.Cascade != CascadeInherited}
	if want.Declared.Switch || was.Declared.Switch {
		want.Access.Switch = says.Switch
	}
	if want.Declared.Cascade || was.Declared.Cascade {
		want.Access.Cascade = says.Cascade
	}
	from := configOf(was, n.table.now())
	if stored != nil {
		from, _ = configIn(stored, n.table.now())
	}
	s := Step{Scope: to.Scope, From: from, To: configOf(want, n.table.now()), item: stored, want: want}
	switch {
	case leaves(want.Over(stored, nil), stored):
		s.Action = ActionUnchanged // also if its declaration and its item are both gone
	case !declared:
		s.Action = ActionDelete
	case stored == nil:
		s.Action = ActionCreate
	default:
		s.Action = ActionUpdate
	}
	return s
}
