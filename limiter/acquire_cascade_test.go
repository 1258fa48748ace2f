package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// entity stores metadata; an entity with a parent cascades to it.
func (w *world) entity(l *Limiter, id, parent string) {
	w.db.Store(config.Entity{Namespace: l.namespace, ID: id, Parent: parent, Cascade: parent != "",
		CreatedAt: "2026-01-01T00:00:00Z"}.Item())
}

// family is acme below org, with 10 and parent tokens a minute.
func family(t *testing.T, parent int64, o Options) (*world, *Limiter) {
	w := newWorld(t)
	l := w.process(o)
	w.entity(l, acme, "org")
	w.entity(l, "org", "")
	w.configure(l, "", "", rpm10)
	w.configure(l, "org", gpt, PerMinute("rpm", parent))
	return w, l
}

// spent returns what an entity has consumed of rpm, in tokens.
func (w *world) spent(l *Limiter, entity string) (tokens int64) {
	for _, b := range w.shards(l, entity, gpt) {
		tokens += b.State.Slots[b.State.Index("rpm")].Used / 1000
	}
	return tokens
}

// wantSpent checks what entities have consumed of rpm.
func (w *world) wantSpent(l *Limiter, step string, want map[string]int64) {
	w.t.Helper()
	for entity, n := range want {
		if got := w.spent(l, entity); got != n {
			w.t.Fatalf("%s: %s has consumed %d, want %d", step, entity, got, n)
		}
	}
}

func TestCascadeWarmIsTwoWritesAndNoRead(t *testing.T) {
	w, l := family(t, 100, Options{})
	must(t, l, stored(Costs{"rpm": 1}))
	var mu sync.Mutex
	calls := map[string]int{}
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[fmt.Sprint(op.Name)]++
		return true, nil
	})
	lease := must(t, l, stored(Costs{"rpm": 1}))
	w.db.SetHook(nil)
	if fmt.Sprint(calls) != "map[UpdateItem:2]" {
		t.Fatalf("calls %v, want two updates", calls)
	}
	w.wantSpent(l, "warm", map[string]int64{acme: 2, "org": 2})
	var got []string
	for _, s := range lease.Status() {
		got = append(got, fmt.Sprint(s.Entity, " ", s.Limit, " ", s.Remaining))
	}
	if strings.Join(got, ", ") != "acme rpm 8, org rpm 98" {
		t.Fatalf("statuses %v", got)
	}
	for entity, parent := range map[string]string{acme: "org", "org": ""} {
		if b := w.shards(l, entity, gpt)[0]; b.Parent != parent || b.Cascade != (parent != "") {
			t.Fatalf("bucket of %s has parent %q, cascade %v", entity, b.Parent, b.Cascade)
		}
	}
}

// TestCascadeDenied: whoever denies is named, and nobody has paid; with and without
// the image that foresees it.
func TestCascadeDenied(t *testing.T) {
	for _, by := range []string{acme, "org"} {
		for _, warm := range []bool{false, true} {
			w, l := family(t, map[string]int64{acme: 100, "org": 8}[by], Options{})
			must(t, l, stored(Costs{"rpm": 5}))
			other := l
			if !warm {
				other = w.process(Options{})
			}
			before := map[string]int64{acme: 5, "org": 5}
			var writes atomic.Int64
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if isWrite(op) {
					writes.Add(1)
				}
				return true, nil
			})
			_, err := other.Acquire(t.Context(), stored(Costs{"rpm": 6}))
			w.db.SetHook(nil)
			d, ok := errors.AsType[*LimitError](err)
			if !ok || d.Entity != by || d.Statuses[0].Entity != by || errors.Is(err, ErrUnknown) {
				t.Fatalf("warm %v: %v, want a denial by %s", warm, err, by)
			}
			if warm && writes.Load() != 0 {
				t.Fatalf("%d writes for a denial that was foreseen", writes.Load())
			}
			w.wantSpent(l, "denied by "+by, before)
		}
	}
}

