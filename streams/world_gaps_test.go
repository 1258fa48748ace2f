package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// gapWorld is a history of buckets whose records reach the aggregator through
// tumbling windows, in which records and states are lost for good.
type gapWorld struct {
	*rig
	rand  *rand.Rand
	lanes []*tumbling

	drops, losses float64  // chance of a batch to be dropped, of a state to be lost
	foreign       bool     // items have no generation
	steady        bool     // no item is removed, no limit vanishes, and nothing is given back
	trouble       bool     // calls fail, and answers are lost
	behind        *laggard // whom the aggregator reads from; nil: the table
	deliver       func([]json.RawMessage) []json.RawMessage

	lost  map[int64]bool // changes that were never counted
	stats struct{ records, dropped, invocations, retries, finals, statesLost int }
}

// tumbling is a shard of the stream behind a mapping with a tumbling window.
type tumbling struct {
	index, of int
	next      int
	window    int64 // 0: none is open
	state     []byte
	held      []memdb.Change // delivered and in the state
}

const tumblingWindow = 60_000

func newGapWorld(t testing.TB, seed uint64) *gapWorld {
	w := &gapWorld{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 2)), lost: map[int64]bool{}}
	w.agg.log = slog.New(slog.DiscardHandler)
	w.deliver = func(r []json.RawMessage) []json.RawMessage { return r }
	w.agg.conf.Windows = []usage.Window{usage.Hourly, usage.Daily, usage.Monthly}
	w.split(2)
	return w
}

// split replaces the shards of the stream by others: what their windows held is
// counted first, as Lambda ends the windows of a shard that ends.
func (w *gapWorld) split(n int) {
	for _, l := range w.lanes {
		w.finish(l)
	}
	w.lanes = nil
	for i := range n {
		w.lanes = append(w.lanes, &tumbling{index: i, of: n, next: len(w.of(i, n))})
	}
}

// of returns the records of a lane.
func (w *gapWorld) of(index, of int) (all []memdb.Change) {
	for _, c := range w.since(0) {
		h := fnv.New32a()
		h.Write([]byte(c.Key.PK))
		if int(h.Sum32())%of == index {
			all = append(all, c)
		}
	}
	return all
}

// act lets a client do something to a bucket.
func (w *gapWorld) act() {
	entity, shard := string(rune('a'+w.rand.IntN(3))), w.rand.IntN(2)
	key := layout.BucketKey("ns", entity, "gpt", shard)
	it := w.db.Item(key)
	if it != nil && w.rand.IntN(25) == 0 && !w.steady {
		w.db.Delete(key)
		if w.rand.IntN(2) == 0 {
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
		case limit == "day" && !has && w.rand.IntN(8) > 0:
			continue
		case limit == "day" && has && w.rand.IntN(8) == 0 && !w.steady:
			delete(it, attr)
			changed = true
			continue
		}
		n := read(it, attr) + 1000*int64(w.rand.IntN(60)-5)
		if w.steady {
			n = max(n, read(it, attr))
		}
		it[attr] = item.N(max(0, n))
		changed = true
	}
	if changed && w.rand.IntN(15) == 0 {
		w.number(it, "gn", read(it, "gn")+1) // other limits, a split, a clock
	}
	it["rf"] = item.N(w.now)
	w.db.Store(it)
}

