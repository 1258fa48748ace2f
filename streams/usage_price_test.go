package streams

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// load is tenants that acquire at random times, some much more often than others (Zipf). It makes
// the records of one shard of the stream.
type load struct {
	tenants   int
	perSecond int
	fold      int64 // seconds; 0: usage is written with every batch of a second
	windows   []usage.Window
	inTurn    bool  // tenants acquire in turn, not at random
	step      int64 // seconds from batch to batch; 0: one

	each loadcheck.Chance // by tenant
	rand *rand.Rand
	used []int64
	rf   []int64
	seq  int64
}

// price is the cost of a measured hour.
type price struct {
	acquires, writes, indexed, lists, listUnits int
	reads                                       float64
	perPart                                     float64 // bytes of state
	largest                                     int
	perRecord                                   time.Duration // in the function, including writes to memory
}

func newLoad(tenants, perSecond int, fold int64, windows ...usage.Window) *load {
	return &load{tenants: tenants, perSecond: perSecond, fold: fold, windows: windows, each: loadcheck.Zipf(tenants, 1.1),
		rand: rand.New(rand.NewPCG(1, uint64(tenants))), used: make([]int64, tenants), rf: make([]int64, tenants)}
}

// record appends the record of one acquire at an instant.
func (l *load) record(b []byte, now int64) []byte {
	i := l.each.Draw(l.rand)
	if l.inTurn {
		i = int(l.seq) % l.tenants
	}
	old := l.used[i]
	l.used[i]++
	image := func(b []byte, used, rf int64) []byte {
		return fmt.Appendf(b, `{"PK":{"S":"kQ3xZp9LmNa/BUCKET#customer-%06d#gpt-4#0"},"SK":{"S":"#STATE"},"rf":{"N":"%d"},"gn":{"N":"1699900000000"},`+
			`"shard_count":{"N":"1"},"b_rpm_tk":{"N":"900000000"},"b_rpm_cp":{"N":"1000000000"},"b_rpm_ra":{"N":"1000000000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"%d"},`+
			`"b_tpm_tk":{"N":"900000000"},"b_tpm_cp":{"N":"1000000000"},"b_tpm_ra":{"N":"1000000000"},"b_tpm_rp":{"N":"60000"},"b_tpm_tc":{"N":"%d"},`+
			`"b_wcu_tk":{"N":"990000"},"b_wcu_cp":{"N":"1000000"},"b_wcu_ra":{"N":"1000000"},"b_wcu_rp":{"N":"1000"},"b_wcu_tc":{"N":"%d"}}`,
			i, rf, used*1000, used*350_000, used*1000)
	}
	l.seq++
	event := "MODIFY"
	if old == 0 {
		event = "INSERT"
	}
	b = fmt.Appendf(b, `{"eventID":"x","eventName":"%s","dynamodb":{"ApproximateCreationDateTime":%d,"Keys":{"PK":{"S":"kQ3xZp9LmNa/BUCKET#customer-%06d#gpt-4#0"},"SK":{"S":"#STATE"}},"SequenceNumber":"%s","NewImage":`,
		event, now/1000, i, strconv.FormatInt(4_421_584_500_000_000+l.seq, 10)+"017450439")
	b = image(b, old+1, now)
	if old != 0 {
		b = image(append(b, `,"OldImage":`...), old, l.rf[i])
	}
	l.rf[i] = now
	return append(b, `},"eventSourceARN":"arn:aws:dynamodb:us-east-1:1:table/limits/stream/2024-01-01T00:00:00.000"}`...)
}

// hours returns how many hours are measured: longer windows catch up after this many.
func (l *load) hours() int64 {
	if time.Duration(l.fold)*time.Second >= longFold {
		return 2
	}
	return 1
}