// TestCascadeUnderFaults: every write of a cascade, that on the child, that on the
// parent and what gives back, fails in every way. What is not known is said; a
// denial stays one; no entity ever has more than it had before.
func TestCascadeUnderFaults(t *testing.T) {
	fail := func(applied bool, kind store.Kind) func() (bool, error) {
		return func() (bool, error) { return applied, &store.Failure{Kind: kind, Op: "UpdateItem"} }
	}
	faults := map[string]func() (bool, error){
		"applied, answer lost":     fail(true, store.Unknown),
		"not applied, answer lost": fail(false, store.Unknown),
		"down":                     fail(false, store.Unavailable),
		"not allowed":              fail(false, store.Setup),
		"throttled":                fail(false, store.Throttled),
		"conflict":                 fail(false, store.Conflict),
		"panic":                    func() (bool, error) { panic("client") },
	}
	for name, fault := range faults {
		for _, cold := range []bool{true, false} {
			for _, parent := range []int64{100, 8} { // 8: the parent denies the second
				for nth := range 4 {
					w, l := family(t, parent, Options{})
					if !cold {
						must(t, l, stored(Costs{"rpm": 5}))
						l = w.process(Options{})
					}
					before := map[string]int64{acme: w.spent(l, acme), "org": w.spent(l, "org")}
					var struck atomic.Bool
					w.db.SetHook(onCall(isWrite, nth, func(memdynamo.Op) (bool, error) { struck.Store(true); return fault() }))
					lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 4}))
					l.desks.Wait()
					w.db.SetHook(nil)
					_, unsettled := errors.AsType[*SettleError](err)
					step := fmt.Sprintf("%s at write %d, cold %v, parent %d: %v", name, nth, cold, parent, err)
					child, org := w.spent(l, acme)-before[acme], w.spent(l, "org")-before["org"]
					switch {
					case err == nil:
						if child != 4 || org != 4 || len(lease.above) != 1 {
							t.Fatalf("%s: granted, but %d and %d were charged", step, child, org)
						}
					case child < 0 || org < 0:
						t.Fatalf("%s: minted: %d and %d", step, child, org)
					case !errors.Is(err, ErrUnknown) && !unsettled && (child != 0 || org != 0):
						t.Fatalf("%s: %d and %d were charged, and that is not said", step, child, org)
					}
					if !cold && parent == 8 && err == nil {
						t.Fatalf("%s: granted, though the parent has 3 tokens", step)
					}
					lost := strings.Contains(name, "lost") && !cold // a transaction is sent again with its token
					if lost && struck.Load() && nth == 0 && !errors.Is(err, ErrUnknown) {
						t.Fatalf("%s: not said to be unknown", step)
					}
				}
			}
		}
	}
}

// TestCascadeSeenLate: a flag, a parent and limits that appear later take effect
// within the cache time.
func TestCascadeSeenLate(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	w.configure(l, "", "", PerMinute("rpm", 100))
	must(t, l, stored(Costs{"rpm": 1}))
	w.entity(l, "org", "")
	w.entity(l, acme, "org")
	w.advance(time.Minute)
	lease := must(t, l, stored(Costs{"rpm": 2}))
	w.wantSpent(l, "late", map[string]int64{acme: 3, "org": 2})
	w.entity(l, "org", "root")
	w.entity(l, "root", "")
	w.advance(time.Minute)
	if err := lease.Charge(t.Context(), Costs{"rpm": 4}); err != nil {
		t.Fatal(err)
	}
	w.wantSpent(l, "later", map[string]int64{acme: 7, "org": 6, "root": 4})
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantSpent(l, "rolled back", map[string]int64{acme: 1, "org": 0, "root": 0})
	w = newWorld(t)
	l = w.process(Options{})
	w.configure(l, "", "", PerMinute("rpm", 100))
	lease = must(t, l, stored(Costs{"rpm": 1}))
	w.entity(l, acme, "org")
	w.entity(l, "org", "root") // both at once
	w.entity(l, "root", "")
	w.advance(time.Minute)
	if err := lease.Charge(t.Context(), Costs{"rpm": 2}); err != nil {
		t.Fatal(err)
	}
	w.wantSpent(l, "two levels later", map[string]int64{acme: 3, "org": 2, "root": 2})
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantSpent(l, "rolled back", map[string]int64{acme: 0, "org": 0, "root": 0})
}

