package limiter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// fault is a fault of the first write of a call.
type fault struct {
	name    string
	forever bool // to every write
	hook    func(f *faulty, op memdynamo.Op) (apply bool, err error)
	want    string // outcome under PolicyBlock
	taken   bool   // whether the tokens are taken
	rival   int64  // tokens that another process takes meanwhile
	caller  bool   // the caller itself has left, so no policy applies
	whole   bool   // the call takes the whole Options.Timeout
}

// outcome returns the outcome reported to observers.
func (f fault) outcome() string {
	switch {
	case f.caller:
		return "canceled"
	case f.want == "granted":
		return "ok"
	}
	return f.want
}

// faulty is the part of the world that a fault can affect.
type faulty struct {
	w      *world
	cancel context.CancelFunc
	rival  func()
}

func inject(apply bool, kind store.Kind) func(*faulty, memdynamo.Op) (bool, error) {
	return func(*faulty, memdynamo.Op) (bool, error) { return apply, memdynamo.Fail(kind) }
}

func vanish(apply bool) func(*faulty, memdynamo.Op) (bool, error) {
	return func(f *faulty, _ memdynamo.Op) (bool, error) {
		f.cancel()
		time.Sleep(time.Millisecond) // the caller leaves
		return apply, nil
	}
}

func hang(apply bool) func(*faulty, memdynamo.Op) (bool, error) {
	return func(_ *faulty, op memdynamo.Op) (bool, error) { <-op.Done; return apply, nil }
}

var faults = []fault{
	{name: "none", want: "granted", taken: true,
		hook: func(*faulty, memdynamo.Op) (bool, error) { return true, nil }},
	{name: "somebody else writes first", want: "granted", taken: true, rival: 1,
		hook: func(f *faulty, _ memdynamo.Op) (bool, error) { f.rival(); return true, nil }},
	{name: "refused by a change and its reverse", want: "granted", taken: true,
		hook: func(f *faulty, op memdynamo.Op) (bool, error) { return false, f.w.refusedNow(op) }},
	{name: "applied, answer lost", want: "unknown", taken: true, hook: inject(true, store.Unknown)},
	{name: "not applied, answer lost", want: "unknown", hook: inject(false, store.Unknown)},
	{name: "throttled once", want: "granted", taken: true, hook: inject(false, store.Throttled)},
	{name: "throttled for ever", forever: true, want: "unavailable", hook: inject(false, store.Throttled)},
	{name: "conflict once", want: "granted", taken: true, hook: inject(false, store.Conflict)},
	{name: "conflict for ever", forever: true, want: "unavailable", hook: inject(false, store.Conflict)},
	{name: "store down", forever: true, want: "unavailable", hook: inject(false, store.Unavailable)},
	{name: "canceled in flight, not applied", want: "unknown", caller: true, hook: vanish(false)},
	{name: "canceled in flight, applied", want: "unknown", caller: true, hook: vanish(true)},
	{name: "never answered, not applied", want: "unknown", whole: true, hook: hang(false)},
	{name: "never answered, applied", want: "unknown", taken: true, whole: true, hook: hang(true)},
}

// situation is a state of the world in which an acquire has certain writes.
type situation struct {
	name    string
	prepare func(t *testing.T, w *world, l *Limiter)
	holds   int64 // tokens, after preparing
	writes  int   // of an acquire without faults; the last one takes the tokens
}

var rpm10 = PerMinute("rpm", 10)

var situations = []situation{
	{"create", func(t *testing.T, w *world, l *Limiter) {}, 10, 1},
	{"restore shard 0", func(t *testing.T, w *world, l *Limiter) {
		must(t, w.bystander(l), asks(Costs{"rpm": 2}, rpm10))
		w.split(l, 2)
		w.remove(l, 0)
	}, 4, 2},
	{"spend", func(t *testing.T, w *world, l *Limiter) { must(t, l, asks(Costs{"rpm": 1}, rpm10)) }, 9, 1},
	{"spend from a bucket never seen", func(t *testing.T, w *world, l *Limiter) {
		must(t, w.bystander(l), asks(Costs{"rpm": 6}, rpm10))
	}, 4, 1},
	{"spend from a bucket never seen and nearly full", func(t *testing.T, w *world, l *Limiter) {
		must(t, w.bystander(l), asks(Costs{"rpm": 1}, rpm10))
	}, 9, 1},
	{"refill and spend", func(t *testing.T, w *world, l *Limiter) {
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		w.advance(30 * time.Second)
	}, 5, 1},
	{"refill and spend, never seen", func(t *testing.T, w *world, l *Limiter) {
		must(t, w.bystander(l), asks(Costs{"rpm": 10}, rpm10))
		w.advance(30 * time.Second)
	}, 5, 1},
	{"refill and spend, full for long", func(t *testing.T, w *world, l *Limiter) {
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		w.advance(3 * time.Minute)
	}, 10, 1},
	{"limit raised", func(t *testing.T, w *world, l *Limiter) {
		must(t, l, asks(Costs{"rpm": 1}, PerMinute("rpm", 6)))
	}, 5, 1},
	{"limit added", func(t *testing.T, w *world, l *Limiter) {
		must(t, l, asks(Costs{"tpm": 1}, PerMinute("tpm", 6)))
	}, 10, 1},
}

