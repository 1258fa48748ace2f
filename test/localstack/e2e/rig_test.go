// Package e2e runs the whole system on emulators and checks it from outside: the table of the
// committed template, clients that take tokens through the limiter, the table's stream, and both
// functions as built binaries behind the Runtime API.
//
// The checks are promises of the design. Their functions know nothing of how the system works
// (checks_test.go). The same functions must detect a planted weakness of the register
// (planted_test.go).
package e2e

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/rights"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// namespace is shared by all clients.
const namespace = "e2e"

// patience bounds every wait for the system to become idle.
const patience = 2 * time.Minute

// TestMain stops emulators that would outlive the process. Parallel runs mostly wait, so there are
// more of them than cores.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic("bug: " + err.Error())
	}
	code := m.Run()
	engine.StopShared()
	os.Exit(code)
}

// rig is everything that AWS would run.
type rig struct {
	*stack.Stack
	t      testing.TB
	direct store.Store // bypasses all proxies
	lib    *limiter.Limiter
}

// setup is how a rig differs from the deployed system. The zero value is dynoxide, one stream
// shard, and the settings of the template with a shorter batching window.
type setup struct {
	kind      engine.Kind
	shards    int
	plant     plant
	deliver   func(payload []byte) []byte // changes the aggregator's payloads
	aggregate func(*runtimeapi.Config, *eventsource.Config)
	archive   func(*runtimeapi.Config, *eventsource.Config)
}

// window is the batching window, instead of the template's whole second.
const window = 15 * time.Millisecond

func start(t testing.TB, s setup) *rig {
	t.Helper()
	if s.kind == "" {
		s.kind = engine.Dynoxide
	}
	e := engine.ForTest(t, s.kind)
	if s.plant.write != nil {
		e = rewriting(t, e, s.plant.write)
	}
	if s.deliver == nil {
		s.deliver = s.plant.deliver
	}
	running := stack.ForTest(t, stack.Options{Engine: e, Shards: s.shards, Seed: 1,
		Configure: func(function string, host *runtimeapi.Config, mapping *eventsource.Config) {
			mapping.Settings.Window, mapping.Settings.RetryDelay = window, 5*time.Millisecond
			host.Environments = 2
			change := s.aggregate
			if function == stack.Archiver {
				change = s.archive
			}
			if change != nil {
				change(host, mapping)
			}
		},
		Between: func(aggregator eventsource.Invoke) eventsource.Invoke {
			if s.deliver == nil {
				return aggregator
			}
			return func(ctx context.Context, payload []byte) (runtimeapi.Result, error) {
				return aggregator(ctx, s.deliver(payload))
			}
		}})
	r := &rig{Stack: running, t: t, direct: store.NewDynamo(e.DynamoDB(), running.Table)}
	r.lib = r.open()
	r.within("AggregatorRole", r.Proxy)
	r.within("AcquirePolicy", r.Clients)
	return r
}

// within fails the test if a call through a proxy needs more than a role or policy of the template
// allows.
func (r *rig) within(policy string, p *fault.Proxy) {
	all, err := rights.Load()
	check.Must(r.t, err)
	recorder := rights.Record(p)
	r.t.Cleanup(func() {
		asked, err := recorder.Rights()
		check.NoError(r.t, err)
		for _, right := range asked {
			if !all[policy].Allows(right, r.ns()) {
				r.t.Errorf("%s does not allow %v, which was needed", policy, right)
			}
		}
	})
}

// open returns a client with its own caches.
func (r *rig) open() *limiter.Limiter {
	r.t.Helper()
	l, err := limiter.Open(r.t.Context(), r.ForClients.DynamoDB(), r.Table,
		&limiter.Options{Slack: 1, Register: true, Namespace: namespace, Timeout: patience})
	check.Must(r.t, err)
	return l
}

func (r *rig) ns() string { return r.lib.NamespaceID() }

// rest waits until the system is idle.
func (r *rig) rest() {
	r.t.Helper()
	r.Rest(r.t)
}

// await waits until a condition holds.
func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			r.t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// put stores an item, bypassing all proxies.
func (r *rig) put(items ...item.Item) {
	r.t.Helper()
	for _, it := range items {
		check.Must(r.t, check.Err(r.direct.Write(r.t.Context(), item.Put{Item: it})))
	}
}

// shard returns a stored shard. It is not ok if there is none.
func (r *rig) shard(entity, resource string, k int) (b table.Shard, ok bool) {
	r.t.Helper()
	items, err := r.direct.Read(r.t.Context(), true, layout.BucketKey(r.ns(), entity, resource, k))
	check.Must(r.t, err)
	if items[0] == nil {
		return b, false
	}
	if b, err = table.DecodeShard(items[0]); err != nil {
		r.t.Fatal(err)
	}
	return b, true
}

func now() int64 { return time.Now().UnixMilli() }

// long reports whether to run everything, which takes minutes: `make test-long` sets LONG.
func long() bool { return os.Getenv("LONG") != "" }

// rounds returns n for long runs, and some otherwise.
func rounds(n, some int) int {
	if long() {
		return n
	}
	return some
}
