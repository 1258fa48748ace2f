package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// stored is what a scope held when it was looked at.
type stored struct {
	item   item.Item // nil: nothing
	config config.Config
	system config.Config // of the namespace: it says how long events are kept
}

// readScope reads a scope. Limits that cannot be read are named: they are about to be
// replaced, or stay.
func (n *Namespace) readScope(ctx context.Context, at Scope) (stored, error) {
	items, err := n.calls.read(ctx, n.config(at).Key(), layout.SystemConfigKey(n.id))
	if err != nil {
		return stored{}, err
	}
	s := stored{item: items[0], config: n.configIn(items[0], at), system: n.configIn(items[1], Scope{})}
	s.config.DropEndedRaises(n.table.now())
	return s, nil
}

// configIn returns what an item says of the configuration at a scope, nothing if
// there is none. Of limits that cannot be read it has the names.
func (n *Namespace) configIn(it item.Item, at Scope) config.Config {
	if it == nil {
		return n.config(at)
	}
	c, _ := config.DecodeConfig(it)
	return c
}

// anything may be stored.
func anything(item.Item) bool { return true }

// changeIf stores what edit makes of the configuration at a scope and brings it to the
// buckets, unless the stored item is not as expected: then the error is ErrBusy.
func (n *Namespace) changeIf(
	ctx context.Context, at Scope, expected func(item.Item) bool, edit func(*config.Config),
) error {
	if err := at.validate(); err != nil {
		return err
	}
	before, after, err := n.store(ctx, at, expected, func(c *config.Config) bool { edit(c); return true })
	if err != nil {
		return fail(err, "change limits of %s", at)
	}
	if len(before.Names()) == 0 && len(after.Limits) == 0 {
		return nil
	}
	_, err = n.reach(ctx, at, before.Names())
	return err
}

// store replaces the configuration at a scope by what edit makes of it, with its
// registries and its audit event. Where edit reports false, nothing is to be done.
func (n *Namespace) store(
	ctx context.Context, at Scope, expected func(item.Item) bool, edit func(*config.Config) bool,
) (before, after config.Config, err error) {
	s, err := n.commit(ctx, at, func(s stored) ([]item.Write, error) {
		before, after = s.config, s.config
		if !expected(s.item) {
			return nil, ErrBusy
		}
		if !edit(&after) {
			return nil, nil
		}
		return n.writes(ctx, at, s, after).all(n.id), nil
	})
	if err == nil {
		n.tidy(ctx, at, s, after)
	}
	return before, after, err
}

// commit carries out the writes that plan makes for the stored state of a scope, in one transaction.
// If another call changes the state meanwhile, it starts again. It returns the state before, or
// nothing if there was nothing to do.
func (n *Namespace) commit(
	ctx context.Context, at Scope, plan func(stored) ([]item.Write, error),
) (before stored, err error) {
	err = untilHeld(func() error {
		s, err := n.readScope(ctx, at)
		if err != nil {
			return err
		}
		writes, err := plan(s)
		if err != nil || len(writes) == 0 {
			return err
		}
		if err = n.transact(ctx, writes...); err == nil {
			before = s
		}
		return err
	})
	return before, err
}

// untilHeld runs a change, which reads and then writes. It runs it again while others change, before it writes, what
// it has read. After callAttempts the error is ErrBusy.
func untilHeld(change func() error) error {
	for range callAttempts {
		err := change()
		if _, raced := refused(err); !raced {
			return err
		}
	}
	return ErrBusy
}

// change is the writes of a configuration and of the event that records it, and what they change of the registries.
type change struct {
	writes []item.Write
	lists  []config.Listing
}

// all returns the whole transaction.
func (c change) all(ns string) []item.Write { return append(c.writes, config.List(ns, c.lists...)...) }

// writes returns the change that stores a configuration; none if there are no limits to store and nothing else
// changes. A call that sets limits to what they are is recorded like any other.
func (n *Namespace) writes(ctx context.Context, at Scope, s stored, after config.Config) change {
	was := s.config
	if len(after.Names()) == 0 && leaves(after.Over(s.item, conditionOn(s.item)), s.item) {
		return change{}
	}
	says := config.AccessSet(was.Access, after.Access)
	switch {
	case len(says) > 0 && slices.Equal(was.Limits, after.Limits) && slices.Equal(was.Unread, after.Unread):
		return n.replaces(ctx, at, s, after, ledger.ActionLimitsSet, says)
	case len(after.Names()) == 0 && len(was.Names()) > 0 || after.Empty():
		return n.replaces(ctx, at, s, after, ledger.ActionLimitsDeleted, with(config.LimitsDeleted(was), says))
	}
	return n.replaces(ctx, at, s, after, ledger.ActionLimitsSet, with(config.LimitsSet(after), says))
}

// replaces returns the change that replaces the configuration at a scope.
func (n *Namespace) replaces(
	ctx context.Context, at Scope, s stored, after config.Config, action string, details item.Item,
) (c change) {
	over := after.Over(s.item, conditionOn(s.item))
	if _, gone := over.(item.Delete); gone || !after.Empty() { // what others keep in it is listed as it was
		c.lists = []config.Listing{{Entity: after.Entity, Resource: after.Resource, Was: s.item != nil, Is: !gone}}
	}
	subject, resource := at.subject()
	c.writes = []item.Write{config.Noticed(over, s.item),
		n.record(ctx, s.system, ledger.Audit{Subject: subject, Action: action, Resource: resource, Details: details})}
	return c
}

// with returns the details of an event, and more.
func with(details, more item.Item) item.Item {
	if len(more) == 0 {
		return details
	}
	out := maps.Clone(more)
	maps.Copy(out, details)
	return out
}

// leaves reports whether a write leaves an item, or that there is none, as it is.
func leaves(w item.Write, it item.Item) bool {
	after, held, err := w.Apply(it)
	return err == nil && held && item.EqualItems(after, it)
}

// tidy takes a resource out of the counts when no entity has limits for it any
// more. Readers leave zeros out, so it matters to nobody if that fails.
func (n *Namespace) tidy(ctx context.Context, at Scope, s stored, after config.Config) {
	if at.Entity != "" && s.item != nil && after.Empty() && !item.IsKeyAttr(after.Resource) {
		_, _ = n.calls.write(ctx, config.ForgetEntityConfigs(n.id, after.Resource))
	}
}
