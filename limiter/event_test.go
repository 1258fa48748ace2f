package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// only returns an observer that calls f for one kind of events.
func only(kind EventKind, f func(Event)) func(context.Context, Event) {
	return func(_ context.Context, e Event) {
		if e.Kind == kind {
			f(e)
		}
	}
}

// line formats an event for comparison.
func line(e Event) string {
	parts := []string{e.Kind.String()}
	if e.Outcome() != "" {
		parts = append(parts, e.Outcome(), fmt.Sprint(map[string]int64(e.Costs)), fmt.Sprint(e.Writes), e.Elapsed.String())
	}
	if e.Entity != acme && e.Kind != EventBreaker {
		parts = append(parts, e.Entity)
	}
	switch {
	case e.Policy != PolicyDefault:
		parts = append(parts, e.Policy.String())
	case e.Shards > 0:
		parts = append(parts, fmt.Sprint(e.Shards))
	case e.Open:
		parts = append(parts, "open")
	}
	return strings.Join(parts, " ")
}

// observed is a process and its events.
type observed struct {
	*Limiter
	t    *testing.T
	told []string
}

func (w *world) observe(t *testing.T, opts Options) *observed {
	o := &observed{t: t}
	opts.Observe = func(_ context.Context, e Event) {
		if resource := map[bool]string{true: gpt}[e.Entity != ""]; e.Resource != resource {
			t.Errorf("reported %q and %q: %+v", e.Entity, e.Resource, e)
		}
		o.told = append(o.told, line(e))
	}
	o.Limiter = w.process(opts)
	return o
}

func (o *observed) expect(want ...string) {
	o.t.Helper()
	check.Equal(o.t, fmt.Sprint(o.told), fmt.Sprint(want), "told")
	o.told = nil
}

// Every acquire is reported once, whatever its outcome, with its costs.
func TestAcquiresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{})
		req := asks(Costs{"rpm": 6}, rpm10)
		must(t, l.Limiter, req)
		l.expect("acquire ok map[rpm:6] 1 0s")
		l.Acquire(t.Context(), req)
		l.expect("acquire denied map[rpm:6] 0 0s")
		w.advance(12 * time.Second)
		w.db.SetHook(func(memdynamo.Op) (bool, error) { time.Sleep(3 * time.Millisecond); return true, nil })
		must(t, l.Limiter, req)
		l.expect("acquire ok map[rpm:6] 1 3ms")
		w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) {
			must(t, w.bystander(l.Limiter), asks(Costs{"rpm": 4}, rpm10)) // there are 5 left
			return true, nil
		}))
		w.advance(30 * time.Second)
		l.Acquire(t.Context(), asks(Costs{"rpm": 2}, rpm10))
		l.expect("refused", "acquire denied map[rpm:2] 1 0s")
		w.db.SetHook(nil)
		w.advance(2 * time.Second)
		l.Acquire(t.Context(), req)
		l.expect("look", "acquire denied map[rpm:6] 1 0s")
		w.advance(30 * time.Second)
		w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
		one := asks(Costs{"rpm": 1}, rpm10)
		l.Acquire(t.Context(), one)
		one.OnUnavailable = PolicyAllow
		l.Acquire(t.Context(), one)
		l.expect("acquire unavailable map[rpm:1] 1 0s", "acquire unavailable map[rpm:1] 1 0s allow")
		w.db.SetHook(nil)
		l.Acquire(t.Context(), Request{Entity: acme, Resource: gpt})
		l.Acquire(t.Context(), asks(Costs{"rpm": 11}, rpm10))
		l.expect("acquire invalid map[] 0 0s", "acquire invalid map[rpm:11] 0 0s")
	})
}

// So is every lease that ends, with its difference.
func TestEndsOfLeasesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{})
		req := asks(Costs{"rpm": 1, "tpm": 500}, rpm10, PerMinute("tpm", 1000))
		lease := must(t, l.Limiter, req)
		l.told = nil
		lease.Settle(Costs{"tpm": 420})
		lease.Commit(t.Context())
		l.expect("commit ok map[tpm:-80] 1 0s")
		must(t, l.Limiter, req).Commit(t.Context())
		l.expect("acquire ok map[rpm:1 tpm:500] 1 0s", "commit ok map[] 0 0s")
		w.advance(time.Minute)
		lease = must(t, l.Limiter, req)
		l.told = nil
		lease.Rollback(t.Context())
		lease.Rollback(t.Context()) // it has already ended
		l.expect("rollback ok map[rpm:-1 tpm:-500] 1 0s")
		lease = must(t, l.Limiter, req)
		w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unknown) }))
		lease.Rollback(t.Context())
		l.expect("acquire ok map[rpm:1 tpm:500] 1 0s", "rollback unknown map[rpm:-1 tpm:-500] 1 0s")
		w.db.SetHook(func(memdynamo.Op) (bool, error) { time.Sleep(3 * time.Millisecond); return true, nil })
		w.advance(40 * time.Second)
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("acquire ok map[rpm:1 tpm:500] 1 3ms", "rollback ok map[rpm:-1 tpm:-500] 1 3ms")
	})
}