// TestCascadeLevels: four levels are charged and settled, as far as their own flags
// say so; a fifth, a circle and a parent that is not there are refused unwritten.
func TestCascadeLevels(t *testing.T) {
	all := []string{acme, "team", "org", "root", "world"}
	for levels := 1; levels <= 5; levels++ {
		w := newWorld(t)
		l := w.process(Options{})
		w.configure(l, "", "", PerMinute("rpm", 100), PerMinute("tpm", 100))
		for i, id := range all {
			if i < levels-1 {
				w.entity(l, id, all[i+1])
			} else {
				w.entity(l, id, "")
			}
		}
		lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 5}))
		if levels == 5 {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "acme -> team -> org -> root -> world") {
				t.Fatalf("five levels: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := func(step string, n int64) {
			t.Helper()
			for i, id := range all {
				if i >= levels {
					n = 0
				}
				w.wantSpent(l, step, map[string]int64{id: n})
			}
		}
		want("taken", 5)
		if err := lease.Charge(t.Context(), Costs{"rpm": 2}); err != nil {
			t.Fatal(err)
		}
		want("charged", 7)
		if err := errors.Join(lease.Settle(Costs{"rpm": 20, "tpm": 3}), lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		want("settled", 20)
		fails := func(context.Context, *Lease) error { return errStop }
		if err := l.Do(t.Context(), stored(Costs{"rpm": 6}), fails); err != errStop {
			t.Fatal(err)
		}
		want("rolled back", 20)
	}
}

var errStop = errors.New("stop")

func TestCascadeToNowhere(t *testing.T) {
	for _, c := range []struct {
		name  string
		store func(*world, *Limiter)
		kind  error
		text  string
	}{
		{"no parent", func(w *world, l *Limiter) { w.entity(l, acme, "org") }, ErrInvalid,
			`parent of "acme": there is no entity "org"`},
		{"itself", func(w *world, l *Limiter) { w.entity(l, acme, acme) }, ErrInvalid,
			"acme -> acme, want no circle and at most 4 levels"},
		{"circle", func(w *world, l *Limiter) {
			w.entity(l, acme, "org")
			w.entity(l, "org", acme)
		}, ErrInvalid, "acme -> org -> acme"},
		{"limit it lacks", func(w *world, l *Limiter) {
			w.entity(l, acme, "org")
			w.entity(l, "org", "")
			w.configure(l, "org", gpt, tpm1000)
		}, ErrInvalid, `acquire "org/gpt-4": Costs["rpm"]`},
		{"too small", func(w *world, l *Limiter) {
			w.entity(l, acme, "org")
			w.entity(l, "org", "")
			w.configure(l, "org", gpt, PerMinute("rpm", 1))
		}, ErrTooLarge, `acquire "org/gpt-4": Costs["rpm"]`},
		{"blocked", func(w *world, l *Limiter) {
			w.entity(l, acme, "org")
			w.entity(l, "org", "")
			w.configure(l, "org", gpt, Blocked("rpm"))
		}, ErrLimited, `acquire "org/gpt-4": limit rpm`},
	} {
		w := newWorld(t)
		l := w.process(Options{})
		w.configure(l, "", "", rpm10)
		c.store(w, l)
		before := w.db.Snapshot()
		req := stored(Costs{"rpm": 2})
		req.OnUnavailable = PolicyAllow
		_, err := l.Acquire(t.Context(), req)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.name, err, c.text)
		}
		w.sameTable(before)
	}
	w := newWorld(t)
	l := w.process(Options{})
	w.entity(l, acme, "org")
	w.entity(l, "org", "")
	_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
	if !errors.Is(err, ErrNoLimits) || !strings.Contains(err.Error(), "org") {
		t.Errorf("limits for the child alone: %v", err)
	}
}

