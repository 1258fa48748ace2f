package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

func reads(op memdb.Op) bool { return op.Name == memdb.BatchGetItem }

// asleepFor lets somebody wait, and sends how long it slept, from when it had been charged.
func asleepFor(t *testing.T, l *Limiter, req Request) <-chan time.Duration {
	done, begin := make(chan time.Duration, 1), time.Now()
	go func() {
		if _, err := l.Wait(t.Context(), req); err != nil {
			t.Error(err)
		}
		done <- time.Since(begin)
	}()
	time.Sleep(100 * time.Millisecond)
	return done
}

// Who sleeps for minutes notices within seconds that an operator has reset the bucket, or
// that another process has given back. All of a process look once.
func TestSleepersNoticeWhatOthersPutBack(t *testing.T) {
	for name, put := range map[string]func(*world, *Limiter, *Lease){
		"a reset": func(w *world, l *Limiter, _ *Lease) { w.edit(l, 0, item.Item{"b_rpm_tk": item.N(10_000)}) },
		"given back": func(w *world, _ *Limiter, before *Lease) {
			if err := before.Rollback(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				l, other := process(), process()
				must(t, l, asks(Costs{"rpm": 1}, rpm10))
				before, _, err := other.Reserve(t.Context(), asks(Costs{"rpm": 10}, rpm10))
				if err != nil {
					t.Fatal(err)
				}
				w.db.ResetStats()
				first := asleepFor(t, l, asks(Costs{"rpm": 4}, rpm10))  // 5 owed: 30 s
				second := asleepFor(t, l, asks(Costs{"rpm": 5}, rpm10)) // 10 owed: 60 s
				time.Sleep(10 * time.Second)
				put(w, l, before)
				for i, done := range []<-chan time.Duration{first, second} {
					if took := <-done; took > 16*time.Second {
						t.Errorf("%d slept for %s, want no longer than until the next look", i, took)
					}
				}
				if n := w.db.Stats().Reads; n != 1 {
					t.Errorf("%d reads, want one for both", n)
				}
			})
		})
	}
}

// A look that shows that others owe more since changes nothing, one that fails neither.
func TestLooksNeverMakeSleepersLater(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		done := asleepFor(t, l, asks(Costs{"rpm": 6}, rpm10)) // 36 s
		if _, _, err := other.Reserve(t.Context(), asks(Costs{"rpm": 4}, rpm10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second) // one look
		w.db.SetHook(onCall(reads, 0, func(memdb.Op) (bool, error) { return false, errors.New("no answer") }))
		if took := <-done; took.Round(time.Second) != 36*time.Second {
			t.Errorf("slept for %s, want the 36s of six tokens", took)
		}
	})
}

// An image goes for those only who had been charged when it was asked for: who comes while
// the read is under way may be no part of it. Nor does it go for anybody after a split, which
// leaves a part of what they owe elsewhere, or without a clock.
func TestLooksAreForThoseTheyShow(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		sleeps := func() *sleeper {
			lease, _, err := l.Reserve(t.Context(), asks(Costs{"rpm": 1}, rpm10))
			if err != nil {
				t.Fatal(err)
			}
			return l.sleepers.add(lease)
		}
		early := sleeps()
		if looks, next := l.sleepers.due(early); len(looks) != 0 || next != longestPause {
			t.Fatalf("looks at once at %v, or after %s", looks, next)
		}
		time.Sleep(longestPause)
		looks, next := l.sleepers.due(early)
		if len(looks) != 1 || len(looks[0].who) != 1 || next != longestPause {
			t.Fatalf("looks at %v, and after %s again", looks, next)
		}
		late := sleeps()
		whole := w.shards(l, acme, gpt)[0]
		whole.State.Slots[whole.State.Index("rpm")].Tokens = 0
		knew, lateKnew := l.sleepers.until(early), l.sleepers.until(late)
		split, stopped, partial := whole, whole, whole
		split.State.Shards, stopped.State.NoClock, partial.Partial = 2, true, []table.PartialLimit{{Name: "rpm"}}
		for _, b := range []table.Shard{split, stopped, partial} {
			if l.sleepers.tell(looks[0].who, b); l.sleepers.until(early) != knew {
				t.Errorf("goes on by %+v", b)
			}
		}
		l.sleepers.tell(looks[0].who, whole)
		if got := l.sleepers.until(early); got != 0 {
			t.Errorf("goes on at %d, want at once: nothing is owed", got)
		}
		if got := l.sleepers.until(late); got != lateKnew {
			t.Errorf("who came later goes on at %d, want %d", got, lateKnew)
		}
	})
}

// However many leave in other processes, those who go on have never got more, in all, than
// the limit has allowed by then.
func TestLooksAdmitNoMoreInAll(t *testing.T) {
	limit := PerMinute("rpm", 60).WithCapacity(30)
	for seed := range uint64(5) {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			r := rand.New(rand.NewPCG(seed, 5))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			begin := time.Now()
			var mu sync.Mutex
			var all sync.WaitGroup
			went := int64(0)
			for range 3 {
				l := process()
				for range 5 {
					r := rand.New(rand.NewPCG(r.Uint64(), 6))
					all.Go(func() {
						for ctx.Err() == nil {
							each, leave := context.WithCancel(ctx)
							if r.IntN(3) == 0 {
								time.AfterFunc(time.Duration(r.IntN(20_000))*time.Millisecond, leave)
							}
							cost := 1 + r.Int64N(15)
							_, err := l.Wait(each, asks(Costs{"rpm": cost}, limit))
							leave()
							if err != nil {
								time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
								continue
							}
							mu.Lock()
							went += cost
							if may := limit.Capacity + int64(time.Since(begin)/time.Second) + 1; went > may {
								t.Errorf("seed %d: %d tokens by %s, want at most %d", seed, went, time.Since(begin), may)
							}
							mu.Unlock()
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// A look wakes those who may go on sooner than they knew, and nobody else: who asks again goes by
// the clock, and if that was set ahead meanwhile, goes on before the tokens are there.
func TestALookWakesOnlyWhoMayGoOnSooner(t *testing.T) {
	const begun = int64(1_700_000_000_000)
	limit := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1000, Period: 1000}
	at := func(tokens int64) table.Shard {
		b := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt",
			State: bucket.New([]bucket.Limit{limit}, 0, 1, begun)}
		b.State.Slots[b.State.Index("rps")].Tokens = tokens * bucket.Milli
		return b
	}
	for _, c := range []struct {
		name  string
		seen  table.Shard
		wakes bool
		until int64
	}{
		{"as it left it", at(-50), false, begun + 50_000},
		{"others owe more", at(-80), false, begun + 50_000},
		{"some was put back", at(-20), true, begun + 20_000},
		{"all was put back", at(3), true, 0},
	} {
		n := known.Name{Entity: "acme", Resource: "gpt"}
		s := &sleeper{sooner: make(chan struct{}, 1),
			parts: []debtor{{name: n, image: at(-50), limits: []string{"rps"}, paid: bucket.Never}}}
		var all sleepers
		all.tell([]debtOf{{s, &s.parts[0]}}, c.seen)
		if woken := len(s.sooner) > 0; woken != c.wakes || all.until(s) != c.until {
			t.Errorf("%s: woken %t, goes on after %d ms", c.name, woken, all.until(s)-begun)
		}
	}
}
