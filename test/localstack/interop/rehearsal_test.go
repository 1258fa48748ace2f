//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// fleet is four processes that continuously take tokens of two entities, each with a Python client
// or one of ours, and a book of the taken tokens.
type fleet struct {
	*deployment
	pythons []*python
	ours    []*limiter.Limiter
	isOurs  [4]atomic.Bool

	pause sync.RWMutex // locked for writing while nothing may be under way

	mu    sync.Mutex
	taken map[string]limiter.Costs
	calls int
	err   error
}

var tenants = []string{"acme", "zenith"}

// newFleet starts the processes, all Python. They end with the test.
func newFleet(d *deployment) *fleet {
	f := &fleet{deployment: d, taken: map[string]limiter.Costs{}}
	for _, entity := range tenants {
		f.taken[entity] = limiter.Costs{"rpm": 0, "tpm": 0}
	}
	for i := range f.isOurs {
		f.pythons = append(f.pythons, d.world.anotherPython(i%2))
	}
	return f
}

// run makes process i work until the context ends.
func (f *fleet) run(ctx context.Context, i int) {
	for n := int64(0); ctx.Err() == nil; n++ {
		f.pause.RLock()
		entity, costs := tenants[n%2], limiter.Costs{"rpm": 1, "tpm": 100 + n%7}
		settled := []int64{0, 25, -40}[n%3]
		err := f.work(ctx, i, entity, costs, settled)
		f.mu.Lock()
		if err == nil {
			f.taken[entity]["rpm"]++
			f.taken[entity]["tpm"] += costs["tpm"] + settled
			f.calls++
		} else if ctx.Err() == nil {
			f.err = errors.Join(f.err, fmt.Errorf("process %d: %w", i, err))
		}
		f.mu.Unlock()
		f.pause.RUnlock()
		time.Sleep(40 * time.Millisecond)
	}
}

// work is one request of process i: take, determine the real cost, settle.
func (f *fleet) work(ctx context.Context, i int, entity string, costs limiter.Costs, settled int64) error {
	if f.isOurs[i].Load() {
		lease, err := f.ours[i].Acquire(ctx, limiter.Request{Entity: entity, Resource: "gpt-4", Costs: costs})
		if err != nil {
			return err
		}
		if err := lease.Settle(limiter.Costs{"tpm": costs["tpm"] + settled}); err != nil {
			return err
		}
		return lease.Commit(context.WithoutCancel(ctx))
	}
	p := f.pythons[i]
	var lease struct{ Lease int }
	err := p.driver.ask(&lease, "acquire", kv{"client": p.id, "entity": entity, "resource": "gpt-4", "consume": costs})
	if err != nil {
		return err
	}
	amounts := limiter.Costs{"tpm": settled}
	err = p.driver.ask(nil, "settle", kv{"lease": lease.Lease, "method": "adjust", "amounts": amounts})
	return errors.Join(err, p.driver.ask(nil, "leave", kv{"lease": lease.Lease}))
}

// done returns the number of calls so far. A failed call ends the test.
func (f *fleet) done() int {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	check.Must(f, f.err)
	return f.calls
}

// uncounted is what the Python aggregator does not count: the first consumption in a bucket's life.
type uncounted map[string]limiter.Costs

// check pauses the fleet and compares: every bucket's level and counter with the taken tokens, to
// the millitoken; the usage in Python's queries with the same, minus earlier losses; and the audit
// events with the changes.
func (f *fleet) check(step string, lost uncounted, audits int) uncounted {
	f.Helper()
	f.pause.Lock()
	defer f.pause.Unlock()
	f.rest()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.Fatalf("%s: %v", step, f.err)
	}
	missing := uncounted{}
	for _, entity := range tenants {
		taken := f.taken[entity]
		f.wantLevels(step, entity, "gpt-4", levels{
			"rpm": (10_000 - taken["rpm"]) * bucket.Milli, "tpm": (10_000_000 - taken["tpm"]) * bucket.Milli,
		})
		for _, sl := range f.bucket(entity, "gpt-4").State.Slots {
			if sl.Name != bucket.WCU && sl.Used != taken[sl.Name]*bucket.Milli {
				f.Errorf("%s: %s has counted %d of %s, want %d", step, entity, sl.Used, sl.Name, taken[sl.Name]*bucket.Milli)
			}
		}
		counted, _ := f.pythons[0].usage(entity, "hourly")
		missing[entity] = limiter.Costs{}
		for limit, n := range taken {
			missing[entity][limit] = n - counted[limit]
			if got, want := missing[entity][limit], lost[entity][limit]; lost != nil && got != want {
				f.Errorf("%s: usage of %s misses %d of %s, want %d", step, entity, got, limit, want)
			}
		}
	}
	var events []auditEvent
	f.pythons[0].call(&events, "get_audit_events", kv{"entity_id": "$RESOURCE:gpt-4"})
	check.Equal(f, len(events), audits, "%s: audit events", step)
	f.Logf("interop: rehearsal, %s: %d calls so far, levels and counters exact, not in usage %v, %d audit events",
		step, f.calls, missing, len(events))
	return missing
}

