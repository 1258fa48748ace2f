package e2e

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/s3"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// archive reads all objects.
func (r *rig) archive() stack.Archived {
	r.t.Helper()
	out, err := r.Archived(r.t.Context(), r.ns())
	check.NoError(r.t, err)
	return out
}

// fate is what happens to an audit event.
type fate int

const (
	expires fate = iota
	deletedByHand
	stays
)

// audits stores audit events numbered from from to to, deletes some by hand, and lets others
// expire. It returns the fate of each.
func (r *rig) audits(from, to int) map[string]fate {
	r.t.Helper()
	out := map[string]fate{}
	for i := from; i < to; i++ {
		e := ledger.Audit{
			Namespace: r.ns(), Subject: fmt.Sprint("tenant-", i%5), ID: fmt.Sprintf("01HZ%022d", i),
			At:     layout.Timestamp(now()),
			Action: "limits_set", Principal: "e2e", Resource: "gpt", Details: item.Item{"n": item.N(int64(i))},
			TTL: now()/1000 - 1,
		}
		f := []fate{expires, expires, deletedByHand, expires, stays}[i%5]
		if f != expires {
			e.TTL = now()/1000 + 3600
		}
		out[e.ID] = f
		r.put(e.Item())
		if f == deletedByHand {
			check.Must(r.t, check.Err(r.direct.Write(r.t.Context(), item.Delete{Key: e.Key()})))
		}
	}
	check.Must(r.t, check.Err(r.Sweeper.Sweep(r.t.Context(), now()+2000)))
	return out
}

// I7: every expired audit event is archived once, by id, and no other, whatever S3 does, and
// however batches are cut and repeated.
func TestArchiveIsCompleteAndUnique(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			tr := newTrouble(23)
			var twice atomic.Bool
			var injected atomic.Int64
			r := start(t, setup{kind: kind, shards: 3, archive: func(host *runtimeapi.Config, m *eventsource.Config) {
				tr.configure(host, m)
				m.Settings.BatchSize = 8
				m.Inject = func(b eventsource.Batch) eventsource.Trouble {
					if twice.Load() {
						return eventsource.Trouble{Again: []time.Duration{0, 50 * time.Millisecond}}
					}
					out := tr.batch(b)
					if injected.Add(1) == 1 {
						out.Extra, out.ExtraAt = []eventsource.Record{malformedAudit()}, 1
					}
					return out
				}
			}})
			// Half of the first puts of an object end in one of four ways, in turn. There are at
			// least 12 objects, one for each expired event.
			puts, turn := map[string]bool{}, 0
			ways := []*fault.Rule{{Operation: "PUT", Match: func(c fault.Call) bool {
				if turn = -1; !puts[c.Path] {
					puts[c.Path], turn = true, len(puts)%8
				}
				return false
			}}}
			for i, f := range []fault.Fault{{Answer: s3.Failed(503)}, {Forward: true, Answer: s3.Failed(500)},
				fault.Refused(), {Answer: s3.Failed(403)}} {
				mine := func(fault.Call) bool { return turn == i }
				ways = append(ways, &fault.Rule{Operation: "PUT", Match: mine, Fault: f})
			}
			r.S3.Add(ways...)
			n := 20
			if kind == engine.Dynoxide {
				n = rounds(60, 20)
			}
			events := r.audits(0, n)
			r.rest()
			f := r.Functions[stack.Archiver]
			first := f.Mapping.Stats()
			// S3 is healthy again, and nothing crashes. Now everything is delivered three times.
			r.S3.Clear()
			tr.pause(true)
			twice.Store(true)
			maps.Copy(events, r.audits(n, 2*n))
			r.rest()
			got := r.archive()
			counts := map[fate]int{}
			duplicates, missing := 0, 0
			for id, f := range events {
				counts[f]++
				want := 0
				if f == expires {
					want = 1
				}
				if n := got.Events[id]; n != want {
					t.Errorf("event %s is archived %d times, want %d", id, n, want)
					duplicates, missing = duplicates+max(0, n-want), missing+max(0, want-n)
				}
				delete(got.Events, id)
			}
			for id := range got.Events {
				t.Errorf("event %s is archived, but was never stored", id)
			}
			kept := 0
			for _, line := range got.Malformed {
				if strings.Contains(line, malformedMark) {
					kept++
				}
			}
			if kept != 1 || len(got.Malformed) != 1 {
				t.Errorf("the malformed record is kept %d times: %q", kept, got.Malformed)
			}
			stats, host := f.Mapping.Stats(), f.Host.Stats()
			t.Logf("expired=%d by_hand=%d staying=%d archived=%d duplicates=%d missing=%d malformed_kept=%d objects=%d",
				counts[expires], counts[deletedByHand], counts[stays], counts[expires]-missing, duplicates, missing, kept,
				got.Objects)
			refused, applied, cut := ways[1].Hits()+ways[4].Hits(), ways[2].Hits(), ways[3].Hits()
			t.Logf("trouble: S3 refused=%d applied_and_failed=%d cut=%d; crashes=%d failures=%d bisections=%d duplicates=%d",
				refused, applied, cut, host.Crashes, stats.Failures, stats.Bisections, stats.Duplicates)
			if stats.Dropped > 0 {
				t.Errorf("%d records were given up", stats.Dropped)
			}
			if refused < 2 || applied == 0 || cut == 0 || first.Duplicates == 0 || host.Crashes == 0 {
				t.Error("there was not enough trouble")
			}
			if twice, came := stats.Duplicates-first.Duplicates, stats.Processed-first.Processed; twice != 2*came || came == 0 {
				t.Errorf("%d records were delivered again of %d that came when everything comes three times", twice, came)
			}
		})
	}
}