// play runs an hour of a day and the measured hours after it. It returns their price, including the
// owed longer windows.
func (l *load) play(tb testing.TB) (p price) {
	r := newRig(tb)
	r.agg.log = slog.New(slog.DiscardHandler)
	r.agg.conf.Windows = l.windows
	const hour = 3_600_000
	r.now = int64(t0) - t0%(24*hour) + hour
	var busy time.Duration
	measured := false
	var counting sync.Mutex // the function writes from several goroutines
	r.watch(func(op memdynamo.Op) {
		counting.Lock()
		defer counting.Unlock()
		for _, w := range op.Writes {
			switch u := w.(type) {
			case item.Update:
				if measured && isUsage(u) {
					p.writes++
				}
			case item.Put:
				if measured {
					p.lists++
					p.listUnits += (item.Size(u.Item) + 1023) / 1024
				}
			}
		}
	})
	var state json.RawMessage
	invoke := func(records []byte, final bool) {
		payload := append(append([]byte(`{"Records":[`), records...), "]}"...)
		if l.fold > 0 {
			carried := state
			if carried == nil {
				carried = json.RawMessage("{}")
			}
			begin := r.now - 1 - (r.now-1)%(l.fold*1000)
			window := fmt.Sprintf(`{"start":%q,"end":%q}`, layout.Timestamp(begin), layout.Timestamp(begin+l.fold*1000))
			payload = fmt.Appendf(nil, `{"window":%s,"state":%s,"shardId":"s","isFinalInvokeForWindow":%t,%s`, window, carried,
				final,
				payload[1:])
		}
		begin := time.Now()
		out, err := r.agg.Invoke(tb.Context(), payload)
		busy += time.Since(begin)
		check.Must(tb, err)
		var response struct{ State json.RawMessage }
		check.Must(tb, json.Unmarshal(out, &response))
		if state = response.State; final {
			state = nil
		} else if n := len(state); n > p.largest {
			p.largest = n
			if s, err := usage.ParseState(state); err == nil && len(s.Parts) > 0 {
				p.perPart = float64(n) / float64(len(s.Parts))
			}
		}
	}
	snapshots, units := 0, 0.0
	count := func() (n int) {
		for _, it := range r.db.Items() {
			if ledger.WindowOf(it) != "" {
				n++
			}
		}
		return n
	}
	var batch []byte
	step := max(1, l.step)
	for second := int64(0); second < (1+l.hours())*3600; second += step {
		if second == 3600 {
			if l.fold > 0 { // windows owed for the first hour are not measured
				r.now += 2 * owedGrace.Milliseconds()
				invoke(nil, true)
				r.now -= 2 * owedGrace.Milliseconds()
			}
			measured, snapshots, units, busy = true, count(), r.db.Stats().ReadUnits, 0
		}
		batch = batch[:0]
		for range l.perSecond {
			if len(batch) > 0 {
				batch = append(batch, ',')
			}
			batch = l.record(batch, r.now)
			if measured {
				p.acquires++
			}
		}
		r.now += step * 1000
		invoke(batch, false)
		if l.fold > 0 && (second+step)%l.fold == 0 {
			invoke(nil, true)
		}
	}
	if l.fold > 0 { // windows owed for the measured hours are
		r.now += hour
		invoke(nil, true)
	}
	p.indexed = 2 * (count() - snapshots)
	p.reads = r.db.Stats().ReadUnits - units
	p.perRecord = busy / time.Duration(p.acquires)
	return p
}

// computed returns the price by the design: writes per acquire, how many of them are for longer
// windows, and the index units of an hour's first snapshots. Each bucket in use is written once per
// fold, and once for each longer window when that catches up.
func (l *load) computed() (writes, longer, indexed float64) {
	inUse := func(seconds int64) float64 {
		n := int64(l.perSecond) * seconds
		seen := make([]int64, l.tenants)
		times, buckets := 1+30_000/n, 0.0
		for time := range times {
			for range n {
				i := l.each.Draw(l.rand)
				if seen[i] <= time {
					seen[i] = time + 1
					buckets++
				}
			}
		}
		return buckets / float64(n*times)
	}
	others := float64(len(l.windows) - 1)
	indexed = 2 * inUse(3600)
	if l.fold == 0 {
		once := inUse(1)
		return (1 + others) * once, others * once, indexed
	}
	longer = others * inUse(3600*l.hours())
	return inUse(l.fold) + longer, longer, indexed
}

// TestPriceFollowsBucketsInUse computes the usage figures of docs/cost.md. TestPriceOfUsage
// compares the aggregator with the same computation.
func TestPriceFollowsBucketsInUse(t *testing.T) {
	for _, c := range priced() {
		if testing.Short() && c.perSecond > 100 {
			continue
		}
		l := newLoad(c.tenants, c.perSecond, c.fold, c.windows...)
		writes, longer, indexed := l.computed()
		t.Logf("computed: %6d tenants, %3d/s, fold %3d s, %d windows: %.3f writes per acquire, %.3f of them of longer "+
			"windows; %.3f write units with indexes", c.tenants, c.perSecond, c.fold, len(c.windows), writes, longer,
			writes+indexed)
		if writes > c.target {
			t.Errorf("%d tenants, fold %d s: %.3f writes per acquire, want at most %.2f", c.tenants, c.fold, writes, c.target)
		}
	}
}