// TestAcquireUnderFaults: every write of an acquire meets every fault. The caller's error is
// accurate, the table matches it, and after recovery exactly the rest is available.
func TestAcquireUnderFaults(t *testing.T) {
	for _, s := range situations {
		for _, f := range faults {
			for nth := range s.writes {
				for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
					t.Run(fmt.Sprintf("%s/write %d/%s/%s", s.name, nth, f.name, policy), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { acquireUnderFault(t, s, nth, f, policy) })
					})
				}
			}
		}
	}
}

func acquireUnderFault(t *testing.T, s situation, nth int, f fault, policy Policy) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Timeout: 2 * time.Second, LocalShare: 50, Observe: only(EventAcquire, func(e Event) {
		if e.Entity == acme {
			told = append(told, e)
		}
	})})
	s.prepare(t, w, l)
	req := asks(Costs{"rpm": 2}, rpm10)
	req.OnUnavailable = policy
	l.configs.Resolve(t.Context(), acmeGPT, &inforce.Own{Limits: []bucket.Limit{}}, l.now(), true)

	used := w.used(l, "rpm")
	w.wantHeld(l, rpm10, s.holds)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	env := &faulty{w: w, cancel: cancel, rival: func() { must(t, w.bystander(l), asks(Costs{"rpm": 1}, rpm10)) }}
	hook := func(op memdynamo.Op) (bool, error) { return f.hook(env, op) }
	if !f.forever {
		hook = onCall(isWrite, nth, hook)
	}
	w.db.SetHook(hook)
	w.db.ResetStats()
	begin := time.Now()
	told = nil
	lease, err := l.Acquire(ctx, req)
	took := time.Since(begin)
	time.Sleep(10 * time.Millisecond) // tokens taken for a caller that has left are given back
	w.db.SetHook(nil)

	want, charged := f.want, f.want == "granted"
	if policy != PolicyBlock && !f.caller {
		want = "granted"
	}
	if kindName(err) != want || (err == nil) != (lease != nil) {
		t.Fatalf("outcome %v, want %s", err, want)
	}
	if lease != nil && lease.Charged() != charged {
		t.Fatalf("lease charged: %v, want %v", lease.Charged(), charged)
	}
	if lease != nil && !charged {
		check.MustEqual(t, kindName(lease.Cause()), f.want, "lease granted because of %v", lease.Cause())
		if s := lease.Status(); policy == PolicyLocal && (len(s) != 1 || s[0].Capacity != 5 || s[0].Remaining != 3) {
			t.Fatalf("status %+v, want 3 left of the share of 5", s)
		}
		for _, err := range []error{more(lease, Costs{"rpm": 5}), lease.Rollback(t.Context())} {
			check.Must(t, err, "a lease that has charged nothing")
		}
	}
	if len(told) != 1 || told[0].Outcome() != f.outcome() ||
		(told[0].Policy == policy) != (lease != nil && !charged) {
		t.Fatalf("reported %+v, want %s", told, f.outcome())
	}
	if took > l.opts.Timeout || f.whole && took < l.opts.Timeout {
		t.Fatalf("took %s, the bound is %s", took, l.opts.Timeout)
	}
	if st := w.db.Stats(); f.name == "none" && st.Calls()-st.Reads != s.writes {
		t.Fatalf("%+v, want %d writes", st, s.writes)
	}
	gone := f.rival
	if f.taken && (f.want == "granted" || nth == s.writes-1) {
		gone += 2
	}
	left := s.holds - gone
	w.wantHeld(l, rpm10, left)
	check.MustEqual(t, w.used(l, "rpm")-used, gone, "counted used")
	n := drain(t, l, asks(Costs{"rpm": 1}, rpm10))
	check.MustEqual(t, int64(n), left, "%d granted after recovery", n)
}

