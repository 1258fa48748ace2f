package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// sink is a store that takes every write and keeps nothing.
type sink struct{ store.Lister }

func (sink) Write(context.Context, item.Write) (item.Item, error) { return nil, nil }
func (sink) Transact(context.Context, string, []item.Write) error { return nil }
func (sink) Read(_ context.Context, _ bool, keys ...item.Key) ([]item.Item, error) {
	return make([]item.Item, len(keys)), nil
}
func (sink) List(context.Context, item.Query) (item.Page, error) { return item.Page{}, nil }

const memoryPayload = "AGGREGATOR_MEMORY_TEST_PAYLOAD"

// TestMemoryOfALargeBatch measures the peak of a whole process, its binary
// included, that handles one batch of 10,000 records. Lambda delivers at most
// 6 MB; this batch is four times that.
func TestMemoryOfALargeBatch(t *testing.T) {
	if raceDetector {
		t.Log("not measured: the race detector's shadow memory would be in the figure")
		return
	}
	const most, n, buckets = 96 << 20, 10_000, 2_000
	payload := filepath.Join(t.TempDir(), "payload.json")
	check.Must(t, os.WriteFile(payload, largeBatch(t, n, buckets), 0o600))
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryOfOneProcess$", "-test.v")
	cmd.Env = append(os.Environ(), memoryPayload+"="+payload)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := strings.Cut(string(out), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after + " x")[0])
	check.Must(t, err, "no peak in %s", out)
	info, err := os.Stat(payload)
	check.Must(t, err)
	t.Logf("%d records, %.1f MB: peak of the process %.1f MB", n, float64(info.Size())/1e6, float64(kb)*1024/1e6)
	if kb*1024 > most {
		t.Errorf("peak %d bytes, want at most %d", kb*1024, most)
	}
}

func largeBatch(t *testing.T, n, buckets int) []byte {
	const tenant, sequence = "tenant-00000", "4421584500000000000000000001"
	r := newRig(t)
	b := r.bucket(tenant+":api-key@example.com", 0)
	old := b.Item()
	b.State = b.State.Take([]int64{1000, 350_000, 1000})
	one := string(streamtest.Record{Sequence: sequence, Created: t0, Old: old, New: b.Item()}.JSON())
	recs := make([]json.RawMessage, 0, n)
	for i := range n {
		edit := strings.NewReplacer(tenant, fmt.Sprintf("tenant-%05d", i%buckets), sequence,
			fmt.Sprintf("442158450000000000%010d", i))
		recs = append(recs, json.RawMessage(edit.Replace(one)))
	}
	return streamtest.PayloadOf(recs...)
}

// TestMemoryOfOneProcess is the process that is measured.
func TestMemoryOfOneProcess(t *testing.T) {
	path := os.Getenv(memoryPayload)
	if path == "" {
		return // only of use to TestMemoryOfALargeBatch
	}
	debug.SetMemoryLimit(72 << 20) // as the function does
	payload, err := os.ReadFile(path)
	check.Must(t, err)
	agg := &Aggregator{
		store: sink{}, concurrency: 16, function: "aggregator", log: slog.New(slog.DiscardHandler), metrics: io.Discard,
		now:  func() int64 { return time.Now().UnixMilli() },
		conf: usage.Config{Windows: []usage.Window{usage.Hourly, usage.Daily}, SnapshotTTLDays: 90, MaxShards: 32},
	}
	if out, err := agg.Invoke(t.Context(), payload); err != nil || string(out) != done {
		t.Fatal(string(out), err)
	}
	status, err := os.ReadFile("/proc/self/status")
	check.Must(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("VmHWM:", strings.Fields(peak)[0])
}
