package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A probe tries every call that the request needs: the configuration of all levels, the write, and
// without a bucket the read of its shard 1. While one of them fails, no request is let through. A
// probe takes nothing.
func TestProbeTriesEveryCallOfTheRequest(t *testing.T) {
	reads := func(key item.Key) func(memdynamo.Op) bool {
		return func(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem && slices.Contains(op.Keys, key) }
	}
	for _, there := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l := family(t, 100, Options{ConfigTTL: -1, Timeout: 2 * time.Second})
			if there {
				must(t, w.process(Options{}), stored(Costs{"rpm": 1}))
			}
			req := stored(Costs{"rpm": 1})
			w.breaks(l, req, outages["lost"])
			before := w.db.Snapshot()
			for _, c := range []struct {
				name  string
				fails func(memdynamo.Op) bool
				calls bool // the call is made
			}{
				{"the configuration", reads(layout.EntityKey(l.namespace, acme)), true},
				{"that of the parent", reads(layout.EntityKey(l.namespace, "org")), true},
				{"the write", isWrite, true},
				{"the read before a bucket is created", reads(layout.BucketKey(l.namespace, acme, gpt, 1)), !there},
			} {
				made := false
				w.db.SetHook(onEvery(c.fails, func(op memdynamo.Op) (bool, error) {
					made = true
					if !isWrite(op) && slices.Contains(op.Keys, layout.BucketKey(l.namespace, acme, gpt, 1)) && !op.Consistent {
						t.Errorf("%s: it is not read consistently", c.name)
					}
					return false, memdynamo.Fail(store.Unavailable)
				}))
				if !c.calls {
					continue
				}
				w.pass(desk.ProbesEvery)
				if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) || !l.desks.Breaker.Open() || !made {
					t.Errorf("there is a bucket %v, %s fails: %v, open %v", there, c.name, err, l.desks.Breaker.Open())
				}
			}
			w.sameTable(before)
			if !there {
				w.db.SetHook(nil)
			} // otherwise the failing call is not needed
			w.pass(desk.ProbesEvery)
			must(t, l, req)
		})
	}
}

// A probing request waits only for a moment, and no longer than its context. The probe continues
// without it, and a late answer lets all requests through. An immediate answer lets its own request
// through.
func TestProbingRequestWaitsForAMoment(t *testing.T) {
	for _, c := range []struct {
		answers, until, took time.Duration
		want                 error
	}{
		{0, time.Second, 0, nil}, {99 * time.Millisecond, time.Second, 99 * time.Millisecond, nil},
		{500 * time.Millisecond, time.Second, desk.ProbeWait, ErrUnavailable},
		{500 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, ErrCanceled},
	} {
		inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
			req := asks(Costs{"rpm": 1}, rpm10)
			must(t, l, req)
			w.breaks(l, req, outages["lost"])
			w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { time.Sleep(c.answers); return true, nil }))
			time.Sleep(desk.ProbesEvery)
			ctx, cancel := context.WithTimeout(t.Context(), c.until)
			defer cancel()
			begin := time.Now()
			_, err := l.Acquire(ctx, req)
			if took := time.Since(begin); took != c.took || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("answered after %s: %v after %s, want %v after %s", c.answers, err, took, c.want, c.took)
			}
			time.Sleep(c.answers)
			if l.desks.Breaker.Open() {
				t.Errorf("answered after %s, and no request is let through", c.answers)
			}
			must(t, l, req)
		})
	}
}

// A parent whose partition is too hot affects only its children: for all of them together it counts
// as one throttled bucket. Each child's request is answered immediately after a few calls. Other
// buckets are not affected.
func TestAHotParentIsTheTroubleOfItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 1000, Options{Timeout: 2 * time.Second})
		w.entity(l, "sister", "org")
		w.configure(l, "", "", PerMinute("rpm", 1000))
		ask := func(entity string) error {
			_, err := l.Acquire(t.Context(), Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}})
			return err
		}
		check.Must(t, errors.Join(ask(acme), ask("sister"), ask("calm")))
		hot := layout.BucketKey(l.namespace, "org", gpt, 0)
		w.db.SetHook(onEvery(isWrite, func(op memdynamo.Op) (bool, error) {
			if op.Writes[0].Target() == hot {
				return false, memdynamo.Fail(store.Throttled)
			}
			return true, nil
		}))
		for range 2 * desk.BreaksAfter {
			for _, child := range []string{acme, "sister"} {
				if err := ask(child); !errors.Is(err, ErrUnavailable) {
					t.Errorf("%s: %v, want ErrUnavailable", child, err)
				}
			}
			check.NoError(t, ask("calm"))
		}
		for _, child := range []string{acme, "sister"} {
			if !l.desks.Of(decide.Name{Entity: child, Resource: gpt}).Throttled.Open() {
				t.Errorf("requests of %s are still sent", child)
			}
		}
		if l.desks.Breaker.Open() {
			t.Error("no request is let through")
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		check.NoError(t, errors.Join(ask(acme), ask("sister")), "the table answers")
	})
}

