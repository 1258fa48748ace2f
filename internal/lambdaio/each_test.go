package lambdaio

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// begun runs n calls of a second each, the first of half a second, three at once,
// and returns what was begun.
func begun(ctx context.Context, n int, goOn func(i int) bool) []int {
	var mu sync.Mutex
	var out []int
	running, most := 0, 0
	Each(ctx, 3, n, func(i int) bool {
		mu.Lock()
		out = append(out, i)
		running++
		most = max(most, running)
		mu.Unlock()
		if i > 0 {
			time.Sleep(time.Second / 2)
		}
		time.Sleep(time.Second / 2)
		mu.Lock()
		defer mu.Unlock()
		running--
		return goOn(i)
	})
	if running != 0 || most > 3 {
		panic("calls are running after the end, or more than three at once")
	}
	slices.Sort(out)
	return out
}

func TestEachBeginsWhatItMay(t *testing.T) {
	yes := func(int) bool { return true }
	first := func(n int) (out []int) {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	for _, c := range []struct {
		name string
		n    int
		time time.Duration
		goOn func(int) bool
		want int
	}{
		{"all", 10, time.Hour, yes, 10},
		{"fewer than at once", 2, time.Hour, yes, 2},
		{"nothing to do", 0, time.Hour, yes, 0},
		{"time for two rounds and a bit", 10, 1700 * time.Millisecond, yes, 7},
		{"no time", 10, 0, yes, 0},
		{"stopped by the first", 10, time.Hour, func(i int) bool { return i != 0 }, 3},
		{"stopped by the last", 10, time.Hour, func(i int) bool { return i != 9 }, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.time)
				defer cancel()
				got := begun(ctx, c.n, c.goOn)
				if !slices.Equal(got, first(c.want)) {
					t.Errorf("begun %v, want the first %d", got, c.want)
				}
			})
		})
	}
}