// TestCascadeSettleRepeats: a commit that one level could not take is repeated
// there alone.
func TestCascadeSettleRepeats(t *testing.T) {
	for nth := range 2 {
		w, l := family(t, 100, Options{})
		lease := must(t, l, stored(Costs{"rpm": 5}))
		away := lease.levels()[nth].items[0].Key
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Writes[0].Target() == away {
				return false, memdynamo.Fail(store.Unavailable)
			}
			return true, nil
		})
		err := errors.Join(lease.Settle(Costs{"rpm": 3}), lease.Commit(t.Context()))
		w.db.SetHook(nil)
		if _, ok := errors.AsType[*SettleError](err); !ok || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantSpent(l, "repeated", map[string]int64{acme: 3, "org": 3})
	}
}

// TestCascadeGivesBackDespiteTrouble: a level that was charged beside one that is denied
// is given back although a few calls in a hundred are not taken; those that are lost for
// good are told.
func TestCascadeGivesBackDespiteTrouble(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w, l := family(t, 100, Options{})
			must(t, l, stored(Costs{"rpm": 1}))
			rival := w.bystander(l)
			r, mu := rand.New(rand.NewPCG(seed, 9)), sync.Mutex{}
			given := 0
			l.opts.Observe = func(_ context.Context, e Event) {
				if e.Kind == EventRollback {
					given++
					if e.Err != nil {
						t.Errorf("seed %d: lost: %v", seed, e.Err)
					}
				}
			}
			spent := int64(1)
			for range 100 {
				w.db.SetHook(nil)
				taken, err := rival.Acquire(t.Context(), Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 99}})
				if err != nil {
					t.Fatal(err)
				}
				w.db.SetHook(func(memdynamo.Op) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					if r.IntN(100) < 3 {
						return false, memdynamo.Fail(store.Unavailable)
					}
					return true, nil
				})
				if _, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2})); err == nil {
					t.Fatal("granted beside a parent that is empty")
				}
				w.db.SetHook(nil)
				if err := taken.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				forget(l, acmeGPT, decide.Name{Entity: "org", Resource: gpt})
				must(t, l, stored(Costs{"rpm": 0}))
			}
			if given < 50 {
				t.Errorf("%d given back, want most of 100", given)
			}
			w.wantSpent(l, fmt.Sprint("seed ", seed), map[string]int64{acme: spent, "org": spent})
		})
	}
}

// A level that was charged beside one without a decision, and could not be given back, has taken tokens:
// the caller is told that it is unknown, however sure each of the two calls is of nothing written. Beside
// a level that denies, or that somebody has to set up, that is told.
func TestCascadeThatCannotBeGivenBack(t *testing.T) {
	for _, c := range []struct {
		child, back store.Kind // zero: it denies
		want        []error
	}{
		{store.Unavailable, store.Unavailable, []error{ErrUnknown}},
		{store.Unavailable, store.Unknown, []error{ErrUnknown}},
		{store.Unknown, store.Unavailable, []error{ErrUnknown}},
		{store.Setup, store.Unavailable, []error{ErrSetup}},
		{0, store.Unavailable, []error{ErrLimited}},
		{0, store.Unknown, []error{ErrLimited, ErrUnknown}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, l := family(t, 100, Options{})
			must(t, l, stored(Costs{"rpm": 1}))
			if spent := w.bystander(l); c.child == 0 {
				must(t, spent, Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 9}, Limits: rpm(10)})
			}
			before := map[string]int64{acme: w.spent(l, acme), "org": w.spent(l, "org")}
			var org atomic.Int64
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if !isWrite(op) {
					return true, nil
				}
				if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity == acme {
					if c.child == 0 {
						return true, nil
					}
					return false, memdynamo.Fail(c.child)
				}
				if org.Add(1) == 1 { // it is charged
					return true, nil
				}
				return false, memdynamo.Fail(c.back)
			})
			_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2}))
			for _, kind := range []error{ErrLimited, ErrUnknown, ErrSetup} {
				if told := slices.Contains(c.want, kind); errors.Is(err, kind) != told {
					t.Errorf("%v, then %v: %v, want %v", c.child, c.back, err, c.want)
				}
			}
			if c.child == 0 && !strings.HasPrefix(err.Error(), `limiter: acquire "acme/gpt-4": limit rpm: `) ||
				c.child != 0 && !strings.Contains(err.Error(), `: acquire "acme/gpt-4": UpdateItem: `) {
				t.Errorf("%v, then %v: %v", c.child, c.back, err)
			}
			if _, unsettled := errors.AsType[*SettleError](err); !unsettled {
				t.Errorf("%v, then %v: %v does not tell that the parent was not given back", c.child, c.back, err)
			}
			w.db.SetHook(nil)
			before["org"] += 2
			w.wantSpent(l, "not given back", before)
		})
	}
}

