package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
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
	w, l := newProcess(t, o)
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
		check.MustEqual(w.t, w.spent(l, entity), n, "%s: %s has consumed", step, entity)
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
	check.MustEqual(t, fmt.Sprint(calls), "map[UpdateItem:2]", "calls")
	w.wantSpent(l, "warm", map[string]int64{acme: 2, "org": 2})
	var got []string
	for _, s := range lease.Status() {
		got = append(got, fmt.Sprint(s.Entity, " ", s.Limit, " ", s.Remaining))
	}
	check.MustEqual(t, strings.Join(got, ", "), "acme rpm 8, org rpm 98", "statuses %v", got)
	for entity, parent := range map[string]string{acme: "org", "org": ""} {
		if b := w.shards(l, entity, gpt)[0]; b.Parent != parent || b.Cascade != (parent != "") {
			t.Fatalf("bucket of %s has parent %q, cascade %v", entity, b.Parent, b.Cascade)
		}
	}
}

// TestCascadeDenied: the denying level is named, and no level has paid, with and without an image
// that predicts it.
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

// A denial lasts as long as the slowest level needs, even if that level's image is too old to deny
// by itself, and a newer one of another level denies.
func TestCascadeDeniedByTheSlowestLevel(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.entity(l, "busy", "org")
	w.configure(l, "busy", gpt, PerMinute("rpm", 1000))
	must(t, l, stored(Costs{"rpm": 10}))
	w.advance(1500 * time.Millisecond)
	busy := stored(Costs{"rpm": 92})
	busy.Entity = "busy"
	must(t, l, busy) // leaves 0.5 of org and 0.25 of acme
	one := stored(Costs{"rpm": 1})
	_, err := l.Acquire(t.Context(), one)
	d, ok := errors.AsType[*LimitError](err)
	if !ok || d.Entity != acme || d.RetryAfter != 4500*time.Millisecond || !d.Estimated {
		t.Fatalf("%v, want an estimated denial by %s for 4.5 s", err, acme)
	}
	w.advance(d.RetryAfter - time.Millisecond)
	if _, err = l.Acquire(t.Context(), one); !errors.Is(err, ErrLimited) {
		t.Errorf("a millisecond earlier: %v", err)
	}
	w.advance(time.Millisecond)
	must(t, l, one)
}

// TestCascadeSeenLate: a flag, a parent and limits that are added later take effect within the
// cache time.
func TestCascadeSeenLate(t *testing.T) {
	w, l := newProcess(t, Options{})
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
	check.Must(t, lease.Charge(t.Context(), Costs{"rpm": 4}))
	w.wantSpent(l, "later", map[string]int64{acme: 7, "org": 6, "root": 4})
	check.Must(t, lease.Rollback(t.Context()))
	w.wantSpent(l, "rolled back", map[string]int64{acme: 1, "org": 0, "root": 0})
	w = newWorld(t)
	l = w.process(Options{})
	w.configure(l, "", "", PerMinute("rpm", 100))
	lease = must(t, l, stored(Costs{"rpm": 1}))
	w.entity(l, acme, "org")
	w.entity(l, "org", "root") // both at once
	w.entity(l, "root", "")
	w.advance(time.Minute)
	check.Must(t, lease.Charge(t.Context(), Costs{"rpm": 2}))
	w.wantSpent(l, "two levels later", map[string]int64{acme: 3, "org": 2, "root": 2})
	check.Must(t, lease.Rollback(t.Context()))
	w.wantSpent(l, "rolled back", map[string]int64{acme: 0, "org": 0, "root": 0})
}

// TestCascadeLevels: four levels are charged and settled, as far as their own flags allow; a fifth,
// a circle and a missing parent are refused without a write.
func TestCascadeLevels(t *testing.T) {
	all := []string{acme, "team", "org", "root", "world"}
	for levels := 1; levels <= 5; levels++ {
		w, l := newProcess(t, Options{})
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
		check.Must(t, err)
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
		check.Must(t, lease.Charge(t.Context(), Costs{"rpm": 2}))
		want("charged", 7)
		check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 20, "tpm": 3}), lease.Commit(t.Context())))
		want("settled", 20)
		fails := func(context.Context, *Lease) error { return errStop }
		check.MustEqual(t, l.Do(t.Context(), stored(Costs{"rpm": 6}), fails), errStop)
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
		w, l := newProcess(t, Options{})
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
	w, l := newProcess(t, Options{})
	w.entity(l, acme, "org")
	w.entity(l, "org", "")
	_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
	if !errors.Is(err, ErrNoLimits) || !strings.Contains(err.Error(), "org") {
		t.Errorf("limits for the child alone: %v", err)
	}
}

