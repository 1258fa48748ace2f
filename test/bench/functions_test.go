package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

const maxMemory = 96 << 10 // KB

var functions = []string{"aggregator", "archiver"}

// BenchmarkStart measures the time from exec to the first request for an event, with a new process
// each time.
func BenchmarkStart(b *testing.B) {
	e := engine.ForTest(b, engine.Dynoxide)
	for _, name := range functions {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				h, err := runtimeapi.Start(runtimeapi.Config{Binary: runtimeapi.Built(name), Name: name,
					Env: append(e.Env(), function.EnvTableName+"=bench", function.EnvArchiveBucketName+"=bench")})
				check.Must(b, err)
				err = h.Warm(b.Context())
				times = append(times, h.Stats().Init...)
				h.Close()
				check.Must(b, err)
			}
			p50, p95 := median(times), quantile(times, 0.95)
			b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
			b.ReportMetric(0, "ns/op")
			say(b, "functions  %s: exec to first next p50 %v p95 %v of %d starts, target under 10ms (this machine, no sandbox)",
				name, p50, p95, len(times))
		})
	}
}

// TestWritesPerBatch: the aggregator counts 40 records over 8 buckets with 2 limits, in 2 windows,
// with 16 writes, the least possible. Adding the growth of each limit, record and window separately
// takes 160. With more buckets, the rest is looked up once eight were found counted, whatever the
// concurrency. A day and its hours are read before it is summed. When the batch is delivered again,
// no day is written: a second, consistent read shows that it is the sum of its hours.
func TestWritesPerBatch(t *testing.T) {
	const buckets, perBucket, windows = 8, 5, 2
	ctx, f := t.Context(), newFeed(t)
	batch, err := f.acquire(ctx, "batch", buckets, perBucket, 2)
	check.Must(t, err)
	for _, d := range []struct {
		name string
		want map[string]float64
	}{
		{"first", map[string]float64{"UpdateItem": buckets * windows, "BatchGetItem": buckets, "Query": buckets}},
		{"again", map[string]float64{"UpdateItem": buckets, "BatchGetItem": 2 * buckets, "Query": 2 * buckets}},
	} {
		bill, err := f.deliver(ctx, batch)
		check.Must(t, err)
		say(t, "functions  aggregator: batch of %d records over %d buckets, 2 limits, %d windows, delivered %s: %s, %g "+
			"write units (floor %d, one write per record, limit and window %d)",
			len(batch), buckets, windows, d.name, bill, bill.Write, buckets*windows, len(batch)*2*windows)
		if !maps.Equal(bill.Calls, d.want) {
			t.Errorf("delivered %s: %s, want %v", d.name, bill, d.want)
		}
	}
}

// newFeed starts the built aggregator on a new table.
func newFeed(t testing.TB) *feed {
	t.Helper()
	w, err := newWorld(t.Context(), engine.ForTest(t, engine.Dynoxide))
	check.Must(t, err)
	t.Cleanup(w.close)
	h, err := w.aggregator(t.Context())
	check.Must(t, err)
	t.Cleanup(h.Close)
	f, err := newFleet(t.Context(), w)
	check.Must(t, err)
	return &feed{fleet: f, host: h}
}

