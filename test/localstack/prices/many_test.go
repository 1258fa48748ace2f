package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bill"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/esm"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// narrow is a table that takes so many write units in each invocation, or a second of real
// time, a second's worth at once, and throttles what is above it.
type narrow struct {
	mu        sync.Mutex
	each      float64 // in an invocation; 0: as many as come
	rate      float64 // 0: all that come
	left      float64
	at        time.Time
	taken     float64 // units, also of writes that were refused
	summed    float64 // of taken, those of days: of earlier hours, as far as time is left for them
	throttled int
}

func (n *narrow) hook(op memdb.Op) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rate+n.each == 0 || len(op.Writes) == 0 {
		return true, nil
	}
	if n.rate > 0 {
		now := time.Now()
		n.left = min(n.rate, n.left+n.rate*now.Sub(n.at).Seconds())
		n.at = now
	}
	if n.left < 1 {
		n.throttled++
		return false, memdb.Fail(store.Throttled)
	}
	for _, w := range op.Writes {
		units := 1.0
		if put, ok := w.(item.Put); ok {
			units = float64((item.Size(put.Item) + 1023) / 1024)
		}
		n.left, n.taken = n.left-units, n.taken+units
		if key := w.Target(); strings.HasPrefix(key.SK, "#USAGE#") && !strings.HasSuffix(key.SK, "Z") {
			n.summed += units
		}
	}
	return true, nil
}

func (n *narrow) set(rate, each float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate, n.each, n.left, n.at = rate, each, rate+each, time.Now()
}

// begin is told of each invocation.
func (n *narrow) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.each > 0 {
		n.left = n.each
	}
}

// attempts invokes as Lambda does: what fails is delivered again, with the same state.
type attempts struct {
	cell          *cell
	table         *narrow
	most          int // of one batch
	begun, failed int
	timeouts      int           // of those that failed: they ended without an answer
	state         int           // bytes, at its largest
	longest       time.Duration // of an invocation
}

func (a *attempts) invoke(ctx context.Context, payload []byte) (runtimeapi.Result, error) {
	for try := 1; ; try++ {
		a.begun++
		a.table.begin()
		r, err := a.cell.host.Invoke(ctx, payload)
		a.cell.db.Drain()
		a.longest = max(a.longest, r.Duration)
		if err != nil || r.FunctionError == "" || try == a.most {
			a.state = max(a.state, len(r.Payload))
			return r, err
		}
		a.failed++
		if r.ErrorType == "Sandbox.Timedout" {
			a.timeouts++
		}
		if r.ErrorType == "Runtime.ExitError" {
			return r, fmt.Errorf("attempt %d ends without an answer: %s", try, r.Payload)
		}
	}
}

// crowd is what is played: buckets that are all in use within a tumbling window, the first
// of their hour, in front of a table that takes so many units a second, or in an invocation.
type crowd struct {
	buckets    int
	rate, each float64
	timeout    time.Duration // of an invocation
}

// Each of many buckets is counted, once, by the built aggregator, run as Lambda does,
// behind a table that is too slow for one invocation: in few attempts, with little more
// units than there is to write, within the memory that the stack gives it. No invocation runs
// into its timeout, unless the machine does not run this process for a while; then the counts
// are exact all the same. MANY_BUCKETS=27000 plays so many behind 300 units a second, with the
// timeout of the stack; with MANY_UNITS=18000, a minute of that, behind so many in an invocation,
// however long it takes.
func TestManyBucketsThroughTheBuiltFunction(t *testing.T) {
	stalled := stalls(t)
	c, flags := crowd{buckets: 1500, each: 600, timeout: 7 * time.Second}, likeTests
	if many, err := strconv.Atoi(os.Getenv("MANY_BUCKETS")); err == nil {
		c, flags = crowd{buckets: many, rate: 300, timeout: time.Minute}, forLambda
		if each, err := strconv.Atoi(os.Getenv("MANY_UNITS")); err == nil {
			c.rate, c.each = 0, float64(each)
		}
	}
	f, err := buildFunction(t.Context(), t.TempDir(), flags)
	if err != nil {
		t.Fatal(err)
	}
	defer f.clock.Close()
	traffic, err := newTraffic(t.Context(), c.buckets, warmUp)
	if err != nil {
		t.Fatal(err)
	}
	traffic.inTurn = true
	cell, err := newCell(load{tenants: c.buckets, fold: 60, windows: 2, timeout: c.timeout}, f, &traffic.now)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.close()
	table := &narrow{}
	a := &attempts{cell: cell, table: table, most: 20 + c.buckets/1000}
	cell.db.SetHook(table.hook)
	cell.mapping.Invoker = esm.InvokerFunc(a.invoke)
	if err := cell.window(t.Context(), f, traffic, warmUp); err != nil { // all have been counted before
		t.Fatal(err)
	}
	warm := a.begun
	logged := len(logsOf(t, cell, warm-a.timeouts))
	each := logged / warm
	if a.failed == 0 && (each < bill.BytesLogged*3/4 || each > bill.BytesLogged*5/4) {
		t.Errorf("an invocation logs %d bytes, the bill has %d", each, bill.BytesLogged)
	}
	*a = attempts{cell: cell, table: table, most: a.most, timeouts: a.timeouts}
	table.set(c.rate, c.each)
	began := time.Now()
	if err := cell.window(t.Context(), f, traffic, warmUp+hour); err != nil {
		t.Fatalf("%v; %d attempts, %d failed", err, a.begun, a.failed)
	}
	took, memory := time.Since(began), cell.host.PeakMemory()
	got, gotTokens, err := counted(cell.db.Items(), "hourly")
	if err != nil || got != traffic.granted*requests || gotTokens != traffic.granted*tokens {
		t.Errorf("counted are %d requests and %d tokens of %d acquires: %v", got, gotTokens, traffic.granted, err)
	}
	logs := logsOf(t, cell, warm+a.begun-a.timeouts)[logged:]
	written := len(logs) / a.begun
	if told := unitsTold(logs); a.timeouts == 0 && math.Abs(told-table.taken) > 0.05*table.taken {
		t.Errorf("%.0f write units were taken, the metric tells of %.0f", table.taken, told)
	}
	t.Logf("%d buckets behind %.0f units a second, or %.0f an invocation: %d invocations, of which %d failed, in %v, "+
		"the longest %v; %.0f write units and %.0f for days, %d throttled; state up to %d KB, memory up to %d MB, "+
		"%d bytes logged an invocation",
		c.buckets, c.rate, c.each, a.begun, a.failed, took.Round(time.Second), a.longest.Round(time.Second),
		table.taken-table.summed, table.summed, table.throttled, a.state/1000, memory>>20, written)
	if table.throttled == 0 || c.each > 0 && a.failed == 0 {
		t.Errorf("%d writes were throttled, %d invocations failed: the table was not too slow", table.throttled, a.failed)
	}
	const slow = 200 * time.Millisecond // of the second that is kept back for the report
	most := 1.5 * float64(c.buckets)
	switch stalled := stalled(); {
	case a.timeouts > 0 && stalled > slow: // what such an invocation wrote is tried again, for units
		t.Logf("void: %d timeouts, %.0f write units, but the machine stood still for %v", a.timeouts, table.taken, stalled)
	case a.timeouts > 0 || table.taken-table.summed > most || table.summed > most:
		t.Errorf("%d timeouts, %.0f write units and %.0f for days, want none, and at most %.0f of each", a.timeouts,
			table.taken-table.summed, table.summed, most)
	}
	if limit := int64(bill.Default().Aggregator) << 20; memory > limit {
		t.Errorf("%d bytes of memory, the stack gives it %d", memory, limit)
	}
}

