//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

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
	everywhere(t, releases, func(t *testing.T, e *engine.Engine, release string) { scenario(deploy(t, e, release, env)) })
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
