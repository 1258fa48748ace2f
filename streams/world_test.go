package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// world is a history of buckets. Their records reach the aggregator in batches, mostly in tumbling
// windows. Some records and states are lost for good.
type world struct {
	*rig
	*loadchecktest.Run
	lanes []*lane

	drops, losses float64 // chance that a batch is dropped, that a state is lost
	plain         bool    // no tumbling windows: a batch resumes as the response says, and may be repeated
	crashes       bool    // without windows: the process dies in the middle of a batch
	foreign       bool    // items have no generation
	steady        bool    // no item is removed, no limit disappears, and nothing is given back
	trouble       bool    // calls fail, and answers are lost
	oneIn         int     // without windows: one call in so many each fails, or is slowed down by busy
	busy          store.Kind
	again         int      // without windows: a batch repeats up to so many earlier records
	behind        *laggard // the source of the aggregator's reads; nil: the table
	deliver       func([]json.RawMessage) []json.RawMessage

	lost map[int64]bool // never counted

	steps, outageAt int // after outageAt steps, all records of a day are lost
}

// lane is a shard of the stream as an event source mapping reads it: batches in order, with or
// without a tumbling window.
type lane struct {
	index, of int
	all       []memdynamo.Change // the records up to read, which w.of updates
	read      int64
	next      int
	window    int64 // 0: no window is open
	state     []byte
	held      []memdynamo.Change   // delivered, and in the state
	batches   [][]memdynamo.Change // all delivered batches, without windows
}

const tumblingWindow = 60_000

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{rig: newRig(t), Run: loadchecktest.NewRun(seed, 2), lost: map[int64]bool{}}
	w.agg.log = slog.New(slog.DiscardHandler)
	w.deliver = func(r []json.RawMessage) []json.RawMessage { return r }
	w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}
	w.split(2)
	return w
}

// split replaces the shards of the stream by others. First their windows are counted, as Lambda
// does when a shard ends.
func (w *world) split(n int) {
	for _, l := range w.lanes {
		w.finish(l)
	}
	w.lanes = nil
	for i := range n {
		l := &lane{index: i, of: n}
		l.next = len(w.of(l))
		w.lanes = append(w.lanes, l)
	}
}

// of returns the records of a lane, and reads only new ones.
func (w *world) of(l *lane) []memdynamo.Change {
	for _, c := range w.since(l.read) {
		l.read = c.Seq
		h := fnv.New32a()
		h.Write([]byte(c.Key.PK))
		if int(h.Sum32())%l.of == l.index {
			l.all = append(l.all, c)
		}
	}
	return l.all
}

// act makes a client act on a bucket.
func (w *world) act() {
	entity, shard := string(rune('a'+w.IntN(3))), w.IntN(2)
	key := layout.BucketKey("ns", entity, "gpt", shard)
	it := w.db.Item(key)
	if it != nil && w.IntN(25) == 0 && !w.steady {
		w.db.Delete(key)
		if w.IntN(2) == 0 {
			return
		}
		it = nil // created again at once
	}
	if it == nil {
		b := w.bucket(entity, shard)
		it = b.Item()
		w.number(it, "gn", w.now)
		w.number(it, "bn", w.now/1000)
		if w.steady {
			it["shard_count"] = item.N(2)
		}
	}
	changed := false
	for _, limit := range []string{"rpm", "tpm", "day"} {
		attr := "b_" + limit + "_tc"
		_, has := it[attr]
		switch {
		case limit == "day" && !has && w.IntN(8) > 0:
			continue
		case limit == "day" && has && w.IntN(8) == 0 && !w.steady:
			delete(it, attr)
			changed = true
			continue
		}
		n := read(it, attr) + 1000*int64(w.IntN(60)-5)
		if w.steady {
			n = max(n, read(it, attr))
		}
		it[attr] = item.N(max(0, n))
		changed = true
	}
	if changed && w.IntN(15) == 0 {
		w.number(it, "gn", read(it, "gn")+1) // other limits, a split, a clock
	}
	it["rf"] = item.N(w.now)
	w.db.Store(it)
}

