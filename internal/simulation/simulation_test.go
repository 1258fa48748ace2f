package simulation

import (
	"cmp"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

var seedFlag = flag.Int64("seed", -1, "play this world only")

// steps is how many steps a world has.
const steps = 18

func TestMain(m *testing.M) {
	// What is left to chance follows from the instant: goroutines that ask at the same
	// one get the same answer, in whatever order they run.
	store.SetRandom(func() uint64 { return mix(uint64(time.Now().UnixNano()), 11) })
	debug.SetGCPercent(1000)
	flag.Parse()
	os.Exit(m.Run())
}

// played is what came of a world.
type played struct {
	broken  string
	trace   []string
	log     uint64
	stats   stats
	crowded bool  // it may be played differently the next time
	periods int   // of worlds of kinds: of their quotas
	atWork  int64 // and how many slots were at work at once
}

// play plays the world of a seed.
func play(t *testing.T, seed uint64, bad defect, verbose bool) (out played) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, bad)
		w.verbose = verbose
		out.broken = w.play(steps)
		out.trace, out.log, out.stats, out.crowded = w.trace, w.log, w.stats, w.crowd > quiet
	})
	return out
}

// TestSimulation plays worlds: SEEDS of them, 1,000 if that is not set, fewer with
// -short; or the one of -seed. `make test-long` plays 10,000.
func TestSimulation(t *testing.T) {
	if *seedFlag >= 0 {
		report(t, uint64(*seedFlag), "")
		return
	}
	seeds := uint64(1_000)
	if testing.Short() {
		seeds = 150
	}
	if n, err := strconv.ParseUint(os.Getenv("SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	var mu sync.Mutex
	var sum stats
	next := uint64(0)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= seeds || t.Failed() {
					return
				}
				got := play(t, seed, defect{}, false)
				mu.Lock()
				sum.add(got.stats)
				mu.Unlock()
				if got.broken != "" {
					report(t, seed, got.broken)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d worlds: %+v", seeds, sum)
}

// report plays the world of a seed again and tells what is broken in it, or was.
func report(t *testing.T, seed uint64, was string) {
	t.Helper()
	got := play(t, seed, defect{}, true)
	for try := 0; was != "" && got.broken == "" && try < 20; try++ { // a crowded world
		got = play(t, seed, defect{}, true)
	}
	got.broken = cmp.Or(got.broken, was)
	lines := got.trace
	if !testing.Verbose() {
		lines = lines[max(0, len(lines)-25):]
	}
	for _, l := range lines {
		t.Log(l)
	}
	if got.broken != "" {
		t.Errorf("%s\nto play it again: go test ./internal/simulation -run TestSimulation -seed=%d -v", got.broken, seed)
	}
}

// The same seed plays the same world: every step, with the instant at which it was
// done, and every write.
func TestTheSameSeedPlaysTheSameWorld(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		a, b := play(t, seed, defect{}, true), play(t, seed, defect{}, true)
		if a.crowded {
			continue
		}
		// Two calls that end at one instant may report in either order.
		slices.Sort(a.trace)
		slices.Sort(b.trace)
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				t.Fatalf("seed %d, step %d differs:\n%s\n%s", seed, i, a.trace[i], b.trace[i])
			}
		}
		if a.log != b.log || len(a.trace) != len(b.trace) || a.stats != b.stats {
			t.Fatalf("seed %d: %d steps, then %d", seed, len(a.trace), len(b.trace))
		}
	}
}
