package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A soft limit counts every token of every request, into debt, and denies none, however
// large; it tells which requests it would have denied. The others deny as ever, and then
// nothing is taken of it.
func TestASoftLimitCountsAndDeniesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second} {
		w := newWorld(t)
		var events []Event
		l := w.process(Options{Ahead: ahead, Observe: only(EventAcquire, func(e Event) { events = append(events, e) })})
		w.configure(l, "", gpt, PerMinute("rpm", 100), PerMinute("tpm", 10).AsSoft())
		for i := range 100 {
			lease := must(t, l, stored(Costs{"rpm": 1, "tpm": 15})) // more than the capacity
			over := lease.Overdrawn()
			if len(over) != 1 || over[0].Limit != "tpm" || !over[0].Soft || over[0].Remaining != int64(10-15*(i+1)) {
				t.Fatalf("request %d: overdrawn %+v", i, over)
			}
		}
		deniedBy(t, l, stored(Costs{"rpm": 1, "tpm": 15}))
		if got := w.used(l, "tpm"); got != 1500 {
			t.Errorf("%d tokens counted, want 1500", got)
		}
		if e := events[0]; len(e.Overdrawn) != 1 || e.Overdrawn[0].Limit != "tpm" || e.Err != nil {
			t.Errorf("event %+v", e)
		}
		if e := events[len(events)-1]; e.Overdrawn != nil {
			t.Errorf("a denial has overdrawn %v", e.Overdrawn)
		}
	}
}

// The status of a soft limit never asks to wait, in a denial neither.
func TestASoftLimitAsksNobodyToWait(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1, "tpm": 9}, rpm10, PerMinute("tpm", 10).AsSoft())
	if got := drain(t, l, req); got != 10 {
		t.Fatalf("%d granted, want the 10 of rpm", got)
	}
	denied := deniedBy(t, l, req)
	if denied.Limit != "rpm" || denied.Statuses[1].RetryAfter != 0 || !denied.Statuses[1].Soft {
		t.Errorf("denied by %s, statuses %+v", denied.Limit, denied.Statuses)
	}
	w.advance(denied.RetryAfter)
	lease := must(t, l, req) // the advice holds, whatever the soft limit owes
	fine(t, lease.Rollback(t.Context()))
}

// A request that waits does not wait for a soft limit.
func TestWaitIgnoresSoftLimits(t *testing.T) {
	_, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1, "tpm": 9}, PerMinute("rpm", 60).WithCapacity(1), PerDay("tpm", 1).AsSoft())
	for i := range 2 {
		if _, after, err := l.Reserve(t.Context(), req); err != nil || after != time.Duration(i)*time.Second {
			t.Fatalf("request %d: wait %v, %v", i, after, err)
		}
	}
}

// deniedBy is a request that must be denied.
func deniedBy(t testing.TB, l *Limiter, req Request) *LimitError {
	t.Helper()
	_, err := l.Acquire(context.Background(), req)
	denied, ok := errors.AsType[*LimitError](err)
	if !ok {
		t.Fatalf("%v, want a denial", err)
	}
	return denied
}

// Made hard, the limit denies, but nobody pays for what it had not denied; made soft again it
// does not. What Python clients read of it follows: a stamp that is over, so that they ask.
func TestSoftAndHardAgain(t *testing.T) {
	w, l := newProcess(t, Options{ConfigTTL: time.Millisecond})
	limit := PerHour("rph", 3600)
	soft := func() item.Value { return w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))["b_rph_soft"] }
	w.configure(l, "", gpt, limit.AsSoft())
	must(t, l, stored(Costs{"rph": 36_000}))
	if !item.Equal(soft(), item.N(0)) {
		t.Errorf("created with the stamp %v, want 0", soft())
	}
	w.configure(l, "", gpt, limit)
	w.advance(time.Second)
	if got := deniedBy(t, l, stored(Costs{"rph": 1})); got.RetryAfter != time.Second {
		t.Errorf("denied for %v, want 1s", got.RetryAfter)
	}
	w.advance(time.Second)
	must(t, l, stored(Costs{"rph": 1}))
	if soft() != nil {
		t.Errorf("hard, with the stamp %v", soft())
	}
	w.configure(l, "", gpt, limit.AsSoft())
	w.advance(time.Second)
	must(t, l, stored(Costs{"rph": 5000}))
	if !item.Equal(soft(), item.N(0)) {
		t.Errorf("made soft with the stamp %v, want 0", soft())
	}
	// As Python clients renew it.
	w.edit(l, 0, item.Item{"b_rph_soft": item.N(w.now.Load() + 60_000)})
	must(t, l, stored(Costs{"rph": 5000}))
}

// A soft quota goes into debt in its period, and is whole in the next one.
func TestSoftQuota(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := Quota("rpd", 10, Daily("")).AsSoft()
	for range 3 {
		must(t, l, asks(Costs{"rpd": 7}, limit))
	}
	w.advance(25 * time.Hour)
	if lease := must(t, l, asks(Costs{"rpd": 4}, limit)); lease.Status()[0].Remaining != 6 || lease.Overdrawn() != nil {
		t.Errorf("status %+v", lease.Status())
	}
}
