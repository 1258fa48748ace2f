package limiter

import (
	"context"
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
		waits(t, l, req)
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
			report(w.t, before.Rollback(w.t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				l, other := process(), process()
				must(t, l, asks(Costs{"rpm": 1}, rpm10))
				before, _ := reserved(t, other, asks(Costs{"rpm": 10}, rpm10))
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