// priceRow is a load with its target, writes per acquire.
type priceRow struct {
	tenants, perSecond int
	fold               int64
	windows            []usage.Window
	target             float64
}

var hourlyDaily = []usage.Window{usage.Hourly, usage.Daily}

// priced returns the loads of the design.
func priced() (rows []priceRow) {
	for _, n := range []struct{ tenants, perSecond int }{{1000, 100}, {10_000, 100}, {100_000, 500}} {
		for _, fold := range []int64{0, 60, 300, 900} {
			target := math.Inf(1)
			switch {
			case n.tenants == 10_000 && fold == 60:
				target = 0.3
			case n.tenants == 10_000 && fold == 900:
				target = 0.1
			}
			rows = append(rows, priceRow{n.tenants, n.perSecond, fold, hourlyDaily, target})
			if n.tenants == 10_000 {
				rows = append(rows, priceRow{n.tenants, n.perSecond, fold, hourlyDaily[:1], target},
					priceRow{n.tenants, n.perSecond, fold, append(hourlyDaily[:2:2], usage.Monthly), math.Inf(1)})
			}
		}
	}
	return rows
}

// TestPriceOfUsage measures the cost of usage per acquire, with batches of a second in an hour
// between others. By default the load is small; `make prices` sets PRICES for the loads of the
// design.
func TestPriceOfUsage(t *testing.T) {
	rows := []priceRow{{200, 2, 60, hourlyDaily, 0.8}}
	switch {
	case os.Getenv("PRICES") != "":
		rows = priced()
	case testing.Short(): // with the same frequency per tenant
		rows[0].tenants, rows[0].perSecond = 100, 1
	}
	for _, c := range rows {
		p := newLoad(c.tenants, c.perSecond, c.fold, c.windows...).play(t)
		n := float64(p.acquires)
		units := float64(p.writes+p.indexed+p.listUnits) / n
		t.Logf("usage: %6d tenants, %3d/s, fold %3d s, %d windows: %.3f writes per acquire; %.3f write units with indexes "+
			"and lists, %.3f read units: $%.3f per million; "+
			"state %d bytes, %.0f per bucket; %v per record",
			c.tenants, c.perSecond, c.fold, len(c.windows), float64(p.writes+p.lists)/n, units, p.reads/n,
			units*0.625+p.reads/n*0.125, p.largest, p.perPart, p.perRecord.Round(100*time.Nanosecond))
		if got := float64(p.writes+p.lists) / n; got > c.target {
			t.Errorf("%d tenants, fold %d s: %.3f writes per acquire, want at most %.2f", c.tenants, c.fold, got, c.target)
		}
		computed, _, _ := newLoad(c.tenants, c.perSecond, c.fold, c.windows...).computed()
		if got := float64(p.writes) / n; math.Abs(got-computed) > 0.03*computed {
			t.Errorf("%d tenants, fold %d s: %.3f snapshot writes per acquire, computed %.3f", c.tenants, c.fold, got,
				computed)
		}
		if p.perPart > 80 {
			t.Errorf("%.0f bytes of state per bucket, want at most 80", p.perPart)
		}
	}
}

// TestPriceOfARequestAnHour measures the worst case: each request of a tenant is the first of its
// hour, so earlier snapshots are read, and a new indexed snapshot is created.
func TestPriceOfARequestAnHour(t *testing.T) {
	l := newLoad(1800, 1, 60, hourlyDaily...)
	l.inTurn, l.step = true, 2
	p := l.play(t)
	n := float64(p.acquires)
	units, reads := float64(p.writes+p.indexed+p.listUnits)/n, p.reads/n
	t.Logf("usage: a request an hour: %.3f writes per acquire; %.3f write units with indexes and lists, %.3f read "+
		"units: $%.3f per million", float64(p.writes+p.lists)/n, units, reads, units*0.625+reads*0.125)
	if float64(p.writes) > 2*n || reads > 2 {
		t.Errorf("%d snapshot writes for %d acquires and %.3f read units for each, want at most two of either", p.writes,
			p.acquires, reads)
	}
}