// If one level was charged, another got no decision, and the charge could not be given back, tokens
// are taken: the outcome is unknown, even if each of the two calls certainly wrote nothing. If the
// other level denies, or has a setup error, that is returned instead.
func TestChargedLevelsThatStayAreUnknown(t *testing.T) {
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
			var back Event
			l.opts.Observe = only(EventRollback, func(e Event) { back = e })
			_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2}))
			if again := c.back == store.Unavailable; back.Entity != "org" || back.Err == nil || back.Costs["rpm"] != -2 ||
				(back.Elapsed > 0) != again {
				t.Errorf("%v, then %v: reported is %+v, want 2 tokens of org not given back", c.child, c.back, back)
			}
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
				t.Errorf("%v, then %v: %v does not say that the parent was not given back", c.child, c.back, err)
			}
			w.db.SetHook(nil)
			before["org"] += 2
			w.wantSpent(l, "not given back", before)
		})
	}
}

// A lease granted by PolicyAllow because a parent does not answer names the request's own entity.
func TestAllowedLeaseNamesTheEntityOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 100, Options{OnUnavailable: PolicyAllow})
		must(t, l, stored(Costs{"rpm": 1}))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if isWrite(op) {
				if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity == "org" {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2}))
		if err != nil || lease.Charged() || lease.Entity() != acme || lease.Resource() != gpt {
			t.Errorf("got a lease of %q and %q, %v", lease.Entity(), lease.Resource(), err)
		}
		if !strings.Contains(lease.Cause().Error(), "org/gpt-4") {
			t.Errorf("the cause %v does not name the parent", lease.Cause())
		}
		w.db.SetHook(nil)
	})
}

// TestCascadeWaits for the level that is paid back last. If that is too late, it leaves no debt on
// any level.
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
		check.Must(t, lease.Rollback(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = l.Wait(ctx, stored(Costs{"rpm": 4}))
		cancel()
		if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != by {
			t.Fatalf("wait beyond the deadline: %v, want a denial by %s", err, by)
		}
		w.wantSpent(l, "too late", map[string]int64{acme: 8, "org": 8})
	}
}

// A cascade waits behind requests in line, and has no debt until then.
func TestCascadesWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 100, Options{})
		must(t, l, stored(Costs{"rpm": 8}))
		before := l.desks.Waiting.Stand(acmeGPT, "")
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
		check.MustBe(t, <-ended, ErrCanceled)
	})
}

// A charged level is given back after another one denied or did not answer. If the context or
// Options.Timeout is over, that takes at most a round trip; then it continues in the background,
// and an event reports it.
func TestGivingBackWaitsARoundTripAtMost(t *testing.T) {
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
						<-op.Done // the table hangs after the child's charge
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

// Requests that a child denies do not make a process prefetch more of its parent: despite a flood
// of them, and a sibling with few requests, the parent does not look empty to other processes.
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
		for step := range 3000 { // half a minute
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
		if level := s.Slots[s.Index("rps")].Tokens / bucket.Milli; level < 3000 {
			t.Errorf("the parent is shown at %d of 6000", level)
		}
	})
}

// A cascade that cannot be settled returns an error for each failed level, and can be settled
// again.
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
		check.NoError(t, lease.Rollback(t.Context()))
		w.wantSpent(l, "after all", map[string]int64{acme: 1, "org": 1})
	})
}

// calls counts the calls of f by name, in order of first use.
func (w *world) calls(f func()) string {
	var mu sync.Mutex
	calls := map[string]int{}
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[string(op.Name)]++
		return true, nil
	})
	f()
	w.db.SetHook(nil)
	return fmt.Sprint(calls)
}

// The first use of an entity and its parents is one transaction, after the reads of their limits,
// which find no buckets, and one read that looks for other shards of all of them.
func TestCascadeFirstUseIsOneTransaction(t *testing.T) {
	w, l := family(t, 100, Options{})
	got := w.calls(func() { must(t, l, stored(Costs{"rpm": 3})) })
	check.Equal(t, got, "map[BatchGetItem:3 TransactWriteItems:1]", "calls")
	w.wantSpent(l, "first use", map[string]int64{acme: 3, "org": 3})
	got = w.calls(func() { must(t, l, stored(Costs{"rpm": 3})) })
	check.Equal(t, got, "map[UpdateItem:2]", "calls when warm")
	w.entity(l, "bob", "org")
	got = w.calls(func() { must(t, l, Request{Entity: "bob", Resource: gpt, Costs: Costs{"rpm": 2}}) })
	check.Equal(t, got, "map[BatchGetItem:2 PutItem:1 UpdateItem:1]", "calls where the parent has a bucket")
	w.wantSpent(l, "second child", map[string]int64{acme: 6, "bob": 2, "org": 8})
}

