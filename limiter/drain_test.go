package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// until returns an instant of the world.
func (w *world) until(d time.Duration) time.Time { return time.UnixMilli(w.now.Load()).Add(d) }

// drains drains the bucket of most tests.
func (w *world) drains(l *Limiter, d time.Duration) {
	w.t.Helper()
	check.Must(w.t, l.Drain(context.Background(), acme, gpt, d))
}

// opens requires that a request is denied until an instant, as the denial says, and granted then.
func (w *world) opens(l *Limiter, req Request, want time.Time) {
	w.t.Helper()
	for {
		_, err := l.Acquire(context.Background(), req)
		l.desks.Wait()
		denied, ok := errors.AsType[*LimitError](err)
		switch now := w.until(0); {
		case ok && now.Before(want):
			if now.Add(denied.RetryAfter).After(want) {
				w.t.Fatalf("%v is to be tried again in %v, want at %v", now, denied.RetryAfter, want)
			}
			w.advance(denied.RetryAfter)
		case err != nil || now.Before(want):
			w.t.Fatalf("%v before the instant: %v", want.Sub(now), err)
		default:
			return
		}
	}
}

// A provider answers 429 to three processes, with a pause of 20 seconds. It costs each a read, and
// one write in total. Until then nothing is granted, every denial gives the remaining time, and
// usage is unchanged.
func TestDrainStopsAllProcessesOnce(t *testing.T) {
	w := newWorld(t)
	limit := PerMinute("rpm", 600)
	req := asks(Costs{"rpm": 1}, limit)
	all := []*Limiter{w.process(Options{}), w.process(Options{}), w.process(Options{})}
	for _, l := range all {
		must(t, l, req)
	}
	until := w.until(20 * time.Second)
	w.db.ResetStats()
	for _, l := range all {
		w.drains(l, 20*time.Second)
		w.drains(l, 10*time.Second) // an earlier instant changes nothing
	}
	if s := w.db.Stats(); s.Updates != 1 || s.WriteUnits != 1 || s.Reads != 6 {
		t.Errorf("%+v, want 6 reads and a write", s)
	}
	w.wantHeld(all[0], limit, -200)
	check.Equal(t, w.used(all[0], "rpm"), 3, "used, want the 3 that were granted")
	for _, l := range all[1:] {
		deniedBy(t, l, req)
	}
	w.opens(all[0], req, until.Add(100*time.Millisecond)) // a token, of 10 per second
	wantGranted(t, all[1], req, 0)
}

// All shards are drained with one write each, whatever this process knows of them, and a missing
// one is restored first.
func TestDrainOfShards(t *testing.T) {
	for _, shards := range []int{2, 4, 8} {
		for _, missing := range []int{0, 1} {
			t.Run(fmt.Sprintf("%d shards, %d missing", shards, missing), func(t *testing.T) {
				w := newWorld(t)
				limit := PerMinute("rpm", 640)
				req := asks(Costs{"rpm": 1}, limit)
				first := w.process(Options{})
				must(t, first, req)
				w.split(first, shards)
				if missing > 0 {
					w.remove(first, shards-1)
				}
				l := w.process(Options{})
				until := w.until(30 * time.Second)
				w.drains(l, 30*time.Second)
				l.desks.Wait()
				if s := w.shards(l, acme, gpt); len(s) != shards {
					t.Fatalf("%d shards", len(s))
				}
				w.wantHeld(l, limit, -320)
				for _, b := range w.shards(l, acme, gpt) {
					if level, _ := b.State.LevelAt(0, until.UnixMilli()); level > 0 || level < -1 {
						t.Errorf("shard %d is at %d by then", b.State.Shard, level)
					}
				}
				w.db.ResetStats()
				w.drains(first, 31*time.Second)
				if s := w.db.Stats(); s.WriteUnits != shards {
					t.Errorf("%+v, want a write unit for each of %d shards", s, shards)
				}
			})
		}
	}
}