// TestCascadeSchedules: children of one parent, two processes, answers that are
// lost, settlements and rollbacks at random: neither child nor parent admits more
// than its limit (I1), and without lost answers the parent has consumed what the
// children have (I4).
func TestCascadeSchedules(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 8))
		w, first := family(t, 15, Options{})
		w.entity(first, "bob", "org")
		processes := []*Limiter{first, w.process(Options{})}
		lossy := seed%2 == 1
		if lossy {
			var mu sync.Mutex // several goroutines ask
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if isWrite(op) && r.IntN(10) == 0 {
					return r.IntN(2) == 0, &store.Failure{Kind: store.Unknown, Op: "UpdateItem"}
				}
				return true, nil
			})
		}
		kept, start := map[string]int64{}, w.now.Load()
		for step := range 60 {
			child := []string{acme, "bob"}[step%2]
			cost := 1 + int64(step*7+int(seed))%4
			l := processes[(step/2+int(seed))%2]
			lease, err := l.Acquire(t.Context(), Request{Entity: child, Resource: gpt, Costs: Costs{"rpm": cost}})
			switch {
			case err != nil:
			case step%5 == 0:
				err = lease.Rollback(t.Context())
			default:
				kept[child] += cost
				kept["org"] += cost
			}
			if err != nil && !errors.Is(err, ErrLimited) &&
				!(lossy && (errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable))) {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if step%3 == 0 {
				w.advance(time.Duration(seed%900) * time.Millisecond)
			}
			elapsed := w.now.Load() - start
			for entity, capacity := range map[string]int64{acme: 10, "bob": 10, "org": 15} {
				if most := capacity + capacity*elapsed/60_000; kept[entity] > most {
					t.Fatalf("seed %d, step %d: %s has admitted %d of %d", seed, step, entity, kept[entity], most)
				}
				if got := w.spent(first, entity); got < kept[entity] || !lossy && got != kept[entity] {
					t.Fatalf("seed %d, step %d: %s has counted %d, admitted %d", seed, step, entity, got, kept[entity])
				}
			}
		}
	}
}

// TestCascadeWaits for the level that is paid back last, and owes nothing to any
// when that is too late.
func TestCascadeWaits(t *testing.T) {
	for _, by := range []string{acme, "org"} {
		w, l := family(t, map[string]int64{acme: 100, "org": 8}[by], Options{})
		must(t, l, stored(Costs{"rpm": 8}))
		lease, after, err := l.Reserve(t.Context(), stored(Costs{"rpm": 4}))
		want := map[string]time.Duration{acme: 12 * time.Second, "org": 30 * time.Second}[by]
		if err != nil || after != want {
			t.Fatalf("reserved after %s: %v, want %s", after, err, want)
		}
		w.wantSpent(l, "reserved", map[string]int64{acme: 12, "org": 12})
		if err := lease.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = l.Wait(ctx, stored(Costs{"rpm": 4}))
		cancel()
		if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != by {
			t.Fatalf("wait beyond the deadline: %v, want a denial by %s", err, by)
		}
		w.wantSpent(l, "too late", map[string]int64{acme: 8, "org": 8})
	}
}

// Who cascades waits behind those who stand in line, and owes nothing until then.
func TestCascadesWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 100, Options{})
		must(t, l, stored(Costs{"rpm": 8}))
		before := l.desks.Lines.Join(acmeGPT, "")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := l.Wait(ctx, stored(Costs{"rpm": 4}))
			ended <- err
		}()
		synctest.Wait()
		w.wantSpent(l, "behind another", map[string]int64{acme: 8, "org": 8})
		before.Leave(1)
		synctest.Wait()
		w.wantSpent(l, "the first", map[string]int64{acme: 12, "org": 12})
		cancel()
		if err := <-ended; !errors.Is(err, ErrCanceled) {
			t.Error(err)
		}
	})
}

