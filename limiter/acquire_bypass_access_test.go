package limiter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// says sets a level's access attribute, with or without limits at that level; nil removes it.
func (w *world) says(l *Limiter, entity, resource, attr string, v item.Value) {
	key := layout.ResourceConfigKey(l.namespace, resource)
	if entity != "" {
		key = layout.EntityConfigKey(l.namespace, entity, resource)
	}
	it := w.db.Item(key)
	if it == nil {
		it = config.Config{Namespace: l.namespace, Entity: entity, Resource: resource}.Item()
	}
	if it[attr] = v; v == nil {
		delete(it, attr)
	}
	w.db.Store(it)
	l.ForgetConfig()
}

// The first level with a setting decides whether the parent is charged, and finally the entity's
// metadata. The copy in the bucket for other clients agrees.
func TestCascadePoliciesAreObeyed(t *testing.T) {
	yes, no := item.Bool(true), item.Bool(false)
	for i, c := range []struct {
		resource, entityDefault, entity item.Value
		meta, want                      bool
	}{
		{nil, nil, nil, true, true}, {nil, nil, nil, false, false},
		{no, nil, nil, true, false}, {yes, nil, nil, false, true},
		{no, yes, nil, false, true}, {yes, no, nil, true, false},
		{no, no, yes, false, true}, {yes, yes, no, true, false},
	} {
		for _, own := range [][]Limit{nil, {rpm10}} {
			w, l := family(t, 100, Options{})
			w.db.Store(config.Entity{Namespace: l.namespace, ID: acme, Parent: "org", Cascade: c.meta}.Item())
			w.says(l, "", gpt, "cascade", c.resource)
			w.says(l, acme, layout.DefaultResource, "cascade", c.entityDefault)
			w.says(l, acme, gpt, "cascade", c.entity)
			must(t, l, asks(Costs{"rpm": 1}, own...))
			want := map[string]int64{acme: 1, "org": 0}
			if c.want {
				want["org"] = 1
			}
			w.wantSpent(l, fmt.Sprint(i, own), want)
			if b := w.shards(l, acme, gpt)[0]; b.Cascade != c.want || b.Parent != "org" {
				t.Errorf("%d: bucket says cascade %v, parent %q", i, b.Cascade, b.Parent)
			}
		}
	}
}

// A cascade policy without a parent charges no other entity.
func TestACascadePolicyNeedsAParent(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", gpt, rpm10)
	w.says(l, "", gpt, "cascade", item.Bool(true))
	lease := must(t, l, stored(Costs{"rpm": 1}))
	check.Equal(t, len(lease.Status()), 1, "status %v", lease.Status())
}

// A disabled entity is disabled even for requests with their own limits, if the limits cannot be
// read, and under every policy.
func TestTheKillSwitchStopsAllRequests(t *testing.T) {
	for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
		w, l := family(t, 100, Options{OnUnavailable: policy})
		w.says(l, "", gpt, "disabled", item.Bool(true))
		w.says(l, "", gpt, "l_rpm_cp", item.S("bad"))
		w.says(l, "", gpt, "l_rpm_ra", item.S("bad"))
		refused := func(step string, req Request) {
			t.Helper()
			before := w.db.Snapshot()
			if lease, err := l.Acquire(t.Context(), req); lease != nil || !errors.Is(err, ErrDisabled) {
				t.Errorf("%s, %s: %v, %v; want ErrDisabled", policy, step, lease, err)
			}
			w.sameTable(before)
		}
		own := asks(Costs{"rpm": 1}, rpm10)
		refused("own limits", own)
		refused("stored", stored(Costs{"rpm": 1}))
		w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
		for range 5 { // opens the breaker
			_, _ = l.Acquire(t.Context(), Request{Entity: "other", Resource: "other", Costs: Costs{"rpm": 1}})
		}
		refused("own limits, the table down", own)
		refused("stored, the table down", stored(Costs{"rpm": 1}))
		w.db.SetHook(nil)
		w.says(l, acme, gpt, "disabled", item.Bool(false))
		w.advance(time.Minute)
	}
}

// A bypassed entity is granted everything and charged nothing, but its parents are charged and
// settled.
func TestABypassedEntityIsGranted(t *testing.T) {
	w, l := family(t, 5, Options{})
	w.says(l, acme, gpt, "disabled", item.S("bypass"))
	var events []Event
	l.opts.Observe = only(EventAcquire, func(e Event) { events = append(events, e) })
	for range 2 {
		lease := must(t, l, stored(Costs{"rpm": 1}))
		if lease.Charged() || !errors.Is(lease.Cause(), ErrBypassed) || lease.Entity() != acme {
			t.Fatalf("charged %v, cause %v, entity %q", lease.Charged(), lease.Cause(), lease.Entity())
		}
		if s := lease.Status(); len(s) != 1 || s[0].Entity != "org" {
			t.Errorf("status %v, want that of the parent alone", s)
		}
		check.Must(t, lease.Settle(Costs{"rpm": 2}))
		check.Must(t, lease.Commit(t.Context()))
	}
	w.wantSpent(l, "settled", map[string]int64{acme: 0, "org": 4})
	check.Is(t, check.Err(l.Acquire(t.Context(), stored(Costs{"rpm": 2}))), ErrLimited, "want the parent to deny")
	if e := events[1]; e.Err != nil || e.Policy != PolicyDefault || e.Writes != 1 {
		t.Errorf("event %v", e)
	}

	also := Part{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}} // the other part costs, this one nothing
	req := asks(Costs{"rpm": 1}, rpm10)
	req.Entity, req.Also = "other", []Part{also}
	must(t, l, req)
	if e := events[len(events)-1]; e.Costs["rpm"] != 1 || len(e.Also) != 1 || e.Also[0].Costs != nil {
		t.Errorf("event %+v", e)
	}

	w.says(l, "org", gpt, "disabled", item.S("bypass"))
	before := w.db.Snapshot()
	for range 20 {
		lease := must(t, l, stored(Costs{"rpm": 100}))
		if err := errors.Join(lease.Settle(Costs{"rpm": 3, "other": 9}), lease.Charge(t.Context(), Costs{"rpm": 7}),
			lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	w.sameTable(before)
}
