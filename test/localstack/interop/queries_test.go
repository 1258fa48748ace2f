//go:build interop

package interop

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/usage"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// withIndex creates the table of the committed template with another projection of the index by
// resource, like the option of the stack.
func withIndex(t *testing.T, e *engine.Engine, release string, projection types.ProjectionType) *world {
	t.Helper()
	spec := limitertable.Deployed()
	for i := range spec.GlobalIndexes {
		if *spec.GlobalIndexes[i].IndexName == layout.IndexGSI2 {
			spec.GlobalIndexes[i].Projection = &types.Projection{ProjectionType: projection}
		}
	}
	w := newWorld(t, e, release, engine.UniqueName("limiter"))
	check.Must(t, check.Err(spec.Create(t.Context(), e.DynamoDB(), w.table)))
	t.Cleanup(func() { e.RemoveTable(t, w.table) })
	return w
}

// Python's queries over a resource need whole items in the index. With ALL they are right. With
// KEYS_ONLY, our default, they silently find nothing. Queries of one entity, and ours, work with
// both.
func TestQueriesOverAResourceNeedTheWholeIndex(t *testing.T) {
	everywhere(t, releases, func(t *testing.T, e *engine.Engine, release string) {
		for projection, found := range map[types.ProjectionType]int{types.ProjectionTypeAll: 2,
			types.ProjectionTypeKeysOnly: 0} {
			t.Run(string(projection), func(t *testing.T) {
				w := withIndex(t, e, release, projection)
				l, p := w.open(), w.python()
				p.call(nil, "set_resource_defaults", kv{"resource": "gpt-4", "limits": pyLimits(still("rpm", 100))})
				w.take(l, "ours", "gpt-4", limiter.Costs{"rpm": 30})
				p.take("theirs", "gpt-4", limiter.Costs{"rpm": 20})
				var capacity struct {
					Total     int64 `json:"total_capacity"`
					Available int64 `json:"total_available"`
					Entities  []struct {
						ID        string `json:"entity_id"`
						Available int64  `json:"available"`
					}
				}
				p.call(&capacity, "get_resource_capacity", kv{"resource": "gpt-4", "limit_name": "rpm"})
				if len(capacity.Entities) != found || capacity.Total != int64(100*found) || capacity.Available != int64(75*found) {
					t.Errorf("Python finds %+v, want %d entities", capacity, found)
				}
				w.wantUsageOfResource(p, found)
				ours, left := 0, int64(0)
				for b, err := range w.manage().Buckets(t.Context(), admin.Scope{Resource: "gpt-4"}) {
					if check.Must(w, err); len(b.Levels) == 1 {
						ours, left = ours+1, left+b.Levels[0].Remaining
					}
				}
				if ours != 2 || left != 150 {
					t.Errorf("we find %d buckets with %d left", ours, left)
				}
				var buckets []any
				p.repository(&buckets, "get_buckets", kv{"entity_id": "ours"})
				check.Equal(t, len(buckets), 1, "Python finds the buckets %v of one of our entities, want one", buckets)
			})
		}
	})
}

// wantUsageOfResource checks that Python finds the snapshots of a resource for two entities, or
// nothing.
func (w *world) wantUsageOfResource(p *python, found int) {
	w.Helper()
	start := usage.Hourly.Start(1_767_229_199_000)
	for _, entity := range []string{"ours", "theirs"} {
		s := ledger.Snapshot{Namespace: w.ns, Entity: entity, Resource: "gpt-4", Window: string(usage.Hourly), Events: 1,
			Start: layout.Timestamp(start), Part: usage.Hourly.Part(start), Counts: map[string]int64{"rpm": 7}}
		w.write(item.Put{Item: s.Item()})
	}
	var page []any
	p.call(&page, "get_usage_snapshots", kv{"resource": "gpt-4", "window_type": "hourly"})
	var snapshots []snapshot
	recode(w, page[0], &snapshots)
	var summary struct{ Total limiter.Costs }
	p.call(&summary, "get_usage_summary", kv{"resource": "gpt-4", "window_type": "hourly"})
	if len(snapshots) != found || summary.Total["rpm"] != int64(7*found) {
		w.Errorf("Python finds the usage %+v and sums it up to %v, want %d entities", snapshots, summary.Total, found)
	}
	q := admin.UsageQuery{Resource: "gpt-4", Window: admin.Window(usage.Hourly)}
	ours, err := w.manage().UsageSummary(w.Context(), q)
	if err != nil || ours.Tokens["rpm"] != 14 {
		w.Errorf("we sum up the usage to %v, %v", ours.Tokens, err)
	}
}
