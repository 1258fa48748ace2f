package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// watcher reads the table's stream as a separate consumer, besides the functions. It derives
// deleted shards and the history of the hot bucket from the records alone. It is safe for
// concurrent use.
type watcher struct {
	mapping *eventsource.Mapping

	mu      sync.Mutex
	err     error                       // the first record that could not be decoded
	last    string                      // sequence number of the last record
	now     int64                       // when it was created, epoch ms
	retired map[loadcheck.Account]int64 // counters of shards that were merged, in whole tokens

	begin  int64       // of the run, epoch ms
	shards map[int]int // of the hot bucket: the count on each existing shard
	seen   history
}

// resharded is how the hot bucket's shards were added and removed: the greatest number of them, the
// count on shard 0, which is 0 before its first record, shards added after the first, and removed.
type resharded struct{ most, end, splits, merges int }

// history is the hot bucket's history so far.
type history struct {
	resharded
	steps  []step // in order
	writes int
}

// watch begins to read the stack's stream, in a run that began at an instant.
func watch(s *stack.Stack, begin int64) (*watcher, error) {
	w := &watcher{begin: begin, shards: map[int]int{}, retired: map[loadcheck.Account]int64{}}
	settings := eventsource.DefaultSettings()
	settings.BatchSize = 1000
	var err error
	w.mapping, err = eventsource.Start(eventsource.Config{
		StreamARN: s.Stream, Streams: s.Engine.Streams(), Settings: settings,
		Invoke: func(_ context.Context, payload []byte) (runtimeapi.Result, error) {
			w.read(payload)
			return runtimeapi.Result{}, nil
		},
	})
	return w, err
}

// read processes a batch.
func (w *watcher) read(payload []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, err := stream.Decode(payload)
	if err == nil && len(batch.Malformed) > 0 {
		err = errors.New(batch.Malformed[0].Reason)
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("a record of the stream cannot be read: %w", err)
	}
	for i := range batch.Changes {
		if c := &batch.Changes[i]; w.last == "" || sequence.Compare(c.Sequence, w.last) > 0 {
			w.last = c.Sequence
			w.see(c)
		}
	}
}

func (w *watcher) see(c *stream.Change) {
	at, gone := w.instant(c), c.Operation == stream.Remove
	for _, u := range c.Used {
		if gone {
			w.retired[loadcheck.Account{Entity: c.New.Entity, Resource: c.New.Resource, Limit: u.Limit}] += u.Before
		}
	}
	if c.New.Entity != hotEntity || c.New.Resource != hotResource {
		return
	}
	h := &w.seen
	h.writes++
	if k := c.New.State.Shard; gone {
		delete(w.shards, k)
		h.merges++
	} else {
		if c.Operation == stream.Insert && k > 0 {
			h.splits++
		}
		w.shards[k] = c.New.State.Count()
	}
	h.most, h.end = max(h.most, len(w.shards)), w.shards[0]
	if n := len(h.steps); n == 0 || h.steps[n-1].Shards != len(w.shards) {
		h.steps = append(h.steps, step{since(w.begin, at), len(w.shards)})
	}
}

// instant returns when the change was made. Records only have whole seconds, but most come with a
// refill at that very moment. It never goes back.
func (w *watcher) instant(c *stream.Change) int64 {
	at := c.Created
	if rf := c.New.State.RF; rf > at && rf < at+1000 {
		at = rf
	}
	w.now = max(w.now, at)
	return w.now
}

// hot returns the hot bucket's history.
func (w *watcher) hot() history {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.seen
	h.steps = slices.Clone(h.steps)
	return h
}

// gone waits until the whole stream has been read, and returns the counters of the shards that no
// longer exist.
func (w *watcher) gone(ctx context.Context) (map[loadcheck.Account]int64, error) {
	if err := w.mapping.Idle(ctx); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.retired), w.err
}
