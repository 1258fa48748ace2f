// Package beside has the programs that docs/compared.md and docs/measured.md set beside ours.
package beside

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// much is a rate that nobody reaches here.
const much = 1_000_000_000

// BenchmarkGrant is what one decision takes of a caller: ours from what was taken ahead, that of
// x/time/rate, which knows one process only, and that of redis_rate, with a redis-server of this
// machine, if there is one. Then p50 and p99: "alone" of one after the other, the bare ones of 64
// goroutines that together ask some ten thousand times a second, "full" of as many as the
// machine can do.
func BenchmarkGrant(b *testing.B) {
	b.Run("ahead", func(b *testing.B) {
		l := limitertest.New(b).Limiter(&limiter.Options{Ahead: time.Second})
		req := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rps": 1},
			Limits: []limiter.Limit{limiter.PerSecond("rps", much)}}
		measure(b, func() error {
			_, err := l.Acquire(b.Context(), req)
			return err
		})
	})
	b.Run("x_time_rate", func(b *testing.B) {
		l := rate.NewLimiter(much, much)
		measure(b, func() error { return l.Wait(b.Context()) })
	})
	b.Run("redis_rate", func(b *testing.B) {
		l := redis_rate.NewLimiter(startRedis(b))
		measure(b, func() error {
			_, err := l.Allow(b.Context(), "acme", redis_rate.PerSecond(much))
			return err
		})
	})
}

// measure runs one after the other, and then in 64 goroutines.
func measure(b *testing.B, ask func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := ask(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	any := func(int) error { return ask() }
	alone := together(b, 1, 100_000, 0, any)
	paced, full := together(b, 64, 200, 5*time.Millisecond, any), together(b, 64, 2000, 0, any)
	for name, took := range map[string][]time.Duration{"alone-": alone, "": paced, "full-": full} {
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-"+name+"ns")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-"+name+"ns")
	}
}

// together lets goroutines ask so many times each, with a pause between that is given in the
// mean, and returns how long it took them, sorted.
func together(b *testing.B, goroutines, each int, pause time.Duration, ask func(goroutine int) error) []time.Duration {
	took := make([]time.Duration, goroutines*each)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				if pause > 0 {
					time.Sleep(time.Duration(rand.Int64N(2 * int64(pause))))
				}
				begin := time.Now()
				if err := ask(g); err != nil {
					b.Error(err)
					return
				}
				took[g*each+i] = time.Since(begin)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// startRedis starts a valkey-server, or a redis-server, that ends with the benchmark.
func startRedis(b *testing.B) *redis.Client {
	b.Helper()
	binary, err := exec.LookPath("valkey-server")
	if err != nil {
		binary, err = exec.LookPath("redis-server")
	}
	if err != nil {
		b.Skip("no valkey-server and no redis-server in PATH")
	}
	socket := filepath.Join(b.TempDir(), "redis")
	cmd := exec.CommandContext(b.Context(), binary, "--port", "0", "--unixsocket", socket, "--save", "",
		"--appendonly", "no")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	b.Cleanup(func() { _ = client.Close() })
	for range 200 {
		if err = client.Ping(b.Context()).Err(); err == nil {
			return client
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal(err)
	return nil
}
