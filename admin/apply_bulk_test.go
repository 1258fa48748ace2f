package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// many declares limits for n entities on one resource, and their defaults.
func many(n int) Manifest {
	m := declare()
	for i := range n {
		m.Scopes = append(m.Scopes, scope(fmt.Sprintf("tenant-%05d", i), "gpt-4", rpm20, tpm500))
	}
	return m
}

// calls counts the calls of the table.
func (w *world) calls(f func()) int {
	var count atomic.Int64
	w.db.SetHook(func(memdynamo.Op) (bool, error) { count.Add(1); return true, nil })
	defer w.db.SetHook(nil)
	f()
	return int(count.Load())
}

// Thousands of scopes are compared a hundred at a time and stored 48 at a time, in one transaction;
// what is so already costs nothing but that.
func TestManyScopesAreAppliedInBulk(t *testing.T) {
	const n = 2400
	w := newWorld(t)
	w.take("tenant-00007", "gpt-4", limiter.Costs{"rpm": 1}, rpm10)
	var p *Plan
	if calls := w.calls(func() { p = w.plan(many(n)) }); calls > n/100+5 || p.Changes() != n+4 {
		t.Errorf("%d calls to plan %d changes", calls, p.Changes())
	}
	var told []int
	p.Progress = func(done, changes int) {
		check.Equal(t, changes, n+4, "%d of", done)
		told = append(told, done)
	}
	apply := func() {
		w.must(w.ns.Apply(t.Context(), p))
		check.Equal(t, len(p.Steps), n+4, "plan of steps")
	}
	// Each wave is a transaction, with the configuration read before, and a read of the buckets after.
	if calls := w.calls(apply); calls > n/48*3+50 {
		t.Errorf("%d calls to store %d scopes", calls, n)
	}
	if !slices.IsSorted(told) || len(told) < n/48 || told[len(told)-1] != n+4 {
		t.Errorf("told %v", told)
	}
	if b := w.bucket("tenant-00007", "gpt-4", 0); len(b.State.Slots) != 3 { // with the write meter
		t.Errorf("the bucket that was there has %+v", b.State.Slots)
	}
	if e := w.events(Scope{Entity: "tenant-01234"}); len(e) != 1 || e[0].Action != "limits_set" {
		t.Errorf("events %+v", e)
	}
	counts, err := w.ns.resourcesWithEntityLimits(t.Context())
	w.must(err)
	check.Equal(t, counts["gpt-4"], n+1, "counted %v", counts)
	p = w.plan(many(n))
	check.Equal(t, p.Changes(), 0, "changes left")
	if calls := w.calls(apply); calls > 1 {
		t.Errorf("%d calls to change nothing", calls)
	}
	m := many(n)
	for i := range m.Scopes {
		if strings.HasPrefix(m.Scopes[i].Entity, "tenant-") {
			m.Scopes[i].Limits = []limiter.Limit{rpm10}
		}
	}
	// To change all of them, or to delete them, costs the same; that they are gone is counted once in each wave.
	for _, c := range []struct {
		m    Manifest
		want string
	}{
		{m, "BatchGetItem:104 TransactWriteItems:52 UpdateItem:1"},
		{declare(), "BatchGetItem:104 TransactWriteItems:52 UpdateItem:51"},
	} {
		p = w.plan(c.m)
		check.Equal(t, w.counted(apply), c.want, "%d changes cost", p.Changes())
	}
	counts, err = w.ns.resourcesWithEntityLimits(t.Context())
	w.must(err)
	check.Equal(t, counts["gpt-4"], 1, "counted %v", counts)
	w.hasNoOrphans()
}

// An application that is interrupted says how far it came, tries nothing more, and the
// next one does only what is left.
func TestAnInterruptedApplicationGoesOn(t *testing.T) {
	const n = 480
	for name, broken := range map[string]func(cancel func()) error{
		"cancelled": func(cancel func()) error { cancel(); return context.Canceled },
		"down":      func(func()) error { return memdynamo.Fail(store.Setup) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.plan(many(n))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls atomic.Int64
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if calls.Add(1) > 12 {
					return false, broken(cancel)
				}
				return true, nil
			})
			err := w.ns.Apply(ctx, p)
			w.db.SetHook(nil)
			if err == nil || len(err.Error()) > 10_000 {
				t.Errorf("error of %d bytes: %.200v", len(fmt.Sprint(err)), err)
			}
			done := 0
			steps := p.Steps
			for _, r := range steps {
				if stored := errors.Is(r.Err, ErrReach); r.Err == nil || stored {
					done++
				}
			}
			if done == 0 || done == len(steps) || calls.Load() > 40 {
				t.Fatalf("%d of %d steps done, %d calls", done, len(steps), calls.Load())
			}
			check.Equal(t, w.plan(many(n)).Changes(), len(steps)-done, "left of %d", len(steps))
			if calls := w.calls(func() { w.apply(many(n)) }); calls > n/48*3+12 {
				t.Errorf("%d calls to go on", calls)
			}
			check.Equal(t, len(w.events(Scope{Entity: "tenant-00000"})), 1, "events: done again")
		})
	}
}

