// Package poll tests streams/poll with the stream of an emulator.
package poll

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/streams"
	"github.com/zeroae/zae-limiter-go/streams/poll"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

var errLost = errors.New("lost")

// Clients take tokens, and a process polls the stream. Usage is exact, even after lost answers, and
// after another process has read everything again.
func TestUsageWithoutLambda(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	db, name := e.DynamoDB(), engine.UniqueName("poll")
	table, err := limitertable.Create(t.Context(), db, name)
	check.Must(t, err)
	t.Cleanup(func() { e.RemoveTable(t, name) })
	l, err := limiter.Open(t.Context(), db, name, &limiter.Options{Register: true, Timeout: time.Minute})
	check.Must(t, err)
	for i := range 30 {
		_, err := l.Acquire(t.Context(), limiter.Request{
			Entity: fmt.Sprintf("tenant-%d", i%3), Resource: "api", Costs: limiter.Costs{"rpm": int64(1 + i)},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 1000)},
		})
		check.Must(t, err)
	}
	agg, err := streams.New(streams.Options{DynamoDB: db, Table: name, Windows: []string{"daily"}})
	check.Must(t, err)
	for process := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		var batches atomic.Int64
		ended := make(chan error)
		go func() {
			ended <- poll.Run(ctx, poll.Options{
				Client: e.Streams(), Stream: table.StreamARN, Every: 10 * time.Millisecond,
				Invoke: func(ctx context.Context, payload []byte) ([]byte, error) {
					out, err := agg.Invoke(ctx, payload)
					if batches.Add(1) == 1 {
						return nil, errLost // everything is done, but the answer is lost
					}
					return out, err
				},
			})
		}()
		for batches.Load() < 2 || usage(t, db, name) < 465 {
			time.Sleep(10 * time.Millisecond) // another process runs; the test's own time is the bound
		}
		stop()
		check.Is(t, <-ended, context.Canceled, "ended with")
		check.Equal(t, usage(t, db, name), 465, "after process %d: tokens counted", process)
	}
}

// usage returns the tokens used by all tenants, from the table.
func usage(t *testing.T, db admin.DynamoDB, name string) int64 {
	t.Helper()
	table, err := admin.Open(t.Context(), db, name, nil)
	check.Must(t, err)
	ns, err := table.Namespace(t.Context(), "default")
	check.Must(t, err)
	sum, err := ns.UsageSummary(t.Context(), admin.UsageQuery{Resource: "api", Window: admin.Daily})
	check.Must(t, err)
	return sum.Tokens["rpm"]
}
