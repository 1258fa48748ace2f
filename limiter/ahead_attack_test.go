package limiter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// A release whose limits another one has replaced uses the new limits, also for prefetched tokens.
func TestYieldingProcessPrefetchesUnderTheLimitsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var yields atomic.Int64
		old := w.process(Options{Ahead: 500 * time.Millisecond, MaxShards: 1,
			Observe: only(EventYield, func(Event) { yields.Add(1) })})
		newer := w.process(Options{MaxShards: 1})
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(old, req, 200)
		must(t, newer, asks(Costs{"rps": 1}, PerSecond("rps", 2000)))
		w.busy(old, req, 200) // it has noticed that, and is busy under those limits
		w.db.ResetStats()
		if granted, _ := w.busy(old, req, 500); granted != 500 || w.db.Stats().WriteUnits > 30 {
			t.Errorf("%d granted with %d writes", granted, w.db.Stats().WriteUnits)
		}
		check.Equal(t, yields.Load(), 1, "reports of the limits of others")
	})
}

// During an outage, prefetched tokens are granted for as long as they may be held, also with stored
// limits, and for as many buckets as are remembered.
func TestPrefetchedTokensAreGrantedInAnOutage(t *testing.T) {
	for _, own := range [][]Limit{{PerMinute("rpm", 60_000)}, nil} {
		opts := Options{Ahead: 5 * time.Second, ConfigTTL: ages, MaxBuckets: 2}
		inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
			w.configure(l, "", "", PerMinute("rpm", 60_000))
			var reqs []Request
			for _, entity := range []string{acme, "other"} {
				reqs = append(reqs, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: own})
			}
			for heldOf(l, acme, "rpm") < 100 || heldOf(l, "other", "rpm") < 100 {
				w.busy(l, reqs[0], 1)
				w.busy(l, reqs[1], 1)
			}
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				return false, &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.New("planned")}
			})
			large := reqs[0]
			large.Costs = Costs{"rpm": heldOf(l, acme, "rpm") + 1}
			for range desk.BreaksAfter { // more than the prefetched tokens: they must make calls
				check.MustBe(t, check.Err(l.Acquire(t.Context(), large)), ErrUnknown)
			}
			for n := 0; heldOf(l, acme, "rpm")+heldOf(l, "other", "rpm") > 0; n++ {
				req := reqs[n%2]
				held := heldOf(l, req.Entity, "rpm")
				_, err := l.Acquire(t.Context(), req)
				l.desks.Wait()
				if (err == nil) != (held > 0) || err != nil && !errors.Is(err, ErrUnavailable) {
					t.Fatalf("with %d held of %s: %v", held, req.Entity, err)
				}
			}
			check.Is(t, check.Err(l.Acquire(t.Context(), reqs[0])), ErrUnavailable, "one more")
			l.desks.Wait()
		})
	}
}

// Tokens of a debt that are given back before they existed are not granted from the prefetched
// ones: otherwise the bucket would grant them a second time, before they refill. Once the debt is
// paid, they are.
func TestDebtsThatAreGivenBackAreNotHeld(t *testing.T) {
	for _, paid := range []bool{false, true} {
		opts := Options{Ahead: 10 * time.Second, MaxShards: 1, ConfigTTL: ages}
		inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
			limit := PerSecond("rps", 100).WithCapacity(3000)
			w.busy(l, asks(Costs{"rps": 1}, limit), 300)
			k := l.desks.Of(acmeGPT)
			if _, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 3000}, limit)); err != nil || after == 0 {
				t.Fatal(err, after)
			}
			last, after := reserved(t, l, asks(Costs{"rps": 1}, limit))
			n := k.Left(0, "rps", l.desks.Moment) / bucket.Milli
			if n == 0 {
				t.Fatal("nothing is held")
			}
			must(t, l, asks(Costs{"rps": n}, limit))
			if paid {
				w.pass(after)
			}
			stored := func() int64 {
				s := w.shards(l, acme, gpt)[0].State
				return s.Slots[s.Index("rps")].Tokens
			}
			held, level := k.Left(0, "rps", l.desks.Moment), stored()
			check.Must(t, last.Rollback(t.Context()))
			wantHeld, wantLevel := held, level+1000
			if paid {
				wantHeld, wantLevel = held+1000, level
			}
			if got, is := k.Left(0, "rps", l.desks.Moment), stored(); got != wantHeld || is != wantLevel {
				t.Errorf("paid: %t: %d held and %d in the table, want %d and %d", paid, got, is, wantHeld, wantLevel)
			}
			if paid { // for a payment from several shards, the image is another one, without debt
				image := w.shards(l, acme, gpt)[0]
				back := table.Costs([]bucket.Limit{limit.stored()}, -1000)
				image.State.Shard, image.State.Shards = 1, 2
				image.State.Slots[image.State.Index("rps")].Tokens = 0
				check.NoError(t, check.Err(l.desks.Settle(t.Context(), acmeGPT, 0, image, waitqueue.Taking{}, back)))
				if got, is := k.Left(0, "rps", l.desks.Moment), stored(); got != wantHeld || is != wantLevel+1000 {
					t.Errorf("of several: %d held and %d in the table, want %d and %d", got, is, wantHeld, wantLevel+1000)
				}
			}
			l.desks.Wait()
		})
	}
}

