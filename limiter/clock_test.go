package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
)

// askew is a table whose answers say how far this process's clock is off.
type askew struct {
	*memdb.DB
	off time.Duration
}

func (a askew) Offset() time.Duration { return -a.off }

// TestBrokenClocksAreCorrected: one process of two is an hour off, or more than
// two agreeing clocks can be told apart by; what the two are granted stays what
// the limit allows.
func TestBrokenClocksAreCorrected(t *testing.T) {
	for _, off := range []time.Duration{0, 61 * time.Second, -61 * time.Second, time.Hour, -time.Hour} {
		w := newWorld(t)
		process := func(off time.Duration) *Limiter {
			l, err := open(context.Background(), askew{w.db, off}, &Options{Register: true})
			if err != nil {
				t.Fatal(err)
			}
			l.opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()).Add(off) }
			return l
		}
		ls := []*Limiter{process(0), process(off)}
		req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rph": 1}, Limits: []Limit{PerHour("rph", 3600)}}
		granted := 0
		for range 400 {
			for i := range 100 {
				switch _, err := ls[i%2].Acquire(t.Context(), req); {
				case err == nil:
					granted++
				case !errors.Is(err, ErrLimited):
					t.Fatal(err)
				}
			}
			w.advance(time.Second)
		}
		if allowed := 3600 + 400; granted > allowed || granted < allowed-5 {
			t.Errorf("clock off by %v: %d granted in 400 s, want the %d allowed", off, granted, allowed)
		}
	}
}