// TestDeadlinesAreBounds: the shorter of the caller's deadline and Options.Timeout ends an
// unanswered call on every path. A timeout is not a cancellation, so the policy applies.
func TestDeadlinesAreBounds(t *testing.T) {
	paths := []struct {
		name    string
		warm    bool
		outcome string
	}{
		{"configuration read", false, "unavailable"},
		{"first write", true, "unknown"},
	}
	for _, p := range paths {
		for _, caller := range []time.Duration{0, 50 * time.Millisecond, time.Hour} {
			for _, policy := range []Policy{PolicyBlock, PolicyAllow} {
				t.Run(fmt.Sprintf("%s/caller %s/%s", p.name, caller, policy), func(t *testing.T) {
					inBubble(t, Options{Timeout: 300 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
						req := asks(Costs{"rpm": 1}, rpm10)
						req.OnUnavailable = policy
						if p.warm {
							must(t, l, req)
						}
						w.db.SetHook(func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil })
						ctx, bound := t.Context(), 300*time.Millisecond
						if caller > 0 {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, caller)
							defer cancel()
							bound = min(bound, caller)
						}
						begin := time.Now()
						lease, err := l.Acquire(ctx, req)
						check.MustEqual(t, time.Since(begin), bound, "took")
						if policy == PolicyBlock && kindName(err) != p.outcome {
							t.Fatalf("got %v, want %s", err, p.outcome)
						}
						if caller == 50*time.Millisecond {
							// The caller's own deadline is the caller's error, under any policy.
							if lease != nil || !errors.Is(err, ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
								t.Fatalf("got %v, %v; want the caller's deadline", lease, err)
							}
						} else if policy == PolicyAllow && (err != nil || lease.Charged() || kindName(lease.Cause()) != p.outcome) {
							t.Fatalf("got %v, %v; want a lease that has charged nothing because %s", lease, err, p.outcome)
						}
						time.Sleep(time.Second) // a shared read goes on without this caller
					})
				})
			}
		}
	}
}

// TestPolicyPrecedence: call, then stored configuration, then options, then
// block; on the configuration read, on the first write and on later ones.
func TestPolicyPrecedence(t *testing.T) {
	cases := []struct {
		call    Policy
		stored  string
		options Policy
		allowed bool
	}{
		{PolicyDefault, "", PolicyDefault, false},
		{PolicyDefault, "", PolicyAllow, true},
		{PolicyDefault, "block", PolicyAllow, false},
		{PolicyDefault, "allow", PolicyBlock, true},
		{PolicyBlock, "allow", PolicyAllow, false},
		{PolicyAllow, "block", PolicyBlock, true},
	}
	down := func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }
	for _, c := range cases {
		for _, path := range []string{"expired configuration", "first write", "spend", "refill"} {
			t.Run(fmt.Sprintf("%s/call %s, stored %q, options %s", path, c.call, c.stored, c.options), func(t *testing.T) {
				w, l := newProcess(t, Options{OnUnavailable: c.options})
				w.configurePolicy(l, c.stored, rpm10)
				req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 10}, OnUnavailable: c.call}
				switch path {
				case "first write": // the configuration is read, the bucket does not exist
					l.configs.Resolve(t.Context(), acmeGPT, nil, l.now(), true)
				case "spend":
					req.Costs = Costs{"rpm": 1}
					must(t, l, req)
				case "refill":
					must(t, l, req)
					w.advance(50 * time.Second)
					req.Costs = Costs{"rpm": 5}
				case "expired configuration":
					must(t, l, req)
					w.advance(time.Hour)
				}
				w.db.SetHook(down)
				lease, err := l.Acquire(t.Context(), req)
				if allowed := err == nil; allowed != c.allowed || (allowed && lease.Charged()) ||
					(!allowed && !errors.Is(err, ErrUnavailable)) {
					t.Fatalf("got %v, %v; want allowed: %v", lease, err, c.allowed)
				}
			})
		}
	}
	t.Run("configuration never read", func(t *testing.T) {
		for _, c := range []struct {
			call, options Policy
			allowed       bool
		}{{PolicyDefault, PolicyDefault, false}, {PolicyDefault, PolicyAllow, true}, {PolicyAllow, PolicyBlock, true},
			{PolicyBlock, PolicyAllow, false}} {
			w, l := newProcess(t, Options{OnUnavailable: c.options})
			w.configurePolicy(l, "allow", rpm10)
			w.db.SetHook(down)
			req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}, OnUnavailable: c.call}
			if _, err := l.Acquire(t.Context(), req); (err == nil) != c.allowed {
				t.Errorf("call %s, options %s: %v, want allowed: %v", c.call, c.options, err, c.allowed)
			}
		}
	})
}