// A level that was charged is given back after another one had no answer, or denied. When the context is over,
// or Options.Timeout, that is waited for as long as a round trip takes: then it goes on behind the answer, which
// tells so.
func TestGivingBackBlocksNobody(t *testing.T) {
	for _, denies := range []bool{false, true} {
		for within, most := range map[time.Duration]time.Duration{100 * time.Millisecond: 100 * time.Millisecond,
			time.Hour: 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				w, l := family(t, 100, Options{Timeout: 2 * time.Second})
				must(t, l, stored(Costs{"rpm": 1}))
				if denies {
					must(t, w.bystander(l), Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 99}})
				}
				var mine atomic.Int64
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					org := op.Name != memdynamo.BatchGetItem && strings.Contains(op.Writes[0].Target().PK, "org")
					if op.Name != memdynamo.BatchGetItem && (org && !denies || !org && mine.Add(1) > 1) {
						<-op.Done // after the charge of the child the table hangs
						return false, context.DeadlineExceeded
					}
					return true, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				begin := time.Now()
				_, err := l.Acquire(ctx, stored(Costs{"rpm": 1}))
				if took := time.Since(begin); took > most+decide.LeastPatience || !errors.Is(err, ErrUnknown) {
					t.Errorf("a context of %v: %v after %v, want ErrUnknown after %v at most", within, err, took, most)
				}
				if denies && (!errors.Is(err, ErrLimited) || !strings.Contains(err.Error(),
					`rollback "acme/gpt-4": UpdateItem: unknown: context deadline exceeded`)) {
					t.Errorf("a context of %v: %v, want denied, and the child may be charged", within, err)
				}
				l.desks.Wait()
			})
		}
	}
}

// Requests that a child denies do not make a process take more of its parent ahead: beside a flood of
// them, and a sibling that asks seldom, the parent is not shown empty to other processes.
func TestADeniedChildTakesLittleOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, other := w.process(Options{Ahead: 5 * time.Second}), w.process(Options{Ahead: 5 * time.Second})
		w.entity(l, "org", "")
		for _, e := range []string{"bad", "good", "other"} {
			w.entity(l, e, "org")
		}
		w.configure(l, "", "", PerSecond("rps", 100_000))
		w.configure(l, "bad", gpt, PerMinute("rps", 10))
		w.configure(l, "org", gpt, PerMinute("rps", 6000))
		ask := func(l *Limiter, e string) {
			_, err := l.Acquire(t.Context(), Request{Entity: e, Resource: gpt, Costs: Costs{"rps": 1}})
			if l.desks.Wait(); err != nil && !errors.Is(err, ErrLimited) {
				t.Fatal(err)
			}
		}
		for step := range 12_000 { // two minutes
			w.pass(10 * time.Millisecond)
			if step%20 == 0 {
				ask(l, "good")
			}
			for range 10 {
				ask(l, "bad")
			}
			if step%10 > 0 { // 90 of 100 a second
				ask(other, "other")
			}
		}
		s := w.shards(l, "org", gpt)[0].State
		if level := s.Slots[s.Index("rps")].Tokens / bucket.Milli; level < 600 {
			t.Errorf("the parent is shown at %d of 6000", level)
		}
	})
}

// A cascade that cannot be settled says so of each level that failed, and can be settled again.
func TestSettlingFailsOnSeveralLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 100, Options{})
		must(t, l, stored(Costs{"rpm": 1}))
		lease := must(t, l, stored(Costs{"rpm": 2}))
		w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		err := lease.Rollback(t.Context())
		failed, ok := errors.AsType[*SettleError](err)
		both := ok && strings.Contains(err.Error(), `"acme/`) && strings.Contains(err.Error(), `"org/`)
		if !both || failed.Op != "rollback" || failed.Entity != acme || failed.Resource != gpt ||
			!errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, want that both have failed", err)
		}
		w.db.SetHook(nil)
		if err := lease.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantSpent(l, "after all", map[string]int64{acme: 1, "org": 1})
	})
}