func (w *world) number(it item.Item, attr string, n int64) {
	if !w.foreign {
		it[attr] = item.N(n)
	}
}

func read(it item.Item, attr string) int64 {
	v, ok := it[attr].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// step advances a lane by one invocation.
func (w *world) step(l *lane) {
	all := w.of(l)
	if w.plain {
		w.stepPlain(l, all)
		return
	}
	if len(l.state) > 0 && w.Float64() < w.losses {
		w.loseState(l)
		return
	}
	if l.next >= len(all) || l.window != 0 && all[l.next].CreatedAt/tumblingWindow != l.window {
		w.finish(l)
		return
	}
	l.window = all[l.next].CreatedAt / tumblingWindow
	batch := all[l.next:min(len(all), l.next+1+w.IntN(8))]
	for i, c := range batch {
		if c.CreatedAt/tumblingWindow != l.window {
			batch = batch[:i]
			break
		}
	}
	l.next += len(batch)
	w.Count("batches")
	if w.Float64() < w.drops {
		w.Count("dropped")
		for _, c := range batch {
			w.lost[c.Seq] = true
		}
		return
	}
	l.held = append(l.held, batch...)
	w.invoke(l, batch, w.OneIn(40))
	if w.OneIn(10) { // once more, completely, with the new state
		w.invoke(l, batch, false)
	}
}

// stepPlain delivers a batch, parts of it twice. The lane advances as the response says, and
// without a response not at all.
func (w *world) stepPlain(l *lane, all []memdynamo.Change) {
	from := max(0, l.next-w.IntN(1+w.again))
	batch := all[from:min(len(all), l.next+1+w.IntN(10))]
	if len(batch) == 0 {
		return
	}
	l.batches = append(l.batches, batch)
	w.Count("batches")
	out, ok := w.handlePlain(batch)
	if !ok {
		w.Count("crashed")
		return
	}
	n := w.acknowledged(out, batch)
	if l.next = from + n; n < len(batch) {
		w.Count("resumed")
	}
}

// handlePlain handles records. It is not ok if the process died without a response.
func (w *world) handlePlain(batch []memdynamo.Change) (out []byte, ok bool) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	crash, call, dead := -1, 0, false
	if w.crashes && w.OneIn(6) {
		crash = w.IntN(6)
	}
	meet := memdynamo.Hook(func(memdynamo.Op) (bool, error) { return true, nil })
	if w.trouble {
		meet = trouble(w.Uint64(), w.oneIn, w.busy, cancel)
	}
	var mu sync.Mutex // writes are concurrent
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if call++; dead || call > crash && crash >= 0 {
			applied := !dead && w.OneIn(2)
			dead = true
			return applied, memdynamo.Fail(store.Unknown)
		}
		return meet(op)
	})
	defer w.db.SetHook(nil)
	out, err := w.agg.Invoke(ctx, streamtest.PayloadOf(w.deliver(records(batch))...))
	check.Must(w.t, err)
	return out, !dead
}

func (w *world) loseState(l *lane) {
	w.Count("states lost")
	s, err := usage.ParseState(l.state)
	check.Must(w.t, err)
	for _, c := range l.held {
		at := ledger.PositionOf(0, c.SequenceNumber())
		for _, p := range s.Parts {
			first := p.Runs[0].First
			at.Stream = first.Stream
			if layout.BucketKey(p.Namespace, p.Entity, p.Resource, p.Shard) == c.Key && first.Compare(at) <= 0 {
				w.lost[c.Seq] = true
			}
		}
	}
	l.state, l.held = nil, nil
	if w.IntN(2) == 0 {
		l.window = 0
	}
}

// finish ends the window of a lane.
func (w *world) finish(l *lane) {
	if l.window == 0 {
		return
	}
	w.invoke(l, nil, true)
}

