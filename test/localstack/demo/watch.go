package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// moment is the state of one bucket at an instant, by the stream.
type moment struct {
	at     int64            // epoch ms
	shards int              // shards that are there
	count  int              // how many there should be, as shard 0 says
	levels map[string]int64 // of all shards together, by limit, in millitokens
}

// watcher reads the table's stream as a consumer of its own, besides the functions: it knows
// deleted shards and the histories of buckets from the records alone. It is safe for concurrent
// use.
type watcher struct {
	mapping *eventsource.Mapping

	mu      sync.Mutex
	err     error  // the first record that could not be read
	last    string // sequence number of the last record
	now     int64  // when it was made, epoch ms
	shards  map[[2]string]map[int]bucket.State
	moments map[[2]string][]moment
	retired map[loadcheck.Account]int64 // counters of shards that were merged away, whole tokens
	writes  int                         // of the hot bucket
	splits  int                         // of the hot bucket: shards that came after the first
	merges  int                         // of the hot bucket: shards that went
}

// watch begins to read the stack's stream.
func watch(s *stack.Stack) (*watcher, error) {
	w := &watcher{
		shards: map[[2]string]map[int]bucket.State{}, moments: map[[2]string][]moment{},
		retired: map[loadcheck.Account]int64{},
	}
	settings := eventsource.DefaultSettings()
	settings.BatchSize = 1000
	var err error
	w.mapping, err = eventsource.Start(eventsource.Config{
		StreamARN: s.Stream, Streams: s.Engine.Streams(), Settings: settings,
		Invoker: eventsource.InvokerFunc(func(_ context.Context, payload []byte) (runtimeapi.Result, error) {
			w.read(payload)
			return runtimeapi.Result{}, nil
		}),
	})
	return w, err
}

// read takes a batch in.
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
		if c := &batch.Changes[i]; w.last == "" || newer(c.Sequence, w.last) {
			w.last = c.Sequence
			w.see(c)
		}
	}
}

// newer reports whether a sequence number comes after another of the same stream.
func newer(a, b string) bool { return sequence.Compare(a, b) > 0 }

func (w *watcher) see(c *stream.Change) {
	of, k := [2]string{c.New.Entity, c.New.Resource}, c.New.State.Shard
	all := w.shards[of]
	if all == nil {
		all = map[int]bucket.State{}
		w.shards[of] = all
	}
	hot := of == [2]string{hotEntity, hotResource}
	if hot {
		w.writes++
	}
	if c.Operation == stream.Remove {
		delete(all, k)
		for _, u := range c.Used {
			w.retired[loadcheck.Account{Entity: of[0], Resource: of[1], Limit: u.Limit}] += u.Before
		}
		if hot {
			w.merges++
		}
	} else {
		if hot && c.Operation == stream.Insert && k > 0 {
			w.splits++
		}
		all[k] = c.New.State
	}
	w.note(of, w.instant(c))
}

// instant is when the change was made: records say it to the second only, but most
// come with a refill at that very moment. It does not go back.
func (w *watcher) instant(c *stream.Change) int64 {
	at := c.Created
	if rf := c.New.State.RF; rf > at && rf < at+1000 {
		at = rf
	}
	w.now = max(w.now, at)
	return w.now
}

// momentEvery is how often levels are kept at most, in ms.
const momentEvery = 500

// note keeps the state of the bucket at an instant, if its shards have changed or nothing was kept
// for a while.
func (w *watcher) note(of [2]string, at int64) {
	shards, seen := w.shards[of], w.moments[of]
	m := moment{at: at, shards: len(shards), count: max(shards[0].Shards, 1), levels: map[string]int64{}}
	if n := len(seen); n > 0 {
		last := seen[n-1]
		if at < last.at+momentEvery && m.shards == last.shards && m.count == last.count {
			return
		}
	}
	for _, s := range shards {
		for _, sl := range s.At(max(at, s.RF)).Slots {
			if sl.Name != bucket.WCU {
				m.levels[sl.Name] += sl.Tokens
			}
		}
	}
	w.moments[of] = append(seen, m)
}

// history returns the moments of a bucket, in order.
func (w *watcher) history(entity, resource string) []moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.moments[[2]string{entity, resource}])
}

// count returns how many shards the hot bucket has by now, as shard 0 says.
func (w *watcher) count() int {
	h := w.history(hotEntity, hotResource)
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// hotWrites returns how many writes of the hot bucket there were so far.
func (w *watcher) hotWrites() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// resharded is how the hot bucket's shards came and went.
type resharded struct{ most, end, splits, merges int }

func (w *watcher) resharded() resharded {
	l := resharded{end: w.count()}
	for _, m := range w.history(hotEntity, hotResource) {
		l.most = max(l.most, m.shards)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.splits, l.merges = w.splits, w.merges
	return l
}

// gone waits until all of the stream has been read, and returns the counters of the
// shards that are no longer there.
func (w *watcher) gone(ctx context.Context) (map[loadcheck.Account]int64, error) {
	if err := w.mapping.Idle(ctx); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.retired), w.err
}