// TestMemoryOfALargeBatch: the built aggregator stays under 96 MB with a batch of 10,000 records,
// the most that an event source mapping delivers. They are ordinary records with both images, over
// 2,000 buckets with 2 limits. They exceed Lambda's 6 MB for an invocation, so batches in the cloud
// are smaller. A server that does nothing answers writes at once.
func TestMemoryOfALargeBatch(t *testing.T) {
	payload := largeBatch(10_000, 2000)
	var writes atomic.Int64
	db := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		writes.Add(1)
		rw.Header().Set("X-Amz-Crc32", "2745614147") // of "{}"
		_, _ = io.WriteString(rw, "{}")
	}))
	defer db.Close()
	ran, err := runOnce(t, payload, "AWS_ENDPOINT_URL_DYNAMODB="+db.URL, function.EnvTableName+"=bench")
	check.Must(t, err)
	say(t, "functions  aggregator: batch of 10000 records, %.1f MB payload: peak resident memory %.1f MB, target under "+
		"%d MB; %d writes, %v; %.3f s of CPU per 1,000 records",
		float64(len(payload))/1e6, float64(ran.peak)/1024, maxMemory>>10, writes.Load(), ran.took.Round(time.Millisecond),
		ran.cpu.Seconds()/10)
	if want := `{"batchItemFailures":[]}`; ran.answer != want {
		t.Errorf("answer %.200s, want %s", ran.answer, want)
	}
	if ran.peak >= maxMemory {
		t.Errorf("peak resident memory %d KB, want less than %d KB", ran.peak, maxMemory)
	}
}

// largeBatch returns a payload of acquires from buckets in turn.
func largeBatch(records, buckets int) []byte {
	now := time.Now().UnixMilli()
	items := make([]table.Shard, buckets)
	all := make([]streamtest.Record, records)
	for i := range all {
		b := &items[i%buckets]
		if b.Entity == "" {
			_, *b = table.Create(table.NewBucket{
				Namespace: "nsnsnsnsnsn", Entity: fmt.Sprintf("customer-%06d", i), Resource: resource, Now: now,
				Costs: table.Costs([]bucket.Limit{
					{Name: "rpm", Capacity: 1e9, Amount: 1e9, Period: 60_000},
					{Name: "tpm", Capacity: 1e12, Amount: 1e12, Period: 60_000},
				}),
				Lifetime: table.Expires,
			})
		}
		old := b.Item()
		for j := range b.State.Slots {
			b.State.Slots[j].Tokens -= bucket.Milli
			b.State.Slots[j].Used += bucket.Milli
		}
		all[i] = streamtest.Record{Sequence: strconv.Itoa(100_000_000+i) + "0000000000000", Created: now, Old: old,
			New: b.Item()}
		b.State.Slots = append([]bucket.Slot(nil), b.State.Slots...)
	}
	return streamtest.Payload(all...)
}

// ran is the cost of one invocation.
type ran struct {
	peak   int // resident memory, KB
	answer string
	took   time.Duration
	cpu    time.Duration // of the process, with its start
}

// runOnce runs the built aggregator for one invocation of any size.
func runOnce(t *testing.T, payload []byte, env ...string) (r ran, err error) {
	t.Helper()
	done := make(chan string, 1)
	var begin time.Time
	var delivered atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		switch {
		case strings.HasSuffix(req.URL.Path, "/next"):
			if delivered.Swap(true) {
				<-req.Context().Done() // no further events
				return
			}
			rw.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
			rw.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(10*time.Minute).UnixMilli(), 10))
			rw.Header().Set("Content-Length", strconv.Itoa(len(payload)))
			begin = time.Now()
			_, _ = rw.Write(payload)
		default:
			body, _ := io.ReadAll(req.Body)
			r.took = time.Since(begin)
			rw.WriteHeader(http.StatusAccepted)
			done <- string(body)
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, runtimeapi.Built("aggregator"))
	cmd.Env = append(os.Environ(), append(env, "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(api.URL, "http://"),
		"AWS_REGION="+engine.Region, "AWS_ACCESS_KEY_ID="+engine.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY="+engine.SecretAccessKey)...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (run `make dist/local/aggregator/bootstrap`)", err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it is killed
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		api.CloseClientConnections()
		api.Close()
	}()
	select {
	case r.answer = <-done:
	case <-ctx.Done():
		return r, errors.New("no answer")
	}
	r.peak, err = peakMemory(cmd.Process.Pid)
	return r, err
}

// peakMemory returns the largest resident set of a process so far, in KB.
func peakMemory(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		}
	}
	return 0, fmt.Errorf("process %d: no VmHWM", pid)
}