// So is the first use after known buckets with several shards have disappeared completely.
func TestCascadeGoneAsAWholeIsOneTransaction(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.configure(l, acme, gpt, PerMinute("rpm", 100))
	for _, e := range []string{acme, "org"} {
		must(t, l, Request{Entity: e, Resource: gpt, Costs: Costs{"rpm": 1}})
		w.splitOf(l, e, 2)
		w.advance(time.Second)
	}
	for range 8 { // it sees all shards
		must(t, l, stored(Costs{"rpm": 1}))
	}
	for _, e := range []string{acme, "org"} {
		for _, it := range w.shards(l, e, gpt) {
			w.db.Delete(it.Key())
		}
	}
	w.advance(2 * time.Second)
	got := w.calls(func() { must(t, l, stored(Costs{"rpm": 1})) })
	if !strings.Contains(got, "TransactWriteItems") || strings.Contains(got, "PutItem") {
		t.Errorf("calls %s", got)
	}
	w.wantSpent(l, "created", map[string]int64{acme: 1, "org": 1})
}

// Another process creates one or all of the buckets first. The refusal returns the existing ones:
// an existing bucket is charged, and only missing ones are created. An unreadable one is an error.
func TestCascadeFirstUseRaces(t *testing.T) {
	for _, c := range []struct {
		rivals []string
		spoils bool
		calls  string // after the refused transaction
	}{
		{rivals: []string{acme}, calls: "map[UpdateItem:2]"}, // which cascades
		{rivals: []string{"org"}, calls: "map[BatchGetItem:1 PutItem:1 UpdateItem:1]"},
		{rivals: []string{acme, "org"}, calls: "map[UpdateItem:2]"},
		{rivals: []string{acme}, spoils: true},
	} {
		w, l := family(t, 100, Options{})
		other := w.bystander(l)
		calls, met := map[memdynamo.OpName]int{}, false
		w.db.SetHook(oneByOne(func(op memdynamo.Op) (bool, error) {
			switch {
			case met:
				calls[op.Name]++
			case isTransaction(op):
				met = true
				for _, e := range c.rivals {
					must(t, other, Request{Entity: e, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}})
				}
				if c.spoils {
					w.edit(l, 0, item.Item{"b_rpm_tk": item.S("many")})
				}
			}
			return true, nil
		}))
		_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 3}))
		w.db.SetHook(nil)
		if c.spoils {
			if !errors.Is(err, ErrUnreadable) || w.spent(l, "org") != 1 {
				t.Errorf("a bucket that cannot be read: %v, and its parent is charged %d", err, w.spent(l, "org"))
			}
			continue
		}
		if child, org := w.spent(l, acme), w.spent(l, "org"); err != nil || child < 3 || org < 3 || child > 4 || org > 5 {
			t.Errorf("%s created by another process: %v, %d and %d were charged", c.rivals, err, child, org)
		}
		check.Equal(t, fmt.Sprint(calls), c.calls, "%s created by another process", c.rivals)
	}
}

// A child that is used for the first time is not created if its parent denies, by an image that was
// read with the configuration, or by the one that refuses the charge.
func TestCascadeFirstUseThatTheParentDenies(t *testing.T) {
	for _, seen := range []bool{false, true} {
		w, l := family(t, 10, Options{})
		w.entity(l, "child", "org")
		other := w.process(Options{})
		if seen {
			must(t, other, Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 0}})
		}
		must(t, l, stored(Costs{"rpm": 10}))
		_, err := other.Acquire(t.Context(), Request{Entity: "child", Resource: gpt, Costs: Costs{"rpm": 1}})
		if denied, ok := errors.AsType[*LimitError](err); !ok || denied.Entity != "org" {
			t.Errorf("org was seen %v: got %v, want denied by org", seen, err)
		}
		if b := w.shards(l, "child", gpt); len(b) > 0 {
			t.Errorf("org was seen %v: created %+v", seen, b)
		}
	}
}
