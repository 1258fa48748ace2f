package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// outage lets a day pass, with all its records lost.
func (w *world) outage() {
	drops := w.drops
	w.drops = 1
	for range 48 {
		w.now += 1_800_000
		w.act()
	}
	for _, l := range w.lanes {
		for l.next < len(w.of(l)) {
			w.step(l)
		}
	}
	w.drops = drops
}

// naive returns the expected counts of the snapshots. It goes through the records of each shard,
// including the lost ones in between.
func (w *world) naive() map[string]int64 {
	out := map[string]int64{}
	byShard := map[item.Key][]memdynamo.Change{}
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

func (w *world) naiveShard(key item.Key, all []memdynamo.Change, out map[string]int64) {
	add := func(at int64, limit string, n int64) {
		ns, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		for _, kind := range w.agg.conf.Windows {
			k := layout.UsageKey(ns, entity, resource, kind.Part(kind.Start(at)))
			out[k.PK+k.SK+" "+limit] += n
		}
	}
	var last *memdynamo.Change
	gap, window := false, int64(0) // the window of the last record that counted something
	for i, c := range all {
		if w.lost[c.Seq] {
			gap = true
			continue
		}
		before, after := counters(c.Old), counters(c.New)
		first := w.begun(c.Old)
		switch {
		case c.Old == nil:
		case window == 0 && first != 0: // nothing was counted before
			for limit, n := range before {
				add(first, limit, n)
			}
			if slices.Max(append(slices.Collect(maps.Values(before)), 0)) > 0 {
				window = first
			}
		case gap && window != 0:
			base := counters(last.New)
			life := table.GenerationByte(read(c.Old, "gn")) // one in 255 pairs of different lives has the same byte
			if last.New != nil && table.GenerationByte(read(last.New, "gn")) != life || life == 0 {
				for limit, n := range before { // possibly of another life
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

// begun returns the start of the hour in which an item was created. It returns 0 if that is not
// stored, or too close to a full hour.
func (w *world) begun(it item.Item) int64 {
	const hour, near = 3_600_000, 10_000
	born := read(it, "bn") * 1000
	if at := born % hour; born == 0 || at < near || at+1000 > hour-near {
		return 0
	}
	return born - born%hour
}

// counters returns the counted whole tokens of an item.
func counters(it item.Item) map[string]int64 {
	out := map[string]int64{}
	for attr := range it {
		if name, ok := strings.CutSuffix(attr, "_tc"); ok && attr != "b_wcu_tc" {
			out[strings.TrimPrefix(name, "b_")] = read(it, attr) / 1000
		}
	}
	return out
}

// compare returns how the snapshots differ from the expected counts.
func (w *world) compare() string {
	got := map[string]int64{}
	var b strings.Builder
	for _, it := range w.db.Items() {
		if k := item.KeyOf(it); ledger.WindowOf(it) != "" {
			s, err := ledger.DecodeSnapshot(it)
			check.Must(w.t, err)
			if others := ledger.MarksOf(it).Others(); len(others) > 0 {
				fmt.Fprintf(&b, "%s: counted as others' %v\n", k.SK, others)
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

// Usage equals the growth of the counters in every window, whatever records and states are lost,
// once a later record of the bucket arrives.
func TestUsageRecoversLostRecords(t *testing.T) {
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
			kind(t, 250, 10, func(w *world) {
				w.drops, w.losses, w.foreign, w.trouble = c.drops, c.losses, c.foreign, c.trouble
				if c.behind {
					w.behind = w.lag()
				}
				if c.outage {
					w.outageAt = 100
				}
			}, nil).Keeps(t)
		})
	}
}

// The worlds above must fail without marks, generations or old images.
func TestPlantedDefectsOfRecoveryAreCaught(t *testing.T) {
	without := func(attr string) func(*world) {
		return func(w *world) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					out = append(out, json.RawMessage(strings.ReplaceAll(string(r), strconv.Quote(attr), `"no"`)))
				}
				return out
			}
		}
	}
	plants := map[string]func(*world){
		"the mark is ignored":               blindly,
		"the generation is ignored":         without("gn"),
		"the beginning is ignored":          without("bn"),
		"the old image of a gap is ignored": func(w *world) { w.deliver = withoutGaps() },
		"owed longer windows are lost": stores(func(_ *world, u *item.Update) {
			if u.Key == ledger.OwedCursorKey() {
				u.If = item.Exists("never")
			}
		}),
	}
	kind(t, 250, 0, func(w *world) { w.drops, w.losses = 0.15, 0.05 }, plants).
		Sees(t, 20, 1, slices.Sorted(maps.Keys(plants))...)
}

// withoutGaps replaces the old image of every record by the new image of the last delivered one,
// like an aggregator that remembers images.
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

// born makes a client create a bucket with a counter of whole tokens.
func (w *world) born(key item.Key, used int64) {
	_, entity, _, shard, _ := layout.ParseBucketPK(key.PK)
	b := w.bucket(entity, shard)
	it := b.Item()
	it["gn"], it["bn"], it["rf"] = item.N(1), item.N(w.now/1000), item.N(w.now)
	it["b_rpm_tc"], it["b_tpm_tc"] = item.N(used*1000), item.N(0)
	w.db.Store(it)
}

// put makes a client store a bucket with a counter of whole tokens.
func (w *world) put(key item.Key, generation, used int64) {
	_, entity, _, shard, _ := layout.ParseBucketPK(key.PK)
	b := w.bucket(entity, shard)
	it := b.Item()
	it["gn"], it["rf"], it["b_rpm_tc"], it["b_tpm_tc"] = item.N(generation), item.N(w.now), item.N(used*1000), item.N(0)
	if old := w.db.Item(key); old["bn"] != nil {
		it["bn"] = old["bn"]
	}
	w.db.Store(it)
}

// kind returns worlds with so many steps. setup changes a world, and plants defects.
func kind(t *testing.T, steps, worlds int, setup func(*world),
	plants map[string]func(*world)) loadchecktest.Kind[*world] {
	return loadchecktest.Kind[*world]{Steps: steps, Worlds: worlds, Short: (2*worlds + 4) / 5,
		New: func(seed uint64, planted string) *world {
			w := newWorld(t, seed)
			if setup(w); plants[planted] != nil {
				plants[planted](w)
			}
			return w
		}}
}

// plainly makes a world without tumbling windows, in which the process also dies.
func plainly(w *world) {
	w.plain, w.crashes, w.trouble, w.oneIn, w.busy = true, true, true, 40, store.Conflict
	w.agg.conf.Windows = w.agg.conf.Windows[:2]
	w.agg.concurrency = 1 + w.IntN(4)
	w.split(3)
}

// I5: the sum of the snapshots is the growth of the counters, per window, with duplicates, lost
// answers, refusals, half-failed batches and crashes.
func TestUsageIsExactUnderTrouble(t *testing.T) {
	k := kind(t, 150, 30, plainly, nil)
	k.Least = map[string]float64{"windows": 34, "resumed": 3.4, "crashed": 1.7, "duplicates": 3.4}
	k.Keeps(t)
}

// I5: the process dies at any write, before or after it took effect.
func TestUsageIsExactAfterACrashAtEveryWrite(t *testing.T) {
	crashes := 0
	for _, applied := range []bool{false, true} {
		for at := 1; ; at++ {
			r := newRig(t)
			r.agg.concurrency, r.agg.log = 1, slog.New(slog.DiscardHandler)
			r.agg.conf.Windows = append(r.agg.conf.Windows, usage.Monthly)
			for i := range 24 {
				r.take(string(rune('a'+i%6)), i%2, int64(i), 100)
				r.now += 400_000
			}
			payload := r.payload()
			calls := 0
			r.db.SetHook(func(memdynamo.Op) (bool, error) {
				calls++
				if calls < at {
					return true, nil
				}
				return calls == at && applied, memdynamo.Fail(store.Unavailable)
			})
			r.handle(payload) // the response is lost
			r.db.SetHook(nil)
			check.MustEqual(t, r.handle(payload), done, "after a crash at write %d", at)
			check.MustEqual(t, r.inexact(), "", "after a crash at write %d (applied: %v)", at, applied)
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

// planted is a store with a known weakness.
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

// The suite above must detect each of these defects.
func TestPlantedDefectsAreCaught(t *testing.T) {
	plants := map[string]func(*world){
		"W9 the day and its first hour share a key": stores(func(_ *world, u *item.Update) {
			if isUsage(*u) && len(u.Key.SK) == len("#USAGE#gpt#2006-01-02") {
				u.Key.SK += "T00:00:00Z"
			}
		}),
		"W15 the first consumption is ignored": func(w *world) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					if !strings.Contains(string(r), `"eventName":"INSERT"`) {
						out = append(out, r)
					}
				}
				return out
			}
		},
		"W18 usage is added without a condition": blindly,
	}
	kind(t, 150, 0, plainly, plants).Sees(t, 5, 1, slices.Sorted(maps.Keys(plants))...)
}

// stores plants a change of the aggregator's writes.
func stores(change func(*world, *item.Update)) func(*world) {
	return func(w *world) {
		w.agg.store = planted{w.db, func(u item.Update) item.Update { change(w, &u); return u }}
	}
}

// blindly writes usage without a condition.
var blindly = stores(func(_ *world, u *item.Update) {
	if isUsage(*u) {
		u.If = nil
	}
})
