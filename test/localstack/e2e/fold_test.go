package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// I5 with usage folded over tumbling windows: under every kind of trouble, and when the mapping is
// replaced in the middle of a window and reads the stream from its beginning. AWS does not say
// whether the new mapping finds the old state, so both are tested.
func TestFoldedUsageIsExactUnderTrouble(t *testing.T) {
	for name, kept := range map[string]bool{"the state is kept": true, "the state is lost": false} {
		t.Run(name, func(t *testing.T) {
			tr := newTrouble(13)
			tr.beside = []eventsource.Record{malformedBucket()}
			var mapping *eventsource.Config
			r := start(t, setup{shards: 2, aggregate: func(host *runtimeapi.Config, m *eventsource.Config) {
				tr.configure(host, m)
				m.Settings.BatchSize, m.Settings.Tumbling, m.Settings.PartialState = 20, time.Second, kept
				mapping = m
			}})
			half := disturb(r.Proxy)
			disturbClients(r.Clients)
			s := usageScenario{}
			w := load{clients: 6, tenants: s.tenants(), calls: 30, seed: 5, settle: true}
			l := r.play(w)
			tr.hold(true)
			w.seed++
			r.playOn(l, load{clients: 2, tenants: w.tenants, calls: 5, seed: w.seed})
			r.await("a window to open", func() bool { return r.Functions[stack.Aggregator].Mapping.Windows() > 0 })
			open := r.replace(mapping, kept)
			tr.hold(false)
			w.seed++
			r.playOn(l, w)
			r.rest()
			tr.pause(true)
			r.calm(l)
			tr.pause(false)
			r.anHourLater()
			r.hold(r.observe(l))
			host := r.Functions[stack.Aggregator].Host.Stats()
			t.Logf("trouble: %d windows open when the mapping was replaced; crashes=%d of invocations=%d, %d snapshot writes "+
				"failed for one entity", open, host.Crashes, host.Invocations, half.Hits())
			if open == 0 || half.Hits() == 0 || host.Crashes == 0 {
				t.Error("there was no trouble")
			}
		})
	}
}

// replace replaces the mapping, and returns how many windows were open.
func (r *rig) replace(cfg *eventsource.Config, kept bool) (open int) {
	r.t.Helper()
	f := r.Functions[stack.Aggregator]
	f.Mapping.Stop()
	next, open := *cfg, f.Mapping.Windows()
	if kept {
		next.Replaces = f.Mapping
	}
	made, err := eventsource.Start(next)
	check.Must(r.t, err)
	f.Mapping = made
	return open
}

// anHourLater simulates an hour for the owed longer windows: it moves lists and cursor back by two,
// and one more window of the mapping ends.
func (r *rig) anHourLater() {
	r.t.Helper()
	const back = 2 * 3_600_000
	lists := 0
	for _, it := range r.items() {
		key := item.KeyOf(it)
		created, list, found := strings.Cut(key.SK, "#")
		if key.PK != ledger.OwedCursorKey().PK {
			continue
		}
		check.Must(r.t, check.Err(r.direct.Write(r.t.Context(), item.Delete{Key: key})))
		at, err := strconv.ParseInt(created, 10, 64)
		if !found || err != nil {
			continue // the cursor
		}
		it[item.AttrSK] = item.S(fmt.Sprintf("%015d#%s", at-back, list))
		r.put(it)
		lists++
	}
	if lists == 0 {
		r.t.Error("no longer windows are owed")
	}
	end := []byte(`{"window":{},"state":{},"shardId":"s","isFinalInvokeForWindow":true,"Records":[]}`)
	for range 20 { // crashes leave a claim for a minute
		check.Must(r.t, check.Err(r.direct.Write(r.t.Context(), item.Delete{Key: ledger.OwedCursorKey()})))
		result, err := r.Functions[stack.Aggregator].Host.Invoke(r.t.Context(), end)
		if err == nil && result.FunctionError == "" {
			if r.settled() {
				return
			}
		}
	}
	r.t.Errorf("longer windows are not settled\n%s", r.Functions[stack.Aggregator].Tail())
}

// settled reports whether all owed longer windows are counted.
func (r *rig) settled() bool {
	r.t.Helper()
	items, err := r.direct.Read(r.t.Context(), true, ledger.OwedCursorKey())
	check.Must(r.t, err)
	return ledger.DecodeOwedCursor(items[0]).Counted > 0
}
