package streams

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// lane is a shard of the stream as an event source mapping reads it: batches in
// order, resumed where the response says.
type lane struct {
	index, of int
	next      int // position in the lane's records
	delivered [][]json.RawMessage
}

// world is a history of clients, an aggregator, and trouble.
type world struct {
	*rig
	rand  *rand.Rand
	lanes []*lane
	// deliver turns the records of a batch into what the aggregator gets.
	deliver func([]json.RawMessage) []json.RawMessage
	stats   struct{ batches, duplicates, resumed, crashed int }
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 1))}
	w.agg.log = slog.New(slog.DiscardHandler)
	w.agg.concurrency = 1 + w.rand.IntN(4)
	w.deliver = func(r []json.RawMessage) []json.RawMessage { return r }
	for i := range 3 {
		w.lanes = append(w.lanes, &lane{index: i, of: 3})
	}
	return w
}

// records returns all that has come into the lane.
func (l *lane) records(r *rig) (all []memdb.Change) {
	for _, c := range r.since(0) {
		h := fnv.New32a()
		h.Write([]byte(c.Key.PK))
		if int(h.Sum32())%l.of == l.index {
			all = append(all, c)
		}
	}
	return all
}

// step lets a batch of a lane be handled, and moves the lane as the response
// says: not at all if there is none.
func (w *world) step(l *lane) {
	all := l.records(w.rig)
	if l.next >= len(all) {
		return
	}
	batch := all[l.next:min(len(all), l.next+1+w.rand.IntN(12))]
	recs := records(batch)
	l.delivered = append(l.delivered, recs)
	w.stats.batches++
	out, ok := w.invoke(recs)
	if !ok {
		w.stats.crashed++
		return
	}
	n := w.acknowledged(out, batch)
	l.next += n
	if n < len(batch) {
		w.stats.resumed++
	}
}

// invoke handles records; ok is false if the process died and nobody learned of
// a response.
func (w *world) invoke(recs []json.RawMessage) (out []byte, ok bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crash := -1
	if w.rand.IntN(6) == 0 {
		crash = w.rand.IntN(6)
	}
	call := 0
	dead := false
	meet := trouble(w.rand.Uint64(), 40, store.Conflict, cancel)
	var mu sync.Mutex // writes go out concurrently
	w.db.SetHook(func(op memdb.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		call++
		if dead || call > crash && crash >= 0 {
			applied := !dead && w.rand.IntN(2) == 0
			dead = true
			return applied, memdb.Fail(store.Unknown)
		}
		return meet(op)
	})
	defer w.db.SetHook(nil)
	out, err := w.agg.Invoke(ctx, streamtest.PayloadOf(w.deliver(recs)...))
	if err != nil {
		w.t.Fatal(err)
	}
	return out, !dead
}

// live plays clients and lanes for a while, and then lets the lanes finish.
func (w *world) live(steps int) {
	for range steps {
		switch w.rand.IntN(10) {
		case 0:
			w.now += int64(w.rand.IntN(3 * 3_600_000))
		case 1: // a bucket expires or is deleted, and will begin anew
			w.db.Delete(layout.BucketKey("ns", w.entity(), "gpt", w.rand.IntN(2)))
		case 2: // an old batch arrives once more, whole
			l := w.lanes[w.rand.IntN(len(w.lanes))]
			if n := len(l.delivered); n > 0 {
				w.stats.duplicates++
				// Only what is done already: Lambda does not read ahead.
				w.invoke(l.delivered[w.rand.IntN(n)])
			}
		case 3, 4, 5:
			w.step(w.lanes[w.rand.IntN(len(w.lanes))])
		default:
			w.now += int64(w.rand.IntN(2000))
			w.take(w.entity(), w.rand.IntN(2), int64(w.rand.IntN(5)-1), int64(w.rand.IntN(900)-200))
		}
	}
	for _, l := range w.lanes {
		for tries := 0; l.next < len(l.records(w.rig)); tries++ {
			if tries > 10_000 {
				w.t.Fatal("the lane does not come to its end")
			}
			w.step(l)
		}
	}
}

