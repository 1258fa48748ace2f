package eventsource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// Invoke runs a function once, like Invoke of [runtimeapi.Host]. It must be safe for concurrent
// use. An error is treated like a function error.
type Invoke = func(ctx context.Context, payload []byte) (runtimeapi.Result, error)

// Config connects a mapping. StreamARN, Streams and Invoke are required.
type Config struct {
	StreamARN string
	Streams   *dynamodbstreams.Client
	Invoke    Invoke
	Settings  Settings
	Shards    int          // virtual shards, by hash of the partition key; 0 is 1
	Now       func() int64 // epoch ms, for ages; nil is the machine's clock

	// Expired reports whether the time-to-live service made a delete; it may wait until that is
	// clear. nil means never. ttl.Sweeper.Deleted is one.
	Expired func(streams.Record) bool

	// Replaces is a stopped mapping with the same number of lanes, whose open tumbling windows this
	// one takes over. AWS does not document what happens to them if a mapping is disabled or
	// replaced: a test covers both.
	Replaces *Mapping

	// Inject returns the trouble of each batch before its first delivery. With several lanes it is
	// called concurrently. nil injects nothing.
	Inject func(Batch) Trouble
}

// Mapping is a running event source mapping. It is safe for concurrent use.
type Mapping struct {
	cfg    Config
	filter Filter
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	stats   Stats
	failure error // first permanent polling error
	lanes   []*worker
	givenUp []GivenUp
	read    reading
	changed chan struct{} // closed and replaced whenever one of the above changes
}

// worker drives one lane. Mapping.mu guards its lane.
type worker struct {
	lane        *lane
	shard, part int
	wake        chan struct{} // capacity 1
}

// name returns the shard's name, in AWS's form.
func (w *worker) name() string { return fmt.Sprintf("shardId-%020d-%08d", w.shard, w.part) }

// Start validates the settings and begins polling at the beginning of the stream. Stop ends it.
func Start(cfg Config) (*Mapping, error) {
	filter, err := ParseFilter(cfg.Settings.Filters)
	if err := errors.Join(cfg.Settings.validate(), err); err != nil {
		return nil, fmt.Errorf("event source mapping: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = func() int64 { return time.Now().UnixMilli() }
	}
	cfg.Shards = max(cfg.Shards, 1)
	ctx, cancel := context.WithCancel(context.Background())
	m := &Mapping{cfg: cfg, filter: filter, cancel: cancel, changed: make(chan struct{})}
	for shard := range cfg.Shards {
		for part := range cfg.Settings.Factor {
			m.lanes = append(m.lanes, &worker{lane: &lane{settings: cfg.Settings}, shard: shard, part: part,
				wake: make(chan struct{}, 1)})
		}
	}
	if cfg.Replaces != nil {
		m.inherit(cfg.Replaces)
	}
	m.done.Go(func() { m.poll(ctx) })
	for _, w := range m.lanes {
		m.done.Go(func() { m.drive(ctx, w) })
	}
	return m, nil
}

// Stop ends polling, cancels invocations under way (which kills their processes), and waits for
// their end. It may be called again.
func (m *Mapping) Stop() {
	m.cancel()
	m.done.Wait()
}

// Stats returns a copy of the counters.
func (m *Mapping) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// Drain waits until every record now in the stream is filtered, processed or given up, including
// late duplicates. It returns an error if ctx ends or the stream cannot be read.
func (m *Mapping) Drain(ctx context.Context) error {
	m.update(func() { m.read.quiet = 0 })
	if err := m.await(ctx, func() bool { return m.read.done() }); err != nil {
		return err
	}
	m.mu.Lock()
	marks := make([]int, len(m.lanes))
	for i, w := range m.lanes {
		marks[i] = w.lane.added
	}
	m.mu.Unlock()
	return m.await(ctx, func() bool {
		for i, w := range m.lanes {
			if w.lane.settled < marks[i] || w.lane.copies() || w.lane.window.open {
				return false
			}
		}
		return true
	})
}

// Idle drains until the function's own writes add nothing new.
func (m *Mapping) Idle(ctx context.Context) error {
	for {
		before := m.Stats()
		if err := m.Drain(ctx); err != nil {
			return err
		}
		if after := m.Stats(); after == before {
			return nil
		}
	}
}

// await blocks until the condition, evaluated under the lock, is true.
func (m *Mapping) await(ctx context.Context, condition func() bool) error {
	for {
		m.mu.Lock()
		changed, failure, holds, stats := m.changed, m.failure, condition(), m.stats
		m.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case holds:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("event source mapping is not drained, %+v: %w", stats, ctx.Err())
		case <-changed:
		}
	}
}

// update changes the mapping's state and wakes the waiting callers.
func (m *Mapping) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.changed)
	m.changed = make(chan struct{})
}
