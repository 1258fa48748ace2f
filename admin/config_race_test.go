package admin

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// meanwhile lets somebody else do something once, just before the first transaction that writes an
// item.
func (w *world) meanwhile(k item.Key, do func()) {
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		writes := func(x item.Write) bool { return x.Target() == k }
		if op.Name == memdynamo.TransactWriteItems && slices.ContainsFunc(op.Writes, writes) {
			w.db.SetHook(nil)
			do()
		}
		return true, nil
	})
}

// What somebody adds to a scope between the read and the write of a change is not lost, and does
// not mix with it.
func TestWhatIsAddedToAScopeMeanwhile(t *testing.T) {
	at := Scope{"acme", "gpt-4"}
	disable := func(w *world) {
		_, err := w.ns.SetAccess(w.Context(), at, AccessDisabled)
		w.must(err)
	}
	raw := func(attr string, v item.Value) func(w *world) { // as another client does
		return func(w *world) {
			_, err := w.db.Write(w.Context(), item.Update{Key: w.ns.config(at).Key(), Set: []item.Attr{{Name: attr, Value: v}}})
			w.must(err)
		}
	}
	set := func(limits ...limiter.Limit) func(w *world) { return func(w *world) { w.set(at, limits...) } }
	one := func(l limiter.Limit) []limiter.Limit { return []limiter.Limit{l} }
	for name, c := range map[string]struct {
		was, meanwhile func(w *world)
		do             func(w *world) error
		err            error
		limits         []limiter.Limit
		access         Access
	}{
		"limits are deleted, and somebody disables": {set(rpm10), disable,
			func(w *world) error { return w.ns.DeleteLimits(w.Context(), at) }, nil, nil, AccessDisabled},
		"limits are deleted, and another client disables": {set(rpm10), raw("disabled", item.Bool(true)),
			func(w *world) error { return w.ns.DeleteLimits(w.Context(), at) }, nil, nil, AccessDisabled},
		"limits are deleted, and another client bypasses": {set(rpm10), raw("disabled", item.S("bypass")),
			func(w *world) error { return w.ns.DeleteLimits(w.Context(), at) }, nil, nil, AccessBypassed},
		"limits are set, and somebody disables": {set(rpm10), disable,
			func(w *world) error { return w.ns.SetLimits(w.Context(), at, rpm20) }, nil, one(rpm20), AccessDisabled},
		"enabled again, and somebody sets limits": {disable, set(rpm10), func(w *world) error {
			_, err := w.ns.SetAccess(w.Context(), at, AccessInherited)
			return err
		}, nil, one(rpm10), AccessInherited},
		"enabled again, and another client decides the cascade": {disable, raw("cascade", item.Bool(true)),
			func(w *world) error {
				_, err := w.ns.SetAccess(w.Context(), at, AccessInherited)
				return err
			}, nil, nil, AccessInherited},
		"limits are set, and somebody sets more": {set(rpm10), set(rpm10, tpm500),
			func(w *world) error { return w.ns.SetLimits(w.Context(), at, rpm20) }, nil, one(rpm20), AccessInherited},
		"limits are compared, and somebody sets more": {set(rpm10), set(rpm10, tpm500), func(w *world) error {
			return w.ns.ChangeLimits(w.Context(), Config{Scope: at, Limits: one(rpm10)}, rpm20)
		}, ErrBusy, []limiter.Limit{rpm10, tpm500}, AccessInherited},
		"compared limits are deleted, and somebody sets more": {set(rpm10), set(rpm10, tpm500), func(w *world) error {
			return w.ns.ChangeLimits(w.Context(), Config{Scope: at, Limits: one(rpm10)})
		}, ErrBusy, []limiter.Limit{rpm10, tpm500}, AccessInherited},
		"a manifest changes limits, and somebody sets more": {set(rpm10), set(rpm10, tpm500), func(w *world) error {
			return w.ns.Apply(w.Context(), w.plan(Manifest{Namespace: "prod",
				Entities: map[string]map[string][]limiter.Limit{"acme": {"gpt-4": {rpm20}}}}))
		}, ErrBusy, []limiter.Limit{rpm10, tpm500}, AccessInherited},
		"a manifest changes limits, and somebody disables": {set(rpm10), disable, func(w *world) error {
			return w.ns.Apply(w.Context(), w.plan(Manifest{Namespace: "prod",
				Entities: map[string]map[string][]limiter.Limit{"acme": {"gpt-4": {rpm20}}}}))
		}, ErrBusy, one(rpm10), AccessDisabled},
		"a manifest deletes limits, and somebody disables": {func(w *world) {
			w.apply(Manifest{Namespace: "prod", Entities: map[string]map[string][]limiter.Limit{"acme": {"gpt-4": {rpm10}}}})
		}, disable, func(w *world) error {
			return w.ns.Apply(w.Context(), w.plan(Manifest{Namespace: "prod"}))
		}, ErrBusy, one(rpm10), AccessDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.was(w)
			met := false
			w.meanwhile(w.ns.config(at).Key(), func() { met = true; c.meanwhile(w) })
			err := c.do(w)
			w.db.SetHook(nil)
			if !errors.Is(err, c.err) || !met {
				t.Errorf("error %v, met %t", err, met)
			}
			is, err := w.ns.Config(t.Context(), at)
			if err != nil || !slices.Equal(is.Limits, c.limits) || is.Access != c.access {
				t.Errorf("%v, %s, %v; want %v, %s", is.Limits, is.Access, err, c.limits, c.access)
			}
			w.registered(at, true)
		})
	}
}

// So it is with the settings of a namespace.
func TestASettingIsMadeMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.meanwhile(layout.SystemConfigKey(w.ns.ID()), func() {
		w.must(w.ns.Configure(t.Context(), Settings{OnUnavailable: new(limiter.PolicyAllow)}))
	})
	w.must(w.ns.DeleteLimits(t.Context(), Scope{}))
	c, err := w.ns.Config(t.Context(), Scope{})
	if w.must(err); c.OnUnavailable != limiter.PolicyAllow || len(c.Limits) != 0 {
		t.Errorf("stored %+v", c)
	}
}

// And so it is at a scope of more attributes than one condition compares.
func TestALargeScopeIsChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	at := Scope{Resource: "gpt-4"}
	var many, fewer []limiter.Limit
	for i := range limiter.MaxLimits {
		l := limiter.PerMinute(fmt.Sprintf("limit-%02d", i), 10).WithFloor("batch", 40).WithAhead(time.Second)
		many, fewer = append(many, l), append(fewer, l.WithFloor("batch", 50))
	}
	w.set(at, many...)
	if n := len(w.db.Item(w.ns.config(at).Key())); n <= maxCompared {
		t.Fatalf("%d attributes only", n)
	}
	w.meanwhile(w.ns.config(at).Key(), func() { w.set(at, fewer...) })
	err := w.ns.ChangeLimits(t.Context(), Config{Scope: at, Limits: many}, rpm10)
	w.wants(err, ErrBusy)
	c, err := w.ns.Config(t.Context(), at)
	if w.must(err); !slices.Equal(c.Limits, fewer) {
		t.Errorf("stored %v", c.Limits)
	}
}