func (w *gapWorld) number(it item.Item, attr string, n int64) {
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

// step lets a lane go on by one invocation.
func (w *gapWorld) step(l *tumbling) {
	all := w.of(l.index, l.of)
	if len(l.state) > 0 && w.rand.Float64() < w.losses {
		w.loseState(l)
		return
	}
	if l.next >= len(all) || l.window != 0 && all[l.next].CreatedAt/tumblingWindow != l.window {
		w.finish(l)
		return
	}
	l.window = all[l.next].CreatedAt / tumblingWindow
	batch := all[l.next:min(len(all), l.next+1+w.rand.IntN(8))]
	for i, c := range batch {
		if c.CreatedAt/tumblingWindow != l.window {
			batch = batch[:i]
			break
		}
	}
	l.next += len(batch)
	w.stats.records += len(batch)
	if w.rand.Float64() < w.drops {
		w.stats.dropped += len(batch)
		for _, c := range batch {
			w.lost[c.Seq] = true
		}
		return
	}
	l.held = append(l.held, batch...)
	w.invoke(l, batch, w.rand.IntN(40) == 0)
	if w.rand.IntN(10) == 0 { // once more, whole, with the new state
		w.invoke(l, batch, false)
	}
}

func (w *gapWorld) loseState(l *tumbling) {
	w.stats.statesLost++
	s, err := usage.ParseState(l.state)
	if err != nil {
		w.t.Fatal(err)
	}
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
	if w.rand.IntN(2) == 0 {
		l.window = 0
	}
}

// finish ends the window of a lane.
func (w *gapWorld) finish(l *tumbling) {
	if l.window == 0 {
		return
	}
	w.invoke(l, nil, true)
}

func (w *gapWorld) invoke(l *tumbling, batch []memdb.Change, final bool) {
	w.stats.invocations++
	payload := windowed(w.deliver(records(batch)), l.state, final)
	out, err := w.handle(payload)
	for tries := 0; err != nil || w.rand.IntN(8) == 0; tries++ { // failed, or the answer was lost
		if err != nil && !w.trouble || tries > 100 {
			w.t.Fatal(err)
		}
		w.stats.retries++
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
		w.stats.finals++
		l.state, l.window, l.held = nil, 0, nil
	}
}

// handle lets the aggregator handle a payload, in trouble if there is any.
func (w *gapWorld) handle(payload []byte) ([]byte, error) {
	if w.behind != nil && (w.now > w.behind.at+10_000 || w.rand.IntN(2) == 0) {
		w.behind.remember()
	}
	if !w.trouble {
		return w.agg.Invoke(w.t.Context(), payload)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.db.SetHook(trouble(w.rand.Uint64(), 30, store.Throttled, cancel))
	defer w.db.SetHook(nil)
	return w.agg.Invoke(ctx, payload)
}

// windowed is the payload of an invocation within a tumbling window of a minute.
func windowed(records []json.RawMessage, state []byte, final bool) []byte {
	return windowedFor(time.Minute, records, state, final)
}

// windowedFor is the payload of an invocation within a tumbling window.
func windowedFor(length time.Duration, records []json.RawMessage, state []byte, final bool) []byte {
	if state == nil {
		state = []byte("{}")
	}
	return fmt.Appendf(nil, `{"window":{"start":%q,"end":%q},"state":%s,"shardId":"shardId-1",`+
		`"eventSourceARN":"arn","isFinalInvokeForWindow":%t,"isWindowTerminatedEarly":false,%s`,
		layout.Timestamp(t0), layout.Timestamp(t0+length.Milliseconds()), state, final, streamtest.PayloadOf(records...)[1:])
}

// live plays the world and lets it come to rest: everything is delivered or lost,
// all windows have ended, and what longer windows were owed is counted.
func (w *gapWorld) live(steps int) {
	for range steps {
		switch n := w.rand.IntN(20); {
		case n == 0:
			w.now += int64(w.rand.IntN(40 * 3_600_000))
		case n == 1:
			w.now += int64(w.rand.IntN(2 * 3_600_000))
		case n == 2 && w.rand.IntN(4) == 0:
			for _, l := range w.lanes {
				w.drain(l)
			}
			w.split(1 + w.rand.IntN(4))
		case n < 9:
			w.step(w.lanes[w.rand.IntN(len(w.lanes))])
		default:
			w.now += int64(w.rand.IntN(20_000))
			w.act()
		}
	}
	for _, l := range w.lanes {
		w.drain(l)
	}
	for range 2 { // the claim of one that died has to end
		w.now += 2 * 3_600_000
		w.trouble = false
		w.lanes[0].window = 1
		w.finish(w.lanes[0])
	}
}

// outage lets a day go by of which every record is lost.
func (w *gapWorld) outage() {
	drops := w.drops
	w.drops = 1
	for range 48 {
		w.now += 1_800_000
		w.act()
	}
	for _, l := range w.lanes {
		for l.next < len(w.of(l.index, l.of)) {
			w.step(l)
		}
	}
	w.drops = drops
}

func (w *gapWorld) drain(l *tumbling) {
	for l.next < len(w.of(l.index, l.of)) || l.window != 0 {
		w.step(l)
	}
}

// naive says what the snapshots must count: it walks the records of each shard and
// looks at what was lost between.
func (w *gapWorld) naive() map[string]int64 {
	out := map[string]int64{}
	byShard := map[item.Key][]memdb.Change{}
	for _, c := range w.since(0) {
		if c.Old == nil || c.New == nil || !maps.Equal(counters(c.Old), counters(c.New)) ||
			read(c.Old, "gn") != read(c.New, "gn") {
			byShard[c.Key] = append(byShard[c.Key], c)
		}
	}
	for key, all := range byShard {
		w.naiveShard(key, all, out)
	}
	maps.DeleteFunc(out, func(_ string, n int64) bool { return n == 0 })
	return out
}

func (w *gapWorld) naiveShard(key item.Key, all []memdb.Change, out map[string]int64) {
	add := func(at int64, limit string, n int64) {
		ns, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		for _, kind := range w.agg.conf.Windows {
			k := layout.UsageKey(ns, entity, resource, kind.Part(kind.Start(at)))
			out[k.PK+k.SK+" "+limit] += n
		}
	}
	var last *memdb.Change
	gap, window := false, int64(0) // of the last record that counted something
	for i, c := range all {
		if w.lost[c.Seq] {
			gap = true
			continue
		}
		before, after := counters(c.Old), counters(c.New)
		first := w.begun(c.Old)
		switch {
		case c.Old == nil:
		case window == 0 && first != 0: // nothing was counted
			for limit, n := range before {
				add(first, limit, n)
			}
			if slices.Max(append(slices.Collect(maps.Values(before)), 0)) > 0 {
				window = first
			}
		case gap && window != 0:
			base := counters(last.New)
			life := table.GenerationByte(read(c.Old, "gn")) // of different ones, one in 255 pairs look the same
			if last.New != nil && table.GenerationByte(read(last.New, "gn")) != life || life == 0 {
				for limit, n := range before { // the life may be another one
					if m, ok := base[limit]; ok && n < m {
						base = nil
						break
					}
				}
			}
			for limit, n := range before {
				add(window, limit, n-base[limit])
			}
		}
		if c.New != nil {
			for limit, n := range after {
				if n != before[limit] {
					window = c.CreatedAt
				}
				add(c.CreatedAt, limit, n-before[limit])
			}
		}
		last, gap = &all[i], false
	}
}

// begun returns the start of the hour in which an item was created, 0 if it does not
// say, or says an instant too near to the turn of the hour.
func (w *gapWorld) begun(it item.Item) int64 {
	const hour, near = 3_600_000, 10_000
	born := read(it, "bn") * 1000
	if at := born % hour; born == 0 || at < near || at+1000 > hour-near {
		return 0
	}
	return born - born%hour
}

// counters are the whole tokens that an item has counted.
func counters(it item.Item) map[string]int64 {
	out := map[string]int64{}
	for attr := range it {
		if name, ok := strings.CutSuffix(attr, "_tc"); ok && attr != "b_wcu_tc" {
			out[strings.TrimPrefix(name, "b_")] = read(it, attr) / 1000
		}
	}
	return out
}

// compare returns how the snapshots differ from what they must count.
func (w *gapWorld) compare() string {
	got := map[string]int64{}
	var b strings.Builder
	for _, it := range w.db.Items() {
		if k := item.KeyOf(it); ledger.WindowOf(it) != "" {
			s, err := ledger.DecodeSnapshot(it)
			if err != nil {
				w.t.Fatal(err)
			}
			if others := ledger.MarksOf(it).Others(); len(others) > 0 {
				fmt.Fprintf(&b, "%s: others seem to have counted %v\n", k.SK, others)
			}
			for limit, n := range s.Counts {
				if n != 0 {
					got[k.PK+k.SK+" "+limit] = n
				}
			}
		}
	}
	return b.String() + differences(got, w.naive())
}

// Usage equals the growth of the counters in every window, whatever records and
// states are lost, as long as a later record of the bucket is seen.
func TestUsageHealsFromWhatIsLost(t *testing.T) {
	for _, c := range []struct {
		name             string
		drops, losses    float64
		foreign, trouble bool
		behind, outage   bool
	}{
		{"nothing", 0, 0, false, false, false, false}, {"batches", 0.1, 0, false, false, false, false},
		{"states", 0, 0.1, false, false, false, false}, {"both", 0.15, 0.1, false, false, false, false},
		{"both, no generations", 0.15, 0.1, true, false, false, false},
		{"batches, in trouble", 0.1, 0, false, true, false, false},
		{"nothing, reads are behind", 0, 0, false, false, true, false},
		{"both, reads are behind", 0.15, 0.1, false, false, true, false},
		{"a day of outage", 0, 0, false, false, false, true},
		{"a day of outage, batches, in trouble", 0.1, 0, false, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worlds := uint64(10)
			if testing.Short() {
				worlds = 4
			}
			var sum gapWorld
			for seed := range worlds {
				w := newGapWorld(t, seed)
				w.drops, w.losses, w.foreign, w.trouble = c.drops, c.losses, c.foreign, c.trouble
				if c.behind {
					w.behind = w.lag()
				}
				if c.outage {
					w.live(100)
					w.outage()
					w.live(100)
				} else {
					w.live(250)
				}
				if diff := w.compare(); diff != "" {
					t.Fatalf("seed %d: %+v\n%s", seed, w.stats, diff)
				}
				sum.stats.records += w.stats.records
				sum.stats.dropped += w.stats.dropped
				sum.stats.statesLost += w.stats.statesLost
				sum.stats.finals += w.stats.finals
				sum.stats.retries += w.stats.retries
				sum.stats.invocations += w.stats.invocations
			}
			t.Logf("usage: diff=0 over %+v", sum.stats)
		})
	}
}

// The worlds above must notice what marks, generations and old images are for.
func TestPlantedDefectsOfHealingAreCaught(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(*gapWorld)
	}{
		{"the mark is ignored", func(w *gapWorld) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				if isUsage(u) {
					u.If = nil
				}
				return u
			}}
		}},
		{"the generation is ignored", func(w *gapWorld) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					out = append(out, json.RawMessage(strings.ReplaceAll(string(r), `"gn"`, `"no"`)))
				}
				return out
			}
		}},
		{"the beginning is ignored", func(w *gapWorld) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					out = append(out, json.RawMessage(strings.ReplaceAll(string(r), `"bn"`, `"no"`)))
				}
				return out
			}
		}},
		{"the old image of a gap is ignored", func(w *gapWorld) { w.deliver = withoutGaps() }},
		{"what longer windows owe is lost", func(w *gapWorld) {
			w.agg.store = planted{w.db, func(u item.Update) item.Update {
				if u.Key == ledger.OwedCursorKey() {
					u.If = item.Exists("never")
				}
				return u
			}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustCatch(t, 20, func(seed uint64) string {
				w := newGapWorld(t, seed)
				w.drops, w.losses = 0.15, 0.05
				c.plant(w)
				w.live(250)
				return w.compare()
			})
		})
	}
}

