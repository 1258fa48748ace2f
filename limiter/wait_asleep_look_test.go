package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

func reads(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem }

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
func TestSleepersNoticeTokensOfOthers(t *testing.T) {
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

// So does who owes on several shards: it goes on once all of them are paid back, and not before.
func TestSleepersOfSeveralShardsNotice(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards []int // that are reset
		within time.Duration
	}{{"one is reset", []int{0}, 48 * time.Second}, {"both are", []int{0, 1}, 17 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				l := process()
				must(t, l, asks(Costs{"rpm": 0}, rpm10))
				w.split(l, 2)
				for range 2 {
					must(t, l, asks(Costs{"rpm": 5}, rpm10))
				}
				done := asleepFor(t, l, asks(Costs{"rpm": 8}, rpm10)) // 4 owed by each: 48 s
				time.Sleep(10 * time.Second)
				for _, shard := range c.shards {
					w.edit(l, shard, item.Item{"b_rpm_tk": item.N(5_000)})
				}
				if took := <-done; took > c.within || took < c.within-3*time.Second {
					t.Errorf("slept for %s, want %s", took, c.within)
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
		w.db.SetHook(onCall(reads, 0, func(memdynamo.Op) (bool, error) { return false, errors.New("no answer") }))
		if took := <-done; took.Round(time.Second) != 36*time.Second {
			t.Errorf("slept for %s, want the 36s of six tokens", took)
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