// The breaker is reported when a call opens it, and when it closes, each once; failed probes in
// between are not reported.
func TestFailedProbesAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var told []Event
		l := w.process(Options{Timeout: 2 * time.Second, Observe: only(EventBreaker,
			func(e Event) { told = append(told, e) })})
		req := asks(Costs{"rpm": 1}, rpm10)
		must(t, l, req)
		w.breaks(l, req, outages["lost"])
		for range 3 {
			time.Sleep(desk.ProbesEvery)
			check.Is(t, check.Err(l.Acquire(t.Context(), req)), ErrUnavailable)
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		must(t, l, req)
		if len(told) != 2 || !told[0].Open || store.KindOf(told[0].Err) != store.Unknown || told[1].Open ||
			told[1].Err != nil {
			t.Errorf("reported %+v", told)
		}
	})
}

// Throttled reads do not stop a bucket with a cached image: as soon as its writes are served,
// requests are.
func TestThrottledReadsDoNotStopAKnownBucket(t *testing.T) {
	inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
		w.configure(l, "", "", rpm10)
		must(t, l, stored(Costs{"rpm": 1}))
		l.ForgetConfig()
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if isWrite(op) {
				return true, nil
			}
			return false, memdynamo.Fail(store.Throttled)
		})
		for range 2 * desk.BreaksAfter {
			check.MustBe(t, check.Err(l.Acquire(t.Context(), stored(Costs{"rpm": 1}))), ErrUnavailable)
		}
		w.db.SetHook(nil)
		must(t, l, stored(Costs{"rpm": 1}))
	})
}

// A write that collides with a transaction is repeated, after pauses that double up to a bound, for
// as many rounds as a request may have.
func TestWritesThatMeetTransactionsAreSentAgain(t *testing.T) {
	for met, pauses := range map[int]time.Duration{0: 0, 1: 20, 2: 20 + 40, 3: 20 + 40 + 80,
		6: 20 + 40 + 80 + 160 + 200 + 200} {
		inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			left := met
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if left--; left >= 0 {
					return false, memdynamo.Fail(store.Conflict)
				}
				return true, nil
			})
			w.db.ResetStats()
			longestPauses(t)
			begin := time.Now()
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			if took := time.Since(begin).Round(time.Millisecond); took != pauses*time.Millisecond ||
				w.db.Stats().Calls() != met+1 {
				t.Errorf("%d times: %s and %d calls, want %d ms", met, took, w.db.Stats().Calls(), pauses)
			}
		})
	}
}

// Every throttled call is reported, with its bucket: for a transaction the bucket of the first
// write, for a read the first key, if it is a bucket's. Other errors are not reported.
func TestEveryThrottledCallIsReported(t *testing.T) {
	ns := "ns"
	bucket := layout.BucketKey(ns, acme, gpt, 3)
	write := item.Delete{Key: bucket}
	other := item.Delete{Key: layout.BucketKey(ns, "other", gpt, 0)}
	ctx := t.Context()
	for name, c := range map[string]struct {
		call func(store.Store) error
		want []string
	}{
		"write": {func(s store.Store) error { _, err := s.Write(ctx, write); return err }, []string{"acme/gpt-4"}},
		"transact": {func(s store.Store) error { return s.Transact(ctx, "t", []item.Write{write, other}) },
			[]string{"acme/gpt-4"}},
		"read": {func(s store.Store) error { _, err := s.Read(ctx, true, bucket, other.Key); return err },
			[]string{"acme/gpt-4"}},
		"read of configuration": {func(s store.Store) error {
			_, err := s.Read(ctx, true, layout.EntityKey(ns, acme))
			return err
		}, []string{"/"}},
		"read of nothing": {func(s store.Store) error { _, err := s.Read(ctx, true); return err }, nil},
	} {
		for _, kind := range []store.Kind{store.Throttled, store.Unavailable} {
			var told []string
			db := memdynamo.New(func() int64 { return 1 })
			db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(kind) })
			s := newLimiter(db, ns, Options{MaxBuckets: 1, Observe: func(_ context.Context, e Event) {
				if e.Kind != EventThrottled || store.KindOf(e.Err) != store.Throttled {
					t.Errorf("%s: reported %+v", name, e)
				}
				told = append(told, fmt.Sprint(e.Entity, "/", e.Resource))
			}}).store
			err := c.call(s)
			if want := c.want; kind == store.Throttled && !slices.Equal(told, want) || kind != store.Throttled && told != nil {
				t.Errorf("%s, %v: reported %q, want %q", name, err, told, want)
			}
			if c.want != nil && store.KindOf(err) != kind {
				t.Errorf("%s: %v, want the error of the call", name, err)
			}
		}
	}
}