// withoutGaps gives every record the new image of the one that was delivered
// before it as its old image, as an aggregator sees it that remembers instead.
func withoutGaps() func([]json.RawMessage) []json.RawMessage {
	type record struct {
		EventName string `json:"eventName"`
		DynamoDB  struct {
			Keys               json.RawMessage
			NewImage, OldImage json.RawMessage `json:",omitempty"`
			SequenceNumber     string
			Created            json.RawMessage `json:"ApproximateCreationDateTime"`
		} `json:"dynamodb"`
		ARN string `json:"eventSourceARN"`
	}
	last := map[string]record{}
	return func(recs []json.RawMessage) (out []json.RawMessage) {
		for _, raw := range recs {
			var r record
			if err := json.Unmarshal(raw, &r); err != nil {
				panic(err)
			}
			k := string(r.DynamoDB.Keys)
			if before := last[k]; before.DynamoDB.NewImage != nil && r.EventName == "MODIFY" &&
				before.DynamoDB.SequenceNumber < r.DynamoDB.SequenceNumber {
				r.DynamoDB.OldImage = before.DynamoDB.NewImage
			}
			last[k] = r
			edited, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			out = append(out, edited)
		}
		return out
	}
}

// What counts nothing, a removal or another generation, belongs to the window that
// counted the bucket last: so what is lost behind it is judged, and counted, there,
// whether or not both are written at once.
func TestGapsBehindWhatCountsNothing(t *testing.T) {
	key := layout.BucketKey("ns", "a", "gpt", 0)
	for _, c := range []struct {
		name    string
		history func(w *gapWorld, lost func(change func()))
	}{
		{"another generation", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			w.put(key, 2, 100)
			w.drain(w.lanes[0])
			lost(func() { w.put(key, 2, 98) }) // given back
			w.now += 3_600_000
			w.put(key, 2, 103)
		}},
		{"a removal", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			lost(func() { w.put(key, 2, 7) })
			w.put(key, 2, 9)
		}},
		{"a removal, written before", func(w *gapWorld, lost func(func())) {
			w.put(key, 1, 100)
			w.now += 3_600_000
			w.db.Delete(key)
			w.drain(w.lanes[0])
			lost(func() { w.put(key, 2, 7) })
			w.put(key, 2, 9)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newGapWorld(t, 1)
			w.split(1)
			c.history(w, func(change func()) {
				for l := w.lanes[0]; l.next < len(w.since(0)); {
					w.step(l)
				}
				change()
				w.lost[w.since(0)[len(w.since(0))-1].Seq] = true
				w.lanes[0].next++
			})
			w.live(0)
			if diff := w.compare(); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// born lets a client create a bucket with a counter of whole tokens.
func (w *gapWorld) born(key item.Key, used int64) {
	_, entity, _, shard, _ := layout.ParseBucketPK(key.PK)
	b := w.bucket(entity, shard)
	it := b.Item()
	it["gn"], it["bn"], it["rf"] = item.N(1), item.N(w.now/1000), item.N(w.now)
	it["b_rpm_tc"], it["b_tpm_tc"] = item.N(used*1000), item.N(0)
	w.db.Store(it)
}

// put lets a client leave a bucket with a counter of whole tokens.
func (w *gapWorld) put(key item.Key, generation, used int64) {
	_, entity, _, shard, _ := layout.ParseBucketPK(key.PK)
	b := w.bucket(entity, shard)
	it := b.Item()
	it["gn"], it["rf"], it["b_rpm_tc"], it["b_tpm_tc"] = item.N(generation), item.N(w.now), item.N(used*1000), item.N(0)
	if old := w.db.Item(key); old["bn"] != nil {
		it["bn"] = old["bn"]
	}
	w.db.Store(it)
}
