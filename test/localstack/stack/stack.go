// Package stack combines the kit: the table of the committed template on an engine, both functions
// as built binaries behind the Runtime API, their event source mappings, the archive bucket and the
// sweeper.
package stack

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/s3"
	"github.com/zeroae/zae-limiter-go/test/localstack/tablespec"
	"github.com/zeroae/zae-limiter-go/test/localstack/ttl"
)

// The functions of the template.
const (
	Aggregator = "aggregator"
	Archiver   = "archiver"
)

// Options select the parts to start. The zero value starts everything with the deployed settings on
// dynoxide.
type Options struct {
	Engine *engine.Engine // used and not stopped; nil starts dynoxide
	Shards int            // virtual shards of the stream; 0 is 1
	Seed   uint64         // of the fault proxies

	// Fold keeps the tumbling windows of the template. Without them, usage is written with every
	// batch, and nothing must be waited for at the end.
	Fold bool

	// Configure may change a function's host and mapping before they start.
	Configure func(function string, host *runtimeapi.Config, mapping *eventsource.Config)
	// Between returns the function that the aggregator's mapping invokes instead; nil: it invokes
	// the aggregator.
	Between func(aggregator eventsource.Invoke) eventsource.Invoke
}

// Stack is the running parts. Engine is for direct access. Functions and clients each have a proxy
// that can inject faults.
type Stack struct {
	Engine     *engine.Engine
	Proxy      *fault.Proxy   // of the functions
	Clients    *fault.Proxy   // of clients
	ForClients *engine.Engine // the engine as clients see it
	Table      string
	Stream     string
	S3         *s3.Server
	Sweeper    *ttl.Sweeper
	Functions  map[string]*Function

	forFunctions *engine.Engine
	stopEngine   bool
}

// Function is one function with its event source mapping.
type Function struct {
	Host    *runtimeapi.Host
	Mapping *eventsource.Mapping
}

// Tail returns the end of the function's log, for messages.
func (f *Function) Tail() string {
	log := f.Host.Logs()
	return log[max(0, len(log)-2000):]
}

// ForTest starts everything, and stops it when the test ends.
func ForTest(t testing.TB, o Options) *Stack {
	t.Helper()
	s, err := Start(t.Context(), o)
	check.Must(t, err)
	t.Cleanup(func() {
		s.Stop()
		s.Engine.RemoveTable(t, s.Table)
	})
	return s
}

// Rest waits until all work is done, at most two minutes.
func (s *Stack) Rest(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	check.Must(t, s.Idle(ctx))
}

// Start starts everything. After an error, nothing is left running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{Engine: o.Engine, Functions: map[string]*Function{}}
	if err := s.start(ctx, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, o Options) (err error) {
	if s.Engine == nil {
		if s.Engine, err = engine.Start(ctx, engine.Dynoxide); err != nil {
			return err
		}
		s.stopEngine = true
	}
	if s.Proxy, s.forFunctions, err = fault.Engine(s.Engine, o.Seed); err != nil {
		return err
	}
	if s.Clients, s.ForClients, err = fault.Engine(s.Engine, o.Seed+1); err != nil {
		return err
	}
	if s.S3, err = s3.Start(engine.UniqueName("archive")); err != nil {
		return err
	}
	db := s.Engine.DynamoDB()
	table, err := limitertable.Create(ctx, db, engine.UniqueName("limiter"))
	if err != nil {
		return err
	}
	s.Table, s.Stream, s.Sweeper = table.Name, table.StreamARN, ttl.New(s.Engine, table)
	for _, name := range []string{Aggregator, Archiver} {
		if err := s.startFunction(name, o); err != nil {
			return fmt.Errorf("function %q: %w", name, err)
		}
	}
	return nil
}

func (s *Stack) startFunction(name string, o Options) error {
	function, err := tablespec.Deployed(name)
	if err != nil {
		return err
	}
	f := new(Function)
	host := runtimeapi.Config{
		Binary: runtimeapi.Built(name), Env: s.environment(function), Name: name, MemoryMB: function.MemoryMB,
		Timeout:      time.Duration(function.TimeoutSeconds) * time.Second,
		Environments: max(o.Shards, 1) * function.Settings.Factor,
	}
	source := eventsource.Config{
		StreamARN: s.Stream, Streams: s.Engine.Streams(), Settings: function.Settings, Shards: o.Shards,
		Expired: s.Sweeper.Deleted,
	}
	if !o.Fold {
		source.Settings.Tumbling = 0
	}
	if o.Configure != nil {
		o.Configure(name, &host, &source)
	}
	if f.Host, err = runtimeapi.Start(host); err != nil {
		return err
	}
	s.Functions[name] = f
	source.Invoke = f.Host.Invoke
	if o.Between != nil && name == Aggregator {
		source.Invoke = o.Between(f.Host.Invoke)
	}
	f.Mapping, err = eventsource.Start(source)
	return err
}

// environment returns the function's environment in the template, with the local table and bucket
// instead of the deployed ones, and the endpoints of the emulators.
func (s *Stack) environment(f tablespec.Function) []string {
	variables := f.Environment(func(id, _ string) string {
		if id == f.TableID {
			return s.Table
		}
		return s.S3.Bucket
	})
	env := append(s.forFunctions.Env(), s.S3.Env()...)
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	return env
}

// Idle waits until both mappings have processed everything in the stream, including the functions'
// own writes.
func (s *Stack) Idle(ctx context.Context) error {
	for {
		before := s.stats()
		for name, f := range s.Functions {
			if err := f.Mapping.Idle(ctx); err != nil {
				return fmt.Errorf("function %q: %w\nits log ends in\n%s", name, err, f.Tail())
			}
		}
		if s.stats() == before {
			return nil
		}
	}
}

func (s *Stack) stats() (all [2]eventsource.Stats) {
	for i, name := range []string{Aggregator, Archiver} {
		all[i] = s.Functions[name].Mapping.Stats()
	}
	return all
}

// Stop ends everything that Start started, and may be called again. The table on a given engine
// stays; the engine's RemoveTable removes it.
func (s *Stack) Stop() {
	for _, f := range s.Functions {
		if f.Mapping != nil {
			f.Mapping.Stop()
		}
		f.Host.Close()
	}
	if s.S3 != nil {
		s.S3.Stop()
	}
	for _, p := range []*fault.Proxy{s.Proxy, s.Clients} {
		if p != nil {
			p.Stop()
		}
	}
	if s.stopEngine {
		s.Engine.Stop()
	}
}
