package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Result is what became of one step.
type Result struct {
	Step
	// Err is nil if the step is done. ErrBusy: the scope was changed since the
	// plan, and left alone. A *ReachError: it is stored, but not all buckets have
	// it yet; [Namespace.Reach] goes on with that.
	Err error
}

// Report is what became of a plan, step by step in its order.
type Report []Result

// Err returns what went wrong, step by step, or nil.
func (r Report) Err() error {
	var errs []error
	for _, x := range r {
		if x.Err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", x.Action, x.Scope(), x.Err))
		}
	}
	return errors.Join(errs...)
}

// Apply carries out a plan: first what is created and updated, from the most
// specific scope to the widest, then what is deleted in the same order, so that
// nobody is without limits in between. Every step is a change like SetLimits, with
// its audit event. A step that fails does not stop the others; plan and apply again
// to make up for it.
//
// What is managed is recorded as the Python provisioner does, before the first step
// and after the last, so that nothing is ever created and forgotten: a scope counts
// as managed until it is deleted.
//
// The error is Report.Err, or why nothing was begun: ErrBusy if another manifest
// was applied since the plan was made.
func (n *Namespace) Apply(ctx context.Context, p *Plan) (Report, error) {
	before := p.after
	for _, s := range managedScopes(p.state) {
		before = withScope(before, s)
	}
	before.Hash, before.LastApplied = p.state.Hash, p.state.LastApplied
	known, err := n.remember(ctx, p.known, before)
	if err != nil {
		return nil, fail(err, "apply: record what is managed")
	}
	report := make(Report, len(p.Steps))
	after := p.after
	for _, deleting := range []bool{false, true} {
		for i, s := range p.Steps {
			if (s.Action == Delete) != deleting {
				continue
			}
			report[i] = Result{Step: s, Err: n.carryOut(ctx, s)}
			if _, stored := errors.AsType[*ReachError](report[i].Err); report[i].Err != nil && deleting && !stored {
				after = withScope(after, s.Scope()) // still there
			}
		}
	}
	after.Hash, after.LastApplied = p.hash, table.Timestamp(n.table.now())
	if report.Err() != nil {
		after.Hash = p.state.Hash
	}
	if _, err := n.remember(ctx, known, after); err != nil {
		return report, errors.Join(report.Err(), fail(err, "apply: record what is managed"))
	}
	return report, report.Err()
}

// carryOut changes one scope, if it still is what the plan was made from.
func (n *Namespace) carryOut(ctx context.Context, s Step) error {
	if s.Action == Unchanged {
		return nil
	}
	planned := func(now item.Item) bool {
		return (now == nil) == (s.item == nil) && item.EqualItems(now, s.item)
	}
	var edit error
	err := n.changeIf(ctx, s.Scope(), planned, func(c *table.Config) { *c, edit = n.edited(*c, s.To) })
	return errors.Join(edit, err)
}

// remember stores the state of the provisioner, if it still is what it was.
func (n *Namespace) remember(ctx context.Context, known item.Item, p table.Provisioner) (item.Item, error) {
	it := p.Item()
	cond := item.Absent(item.AttrPK)
	if known != nil {
		if item.EqualItems(known, it) {
			return it, nil
		}
		cond = conditionOn(known)
	}
	err := n.transact(ctx, item.Put{Item: it, If: cond})
	if _, raced := refused(err); raced {
		err = ErrBusy
	}
	return it, err
}