// Invalid arguments are refused by name, and a drain of nothing makes no call.
func TestDrainRefusesBadArguments(t *testing.T) {
	w, l := newProcess(t, Options{})
	must(t, l, asks(Costs{"jobs": 1, "rpd": 1, "soft": 1}, InFlight("jobs", 5, time.Minute),
		Quota("rpd", 5, Daily("")), PerMinute("soft", 5).AsSoft()))
	before := w.db.Items()
	w.db.ResetStats()
	for _, c := range []struct {
		entity, resource string
		wait             time.Duration
		want             string
	}{
		{"", gpt, time.Minute, `entity is ""`},
		{acme, "", time.Minute, `resource is ""`},
		{acme, gpt, 24*time.Hour + 1, "wait is 24h0m0.000000001s, want at most 24h"},
		{acme, gpt, time.Minute, `bucket is "acme/gpt-4", want one with a limit that refills and is not soft`},
	} {
		err := l.Drain(t.Context(), c.entity, c.resource, c.wait)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	check.Equal(t, w.db.Stats().Reads, 1, "reads, want one of the bucket")
	w.db.ResetStats()
	for _, wait := range []time.Duration{0, -1, -time.Hour} {
		w.drains(l, wait)
	}
	check.Equal(t, w.db.Stats().Calls(), 0, "calls for a past instant")
	check.NoError(t, l.Drain(t.Context(), "nobody", gpt, 24*time.Hour), "a missing bucket")
	check.Equal(t, fmt.Sprint(w.db.Items()), fmt.Sprint(before), "something was written")
	check.Must(t, l.Close(t.Context()))
	check.MustBe(t, l.Drain(t.Context(), acme, gpt, time.Minute), ErrClosed)
}

// Quotas and slots are unchanged; the rate alone stops the bucket.
func TestDrainLeavesOtherKindsAlone(t *testing.T) {
	w, l := newProcess(t, Options{})
	limits := []Limit{InFlight("jobs", 5, time.Minute), Quota("rpd", 50, Daily("")), PerMinute("rpm", 60),
		PerMinute("soft", 60).AsSoft()}
	must(t, l, asks(Costs{"jobs": 1, "rpd": 1, "rpm": 1, "soft": 1}, limits...))
	until := w.until(time.Second)
	w.drains(l, time.Second)
	if a, b, c, d := w.slot(l, "jobs"), w.slot(l, "rpd"), w.slot(l, "rpm"), w.slot(l, "soft"); a.Tokens != 4_000 ||
		b.Tokens != 49_000 || c.Tokens != -1_000 || d.Tokens != 59_000 {
		t.Errorf("jobs %d, rpd %d, rpm %d, soft %d", a.Tokens, b.Tokens, c.Tokens, d.Tokens)
	}
	w.opens(l, asks(Costs{"rpd": 1}, limits...), until) // takes nothing of the rate
}

// Whatever happens to the write, the bucket is drained once, or the error says that it is unknown.
// A second call does the rest.
func TestDrainUnderFaults(t *testing.T) {
	once := func(f memdynamo.Hook) memdynamo.Hook { return onCall(isWrite, 0, f) }
	always := func(f memdynamo.Hook) memdynamo.Hook { return onEvery(isWrite, f) }
	fails := func(apply bool, kind store.Kind) memdynamo.Hook {
		return func(memdynamo.Op) (bool, error) { return apply, memdynamo.Fail(kind) }
	}
	type making = func(w *world, l *Limiter, leave func()) memdynamo.Hook
	is := func(h memdynamo.Hook) making { return func(*world, *Limiter, func()) memdynamo.Hook { return h } }
	isRead := func(op memdynamo.Op) bool { return !isWrite(op) }
	for _, c := range []struct {
		name    string
		hook    making
		want    error
		drained bool
	}{
		{"nothing", is(nil), nil, true},
		{"applied, answer lost", is(once(fails(true, store.Unknown))), nil, true},
		{"not applied, answer lost", is(once(fails(false, store.Unknown))), nil, true},
		{"answers are lost for ever", is(always(fails(true, store.Unknown))), ErrUnknown, true},
		{"nothing is applied, nor answered", is(always(fails(false, store.Unknown))), ErrUnknown, false},
		{"throttled once", is(once(fails(false, store.Throttled))), nil, true},
		{"throttled for ever", is(always(fails(false, store.Throttled))), ErrUnavailable, false},
		{"unavailable once", is(once(fails(false, store.Unavailable))), nil, true},
		{"unavailable for ever", is(always(fails(false, store.Unavailable))), ErrUnavailable, false},
		{"no permission", is(always(fails(false, store.Setup))), ErrSetup, false},
		{"reads fail", is(onEvery(isRead, fails(false, store.Unavailable))), ErrUnavailable, false},
		{"refused: others drain it first", func(w *world, l *Limiter, _ func()) memdynamo.Hook {
			other := w.bystander(l)
			return once(func(memdynamo.Op) (bool, error) { w.drains(other, 20*time.Second); return true, nil })
		}, nil, true},
		{"refused: others take all of it, into debt", func(w *world, l *Limiter, _ func()) memdynamo.Hook {
			other := w.bystander(l)
			return once(func(memdynamo.Op) (bool, error) {
				le := must(w.t, other, asks(Costs{"rpm": 1}, PerMinute("rpm", 600)))
				check.NoError(w.t, errors.Join(le.Settle(Costs{"rpm": 799}), le.Commit(context.Background())))
				return true, nil
			})
		}, nil, true},
		{"others give back", func(w *world, l *Limiter, _ func()) memdynamo.Hook {
			le := must(w.t, w.bystander(l), asks(Costs{"rpm": 100}, PerMinute("rpm", 600)))
			return once(func(memdynamo.Op) (bool, error) {
				check.NoError(w.t, le.Rollback(context.Background()))
				return true, nil
			})
		}, nil, true},
		{"others change its limits before every write", func(w *world, l *Limiter, _ func()) memdynamo.Hook {
			n := int64(0)
			return always(func(memdynamo.Op) (bool, error) {
				n++
				must(w.t, w.bystander(l), asks(Costs{"rpm": 0}, PerMinute("rpm", 600+n%2)))
				return true, nil
			})
		}, ErrUnavailable, false},
		{"the caller leaves before it is written", func(_ *world, _ *Limiter, leave func()) memdynamo.Hook {
			return once(func(op memdynamo.Op) (bool, error) { leave(); <-op.Done; return false, nil })
		}, ErrCanceled, false},
		{"the caller leaves before the answer", func(_ *world, _ *Limiter, leave func()) memdynamo.Hook {
			return once(func(op memdynamo.Op) (bool, error) { leave(); <-op.Done; return true, nil })
		}, ErrCanceled, true},
		{"it hangs", is(always(func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil })), ErrUnknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
				limit := PerMinute("rpm", 600)
				must(t, l, asks(Costs{"rpm": 1}, limit))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				w.db.SetHook(c.hook(w, l, leave))
				err := l.Drain(ctx, acme, gpt, 20*time.Second)
				w.db.SetHook(nil)
				if !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Fatalf("%v, want %v", err, c.want)
				}
				if drained := w.held(l, limit).Sign() < 0; drained != c.drained {
					t.Errorf("drained %v: %s are held", drained, w.held(l, limit).FloatString(3))
				}
				w.drains(l, 20*time.Second)
				w.wantHeld(l, limit, -200)
			})
		})
	}
}

