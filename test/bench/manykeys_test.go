package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// BenchmarkManyKeys puts a million tenants, who ask by Zipf's law with exponent 1.1,
// through one process at 1,000 requests a second in virtual time, with room for so many
// buckets. Counts are of the second half. A heap is what the collector frees when
// the limiter is dropped.
//
//	go -C test/bench test -run '^$' -bench ManyKeys -benchtime 1x .
func BenchmarkManyKeys(b *testing.B) {
	const keys, asked = 1_000_000, 200_000
	for _, room := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("room ", room), func(b *testing.B) {
			b.ReportAllocs()
			now := time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)
			clock := func() time.Time { return now }
			db := memdynamo.New(func() int64 { return now.UnixMilli() })
			t, err := admin.Open(b.Context(), db.Client(), "table", &admin.Options{Now: clock})
			check.Must(b, err)
			ns, err := t.Register(b.Context(), "default")
			check.Must(b, err)
			check.Must(b, ns.SetLimits(b.Context(), admin.Scope{}, limiter.PerSecond("rps", 1000)))
			l, err := limiter.Open(b.Context(), db.Client(), "table",
				&limiter.Options{MaxBuckets: room, Now: clock, Timeout: time.Hour})
			check.Must(b, err)
			// The first keys are requested most.
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
			seen, known := map[uint64]bool{}, 0
			for i := range asked {
				if i == asked/2 {
					db.ResetStats()
					known = len(seen)
				}
				k := zipf.Uint64()
				seen[k] = true
				request := limiter.Request{
					Entity: "tenant-" + strconv.FormatUint(k, 10), Resource: "api", Costs: limiter.Costs{"rps": 1},
				}
				check.Must(b, check.Err(l.Acquire(context.Background(), request)))
				now = now.Add(time.Millisecond)
				db.Drain() // the stream has no reader
			}
			s := db.Stats()
			with := heap()
			runtime.KeepAlive(l)
			l = nil
			dropped := heap()
			runtime.KeepAlive(db)
			b.ReportMetric(float64(with-dropped)/1e6, "MB")
			b.ReportMetric(float64(len(seen)), "keys")
			b.ReportMetric(float64(len(seen)-known)/(asked/2), "new/op")
			b.ReportMetric(float64(s.Updates)/(asked/2), "updates/op")
			b.ReportMetric(float64(s.Reads)/(asked/2), "reads/op")
			b.ReportMetric(float64(s.WriteUnits+s.IndexUnits)/(asked/2), "units/op")
			b.ReportMetric(float64(s.ReadUnits)/(asked/2), "read-units/op")
		})
	}
}

// heap returns the memory in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
