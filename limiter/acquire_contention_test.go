package limiter

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestFleetPaysAboutOneWrite prints what a fleet pays per acquire on one bucket
// that is seldom empty: the processes take turns and never see each other's
// images, which is the worst case for planning from the last one.
func TestFleetPaysAboutOneWrite(t *testing.T) {
	for _, c := range []struct {
		processes int
		every     time.Duration
		costs     Costs
	}{
		{1, 125 * time.Millisecond, Costs{"rpm": 1, "tpm": 100}},
		{10, 125 * time.Millisecond, Costs{"rpm": 1, "tpm": 100}},
		{10, 1000 * time.Millisecond, Costs{"rpm": 1, "tpm": 500}},
		{10, 61 * time.Millisecond, Costs{"rpm": 1, "tpm": 100}},
		{32, 10 * time.Millisecond, Costs{"rpm": 0, "tpm": 10}},
	} {
		t.Run(fmt.Sprintf("%d processes every %s", c.processes, c.every), func(t *testing.T) {
			w := newWorld(t)
			ls := make([]*Limiter, c.processes)
			for i := range ls {
				ls[i] = w.process(Options{})
			}
			req := Request{Entity: "acme", Resource: "gpt-4", Costs: c.costs,
				Limits: []Limit{PerMinute("rpm", 1000), PerMinute("tpm", 100_000)}}
			granted := 0
			for i := range 4000 {
				if i == 10*c.processes {
					w.db.ResetStats()
					granted = 0
				}
				w.advance(c.every)
				switch _, err := ls[i%c.processes].Acquire(t.Context(), req); {
				case err == nil:
					granted++
				case !errors.Is(err, ErrLimited):
					t.Fatal(err)
				}
			}
			st := w.db.Stats()
			perAcquire := float64(st.Updates) / float64(granted)
			t.Logf("writes per granted acquire: %.3f (%d granted)", perAcquire, granted)
			if perAcquire > 1.1 {
				t.Errorf("%d updates for %d grants, want about one each", st.Updates, granted)
			}
		})
	}
}