func (w *world) invoke(l *lane, batch []memdynamo.Change, final bool) {
	w.Count("invocations")
	payload := windowed(w.deliver(records(batch)), l.state, final)
	out, err := w.handle(payload)
	for tries := 0; err != nil || w.IntN(8) == 0; tries++ { // it failed, or the answer was lost
		if err != nil && !w.trouble || tries > 100 {
			w.t.Fatal(err)
		}
		w.Count("retries")
		out, err = w.handle(payload)
	}
	var response struct {
		State             json.RawMessage
		BatchItemFailures []any
	}
	if err := json.Unmarshal(out, &response); err != nil || len(response.State) == 0 ||
		len(response.BatchItemFailures) > 0 {
		w.t.Fatalf("response %s, %v", out, err)
	}
	l.state = response.State
	if final {
		w.Count("finals")
		l.state, l.window, l.held = nil, 0, nil
	}
}

// handle makes the aggregator handle a payload, with trouble if enabled.
func (w *world) handle(payload []byte) ([]byte, error) {
	if w.behind != nil && (w.now > w.behind.at+10_000 || w.IntN(2) == 0) {
		w.behind.remember()
	}
	if !w.trouble {
		return w.agg.Invoke(w.t.Context(), payload)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.db.SetHook(trouble(w.Uint64(), 30, store.Throttled, cancel))
	defer w.db.SetHook(nil)
	return w.agg.Invoke(ctx, payload)
}

// windowed returns the payload of an invocation in a tumbling window of a minute.
func windowed(records []json.RawMessage, state []byte, final bool) []byte {
	if state == nil {
		state = []byte("{}")
	}
	return fmt.Appendf(nil, `{"window":{"start":%q,"end":%q},"state":%s,"shardId":"shardId-1",`+
		`"eventSourceARN":"arn","isFinalInvokeForWindow":%t,"isWindowTerminatedEarly":false,%s`,
		layout.Timestamp(t0), layout.Timestamp(t0+tumblingWindow), state, final, streamtest.PayloadOf(records...)[1:])
}

// Step lets clients and lanes act.
func (w *world) Step() {
	if w.steps++; w.steps == w.outageAt {
		w.outage()
	}
	switch n := w.IntN(20); {
	case n == 0:
		w.now += w.Int64N(40 * 3_600_000)
	case n == 1:
		w.now += w.Int64N(2 * 3_600_000)
	case n == 2 && w.plain: // an old batch is repeated completely
		if l := w.lanes[w.IntN(len(w.lanes))]; len(l.batches) > 0 {
			w.Count("duplicates")
			w.handlePlain(l.batches[w.IntN(len(l.batches))]) // only if it is already done: Lambda does not read ahead
		}
	case n == 2 && w.OneIn(4):
		for _, l := range w.lanes {
			w.drain(l)
		}
		w.split(1 + w.IntN(4))
	case n < 9:
		w.step(w.lanes[w.IntN(len(w.lanes))])
	default:
		w.now += w.Int64N(20_000)
		w.act()
	}
}

// End brings the world to rest: everything is delivered or lost, all windows have ended, and the
// owed longer windows are counted.
func (w *world) End() {
	for _, l := range w.lanes {
		w.drain(l)
	}
	for range 2 { // the claim of a dead process must end
		if w.plain {
			break
		}
		w.now += 2 * 3_600_000
		w.trouble = false
		w.lanes[0].window = 1
		w.finish(w.lanes[0])
	}
	if diff := w.compare(); diff != "" {
		w.Fail("%s", diff)
	}
	w.Done["windows"] = len(w.naive())
}

// live runs so many steps, and brings the world to rest.
func (w *world) live(steps int) {
	for range steps {
		w.Step()
	}
	w.End()
}

func (w *world) drain(l *lane) {
	for tries := 0; l.next < len(w.of(l)) || l.window != 0; tries++ {
		if tries > 10_000 {
			w.t.Fatal("the lane does not end")
		}
		w.step(l)
	}
}
