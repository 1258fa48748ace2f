package bench

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// report collects the summary lines of benchmarks, because the testing package prints in the middle
// of its own lines while they run.
var report struct {
	sync.Mutex
	lines []string
}

// say adds a summary line and logs it.
func say(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log("bench: " + line)
	report.Lock()
	defer report.Unlock()
	report.lines = append(report.lines, line)
}

func TestMain(m *testing.M) {
	status := m.Run()
	for _, line := range report.lines {
		fmt.Println("bench: " + line)
	}
	os.Exit(status)
}

// quantile returns the q-quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)].Round(time.Microsecond)
}

func median(times []time.Duration) time.Duration { return quantile(times, 0.5) }