// One event reports a lease on several levels: the writes of all, and the costs of the entity
// itself.
func TestLeasesOfCascadesAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := family(t, 100, Options{})
		var told []string
		l.opts.Observe = func(_ context.Context, e Event) { told = append(told, line(e)) }
		must(t, l, stored(Costs{"rpm": 3})).Rollback(t.Context())
		lease := must(t, l, stored(Costs{"rpm": 1}))
		check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 5}), lease.Commit(t.Context())))
		want := []string{"acquire ok map[rpm:3] 1 0s", "rollback ok map[rpm:-3] 2 0s",
			"acquire ok map[rpm:1] 2 0s", "commit ok map[rpm:4] 2 0s"}
		check.Slices(t, told, want, "told")
	})
}

// A wait is reported when it is over, with its duration; if the caller has left, it is canceled,
// and rolled back.
func TestWaitsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{Now: func() time.Time { return time.Now() }})
		req := asks(Costs{"rpm": 10}, rpm10)
		must(t, l.Limiter, req)
		l.told = nil
		check.Must(t, check.Err(l.Wait(t.Context(), asks(Costs{"rpm": 1}, rpm10))))
		l.expect("acquire ok map[rpm:1] 1 6s")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		check.MustBe(t, check.Err(l.Wait(ctx, asks(Costs{"rpm": 1}, rpm10))), ErrCanceled)
		l.expect("rollback ok map[] 1 0s", "acquire canceled map[rpm:1] 1 1s")
		reserved(t, l.Limiter, asks(Costs{"rpm": 1}, rpm10))
		l.expect("acquire ok map[rpm:1] 1 0s")
	})
}

// The breaker is reported when it opens and when it closes, not in between.
func TestBreakerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{})
		req := asks(Costs{"rpm": 1}, rpm10)
		must(t, l.Limiter, req)
		l.told = nil
		w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unknown) })
		for range desk.BreaksAfter + 2 {
			l.Acquire(t.Context(), req)
		}
		failed := "acquire unknown map[rpm:1] 1 0s"
		l.expect(failed, failed, "breaker open", failed,
			"acquire unavailable map[rpm:1] 0 0s", "acquire unavailable map[rpm:1] 0 0s")
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		must(t, l.Limiter, req)
		must(t, l.Limiter, req)
		l.expect("look", "breaker", "acquire ok map[rpm:1] 1 0s", "acquire ok map[rpm:1] 1 0s")
	})
}

