package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// TestMain prints the results of the benchmarks after the lines of the testing package. The
// processes draw shards and pauses from one seed. Only the order of goroutines at one instant is
// left to chance.
func TestMain(m *testing.M) {
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(1, 1))
	store.SetRandom(func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return chance.Uint64()
	})
	status := m.Run()
	for _, line := range lines {
		fmt.Println("bench: fleet  " + line)
	}
	os.Exit(status)
}

var lines []string

func say(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }

// bubble runs f in virtual time.
func bubble[R any](t testing.TB, f func(ctx context.Context) (R, error)) (r R) {
	t.Helper()
	test, ok := t.(*testing.T)
	if !ok {
		t.Fatal("bug: no test")
	}
	synctest.Test(test, func(t *testing.T) {
		var err error
		if r, err = f(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// TestFleetsStayWithinTheLimit runs a few fleets, and tests what must hold on any emulator: no
// window admits more than the limit, no process fails, and an exact bucket's grants are delivered.
func TestFleetsStayWithinTheLimit(t *testing.T) {
	for _, c := range []Case{
		{Bucket: PerMinute, Processes: 16, Load: .5},
		{Bucket: PerSecond, Processes: 16, Load: .9},
		{Bucket: PerSecond, Processes: 64, Load: 1.5},
		{Bucket: Small, Processes: 16, Load: 5},
		{Bucket: PerSecond, Processes: 16, Load: .9, LoseOne: 50},
	} {
		c.Seed, c.Warm, c.For = 1, 5*time.Second, 15*time.Second
		r := bubble(t, c.Run)
		t.Logf("%v: %v", c, r)
		if r.Excess > 0 {
			t.Errorf("%v: excess of %f tokens", c, r.Excess)
		}
		if c.LoseOne == 0 && (r.Failed > 0 || r.Delivered() < 0.97) {
			t.Errorf("%v: %d failed, delivered %.2f %%", c, r.Failed, 100*r.Delivered())
		}
		check.Equal(t, r.Shards, 1, "%v: shards", c)
	}
}
