package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// resource is the resource of all entities of a world.
const resource = "gpt-4"

// world is the committed template's table on an emulator, behind a proxy that measures it, with a
// clock that only the tests move.
type world struct {
	direct  *engine.Engine // bypasses the proxy, for setup and checks
	proxied *engine.Engine
	proxy   *fault.Proxy
	table   string
	raw     *dynamodb.Client // of direct
	store   store.Store      // of direct
	clock   atomic.Int64     // epoch ms
	ns      string           // id of the namespace, set by the first client
}

const (
	// beforeAnHour is longer by a minute than a cost table takes to measure: in the last minute of
	// an hour, the aggregator by its own clock treats it as over, and looks again before it counts.
	beforeAnHour = 2 * time.Minute
	// inAnHour is how far into an hour new buckets are certain to belong to it.
	inAnHour = 12 * time.Second
)

// untilMidHour returns how long to wait until no hour turns for a while. Then no bucket of the
// measurement begins a second hour.
func untilMidHour(now time.Time) time.Duration {
	switch in := now.Sub(now.Truncate(time.Hour)); {
	case in < inAnHour:
		return inAnHour - in
	case in > time.Hour-beforeAnHour:
		return time.Hour - in + inAnHour
	}
	return 0
}

// newWorld creates a table on the engine. close removes it. If an hour is about to turn, it waits
// for that.
func newWorld(ctx context.Context, e *engine.Engine) (*world, error) {
	if err := smithytime.SleepWithContext(ctx, untilMidHour(time.Now())); err != nil {
		return nil, err
	}
	w := &world{direct: e, raw: e.DynamoDB(), table: engine.UniqueName("bench")}
	w.clock.Store(time.Now().UnixMilli())
	w.store = store.NewDynamo(w.raw, w.table)
	_, err := limitertable.Create(ctx, w.raw, w.table)
	if err != nil {
		return nil, err
	}
	if w.proxy, w.proxied, err = fault.Engine(e, 1); err != nil {
		w.close()
		return nil, err
	}
	w.proxy.Meter(true)
	return w, nil
}

func (w *world) close() {
	if w.proxy != nil {
		w.proxy.Stop()
	}
	_ = w.direct.Remove(w.table) // a started engine loses everything when it ends
}

func (w *world) now() time.Time          { return time.UnixMilli(w.clock.Load()) }
func (w *world) advance(d time.Duration) { w.clock.Add(d.Milliseconds()) }

// client returns a limiter with its own caches and the world's clock, whose calls are measured.
func (w *world) client(ctx context.Context) (*limiter.Limiter, error) {
	l, err := limiter.Open(ctx, w.proxied.DynamoDB(), w.table,
		&limiter.Options{Register: true, Now: w.now, Timeout: time.Minute})
	if err == nil {
		w.ns = l.NamespaceID()
	}
	return l, err
}

// defaults stores limits for every entity on the resource: 1000 requests and
// 100,000 tokens per minute.
func (w *world) defaults(ctx context.Context) error {
	c := config.Config{Namespace: w.ns, Resource: resource,
		Limits: clients.Stored(limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 100_000))}
	_, err := w.store.Write(ctx, item.Put{Item: c.Item()})
	return err
}

// item returns the stored item of a shard of an entity's bucket.
func (w *world) item(ctx context.Context, entity string, shard int) (item.Item, error) {
	items, err := w.store.Read(ctx, true, layout.BucketKey(w.ns, entity, resource, shard))
	if err != nil {
		return nil, err
	}
	if items[0] == nil {
		return nil, fmt.Errorf("entity %q has no shard %d", entity, shard)
	}
	return items[0], nil
}

// aggregator starts the built aggregator on the world's table, with measured calls.
func (w *world) aggregator(ctx context.Context) (*runtimeapi.Host, error) {
	h, err := runtimeapi.Start(runtimeapi.Config{
		Binary: runtimeapi.Built("aggregator"), Name: "aggregator",
		Env: append(w.proxied.Env(), function.EnvTableName+"="+w.table, function.EnvMergeAfterSeconds+"=1"),
	})
	if err != nil {
		return nil, err
	}
	if err := h.Warm(ctx); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// invoke delivers one batch, which must be processed completely.
func invoke(ctx context.Context, h *runtimeapi.Host, payload []byte) error {
	r, err := h.Invoke(ctx, payload)
	if err != nil {
		return err
	}
	if r.FunctionError != "" || string(r.Payload) != `{"batchItemFailures":[]}` {
		return fmt.Errorf("aggregator: %s %s\n%s", r.FunctionError, r.Payload, h.Logs())
	}
	return nil
}