// Events implement slog.LogValuer.
func TestEventsAreLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	denial := &LimitError{Entity: "parent", Resource: gpt, Limit: "rpm", RetryAfter: 6 * time.Second}
	for _, e := range []Event{
		{Kind: EventAcquire, Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}, Err: denial, Elapsed: time.Millisecond},
		{Kind: EventAcquire, Entity: acme, Resource: gpt, Err: outcome("acquire", acmeGPT, desk.ErrOpen),
			Policy: PolicyAllow},
		{Kind: EventCommit, Entity: acme, Resource: gpt, Costs: Costs{"rpm": 4}, Writes: 1},
		{Kind: EventRollback, Entity: acme, Resource: gpt, Costs: Costs{"rpm": -1}, Writes: 2, Elapsed: time.Millisecond},
		{Kind: EventAcquire, Entity: acme, Resource: gpt, Writes: 1,
			Overdrawn: []Status{{Entity: "parent", Limit: "rpm", Remaining: -3}}},
		{Kind: EventCommit, Entity: acme, Resource: gpt, Writes: 1,
			Also: []Part{{Entity: "org", Resource: "*", Costs: Costs{"rpm": 2}}}},
		{Kind: EventSettle, Entity: acme, Resource: gpt, Costs: Costs{"rpm": 3}, Writes: 1},
		{Kind: EventAhead, Entity: acme, Resource: gpt, Taken: Costs{"rpm": 7}, Ended: Costs{"rpm": 2}, Writes: 1},
		{Kind: EventYield, Entity: acme, Resource: gpt, Limits: []Limit{PerMinute("rpm", 7)}},
		{Kind: EventSplit, Entity: acme, Resource: gpt, Shards: 2},
		{Kind: EventMerge, Entity: acme, Resource: gpt, Shards: 1},
		{Kind: EventBreaker, Open: true},
		{Kind: EventClock, Clock: ClockInfo{After: time.Second, Reported: time.Second}},
		{Kind: EventKind(99)},
	} {
		log.Info("limiter", "limiter", e)
	}
	const head = "level=INFO msg=limiter limiter.event="
	want := []string{
		"acquire limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=denied limiter.writes=0 " +
			"limiter.elapsed=1ms limiter.costs=map[rpm:1] limiter.denied_by=parent limiter.limit=rpm limiter.retry_after=6s",
		"acquire limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=unavailable " +
			"limiter.writes=0 limiter.elapsed=0s limiter.policy=allow limiter.err=\"limiter: unavailable: acquire " +
			"\\\"acme/gpt-4\\\": Acquire: unavailable: the calls before had no answer, or were throttled\"",
		"commit limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=ok limiter.writes=1 " +
			"limiter.elapsed=0s limiter.costs=map[rpm:4]",
		"rollback limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=ok limiter.writes=2 " +
			"limiter.elapsed=1ms limiter.costs=map[rpm:-1]",
		"acquire limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=ok limiter.writes=1 limiter.elapsed=0s " +
			"limiter.overdrawn.by=parent limiter.overdrawn.limit=rpm limiter.overdrawn.remaining=-3",
		"commit limiter.entity=acme limiter.resource=gpt-4 limiter.outcome=ok limiter.writes=1 limiter.elapsed=0s " +
			"limiter.also.entity=org limiter.also.resource=* limiter.also.costs=map[rpm:2]",
		"settle limiter.entity=acme limiter.resource=gpt-4 limiter.costs=map[rpm:3] limiter.writes=1",
		"ahead limiter.entity=acme limiter.resource=gpt-4 limiter.taken=map[rpm:7] limiter.ended=map[rpm:2] " +
			"limiter.writes=1",
		"yield limiter.entity=acme limiter.resource=gpt-4 limiter.limits=\"[rpm: 7 per 1m0s, capacity 7]\"",
		"split limiter.entity=acme limiter.resource=gpt-4 limiter.shards=2",
		"merge limiter.entity=acme limiter.resource=gpt-4 limiter.shards=1",
		"breaker limiter.open=true",
		"clock limiter.before=0s limiter.after=1s limiter.reported=1s limiter.set=false",
		"EventKind(99)",
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, g := range got {
		if g != head+want[i] {
			t.Errorf("logged %s\nwant   %s", g, head+want[i])
		}
	}
	check.Equal(t, len(got), len(want), "lines")
}

// An unknown kind of event has no name, and each outcome has its word.
func TestWordsOfEvents(t *testing.T) {
	for k := range EventLost + 3 {
		named := !strings.HasPrefix(k.String(), "EventKind(")
		if is := k > 0 && k <= EventLost; named != is {
			t.Errorf("%d is named %q", k, k)
		}
	}
	for err, want := range map[error]string{nil: "ok", ErrCanceled: "canceled", ErrLimited: "denied", ErrSetup: "setup",
		ErrNamespace: "setup", ErrUnknown: "unknown", ErrUnavailable: "unavailable", ErrUnreadable: "unreadable",
		ErrInvalid: "invalid"} {
		if err != nil {
			err = fmt.Errorf("acquire: %w", err)
		}
		check.Equal(t, (Event{Kind: EventAcquire, Err: err}).Outcome(), want, "%v is reported as", err)
	}
}

// Events have costs in tokens, the sum for each limit, and none if there are none.
func TestCostsOfEvents(t *testing.T) {
	cost := func(name string, milli int64) table.Cost {
		return table.Cost{Limit: bucket.Limit{Name: name}, Milli: milli}
	}
	got := Costs(nil).plus([]table.Cost{cost("a", 0), cost("b", 2000)}) // nothing before the first cost
	got = got.plus([]table.Cost{cost("b", 3000), cost("c", -1000)})
	if want := (Costs{"b": 5, "c": -1}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Costs(nil).plus([]table.Cost{cost("a", 0)}); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// A request that this process grants by itself is reported as such, with the reason. Settling its
// lease writes nothing. The end of an uncharged lease is not reported.
func TestGrantsWithoutTheTableAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{LocalShare: 50})
		w.down()
		req := asks(Costs{"rpm": 1}, rpm10)
		req.OnUnavailable = PolicyLocal
		lease := must(t, l.Limiter, req)
		l.expect("acquire unavailable map[rpm:1] 0 0s local")
		check.Must(t, errors.Join(lease.Settle(Costs{"rpm": 3}), lease.Commit(t.Context())))
		l.expect("commit ok map[] 0 0s") // no acquire without an error has reported the share
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("acquire unavailable map[rpm:1] 0 0s local", "rollback ok map[] 0 0s")
		req.OnUnavailable = PolicyAllow
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("breaker open", "acquire unavailable map[rpm:1] 0 0s allow")
		w.db.SetHook(nil)
		w.says(l.Limiter, acme, gpt, "disabled", item.S("bypass"))
		time.Sleep(desk.ProbesEvery)
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("look", "breaker", "acquire ok map[] 0 0s")
	})
}