// Nothing is prefetched ahead of waiting requests of this process.
func TestNothingIsPrefetchedAheadOfWaiters(t *testing.T) {
	inBubble(t, Options{Ahead: 500 * time.Millisecond, MaxShards: 1}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, PerSecond("rps", 1000))
		w.busy(l, req, 200)
		w.pass(2 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 5 { // of a capacity of 1,000: some are in debt, the last ones stand in line
			all.Go(func() { _, _ = l.Wait(ctx, asks(Costs{"rps": 1000}, PerSecond("rps", 1000))) })
			synctest.Wait()
		}
		lined := 0
		for range 300 { // 3 s: they get the refill
			w.pass(10 * time.Millisecond)
			_, _ = l.Acquire(ctx, req)
			if !l.desks.Waiting.InLine(acmeGPT, "") {
				continue
			}
			if lined++; l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) > 0 {
				t.Fatal("tokens are held while a request is in line")
			}
		}
		if lined == 0 {
			t.Error("no request was in line")
		}
		cancel()
		all.Wait()
		l.desks.Wait()
	})
}

// Wait and Reserve do not use prefetched tokens, neither immediately nor for a debt: their place is
// in the table, where all processes see it.
func TestWaitIgnoresPrefetchedTokens(t *testing.T) {
	for _, owes := range []bool{false, true} {
		opts := Options{Ahead: 10 * time.Second, MaxShards: 1, ConfigTTL: ages}
		inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
			limit := PerSecond("rps", 100).WithCapacity(3000)
			w.busy(l, asks(Costs{"rps": 1}, limit), 300)
			if owes {
				if _, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 3000}, limit)); err != nil || after == 0 {
					t.Fatal(err, after)
				}
			}
			left := func() int64 { return l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) }
			held, counted := left(), w.used(l, "rps")
			lease, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 2}, limit))
			if err != nil || lease.ahead || after > 0 != owes {
				t.Fatalf("in debt %t: reserved %v, after %v, from held tokens %t", owes, err, after, lease.ahead)
			}
			if used := w.used(l, "rps"); left() < held || held == 0 || used < counted+2 {
				t.Errorf("owes %t: %d of %d are held, %d counted before and %d after", owes, left(), held, counted, used)
			}
			l.desks.Wait()
		})
	}
}

// told is the content of events.
type told struct {
	mu           sync.Mutex
	writes       int
	asked        int64 // tokens granted with a write
	taken, ended int64
	failed       []error // failed renewals
}

func (s *told) observe(_ context.Context, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes += e.Writes
	s.taken += e.Taken["rps"]
	s.ended += e.Ended["rps"]
	switch {
	case e.Kind == EventAhead && e.Err != nil:
		s.failed = append(s.failed, e.Err)
	case e.Kind == EventAcquire && e.Err == nil && !e.Ahead:
		s.asked += e.Costs["rps"]
	}
}

func (s *told) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Events report every write, including those for which no caller waits, every prefetched token, and
// every one that expired unspent.
func TestEventsReportPrefetchedAndExpiredTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), &told{}
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: s.observe})
		req := asks(Costs{"rps": 1}, rps1000)
		w.db.ResetStats()
		for range 3 {
			w.busy(l, req, 300)
			w.pass(2 * time.Second) // the rest has expired
		}
		w.busy(l, req, 1)
		used, ended := w.countedOf(l, acme)
		if s.asked+s.taken != used || s.ended != ended || ended == 0 {
			t.Errorf("reported %d tokens taken with requests, %d ahead and %d ended; %d are counted, of which %d ended",
				s.asked, s.taken, s.ended, used, ended)
		}
		if n := w.db.Stats().WriteUnits; s.writes != n || len(s.failed) > 0 {
			t.Errorf("reported %d writes, %d were sent; %d failed", s.writes, n, len(s.failed))
		}
	})
}

// Renewals are calls like any other, even if nothing else calls the table. Successive unanswered
// ones are reported and open the breaker; a successful one ends the sequence.
func TestRenewalsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fails  func(renewal int) bool
		opens  bool
		silent int
	}{
		"none":   {func(int) bool { return false }, false, 0},
		"all":    {func(int) bool { return true }, true, desk.BreaksAfter},
		"others": {func(n int) bool { return n%2 == 1 }, false, 1},
	} {
		s := &told{}
		inBubble(t, Options{Ahead: 500 * time.Millisecond, Observe: s.observe}, func(t *testing.T, w *world, l *Limiter) {
			req := asks(Costs{"rps": 1}, rps1000)
			w.busy(l, req, 200)
			renewals, failed, before := 0, 0, s.writes
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if renewals++; c.fails(renewals) {
					failed++
					return false, memdynamo.Fail(store.Unknown)
				}
				return true, nil
			})
			for renewals < 4*desk.BreaksAfter && !l.desks.Breaker.Open() { // all are granted from prefetched tokens
				w.busy(l, req, 1)
			}
			if open := l.desks.Breaker.Open(); open != c.opens || l.desks.Breaker.Silent > c.silent ||
				c.opens && renewals != desk.BreaksAfter {
				t.Errorf("%s: open %v after %d failures of %d renewals", name, open, failed, renewals)
			}
			if s.writes != before+renewals || len(s.failed) != failed || failed > 0 && !errors.Is(s.failed[0], ErrUnknown) {
				t.Errorf("%s: reported %d writes of %d, and %v", name, s.writes-before, renewals, s.failed)
			}
		})
	}
}

// A renewal that times out is silence too, although its own time is over then.
func TestRenewalsThatTimeOutAreSilence(t *testing.T) {
	inBubble(t, Options{Ahead: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		began := make(chan bool, 1)
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			began <- true
			time.Sleep(l.opts.Timeout + time.Second)
			return false, memdynamo.Fail(store.Unknown)
		})
		for len(began) == 0 { // nothing else calls the table
			must(t, l, req)
			synctest.Wait()
		}
		time.Sleep(l.opts.Timeout + time.Second)
		synctest.Wait()
		check.Equal(t, l.desks.Breaker.Silent, 1, "calls without an answer")
	})
}
