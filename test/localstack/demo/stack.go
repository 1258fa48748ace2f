package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

const (
	// streamShards is the number of shards of the stream; each has its own invocations, which
	// reorders buckets relative to each other.
	streamShards = 4
	// environments is how many invocations of a function run at once.
	environments = 2
	// mergeAfter is how long the hot bucket must be cool before it merges. The deployed default of
	// minutes would be too long for the demo.
	mergeAfter = 4 * time.Second
	// maxShards is the greatest number of shards of a bucket. The hot one needs four; how much
	// further it splits depends on the machine, and each step takes as long to merge again.
	maxShards = 8
)

// rig is everything that AWS would run.
type rig struct {
	*stack.Stack
	aggregator             *runtimeapi.Host
	aggregating, archiving *eventsource.Mapping
	trouble                *trouble
	watcher                *watcher
}

// startRig starts the emulators with the table of the committed template and
// the built functions. Nothing keeps running after an error.
func startRig(ctx context.Context, t *trouble) (*rig, error) {
	s, err := stack.Start(ctx, stack.Options{
		Shards: streamShards, Seed: seed,
		Configure: func(name string, host *runtimeapi.Config, mapping *eventsource.Config) {
			host.Environments = environments
			if name == stack.Aggregator {
				host.Env = append(host.Env, fmt.Sprintf("%s=%d", function.EnvMergeAfterSeconds, mergeAfter/time.Second),
					fmt.Sprintf("%s=%d", function.EnvMaxShards, maxShards))
				host.Inject, mapping.Inject = t.invocation, t.batch
			} else {
				mapping.Inject = t.archiveBatch
			}
		},
	})
	if err != nil {
		return nil, err
	}
	r := &rig{
		Stack: s, trouble: t, aggregator: s.Functions[stack.Aggregator].Host,
		aggregating: s.Functions[stack.Aggregator].Mapping, archiving: s.Functions[stack.Archiver].Mapping,
	}
	t.watch(s.Proxy, r.aggregator, r.aggregating)
	if r.watcher, err = watch(s, t.begin); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// stop ends everything.
func (r *rig) stop() {
	if r.watcher != nil && r.watcher.mapping != nil {
		r.watcher.mapping.Stop()
	}
	r.Stack.Stop()
}