func (w *world) entity() string { return string(rune('a' + w.rand.IntN(3))) }

// I5: the sum of the snapshots is the growth of the counters, per window, under
// duplicates, lost answers, refusals, half-failed batches and crashes.
func TestUsageIsExactUnderTrouble(t *testing.T) {
	var sum world
	windows := 0
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		w.live(150)
		if diff := w.inexact(); diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
		windows += len(w.counted())
		sum.stats.batches += w.stats.batches
		sum.stats.duplicates += w.stats.duplicates
		sum.stats.resumed += w.stats.resumed
		sum.stats.crashed += w.stats.crashed
	}
	t.Logf("usage: %d counters in windows, diff=0, over %+v", windows, sum.stats)
	if windows < 1000 || sum.stats.resumed < 100 || sum.stats.crashed < 50 || sum.stats.duplicates < 100 {
		t.Error("there was not enough trouble")
	}
}

// I5: whatever write the process dies at, before or after it took effect.
func TestUsageIsExactAfterACrashAtEveryWrite(t *testing.T) {
	crashes := 0
	for _, applied := range []bool{false, true} {
		for at := 1; ; at++ {
			r := newRig(t)
			r.agg.concurrency, r.agg.log = 1, slog.New(slog.DiscardHandler)
			for i := range 24 {
				r.take(string(rune('a'+i%6)), i%2, int64(i), 100)
				r.now += 400_000
			}
			payload := streamtest.PayloadOf(records(r.since(0))...)
			calls := 0
			r.db.SetHook(func(memdb.Op) (bool, error) {
				calls++
				if calls < at {
					return true, nil
				}
				return calls == at && applied, memdb.Fail(store.Unavailable)
			})
			r.handle(payload) // nobody learns of the response
			r.db.SetHook(nil)
			if got := r.handle(payload); got != done {
				t.Fatalf("after a crash at write %d: %s", at, got)
			}
			if diff := r.inexact(); diff != "" {
				t.Fatalf("after a crash at write %d (applied: %v):\n%s", at, applied, diff)
			}
			if calls < at {
				break
			}
			crashes++
		}
	}
	t.Logf("usage: diff=0 after each of %d crashes", crashes)
	if crashes < 40 {
		t.Errorf("only %d crashes", crashes)
	}
}

// planted is a store with a weakness of the register put back in.
type planted struct {
	store.Lister
	change func(item.Update) item.Update
}

func (p planted) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if u, ok := w.(item.Update); ok {
		w = p.change(u)
	}
	return p.Lister.Write(ctx, w)
}

func isUsage(u item.Update) bool { return strings.HasPrefix(u.Key.SK, "#USAGE#") }

// The suite above must notice when a weakness comes back.
func TestPlantedDefectsAreCaught(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(*world)
	}{
		{"W9 the day and its first hour share a key", func(w *world) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				if isUsage(u) && len(u.Key.SK) == len("#USAGE#gpt#2006-01-02") {
					u.Key.SK += "T00:00:00Z"
				}
				return u
			}}
		}},
		{"W15 the first consumption is ignored", func(w *world) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					if !strings.Contains(string(r), `"eventName":"INSERT"`) {
						out = append(out, r)
					}
				}
				return out
			}
		}},
		{"W18 usage is added blindly", func(w *world) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				if isUsage(u) {
					u.If = nil
				}
				return u
			}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustCatch(t, 5, func(seed uint64) string {
				w := newWorld(t, seed)
				c.plant(w)
				w.live(150)
				return w.inexact()
			})
		})
	}
}

// mustCatch plays worlds until one tells what is wrong.
func mustCatch(t *testing.T, seeds uint64, play func(seed uint64) (wrong string)) {
	t.Helper()
	for seed := range seeds {
		if wrong := play(seed); wrong != "" {
			line, _, _ := strings.Cut(wrong, "\n")
			t.Logf("caught with seed %d: %s (and %d more)", seed, line, strings.Count(wrong, "\n")-1)
			return
		}
	}
	t.Error("not caught")
}
