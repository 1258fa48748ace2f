package limiter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// After a request is over, nothing is left of what bounded its calls, whatever they were for: the caller's own
// context goes on.
func TestBoundsEndWithTheRequest(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, w *world, l *Limiter){
		"configuration": func(t *testing.T, w *world, l *Limiter) { must(t, l, stored(Costs{"rpm": 1})) },
		"configuration that is old": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 1}))
			w.pass(time.Hour)
			must(t, l, stored(Costs{"rpm": 1}))
		},
		"a commit": func(t *testing.T, w *world, l *Limiter) {
			lease := must(t, l, stored(Costs{"rpm": 1}))
			if err := lease.Settle(Costs{"rpm": 2}); err != nil {
				t.Fatal(err)
			}
			if err := lease.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"what is taken ahead": func(t *testing.T, w *world, l *Limiter) {
			w.busy(l, asks(Costs{"rps": 1}, rps1000), 200)
		},
		"a group": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 1}))
			for range 5 {
				go l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
			}
			time.Sleep(time.Second)
		},
		"a look": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 10}))
			go l.Wait(t.Context(), stored(Costs{"rpm": 10}))
			time.Sleep(30 * time.Second)
			w.advance(time.Hour)
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.process(Options{Ahead: 500 * time.Millisecond})
				w.configure(l, "", "", rpm10)
				var mu sync.Mutex
				var bounds []<-chan struct{}
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					time.Sleep(4 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					bounds = append(bounds, op.Done)
					return true, nil
				})
				play(t, w, l)
				l.desks.Wait()
				synctest.Wait()
				for i, done := range bounds {
					select {
					case <-done:
					default:
						t.Errorf("call %d of %d is still bounded", i, len(bounds))
					}
				}
				if len(bounds) < 2 {
					t.Errorf("%d calls", len(bounds))
				}
			})
		})
	}
}