// What is managed has no bound: with more than fits into one item it is in pages, is
// found there, forgets nothing, and goes when the namespace is purged.
func TestMoreIsManagedThanFitsIntoAnItem(t *testing.T) {
	const n = 800
	w := newWorld(t)
	w.db.PageSize = 1000
	m := declare()
	for i := range n {
		name := fmt.Sprintf("%s-%05d", strings.Repeat("x", 300), i)
		m.Scopes = append(m.Scopes, scope(name, "gpt-4", rpm20))
	}
	p := w.plan(m)
	// The first application fails after it has stored some pages.
	var calls atomic.Int64
	w.failOn(store.Setup, true, func(memdynamo.Op) bool { return calls.Add(1) > 10 })
	check.MustBe(t, w.ns.Apply(t.Context(), p), limiter.ErrSetup)
	w.db.SetHook(nil)
	w.apply(m)
	if s := w.state(); !s.Paged || len(s.Entities) != 0 || s.Hash != m.hash() {
		t.Errorf("paged %v, %d entities in the item, hash %s", s.Paged, len(s.Entities), s.Hash)
	}
	if p := w.plan(m); p.Changes() != 0 || len(p.Steps) != n+4 {
		t.Errorf("%d changes of %d steps", p.Changes(), len(p.Steps))
	}
	stale := w.plan(declare())
	check.Equal(t, stale.Changes(), n, "to delete")
	w.apply(declare())
	if p := w.plan(declare()); p.Changes() != 0 || len(p.Steps) != 4 {
		t.Errorf("%d changes of %d steps", p.Changes(), len(p.Steps))
	}
	check.Is(t, w.ns.Apply(t.Context(), stale), ErrBusy, "a stale plan")
	w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
	w.must(check.Err(w.table.PurgeNamespace(t.Context(), w.ns.ID())))
	for _, it := range w.db.Items() {
		if config.IsProvisioner(item.KeyOf(it)) {
			t.Fatalf("left %v", item.KeyOf(it))
		}
	}
}

// What others add to a scope after the plan was made, no condition on what the plan knows
// can find: it is left alone all the same.
func TestApplyKeepsAdditionsSinceThePlan(t *testing.T) {
	at := Scope{"acme", "gpt-4"}
	for name, add := range map[string]func(w *world){
		"a limit": func(w *world) { w.must(w.ns.SetLimits(t.Context(), at, rpm10, tpm500)) },
		"a kill switch of another client": func(w *world) {
			w.must(check.Err(w.db.Write(t.Context(), item.Update{Key: w.ns.config(at).Key(),
				Set: []item.Attr{{Name: "disabled", Value: item.Bool(true)}}})))
		},
	} {
		for _, action := range []Action{ActionUpdate, ActionDelete} {
			w := newWorld(t)
			m := Manifest{Namespace: w.ns.name, Scopes: []Config{scope("acme", "gpt-4", rpm10)}}
			w.apply(m)
			if m.set(scope("acme", "gpt-4", rpm20)); action == ActionDelete {
				m.Scopes = nil
			}
			p := w.plan(m)
			add(w)
			is := w.db.Item(w.ns.config(at).Key())
			check.Is(t, w.ns.Apply(t.Context(), p), ErrBusy, "%s, %s", name, action)
			check.Deep(t, w.db.Item(w.ns.config(at).Key()), is, "%s, %s: left", name, action)
		}
	}
}

// A listing reads many scopes a hundred at a time: each comes once and in order, wherever a
// hundred ends, and whoever has seen enough causes no more reads.
func TestManyScopesAreListed(t *testing.T) {
	const n = 2*readAtOnce + 50
	w := newWorld(t)
	w.db.PageSize = 1000
	m := many(n)
	w.apply(m)
	for _, c := range []struct {
		at    Scope
		first []Scope
		last  int // entities before the tenants
	}{
		{Scope{}, []Scope{{}, {Resource: "gpt-4"}, {Entity: "acme"}, {"acme", "gpt-4"}}, 0},
		{Scope{Resource: "gpt-4"}, []Scope{{Resource: "gpt-4"}, {"acme", "gpt-4"}}, 0},
	} {
		want := slices.Clone(c.first)
		for i := range n {
			want = append(want, Scope{fmt.Sprintf("tenant-%05d", i), "gpt-4"})
		}
		var got []Scope
		reads := w.calls(func() {
			for config, err := range w.ns.Configs(t.Context(), c.at) {
				w.must(err)
				got = append(got, config.Scope)
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d scopes, want %d; the first are %v", c.at, len(got), len(want), got[:min(5, len(got))])
		}
		if reads > n/readAtOnce+8 {
			t.Errorf("%s: %d calls for %d scopes", c.at, reads, n)
		}
		for _, stop := range []int{1, readAtOnce, readAtOnce + 1, 2 * readAtOnce} {
			seen := 0
			fewer := w.calls(func() {
				for range w.ns.Configs(t.Context(), c.at) {
					if seen++; seen == stop {
						break
					}
				}
			})
			if seen != stop || fewer >= reads {
				t.Errorf("%s: %d seen of %d, %d calls", c.at, seen, stop, fewer)
			}
		}
	}
}

// Large descriptions are stored in smaller groups: a write repeats the item before in its condition, and the event
// the item after.
func TestLargeDescriptionsAreReplaced(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{strings.Repeat("x", 90_000), "y"} {
		var all []Entity
		for i := range 48 {
			all = append(all, Entity{ID: fmt.Sprint("tenant-", i), Metadata: map[string]any{"text": text}})
		}
		w.apply(tree(all...))
		check.Equal(t, w.plan(tree(all...)).Changes(), 0, "left to change")
	}
}
