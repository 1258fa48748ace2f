package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// maxErrors is how many failed steps an error names.
const maxErrors = 20

// failures returns what went wrong, step by step, or nil. Of many steps it names the first.
func (p *Plan) failures() error {
	var errs []error
	more := 0
	for _, s := range p.Steps {
		switch {
		case s.Err == nil:
		case len(errs) == maxErrors:
			more++
		default:
			errs = append(errs, fmt.Errorf("%s %s: %w", s.Action, s.Subject(), s.Err))
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d more steps", more))
	}
	return errors.Join(errs...)
}

// Apply carries out a plan. It first creates and updates limits, from the most specific scope to
// the widest, then the descriptions of entities, parents before their children. Then it deletes:
// descriptions, children before their parents, and limits. So nobody is without limits in between,
// and no parent without limits is charged. Every step is a change like SetLimits, SetAccess or
// CreateEntity, in one transaction with its audit event, if the item is still as the plan has read
// it; several are stored together. A step that is refused does not stop the others; if the table
// does not answer, or ctx ends, the rest is not tried. Plan and apply again to go on: finished
// steps are then unchanged, and reach their buckets again, since the answer to the change may have
// been lost.
//
// Like the Python provisioner it records the managed scopes and entities, before the first step and
// after the last. So nothing is ever created and forgotten: a scope counts as managed until it is
// deleted and its buckets are reached. If the names of all entities do not fit into one item, the
// rest is in items that the Python provisioner does not read.
//
// Err of each step says how it ended, and the error joins them. All steps are ErrBusy if another
// manifest was applied, or begun, since the plan was made. A plan that is made while another one is
// being applied does not notice: both are carried out, and the one that began first gets ErrBusy at
// its end. Then plan and apply again.
func (n *Namespace) Apply(ctx context.Context, p *Plan) error {
	known, err := n.begin(ctx, p)
	for i := range p.Steps { // none is begun
		if p.Steps[i].Action != ActionUnchanged {
			p.Steps[i].Err = err
		}
	}
	if err != nil {
		return err
	}
	a := application{n: n, p: p}
	for _, some := range p.waves() {
		a.carryOut(ctx, some)
	}
	if p.Unfinished {
		a.reachUnchanged(ctx)
	}
	after := p.managed(n.id, func(s Step) bool { return s.Err != nil })
	after.LastApplied = layout.Timestamp(n.table.now())
	err = p.failures()
	if err == nil {
		after.Hash = p.hash // without one, the application is unfinished
	}
	_, lost := n.remember(ctx, known, after)
	return errors.Join(err, fail(lost, "apply: record what is managed"))
}

// managed returns the state in which all is managed that is declared, and what steps are about that
// are in the way.
func (p *Plan) managed(ns string, still func(Step) bool) config.Provisioner {
	scopes, described := maps.Clone(p.after), map[string]bool{}
	for _, id := range p.described {
		described[id] = true
	}
	for _, s := range p.Steps {
		switch {
		case !still(s):
		case s.entity != nil:
			described[s.Scope.Entity] = true
		default:
			scopes[s.Scope] = true
		}
	}
	state := scopes.state(ns)
	state.Described = slices.Sorted(maps.Keys(described))
	return state
}

// begin records what a plan manages while it is carried out, and when it was begun: so of two that
// were made from the same state, the second is refused. One that changes nothing ends as it begins.
func (n *Namespace) begin(ctx context.Context, p *Plan) (managed, error) {
	if p.Changes() == 0 {
		return p.state, nil
	}
	before := p.managed(n.id, func(Step) bool { return true }) // all steps are declared, or were
	before.LastApplied = layout.Timestamp(n.table.now())
	known, err := n.remember(ctx, p.state, before)
	return known, fail(err, "apply: record what is managed")
}
