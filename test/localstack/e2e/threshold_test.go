package e2e

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The built function tells of 50, 80 and 100 % of a quota once each, of a whole bucket and of
// one in shards, of which no record says what was spent of the whole.
func TestThresholdsComeFromTheStream(t *testing.T) {
	for _, kind := range []engine.Kind{engine.Dynoxide, engine.DynamoDBLocal} {
		t.Run(string(kind), func(t *testing.T) {
			r := start(t, setup{kind: kind, shards: 2})
			budget := []limiter.Limit{limiter.Quota("budget", 100, limiter.Yearly(1, 1, ""))}
			stored := bucket.Limit{Name: "budget", Capacity: 100 * bucket.Milli, Period: bucket.QuotaPeriod,
				Reset: "m0h0D1M1@UTC"}
			for k := range 4 {
				r.put(table.Shard{Namespace: r.ns(), Entity: seededEntity, Resource: "gpt",
					State: bucket.New([]bucket.Limit{stored}, k, 4, now())}.Item())
			}
			l := r.open()
			told := func(entity string) (percents []int) {
				opened, err := admin.Open(t.Context(), r.Engine.DynamoDB(), r.Table, nil)
				if err != nil {
					t.Fatal(err)
				}
				ns, err := opened.Namespace(t.Context(), namespace)
				if err != nil {
					t.Fatal(err)
				}
				for th, err := range ns.Thresholds(t.Context(), admin.Scope{Entity: entity}) {
					if err != nil || th.Limit != "budget" || th.Quota != 100 || th.Spent < int64(th.Percent) {
						t.Errorf("%+v %v", th, err)
					}
					percents = append(percents, th.Percent)
				}
				return percents
			}
			spent := 0
			for want, cost := range []int{45, 20, 15, 20} {
				for _, entity := range []string{"acme", seededEntity} {
					for range cost { // no shard has 45 at once
						_, err := l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: "gpt",
							Costs: limiter.Costs{"budget": 1}, Limits: budget})
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				spent += cost
				r.rest()
				for _, entity := range []string{"acme", seededEntity} {
					if got := told(entity); len(got) != want || want > 0 && got[want-1] > spent {
						t.Errorf("%s: %v after %d", entity, got, spent)
					}
				}
			}
		})
	}
}