// A request that a parent denies is not reported as prefetched, even if its own entity had
// prefetched tokens.
func TestDenialIsNotReportedAsPrefetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, denied := 0, 0
		w, l := family(t, 60, Options{Ahead: time.Second, Observe: only(EventAcquire, func(e Event) {
			switch {
			case e.Err == nil && e.Ahead:
				ahead++
			case e.Err != nil:
				if denied++; e.Ahead {
					t.Errorf("reported %+v", e)
				}
			}
		})})
		w.configure(l, acme, gpt, PerMinute("rpm", 6000))
		w.busy(l, stored(Costs{"rpm": 1}), 200)
		if ahead == 0 || denied == 0 {
			t.Errorf("%d are granted ahead, and %d denied", ahead, denied)
		}
	})
}

// sumOf adds up a limit's costs in the events without errors.
func sumOf(limit string, sum *int64) func(context.Context, Event) {
	return func(_ context.Context, e Event) {
		if e.Err == nil {
			*sum += e.Costs[limit]
		}
	}
}

// The slots taken and given back in events add up to zero after the work: also if the slots are
// kept for the next requests, or lost.
func TestEventsAddUpWhereSlotsAreKept(t *testing.T) {
	for _, ahead := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, sum := newWorld(t), int64(0)
			l := w.process(Options{Ahead: ahead, Observe: sumOf("jobs", &sum)})
			req := asks(Costs{"jobs": 2}, InFlight("jobs", 20, time.Minute))
			for i := range 10 {
				lease := must(t, l, req)
				check.MustEqual(t, sum, 2, "ahead %v: at work by the events", ahead)
				end := lease.Commit
				if i%2 == 0 {
					end = lease.Rollback
				}
				if err := end(t.Context()); err != nil || sum != 0 {
					t.Fatalf("ahead %v: %v; %d at work by the events, want none", ahead, err, sum)
				}
			}
			lost := must(t, l, req)
			w.advance(time.Hour)
			if err := lost.Commit(t.Context()); err != nil || sum != 0 {
				t.Errorf("ahead %v: %v; %d at work by the events after the slots were lost", ahead, err, sum)
			}
		})
	}
}

// Tokens that the limiter gives back by itself belong to no granted acquire, so they are not in the
// sum either.
func TestEventsOfRefundsAddUp(t *testing.T) {
	t.Run("another level denies", func(t *testing.T) {
		var sum int64
		w, l := family(t, 5, Options{Observe: sumOf("rpm", &sum)})
		must(t, l, stored(Costs{"rpm": 1}))
		must(t, w.process(Options{}), stored(Costs{"rpm": 4}))
		deniedBy(t, l, stored(Costs{"rpm": 2}))
		check.Equal(t, sum, 1, "tokens by the events")
	})
	t.Run("who waits leaves", bubble(func(t *testing.T) {
		w, sum := newWorld(t), int64(0)
		l := w.process(Options{Observe: sumOf("rpm", &sum)})
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		check.MustBe(t, check.Err(l.Wait(ctx, asks(Costs{"rpm": 5}, rpm10))), ErrCanceled, "want that it has left")
		check.Equal(t, sum, 10, "tokens by the events")
	}))
	t.Run("shares of this process", func(t *testing.T) {
		w, sum := newWorld(t), int64(0)
		l := w.process(Options{OnUnavailable: PolicyLocal, LocalShare: 100, Observe: sumOf("rpm", &sum)})
		w.down()
		local := must(t, l, asks(Costs{"rpm": 5}, rpm10))
		if local.Charged() {
			t.Fatal("charged")
		}
		w.db.SetHook(nil)
		if err := local.Charge(t.Context(), Costs{"rpm": 3}); err != nil || sum != 3 {
			t.Fatalf("%v; %d tokens by the events, want 3", err, sum)
		}
		if err := local.Rollback(t.Context()); err != nil || sum != 0 {
			t.Errorf("%v; %d tokens by the events, want none", err, sum)
		}
	})
}
