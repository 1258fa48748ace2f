package desk

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const ms = time.Millisecond

// The expected duration of writes, from earlier durations.
func TestTrips(t *testing.T) {
	var calm, spiking []time.Duration
	for i := range 20 {
		calm = append(calm, time.Duration(4+i%2)*ms)
		spiking = append(spiking, 4*ms)
	}
	for _, c := range []struct {
		name          string
		took          []time.Duration
		typical, late time.Duration
	}{
		{"none answered", nil, 0, 0},
		{"one", []time.Duration{8 * ms}, 8 * ms, 12 * ms},
		{"at once", []time.Duration{0, 0, 0}, 0, 0},
		{"a slow one among five", []time.Duration{4 * ms, 5 * ms, 4 * ms, 900 * ms, 5 * ms}, 5 * ms,
			7500 * time.Microsecond},
		{"three slow ones among fifteen", append(calm[:15:15], 900*ms, 900*ms, 900*ms), 5 * ms,
			7500 * time.Microsecond},
		{"four slow ones", append(spiking[:20:20], 900*ms, 900*ms, 900*ms, 900*ms), 4 * ms, 1350 * ms},
		{"mostly slow", append(spiking[:20:20], 16*ms, 17*ms, 18*ms, 16*ms, 17*ms, 18*ms, 16*ms, 17*ms), 16 * ms,
			51 * ms / 2},
		{"fast again", append([]time.Duration{900 * ms, 900 * ms, 900 * ms}, spiking[:15]...), 4 * ms, 6 * ms},
	} {
		var got Timed
		for _, took := range c.took {
			got.Took(took)
		}
		if got.lately().trip != c.typical || got.lately().late != c.late {
			t.Errorf("%s: %+v, want %s and %s", c.name, got.lately(), c.typical, c.late)
		}
	}
}

// The same, counted naively: at least half of the last fifteen took no longer than the typical one,
// and four of five no longer than two thirds of the late one.
func TestTripsAreCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var got Timed
	var all []time.Duration
	for i := range 2000 {
		took := time.Duration(r.ExpFloat64() * float64(50*ms))
		got.Took(took)
		all = append(all, took)
		last := all[max(0, len(all)-15):]
		count := func(most time.Duration) (n int) {
			for _, d := range last {
				if d <= most {
					n++
				}
			}
			return n
		}
		smallest := func(part float64) time.Duration {
			best := time.Duration(1 << 62)
			for _, d := range last {
				if float64(count(d)) >= part*float64(len(last)) {
					best = min(best, d)
				}
			}
			return best
		}
		if want := smallest(.5); len(last)%2 == 1 && got.lately().trip != want {
			t.Fatalf("step %d: typically %s, want %s of %v", i, got.lately().trip, want, last)
		}
		if want := smallest(.8) * 3 / 2; got.lately().late != want {
			t.Fatalf("step %d: late after %s, want %s of %v", i, got.lately().late, want, last)
		}
	}
}

// answers is a table on which a test decides the duration and the outcome of each write.
type answers struct {
	store.Store
	after time.Duration
	err   error
}

func (a *answers) Write(context.Context, item.Write) (item.Item, error) {
	time.Sleep(a.after)
	return nil, a.err
}

// Only answered writes, held or refused, show how long the table takes. A late one bounds how long
// others wait for it.
func TestOnlyAnsweredWritesSetThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &answers{}
		s := &Timed{Store: table, observe: func(context.Context, Event) {}}
		for i, c := range []struct {
			after    time.Duration
			err      error
			typical  time.Duration
			patience time.Duration
		}{
			{time.Second, memdynamo.Fail(store.Unknown), 0, 10 * ms},
			{time.Second, memdynamo.Fail(store.Throttled), 0, 10 * ms},
			{4 * ms, nil, 4 * ms, 10 * ms},
			{8500 * time.Microsecond, &store.Refused{}, 8500 * time.Microsecond, 12750 * time.Microsecond},
			{20 * ms, nil, 8500 * time.Microsecond, 30 * ms},
			{time.Second, memdynamo.Fail(store.Conflict), 8500 * time.Microsecond, 30 * ms},
		} {
			table.after, table.err = c.after, c.err
			_, err := s.Write(t.Context(), item.Update{})
			p := s.lately()
			if late := decide.Patience(p.late); err != c.err || p.trip != c.typical || late != c.patience {
				t.Errorf("write %d: %v, then %s and %s, want %s and %s", i, err, p.trip, late, c.typical, c.patience)
			}
		}
	})
}