// Open detects a role that may not write, or not read stored limits. Later on, neither that nor a
// missing table is granted by any policy.
func TestMissingPermissionIsNoPolicy(t *testing.T) {
	for name, forbidden := range map[string]func(memdynamo.Op) bool{
		"write": isWrite, "read": func(op memdynamo.Op) bool { return !isWrite(op) },
	} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
		w.configure(l, "", "", rpm10)
		must(t, w.process(Options{}), stored(Costs{"rpm": 1}))
		w.db.SetHook(onEvery(forbidden, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Setup) }))
		for n := range 100 {
			if n == 50 {
				w.remove(l, 0)
			}
			req := stored(Costs{"rpm": 1})
			req.OnUnavailable = []Policy{PolicyDefault, PolicyAllow, PolicyLocal}[n%3]
			if lease, err := l.Acquire(t.Context(), req); lease != nil || !errors.Is(err, ErrSetup) {
				t.Fatalf("%s, policy %s: got %v, %v; want ErrSetup", name, req.OnUnavailable, lease, err)
			}
		}
		opts := Options{Timeout: ages, OnUnavailable: PolicyAllow}
		check.Is(t, check.Err(open(t.Context(), w.db, &opts)), ErrSetup, "%s: open", name)
		w.db.SetHook(nil)
		must(t, l, stored(Costs{"rpm": 1}))
	}
}

func onEvery(which func(memdynamo.Op) bool, do func(memdynamo.Op) (bool, error)) func(memdynamo.Op) (bool, error) {
	return func(op memdynamo.Op) (bool, error) {
		if which(op) {
			return do(op)
		}
		return true, nil
	}
}

// The caller's own cancellation or deadline is returned, regardless of policy, and says nothing
// about the table: the breaker stays closed.
func TestCanceledCallersAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failed, canceled := 0, 0
		l := w.process(Options{OnUnavailable: PolicyAllow, Observe: only(EventAcquire, func(e Event) {
			switch e.Outcome() {
			case "ok":
			case "canceled":
				canceled++
			default:
				failed++
			}
		})})
		req := asks(Costs{"rpm": 1}, rpm10)
		must(t, l, req)
		w.db.SetHook(func(op memdynamo.Op) (bool, error) { time.Sleep(5 * time.Millisecond); return true, nil })
		const calls = 97
		for range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
			if lease, err := l.Acquire(ctx, req); lease != nil || !errors.Is(err, ErrCanceled) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, %v; want the caller's deadline", lease, err)
			}
			cancel()
		}
		if failed != 0 || canceled != calls {
			t.Errorf("reported %d failures and %d canceled calls, want 0 and %d", failed, canceled, calls)
		}
		check.Equal(t, l.desks.Breaker.Silent, 0, "the breaker has heard silences")
		time.Sleep(time.Second)
	})
}

// A limit that another client has left half written hides no missing permission: neither from an
// acquire, which is not denied for it, nor from a settlement.
func TestMissingPermissionAtAHalfWrittenBucket(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
	back := must(t, l, asks(Costs{"rpm": 2}, rpm10))
	costs := must(t, l, asks(Costs{"rpm": 2}, rpm10))
	w.edit(l, 0, item.Item{"b_tpm_tk": item.N(7000)})
	writes := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if !isWrite(op) {
			if !op.Consistent {
				t.Errorf("why a write is rejected is read from %v as it was", op.Keys)
			}
			return true, nil
		}
		writes++
		return false, memdynamo.Fail(store.Setup)
	})
	for name, c := range map[string]struct {
		call func() error
		most int
	}{
		"acquire": {func() error { _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10)); return err }, 2},
		"acquire of both limits": {func() error {
			_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1, "tpm": 1}, rpm10, tpm1000))
			return err
		}, 2},
		"rollback": {func() error { return back.Rollback(t.Context()) }, 2},
		"commit":   {func() error { return errors.Join(more(costs, Costs{"rpm": 2}), costs.Commit(t.Context())) }, 2},
	} {
		writes = 0
		if err := c.call(); !errors.Is(err, ErrSetup) || writes > c.most {
			t.Errorf("%s: %v after %d writes, want ErrSetup after %d at most", name, err, writes, c.most)
		}
	}
	w.db.SetHook(nil)
	check.Must(t, errors.Join(back.Rollback(t.Context()), costs.Commit(t.Context())))
	must(t, l, asks(Costs{"rpm": 1, "tpm": 7}, rpm10, tpm1000))
	check.Equal(t, w.used(l, "rpm"), 5, "tokens are used")
}
