package limiter

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// costOf returns the costs of an entity's requests, as known to the table and the process.
func (w *world) costOf(l *Limiter, entity string) int64 {
	l.desks.Wait()
	used, ended := w.countedOf(l, entity)
	return used - ended - heldOf(l, entity, "rpm")
}

// costs returns the costs of both levels.
func (w *world) costs(l *Limiter) map[string]int64 {
	return map[string]int64{acme: w.costOf(l, acme), "org": w.costOf(l, "org")}
}

// wantCosts checks the costs of both levels.
func (w *world) wantCosts(l *Limiter, want map[string]int64) {
	w.t.Helper()
	for entity, n := range want {
		check.Equal(w.t, w.costOf(l, entity), n, "%s has cost", entity)
	}
}

// holding returns acme below org, with prefetched tokens of both in one process.
func holding(t *testing.T, org Limit) (w *world, l *Limiter) {
	w, l = family(t, 6000, Options{Ahead: 5 * time.Second, ConfigTTL: ages})
	w.configure(l, acme, gpt, PerMinute("rpm", 6000).WithCapacity(600))
	w.configure(l, "org", gpt, org)
	l.ForgetConfig()
	for tries := 0; tries < 300 || heldOf(l, acme, "rpm") < 5 || heldOf(l, "org", "rpm") < 5; tries++ {
		if w.busy(l, stored(Costs{"rpm": 1}), 1); tries > 1000 {
			t.Fatalf("%d and %d are held", heldOf(l, acme, "rpm"), heldOf(l, "org", "rpm"))
		}
	}
	return w, l
}

// empties takes all tokens of an entity.
func (w *world) empties(l *Limiter, entity string) {
	w.t.Helper()
	ask := Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}}
	other := w.process(Options{ConfigTTL: ages})
	for _, p := range []*Limiter{other, l, other} {
		drain(w.t, p, ask)
	}
}

// If one level is known to deny, the prefetched tokens of the other are not used. If both deny, the
// error names the one that denies longer.
func TestDenyingLevelTakesNoPrefetchedTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		org    int64 // tokens a minute
		empty  []string
		denies string
	}{
		"the parent":                    {6000, []string{"org"}, "org"},
		"the child":                     {12_000, []string{acme}, acme},
		"both, and the parent for long": {3000, []string{acme, "org"}, "org"},
		"both, and the child for long":  {12_000, []string{acme, "org"}, acme},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := holding(t, PerMinute("rpm", c.org).WithCapacity(3000))
				for _, entity := range c.empty {
					w.empties(l, entity)
				}
				cost := w.costs(l)
				l.opts.Observe = only(EventAcquire, func(e Event) {
					if e.Writes > 0 || e.Ahead {
						t.Errorf("reported %+v for a known denial", e)
					}
				})
				for range 3 {
					_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
					if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != c.denies {
						t.Fatalf("%v, want denied by %s", err, c.denies)
					}
					w.wantCosts(l, cost)
				}
			})
		})
	}
}

// A parent that denies with its write, or does not answer, leaves the child's prefetched tokens
// unused, and is named.
func TestUnchargedParentsTakeNothingOfTheChild(t *testing.T) {
	for kind, want := range map[store.Kind]error{0: ErrLimited, store.Unavailable: ErrUnavailable,
		store.Unknown: ErrUnknown} {
		synctest.Test(t, func(t *testing.T) {
			w, l := holding(t, PerMinute("rpm", 6000).WithAhead(time.Second))
			// the parent's prefetched tokens end sooner
			for tries := 0; heldOf(l, acme, "rpm") == 0 || heldOf(l, "org", "rpm") > 0; tries++ {
				if w.pass(100 * time.Millisecond); tries > 100 {
					t.Fatalf("%d and %d are held", heldOf(l, acme, "rpm"), heldOf(l, "org", "rpm"))
				}
			}
			cost := w.costs(l)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity != "org" {
					return true, nil
				} else if kind == 0 {
					return false, w.refusedNow(op)
				}
				return false, memdynamo.Fail(kind)
			})
			_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
			if !errors.Is(err, want) || !strings.Contains(err.Error(), `acquire "org/gpt-4"`) {
				t.Errorf("%v, want %v of the parent", err, want)
			}
			w.db.SetHook(nil)
			w.wantCosts(l, cost)
		})
	}
}

// Whichever levels of a cascade are granted from prefetched tokens, each level is settled in the
// right place, and the lease counts as prefetched only if all were.
func TestCascadeLevelsFromPrefetchOrTable(t *testing.T) {
	all := []string{acme, "team", "org"}
	for set := range 1 << len(all) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var events []Event
			l := w.process(Options{ConfigTTL: ages, Observe: only(EventAcquire, func(e Event) { events = append(events, e) })})
			for i, id := range all {
				limit := PerMinute("rpm", 6000)
				if set&(1<<i) != 0 {
					limit = limit.WithAhead(5 * time.Second)
				}
				w.configure(l, id, gpt, limit)
				w.entity(l, id, append(all, "")[i+1])
			}
			w.busy(l, stored(Costs{"rpm": 1}), 300)
			hold := func() bool {
				for i, id := range all {
					if set&(1<<i) != 0 && heldOf(l, id, "rpm") < 5 {
						return false
					}
				}
				return true
			}
			for !hold() {
				w.busy(l, stored(Costs{"rpm": 1}), 1)
			}
			before := map[string]int64{}
			for _, id := range all {
				before[id] = w.costOf(l, id)
			}
			events = nil
			w.db.ResetStats()
			lease := must(t, l, stored(Costs{"rpm": 2}))
			if len(events) != 1 || events[0].Ahead != (set == 1<<len(all)-1) {
				t.Fatalf("levels %03b: reported %+v", set, events)
			}
			for i, le := range lease.levels() {
				held := set&(1<<i) != 0
				if le.name.Entity != all[i] || le.ahead != held {
					t.Errorf("levels %03b: level %d is of %s, held %v", set, i, le.name.Entity, le.ahead)
				}
			}
			var told []string
			for _, s := range lease.Status() {
				told = append(told, s.Entity)
			}
			if !slices.Equal(told, all) {
				t.Errorf("levels %03b: statuses of %v", set, told)
			}
			want := func(step string, n int64) {
				t.Helper()
				for _, id := range all {
					if got := w.costOf(l, id); got != before[id]+n {
						t.Errorf("levels %03b, %s: %s has cost %d, want %d", set, step, id, got-before[id], n)
					}
				}
			}
			want("taken", 2)
			check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 1}), lease.Commit(t.Context())))
			want("settled", 1)
		})
	}
}