// logsOf returns what the function has logged, once so many invocations have told of
// themselves: a line may come later than the answer.
func logsOf(t *testing.T, c *cell, invocations int) string {
	t.Helper()
	for range 600 {
		if logs := c.host.Logs(); strings.Count(logs, `"WriteUnits":`) >= invocations {
			return logs
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%d invocations have not all logged within a minute", invocations)
	return ""
}

// unitsTold is the sum of the metric WriteUnits.
func unitsTold(logs string) (sum float64) {
	for _, m := range regexp.MustCompile(`"WriteUnits":(\d+)`).FindAllStringSubmatch(logs, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		sum += n
	}
	return sum
}

// The built function takes no more units a second than its option says, and tells of them.
func TestTheBuiltFunctionBoundsItsUnits(t *testing.T) {
	const buckets, bound = 600, 100
	f, err := buildFunction(t.Context(), t.TempDir(), likeTests)
	if err != nil {
		t.Fatal(err)
	}
	defer f.clock.Close()
	traffic, err := newTraffic(t.Context(), buckets, warmUp)
	if err != nil {
		t.Fatal(err)
	}
	traffic.inTurn = true
	cell, err := newCell(load{tenants: buckets, fold: 60, windows: 1, maxWriteUnits: bound}, f, &traffic.now)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.close()
	table := &narrow{each: math.Inf(1)}
	cell.db.SetHook(table.hook)
	table.begin()
	began := time.Now()
	if err := cell.window(t.Context(), f, traffic, warmUp); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began).Seconds() // of real time, in which the units come
	got, _, err := counted(cell.db.Items(), "hourly")
	if err != nil || got != traffic.granted*requests {
		t.Errorf("counted are %d requests of %d acquires: %v", got, traffic.granted, err)
	}
	told := unitsTold(logsOf(t, cell, cell.price.invocations))
	t.Logf("%.0f write units in %.1f s, told of %.0f", table.taken, took, told)
	if table.taken < buckets || table.taken > bound*(took+1) || told != table.taken {
		t.Errorf("%.0f write units in %.1f s, told of %.0f: want all told, and at most %d a second", table.taken, took, told,
			bound)
	}
}

// stalls watches the machine until longest is called, which tells for how long it did
// not run this process, at the longest.
func stalls(t testing.TB) (longest func() time.Duration) {
	done, most := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var out time.Duration
		for {
			at := time.Now()
			select {
			case <-done:
				most <- out
				return
			case <-time.After(10 * time.Millisecond):
				out = max(out, time.Since(at)-10*time.Millisecond)
			}
		}
	}()
	stop := sync.OnceFunc(func() { close(done) })
	t.Cleanup(stop)
	return func() time.Duration { stop(); return <-most }
}

// window plays one tumbling window of an hour: each tenant once, in 15 seconds, and its end.
func (c *cell) window(ctx context.Context, f *built, t *traffic, begin int64) error {
	const seconds = 15
	t.now = begin
	for range seconds {
		records, err := t.second(ctx, (c.tenants+seconds-1)/seconds)
		if err == nil {
			err = f.set(t.now)
		}
		if err == nil {
			err = c.mapping.Play(ctx, t.now, records...)
		}
		if err != nil {
			return err
		}
	}
	t.now = begin + 62_000
	if err := f.set(t.now); err != nil {
		return err
	}
	return c.mapping.Play(ctx, t.now)
}
