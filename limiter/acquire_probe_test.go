package limiter

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A probe tries every call that the request needs: the configuration of all levels, the write, and where there
// is no bucket the read of its shard 1. While one of them fails nobody is let through. It takes nothing.
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
				calls bool // it is made
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
			} // else what still fails is not needed
			w.pass(desk.ProbesEvery)
			must(t, l, req)
		})
	}
}

// Who probes waits for a moment, and no longer than its context. The probe goes on without it, and its late
// answer lets everybody through. One that is answered at once lets its own request through.
func TestProbingRequestWaitsForAMoment(t *testing.T) {
	for _, c := range []struct {
		answers, until, took time.Duration
		want                 error
	}{
		{0, time.Second, 0, nil}, {99 * time.Millisecond, time.Second, 99 * time.Millisecond, nil},
		{500 * time.Millisecond, time.Second, desk.ProbeWait, ErrUnavailable},
		{500 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond, ErrCanceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{Timeout: 2 * time.Second})
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
				t.Errorf("answered after %s, and nobody is let through", c.answers)
			}
			must(t, l, req)
		})
	}
}

// A parent that is hotter than its partition can be is the trouble of its children: whichever of them asks, it
// is one bucket that is throttled. Each of them is answered at once, after a few calls. Others do not notice.
func TestAHotParentIsTheTroubleOfItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 1000, Options{Timeout: 2 * time.Second})
		w.entity(l, "sister", "org")
		w.configure(l, "", "", PerMinute("rpm", 1000))
		ask := func(entity string) error {
			_, err := l.Acquire(t.Context(), Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}})
			return err
		}
		if err := errors.Join(ask(acme), ask("sister"), ask("calm")); err != nil {
			t.Fatal(err)
		}
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
			if err := ask("calm"); err != nil {
				t.Error(err)
			}
		}
		for _, child := range []string{acme, "sister"} {
			if !l.desks.Of(decide.Name{Entity: child, Resource: gpt}).Throttled.Open() {
				t.Errorf("requests of %s are still sent", child)
			}
		}
		if l.desks.Breaker.Open() {
			t.Error("nobody is let through")
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		if err := errors.Join(ask(acme), ask("sister")); err != nil {
			t.Errorf("the table answers: %v", err)
		}
	})
}

// That the breaker opens is told with the call that opened it, and that it closes, each once: probes that fail
// meanwhile tell nothing.
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
			if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		must(t, l, req)
		if len(told) != 2 || !told[0].Open || store.KindOf(told[0].Err) != store.Unknown || told[1].Open ||
			told[1].Err != nil {
			t.Errorf("told %+v", told)
		}
	})
}

// Reads that are throttled say nothing of a bucket that is known: as soon as they are served, so are its requests.
func TestThrottledReadsDoNotStopAKnownBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{Timeout: 2 * time.Second})
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
			if _, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1})); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		w.db.SetHook(nil)
		must(t, l, stored(Costs{"rpm": 1}))
	})
}