// Tokens of a drained limit that are given back while a drain lowers another limit are drained too.
func TestDrainIncludesGiveBacksToDrainedLimits(t *testing.T) {
	w, l := newProcess(t, Options{})
	rpm, tpm := PerMinute("rpm", 600), PerMinute("tpm", 600)
	requests := must(t, l, asks(Costs{"rpm": 100, "tpm": 0}, rpm, tpm))
	tokens := must(t, l, asks(Costs{"rpm": 0, "tpm": 100}, rpm, tpm))
	until := w.until(20 * time.Second)
	w.drains(l, 20*time.Second)
	check.Must(t, tokens.Rollback(t.Context()))
	w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) {
		w.db.SetHook(nil)
		return true, requests.Rollback(context.Background())
	}))
	w.drains(l, 20*time.Second)
	for i, sl := range w.shards(l, acme, gpt)[0].State.Slots[:2] {
		level, _ := w.shards(l, acme, gpt)[0].State.LevelAt(i, until.UnixMilli())
		check.Equal(t, level, 0, "%s by then", sl.Name)
	}
}

// An unreadable bucket is named.
func TestDrainNamesUnreadableBuckets(t *testing.T) {
	w, l := newProcess(t, Options{})
	must(t, l, asks(Costs{"rpm": 1}, rpm80))
	w.spoil(layout.BucketKey(l.namespace, acme, gpt, 0), "b_rpm_tk", item.S("many"))
	check.MustBe(t, l.Drain(t.Context(), acme, gpt, time.Minute), ErrUnreadable)
}

// A provider refuses a hundred requests of one process at once: two drains serve them.
func TestDrainsOfOneProcessAreShared(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		must(t, l, asks(Costs{"rpm": 1}, rpm80))
		w.db.ResetStats()
		w.db.SetHook(takes(2 * ms))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				w.drains(l, time.Minute+time.Duration(i)*time.Second)
			})
		}
		all.Wait()
		if s := w.db.Stats(); s.Reads > 3 || s.Updates > 3 {
			t.Errorf("%+v", s)
		}
		w.wantHeld(l, rpm80, -212) // until the latest instant, 159 s from now
	})
}

// Prefetched tokens of a process are not granted before the instant, nor are slots of ended leases.
func TestDrainStopsPrefetchedTokensAndIdleSlots(t *testing.T) {
	inBubble(t, Options{Ahead: 10 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000.WithCapacity(100_000))
		w.busy(l, req, 400)
		if heldOf(l, acme, "rps") < 10 {
			t.Fatalf("%d held", heldOf(l, acme, "rps"))
		}
		w.drains(l, time.Second)
		if granted, _ := w.busy(l, req, 99); granted > 0 {
			t.Errorf("%d granted before the instant", granted)
		}
		if granted, _ := w.busy(l, req, 10); granted < 9 {
			t.Errorf("%d of 10 granted after the instant", granted)
		}
	})
}

// A Wait in the queue keeps its turn; one that comes after the drain is granted after the instant.
func TestDrainKeepsTheTurnsOfWaiters(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, req := process(), asks(Costs{"rpm": 60}, PerMinute("rpm", 60))
		must(t, l, req)
		begin := time.Now()
		var all sync.WaitGroup
		var before, after time.Duration
		all.Go(func() { waits(t, l, req); before = time.Since(begin) })
		synctest.Wait()
		time.Sleep(time.Second)
		w.drains(l, 3*time.Minute)
		all.Go(func() { waits(t, l, req); after = time.Since(begin) })
		all.Wait()
		if before > 61*time.Second || after < 4*time.Minute || after > 4*time.Minute+2*time.Second {
			t.Errorf("the first was served after %v, the second after %v", before, after)
		}
	})
}
