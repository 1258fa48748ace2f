package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A role that may not write, or not read stored limits, is found by Open, and later is no reason to grant,
// whatever the policy; nor is a bucket that is not there.
func TestMissingPermissionIsNoPolicy(t *testing.T) {
	for name, forbidden := range map[string]func(memdynamo.Op) bool{
		"write": isWrite, "read": func(op memdynamo.Op) bool { return !isWrite(op) },
	} {
		w := newWorld(t)
		l := w.process(Options{OnUnavailable: PolicyAllow})
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
		if _, err := open(t.Context(), w.db, &opts); !errors.Is(err, ErrSetup) {
			t.Errorf("%s: open: %v, want ErrSetup", name, err)
		}
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

// The caller's own cancellation and deadline are its own, never policy, and
// say nothing about the table: the breaker stays closed.
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
			t.Errorf("told of %d failures and %d canceled calls, want 0 and %d", failed, canceled, calls)
		}
		if l.desks.Breaker.Silent != 0 {
			t.Error("the breaker has heard silences")
		}
		time.Sleep(time.Second)
	})
}

// A limit that another client has left half written hides no missing permission: not from who acquires, who
// is not denied for it, and not from who settles.
func TestMissingPermissionAtAHalfWrittenBucket(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{OnUnavailable: PolicyAllow})
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
	if err := errors.Join(back.Rollback(t.Context()), costs.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	must(t, l, asks(Costs{"rpm": 1, "tpm": 7}, rpm10, tpm1000))
	if got := w.used(l, "rpm"); got != 5 {
		t.Errorf("%d tokens are used, want 5", got)
	}
}
