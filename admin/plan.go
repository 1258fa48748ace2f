package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Action is what applying a manifest does to one scope.
type Action string

// The actions.
const (
	ActionCreate    Action = "create"
	ActionUpdate    Action = "update" // also where what is stored lacks keys or marks of ours
	ActionDelete    Action = "delete" // it was declared before
	ActionUnchanged Action = "unchanged"
)

// Step is what is to be done at one scope.
type Step struct {
	Action
	Scope    Scope
	From, To Config // zero limits: nothing there
	// Err is what [Namespace.Apply] met; nil: the step is done. ErrBusy: the scope was
	// changed since the plan, and left alone. ErrReach: it is stored, but not
	// all buckets have it yet; [Namespace.Reach] goes on with that.
	Err error

	item item.Item     // what was there, exactly
	want config.Config // what is to be there
}

// String returns the step as "update acme/gpt-4: rpm 100 per 1m0s -> ...".
func (s Step) String() string {
	text := string(s.Action) + " " + s.Scope.String()
	switch s.Action {
	case ActionCreate:
		return text + ": " + describe(s.To)
	case ActionDelete:
		return text + ": " + describe(s.From)
	case ActionUpdate:
		return text + ": " + describe(s.From) + " -> " + describe(s.To)
	}
	return text
}

func describe(c Config) string {
	var parts []string
	if c.Err != nil {
		parts = append(parts, "what is not served ("+c.Err.Error()+")")
	}
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
	// Progress, if it is not nil, is called by Apply as it goes on, with how many of
	// the changes have been dealt with.
	Progress func(done, changes int)

	hash  string
	state managed  // when the plan was made
	after scopeSet // when all is done
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

// Plan compares a manifest with what is stored, and changes nothing. A scope that is stored
// but not declared is to be deleted if the manifest before declared it. Otherwise it belongs
// to somebody else, and stays. The error is ErrInvalid, or one that all calls have.
func (n *Namespace) Plan(ctx context.Context, m Manifest) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Namespace != n.name {
		return nil, argument.Invalid("namespace", m.Namespace, fmt.Sprintf("%q, which it is applied to", n.name))
	}
	state, err := n.managed(ctx)
	if err != nil {
		return nil, fail(err, "plan: what is managed")
	}
	all := m.declared()
	declared := len(all)
	p := &Plan{hash: m.hash(), state: state, after: newScopes(all)}
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
	p.Steps = make([]Step, 0, len(all))
	for i, to := range all {
		p.Steps = append(p.Steps, n.step(items[i], to, i < declared))
	}
	return p, nil
}

// step compares one scope. What cannot be read is to be replaced. How long events are kept is
// declared nowhere and stays.
func (n *Namespace) step(stored item.Item, to Config, declared bool) Step {
	was := n.configIn(stored, to.Scope)
	want := was
	limits, _ := storedLimits(to.Limits) // Validate has accepted both
	want.SetLimits(limits)
	want.OnUnavailable, _ = policyWord(to.OnUnavailable)
	from := configOf(was, stored)
	if stored != nil {
		from, _ = configIn(stored)
	}
	s := Step{Scope: to.Scope, From: from, To: configOf(want, stored), item: stored, want: want}
	switch {
	case leaves(want.Over(stored, nil), stored):
		s.Action = ActionUnchanged // also what is not declared any more, and was deleted by somebody else
	case !declared:
		s.Action = ActionDelete
	case stored == nil:
		s.Action = ActionCreate
	default:
		s.Action = ActionUpdate
	}
	return s
}
