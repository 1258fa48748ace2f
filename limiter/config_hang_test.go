package limiter

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// Configuration that has outlived its time is read anew by the next call, however slow the table is:
// a read is waited for as long as calls take, not for a constant time.
func TestOldConfigurationIsReadBehindASlowTable(t *testing.T) {
	for _, trip := range []time.Duration{4 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w, l, _ := far(t, trip, Options{ConfigTTL: time.Minute}, nil)
			store := func(capacity int64) {
				w.db.Store(config.Config{Namespace: l.NamespaceID(), Resource: gpt,
					Limits: []bucket.Limit{PerHour("rph", capacity).stored()}}.Item())
			}
			req := Request{Entity: "other", Resource: gpt, Costs: Costs{"rph": 1}}
			for capacity := int64(100); capacity <= 400; capacity += 100 {
				store(capacity)
				time.Sleep(time.Minute)
				if got := must(t, l, req).Status()[0].Capacity; got != capacity {
					t.Errorf("behind %s: goes by a capacity of %d, want %d", trip, got, capacity)
				}
			}
		})
	}
}

// While reads hang, a call that has old configuration waits no longer for a read than for a probe, or half of
// its time if that is less, or if every call reads. For a second after that no call reads, and what is read
// late serves then. A call without any waits for all of its time, and says for what.
func TestHowLongACallWaitsForConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, timeout, left time.Duration // left 0: its caller waits for ever
		waits              time.Duration
	}{
		"no longer than for a probe":       {time.Second, 2 * time.Second, 0, desk.ProbeWait},
		"half of the time of a call":       {time.Second, 100 * ms, 0, 50 * ms},
		"half of the time of its caller":   {time.Second, 2 * time.Second, 60 * ms, 30 * ms},
		"every call reads":                 {-1, 2 * time.Second, 0, time.Second},
		"every call reads, in little time": {-1, 2 * time.Second, 500 * ms, 250 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Timeout: c.timeout, ConfigTTL: c.ttl}, func(t *testing.T, w *world, l *Limiter) {
				w.configure(l, "", "", rpm10)
				must(t, l, stored(Costs{"rpm": 1}))
				answer, reads := make(chan struct{}), atomic.Int64{}
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if isWrite(op) {
						return true, nil
					}
					reads.Add(1)
					select {
					case <-answer:
						return true, nil
					case <-op.Done:
						return false, context.DeadlineExceeded
					}
				})
				ask := func(entity string) (took time.Duration, err error) {
					ctx, begin := t.Context(), time.Now()
					if c.left > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.left)
						defer cancel()
					}
					_, err = l.Acquire(ctx, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}})
					return time.Since(begin), err
				}
				w.advance(2 * time.Second)
				for _, waits := range []time.Duration{c.waits, 0} {
					if took, err := ask(acme); err != nil || took != waits || reads.Load() != 1 {
						t.Errorf("took %s with %d reads, %v; want %s and one", took, reads.Load(), err, waits)
					}
				}
				w.configure(l, "", "", PerMinute("rpm", 20))
				close(answer)
				synctest.Wait()
				lease := must(t, l, stored(Costs{"rpm": 0}))
				if got := lease.Status()[0].Capacity; got != 20 && c.ttl > 0 {
					t.Errorf("goes by a capacity of %d, and 20 was read", got)
				}
				answer = make(chan struct{})
				most := c.timeout
				if c.left > 0 {
					most = c.left
				}
				took, err := ask("new")
				if took != most || !errors.Is(err, ErrUnavailable) ||
					c.left == 0 && !strings.Contains(err.Error(), "BatchGetItem: unavailable: context deadline exceeded") {
					t.Errorf("without any it took %s: %v, want unavailable after %s", took, err, most)
				}
				time.Sleep(c.timeout)
			})
		})
	}
}

// A client that panics in a read of configuration fails that request, and not the process. Old configuration serves.
func TestConfigurationReadPanics(t *testing.T) {
	w, l := newProcess(t, Options{ConfigTTL: time.Second})
	w.configure(l, "", "", rpm10)
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}}
	panics := func() {
		w.db.SetHook(onCall(func(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem }, 0,
			func(memdynamo.Op) (bool, error) { panic("client") }))
	}
	panics()
	_, err := l.Acquire(t.Context(), req)
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "panic: client") {
		t.Errorf("%v, want ErrUnknown", err)
	}
	must(t, l, req)
	w.advance(time.Minute)
	panics()
	must(t, l, req)
}
