package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/limitertest"
)

func feed(n int) <-chan int {
	jobs := make(chan int, n)
	for i := range n {
		jobs <- i
	}
	close(jobs)
	return jobs
}

// Two processes of eight workers share the rate: a burst of four, then one in half a
// second, whoever it is. In a bubble, where a minute takes no time.
func TestProcessesShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		jobs := feed(60)
		var all sync.WaitGroup
		for range 2 {
			p := &pool{limiter: table.Limiter(nil), workers: 8, work: func(context.Context, int) error {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
				return nil
			}}
			all.Go(func() {
				if err := p.run(t.Context(), jobs); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		slices.Sort(at)
		for i, when := range at { // never earlier than the limit allows
			if least := time.Duration(max(0, i-3)) * 500 * time.Millisecond; when < least {
				t.Errorf("call %d after %v, want %v at least", i, when, least)
			}
		}
		if len(at) != 60 || at[59] > 29*time.Second { // and hardly later: nothing is wasted
			t.Errorf("%d calls, the last after %v", len(at), at[len(at)-1])
		}
	})
}

// A worker that is stopped while it waits stops at once, and the tokens of calls that were not
// made are there for others. A call that was made and failed has cost its token: the partner has
// counted it.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		ctx, stop := context.WithCancel(t.Context())
		defer time.AfterFunc(1200*time.Millisecond, stop).Stop()
		done := 0
		p := &pool{limiter: table.Limiter(nil), workers: 1, work: func(context.Context, int) error { done++; return nil }}
		begin := time.Now()
		err := p.run(ctx, feed(100))
		if err != nil || time.Since(begin) > 1300*time.Millisecond || done != 6 {
			t.Errorf("%d jobs in %v: %v", done, time.Since(begin), err)
		}
		b, err := table.Admin("").Peek(t.Context(), "workers", "partner-api")
		if err != nil || b[0].Levels[0].Remaining != 0 { // and none is owed
			t.Errorf("after a wait that ended: %+v, %v", b[0].Levels, err)
		}
		broken := errors.New("broken")
		p = &pool{limiter: table.Limiter(nil), workers: 1, work: func(context.Context, int) error { return broken }}
		time.Sleep(time.Minute)
		if err := p.run(t.Context(), feed(1)); !errors.Is(err, broken) {
			t.Errorf("a job that fails: %v", err)
		}
		b, err = table.Admin("").Peek(t.Context(), "workers", "partner-api")
		if err != nil || b[0].Levels[0].Remaining != 3 {
			t.Errorf("after a job that failed: %+v, %v", b[0].Levels, err)
		}
	})
}
