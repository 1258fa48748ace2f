//go:build interop

package interop

import (
	"fmt"
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// snapshot is a usage snapshot in the form of Python's queries.
type snapshot struct {
	Entity   string           `json:"entity_id"`
	Window   string           `json:"window_type"`
	Start    string           `json:"window_start"`
	Counters map[string]int64 `json:"counters"`
	Events   int64            `json:"total_events"`
}

// usage adds up Python's query for an entity and a kind of window, so that a test may span the end
// of an hour.
func (p *python) usage(entity, window string) (limiter.Costs, []snapshot) {
	p.t.Helper()
	var page []any
	p.call(&page, "get_usage_snapshots", kv{"entity_id": entity, "resource": "gpt-4", "window_type": window})
	var snapshots []snapshot
	recode(p.t, page[0], &snapshots)
	sum := limiter.Costs{}
	for _, s := range snapshots {
		for limit, n := range s.Counters {
			sum[limit] += n
		}
	}
	return sum, snapshots
}

func (w *world) wantUsage(step string, p *python, entity string, want limiter.Costs, windows ...string) {
	w.Helper()
	for _, window := range windows {
		got, snapshots := p.usage(entity, window)
		if !maps.Equal(got, want) {
			w.Fatalf("%s: %s usage of %s is %v, want %v: %+v", step, window, entity, got, want, snapshots)
		}
		var summary struct{ Total limiter.Costs }
		p.call(&summary, "get_usage_summary", kv{"entity_id": entity, "resource": "gpt-4", "window_type": window})
		ours, err := w.manage().UsageSummary(w.Context(), admin.UsageQuery{
			Entity: entity, Resource: "gpt-4", Window: admin.Window(window),
		})
		if err != nil || !maps.Equal(ours.Tokens, want) {
			w.Fatalf("%s: we sum up the %s usage of %s to %v (%v), want %v", step, window, entity, ours.Tokens, err, want)
		}
		if !maps.Equal(summary.Total, want) {
			w.Fatalf("%s: Python sums up the %s usage of %s to %v, want %v", step, window, entity, summary.Total, want)
		}
	}
}

var usageLimits = []limiter.Limit{still("rpm", 10_000), still("tpm", 10_000_000)}

// Our aggregator counts everything that Python and Go consume, with first uses, settlements and
// rollbacks, from real stream records. Python's own queries return it for every kind of window.
func TestOurAggregatorCountsPython(t *testing.T) {
	deployed(t, func(d *deployment) {
		l, p := d.open(), d.world.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "gpt-4", "limits": pyLimits(usageLimits...)})
		for range 5 {
			p.take("acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 100})
		}
		lease := p.acquire("acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 100})
		lease.adjust(limiter.Costs{"tpm": 50})
		lease.commit()
		p.acquire("acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 100}).rollback()
		p.denied("acme", "gpt-4", limiter.Costs{"tpm": 10_000_000})
		d.denied(l, "acme", "gpt-4", limiter.Costs{"tpm": 10_000_000}) // Python's queries ignore it
		d.take(l, "acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 11})
		d.take(l, "other", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 7})
		p.take("other", "gpt-4", limiter.Costs{"rpm": 2, "tpm": 3})
		d.rest()
		for entity, want := range map[string]limiter.Costs{"acme": {"rpm": 7, "tpm": 661}, "other": {"rpm": 3, "tpm": 10}} {
			d.wantUsage("at rest", p, entity, want, "hourly", "daily", "monthly")
		}
		ours, err := d.manage().UsageSummary(d.Context(), admin.UsageQuery{Entity: "acme", Window: admin.Daily})
		if err != nil || ours.Denied != 1 {
			d.Errorf("%d denials of ours counted, want 1: %v", ours.Denied, err)
		}
	})
}

// The aggregators follow each other on one stream, in both orders, and in turns within an hour. No
// consumption is counted twice or lost, except for what Python's never counts, the first in a
// bucket's life. (They never run at the same time: both would add.) Our days and months are
// complete when our aggregator runs.
func TestAggregatorsFollowEachOther(t *testing.T) {
	t.Run("ours first", func(t *testing.T) { deployed(t, aggregatorsInTurn(false, true)) })
	t.Run("Python's first", func(t *testing.T) { deployed(t, aggregatorsInTurn(true, false)) })
	t.Run("in turns", func(t *testing.T) { deployed(t, aggregatorsInTurn(false, true, false, true, false)) })
	t.Run("in turns, Python's first", func(t *testing.T) { deployed(t, aggregatorsInTurn(true, false, true, false)) })
}

// aggregatorsInTurn is a scenario in which both kinds of clients take tokens under one aggregator
// after the other.
func aggregatorsInTurn(byPython ...bool) func(*deployment) {
	return func(d *deployment) {
		l, p := d.open(), d.world.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "gpt-4", "limits": pyLimits(usageLimits...)})
		want := limiter.Costs{}
		if byPython[0] {
			want = limiter.Costs{"rpm": -1, "tpm": -100}
		}
		for i, python := range byPython {
			d.aggregator(python)
			for range 3 {
				p.take("acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 100})
				d.take(l, "acme", "gpt-4", limiter.Costs{"rpm": 2, "tpm": 10})
				want["rpm"], want["tpm"] = want["rpm"]+3, want["tpm"]+110
			}
			d.rest()
			step := fmt.Sprintf("aggregator %d of Python's %v", i, byPython)
			d.wantUsage(step, p, "acme", want, "hourly")
			if !python { // Python's day, with its default windows, is not counted together with ours
				d.wantUsage(step, p, "acme", want, "daily")
			}
			if !python && !byPython[0] { // ours has counted since the beginning
				d.wantUsage(step, p, "acme", want, "monthly")
			}
		}
	}
}
