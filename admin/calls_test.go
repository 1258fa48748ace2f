package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A call is repeated while that may help: after a throttle, a conflict, a lost answer, and when its own
// time is up. It pauses in between, longer each time, a second at most.
func TestWhatIsRepeated(t *testing.T) {
	var longest time.Duration
	late := fmt.Errorf("sent: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 1},
		{"of another kind", errors.New("odd"), 1},
		{"refused", &store.Refused{}, 1},
		{"not set up", memdynamo.Fail(store.Setup), 1},
		{"unavailable", memdynamo.Fail(store.Unavailable), 1},
		{"too late", &store.Failure{Kind: store.Unavailable, Op: "Read", Err: late}, callAttempts},
		{"throttled", memdynamo.Fail(store.Throttled), callAttempts},
		{"conflict", memdynamo.Fail(store.Conflict), callAttempts},
		{"unknown", memdynamo.Fail(store.Unknown), callAttempts},
		{"unknown again", memdynamo.Fail(store.Unknown), callAttempts},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, begin, last := 0, time.Now(), time.Now()
			most := callPause
			err := calls{timeout: ages}.again(t.Context(), func(context.Context) error {
				if now := time.Now(); n > 0 {
					if now.Sub(last) > most {
						t.Errorf("%s: paused for %s, want %s at most", c.name, now.Sub(last), most)
					}
					last, most = now, min(2*most, time.Second)
				}
				n++
				return c.err
			})
			if n != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s: %d attempts, want %d: %v", c.name, n, c.want, err)
			}
			longest = max(longest, time.Since(begin))
		})
	}
	if longest < 10*callPause { // of 63 at most
		t.Errorf("paused for %s at most", longest)
	}
}

// A call that succeeds in the end has succeeded, and one whose context ends is not repeated: it tells what
// went wrong before.
func TestWhatEndsRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := calls{timeout: ages}.again(t.Context(), func(context.Context) error {
			if n++; n == callAttempts {
				return nil
			}
			return memdynamo.Fail(store.Throttled)
		})
		if err != nil || n != callAttempts {
			t.Errorf("%d attempts: %v", n, err)
		}
		for name, end := range map[string]error{"throttled": memdynamo.Fail(store.Throttled),
			"too late": &store.Failure{Kind: store.Unavailable, Op: "Read", Err: context.DeadlineExceeded}} {
			ctx, cancel := context.WithCancel(t.Context())
			n = 0
			err = calls{timeout: ages}.again(ctx, func(context.Context) error { n++; cancel(); return end })
			if n != 1 || !errors.Is(err, end) {
				t.Errorf("%s: %d attempts: %v", name, n, err)
			}
		}
	})
}

// Each attempt has the whole time of its own.
func TestEachAttemptHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		_ = calls{timeout: time.Minute}.again(t.Context(), func(ctx context.Context) error {
			at, _ := ctx.Deadline()
			times = append(times, time.Until(at))
			<-ctx.Done()
			return &store.Failure{Kind: store.Unavailable, Op: "Read", Err: ctx.Err()}
		})
		if len(times) != callAttempts || times[0] != time.Minute || times[callAttempts-1] != time.Minute {
			t.Errorf("attempts had %v", times)
		}
	})
}

// half answers the first read with some items and an error.
type half struct {
	store.Lister
	asked int
}

func (h *half) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := h.Lister.Read(ctx, consistent, keys...)
	if h.asked++; h.asked == 1 {
		return items[:1], memdynamo.Fail(store.Throttled)
	}
	return items, err
}

// What comes with an error does not count: the answer is that of the attempt that has succeeded.
func TestAnswersThatCameWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(Entity{ID: "a"})
		keys := []item.Key{layout.EntityKey(w.ns.id, "a"), layout.EntityKey(w.ns.id, "b")}
		h := &half{Lister: w.db}
		items, err := calls{db: h, timeout: ages}.read(t.Context(), keys...)
		if err != nil || len(items) != 2 || items[0] == nil || items[1] != nil || h.asked != 2 {
			t.Errorf("%v after %d reads, %v", items, h.asked, err)
		}
	})
}
