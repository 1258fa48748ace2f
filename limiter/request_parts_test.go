package limiter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// A request that waits owes all parts, and goes on when the last one is paid back. One that leaves gives all back.
func TestSeveralKeysWait(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		must(t, l, alsoOf(10, 20))
		begin := time.Now()
		lease, err := l.Wait(t.Context(), alsoOf(1, 4)) // 6 s for acme, 12 s for everybody
		if slept := time.Since(begin).Round(time.Second); err != nil || slept != 12*time.Second {
			t.Fatalf("%v after %s, want 12s", err, slept)
		}
		fine(t, lease.Rollback(t.Context()))
		w.wantSpent(l, "given back", map[string]int64{acme: 10, everybody: 20})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := l.Wait(ctx, alsoOf(8, 12)); !errors.Is(err, ErrCanceled) {
			t.Errorf("a caller that leaves: %v", err)
		}
		w.wantSpent(l, "left", map[string]int64{acme: 10, everybody: 20})
		for _, want := range []error{nil, nil, ErrQueueFull} {
			before := w.spent(l, everybody)
			_, _, err = l.Reserve(t.Context(), alsoOf(1, 20))
			if !errors.Is(err, want) {
				t.Errorf("everybody has spent %d: %v, want %v", before, err, want)
			}
		}
		if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != everybody {
			t.Errorf("%v, want everybody's queue", err)
		}
		w.wantSpent(l, "a full queue", map[string]int64{acme: 12, everybody: 60})
	})
}

// Slots are taken and given back by part.
func TestSeveralKeysWithSlots(t *testing.T) {
	w, l := newProcess(t, Options{})
	jobs := InFlight("jobs", 2, time.Minute)
	req := alsoOf(1, 1)
	req.Also[0].Limits, req.Also[0].Costs = append(req.Also[0].Limits, jobs), Costs{"rpm": 1, "jobs": 1}
	one, two := must(t, l, req), must(t, l, req)
	if d := deniedBy(t, l, req); d.Limit != "jobs" || d.Entity != everybody {
		t.Fatalf("%v, want a denial by everybody's slots", d)
	}
	w.wantSpent(l, "denied", map[string]int64{acme: 2, everybody: 2})
	fine(t, errors.Join(one.Commit(t.Context()), two.Rollback(t.Context())))
	must(t, l, req)
	req.Limits, req.Costs = append(req.Limits, PerMinute("jobs", 10)), Costs{"jobs": 1}
	if err := must(t, l, req).Charge(t.Context(), Costs{"jobs": 1}); err != nil {
		t.Errorf("tokens of the first part, named as slots of the other: %v", err)
	}
	w.wantSpent(l, "again", map[string]int64{acme: 2, everybody: 3})
}

// Events have the costs of all parts, so that those of all events without an error add up to what is taken.
func TestEventsOfSeveralKeys(t *testing.T) {
	w := newWorld(t)
	sum := Costs{}
	l := w.process(Options{Observe: func(_ context.Context, e Event) {
		if e.Err != nil {
			return
		}
		for _, p := range append(e.Also, Part{Entity: e.Entity, Costs: e.Costs}) {
			for _, n := range p.Costs {
				sum[p.Entity] += n
			}
		}
	}})
	lease := must(t, l, alsoOf(4, 5))
	_, _ = l.Acquire(t.Context(), alsoOf(1, 16))
	must(t, l, alsoOf(2, 3))
	fine(t, errors.Join(lease.SettlePart(everybody, gpt, Costs{"rpm": 1}), lease.Commit(t.Context())))
	if want := fmt.Sprint(Costs{acme: 6, everybody: 4}); fmt.Sprint(sum) != want {
		t.Errorf("events add up to %v, want %s", sum, want)
	}
	w.wantSpent(l, "in all", map[string]int64{acme: 6, everybody: 4})
}

// What is held ahead covers a part without a write.
func TestSeveralKeysAhead(t *testing.T) {
	w, l := newProcess(t, Options{Ahead: time.Second})
	req := alsoOf(1, 1)
	req.Limits, req.Also[0].Limits = []Limit{PerSecond("rpm", 1000)}, []Limit{PerSecond("rpm", 1000)}
	for range 200 {
		must(t, l, req)
		w.advance(5 * time.Millisecond)
	}
	if got := w.calls(func() { must(t, l, req) }); got != "map[]" {
		t.Errorf("calls %s, want none", got)
	}
	if used := w.spent(l, everybody); used < 201 || used > 2000 {
		t.Errorf("%d taken for 201", used)
	}
}