// whole prevents splits by our client, like the documented setting of the stack.
func whole(o *limiter.Options) { o.MaxShards = 1 }

// released reports whether no Python client would replace our functions: the version record names
// no release, or their newest.
func (f *fleet) released() bool {
	v, err := config.DecodeVersion(f.item(layout.VersionKey()))
	check.Must(f, err)
	return v.Lambda == "" || v.Lambda == newer
}

// The migration of docs/migrating.md, under load: a deployment of Python alone; then the aggregator
// is switched, then the processes one by one; and everything back.
func TestMigrationRehearsed(t *testing.T) {
	deployed(t, func(d *deployment) {
		d.python.Store(true)
		f := newFleet(d)
		change := func() {
			d.Helper()
			f.pythons[0].call(nil, "set_resource_defaults", kv{"resource": "gpt-4", "limits": pyLimits(usageLimits...)})
		}
		change()
		ctx, stop := context.WithCancel(d.Context())
		var running sync.WaitGroup
		for i := range f.isOurs {
			running.Go(func() { f.run(ctx, i) })
		}
		defer running.Wait()
		defer stop()
		work := func() {
			enough := f.done() + 2*len(f.isOurs) // with requests of both tenants
			for time.Sleep(time.Second); f.done() < enough; time.Sleep(10 * time.Millisecond) {
				check.Must(d, d.Context().Err())
			}
		}

		work()
		lost := f.check("Python alone", nil, 1)
		d.open(whole) // like the deployment, for the version record
		if !f.released() {
			d.Error("a Python client could replace our functions")
		}
		d.python.Store(false) // the mapping gets another function
		work()
		change()
		f.check("our aggregator", lost, 2)
		for i := range f.isOurs {
			f.ours = append(f.ours, d.open(whole))
			f.isOurs[i].Store(true)
			work()
			f.check(fmt.Sprintf("%d of 4 processes ours", i+1), lost, 2)
		}
		for i := range f.isOurs {
			f.isOurs[i].Store(false)
			work()
			f.check(fmt.Sprintf("%d of 4 processes ours again", 3-i), lost, 2)
		}
		d.python.Store(true)
		work()
		change()
		f.check("Python alone again", lost, 3)
	}, "MAX_SHARDS=1")
}

// deployment is a world with the template's functions on its stream. The aggregator is our built
// binary, or the Python release's.
type deployment struct {
	*world
	stack  *stack.Stack
	python atomic.Bool // whether Python gets the next batch
	driver *driver     // runs Python's aggregator
	began  time.Time
}

// deployed runs a scenario on each emulator with each release of the Python client, with running
// functions. env is added to the aggregator's environment.
func deployed(t *testing.T, scenario func(*deployment), env ...string) {
	everywhere(t, releases, func(t *testing.T, e *engine.Engine, release string) {
		scenario(deploy(t, e, release, env))
	})
}

func deploy(t *testing.T, e *engine.Engine, release string, env []string) *deployment {
	t.Helper()
	d := &deployment{driver: driverFor(t, e, release, 0), began: time.Now()}
	d.stack = stack.ForTest(t, stack.Options{Engine: e, Seed: 1,
		Configure: func(function string, host *runtimeapi.Config, mapping *eventsource.Config) {
			mapping.Settings.Window, mapping.Settings.RetryDelay = 15*time.Millisecond, 5*time.Millisecond
			host.Environments = 2
			if function == stack.Aggregator {
				host.Env = append(append(host.Env, "SNAPSHOT_WINDOWS=hourly,daily,monthly"), env...)
			}
		},
		Between: func(ours eventsource.Invoke) eventsource.Invoke {
			return func(ctx context.Context, payload []byte) (runtimeapi.Result, error) {
				return d.invoke(ctx, ours, payload)
			}
		}})
	d.world = newWorld(t, e, release, d.stack.Table)
	return d
}

// invoke passes a batch to the current aggregator.
func (d *deployment) invoke(ctx context.Context, ours eventsource.Invoke, payload []byte) (runtimeapi.Result, error) {
	if !d.python.Load() {
		return ours(ctx, payload)
	}
	var event struct{ Records []json.RawMessage }
	if err := json.Unmarshal(payload, &event); err != nil {
		return runtimeapi.Result{}, err
	}
	var done struct{ Errors []string }
	windows := []string{"hourly", "daily"} // its default
	if time.Now().UTC().Hour() == 0 || d.began.UTC().Hour() == 0 {
		windows = windows[:1] // its day and its first hour are one item: docs/migrating.md
	}
	err := d.driver.ask(&done, "aggregate", kv{"table": d.table, "windows": windows, "records": event.Records})
	if err == nil && len(done.Errors) > 0 {
		err = errors.New(done.Errors[0])
	}
	return runtimeapi.Result{Payload: []byte("{}")}, err
}

// aggregator waits until the stream is processed, and then switches to the other aggregator.
func (d *deployment) aggregator(python bool) {
	d.Helper()
	d.rest()
	d.python.Store(python)
}

// rest waits until the system is idle.
func (d *deployment) rest() {
	d.Helper()
	d.stack.Rest(d)
}
