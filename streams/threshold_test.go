package streams

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
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

// budget is a quota with a period of two hours.
var budget = bucket.Limit{Name: "budget", Capacity: 40_000, Period: bucket.QuotaPeriod, Reset: "m0h*/2@UTC"}

const budgetPeriod = 2 * 3_600_000

// budgetShard returns a shard of a bucket with the budget, at t0, unspent.
func budgetShard(k, n int) table.Shard {
	s := bucket.New([]bucket.Limit{budget}, k, n, t0)
	return table.Shard{Namespace: "ns", Entity: "e", Resource: "gpt", State: s}
}

// spentShard is a budgetShard of which so much is spent.
func spentShard(k, n int, milli int64) table.Shard {
	b := budgetShard(k, n)
	b.State = b.State.Take([]int64{milli, 1000})
	return b
}

// quotaWorld is a bucket with a quota that is charged, given back to, divided and merged. Its
// stream is read in pieces, by calls that fail and lose their answers.
type quotaWorld struct {
	*world
	spent   map[int64]int64        // by the end of the period
	reached map[int64]map[int]bool // percents that were reached at any time
	must    map[int64]map[int]bool // percents that must be reported
	lines   *lines
	alerts  alerts
}

// lines are the logged thresholds.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	seen map[string]int
}

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "quota threshold" {
		var percent, end int64
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "percent":
				percent = a.Value.Int64()
			case "resets_at_ms":
				end = a.Value.Int64()
			}
			return true
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[fmt.Sprint(end, " ", percent)]++
	}
	return l.Handler.Handle(ctx, r)
}

func newQuotaWorld(t *testing.T, seed uint64) *quotaWorld {
	w := &quotaWorld{world: newWorld(t, seed), spent: map[int64]int64{}, reached: map[int64]map[int]bool{},
		must: map[int64]map[int]bool{}}
	w.plain, w.oneIn, w.busy, w.again = true, 12, store.Throttled, 2
	w.agg.conf.Windows = w.agg.conf.Windows[:2]
	w.split(1)
	w.lines = &lines{Handler: slog.NewTextHandler(io.Discard, nil), seen: map[string]int{}}
	w.agg.log, w.agg.alert = slog.New(w.lines), w.alerts.send
	w.alerts.fails = func(n int) (sent bool, err error) { // one in three is not sent, one in four is unknown
		if w.trouble && n%3 == 0 {
			return false, errDown
		}
		if w.trouble && n%4 == 0 {
			return true, errDown
		}
		return true, nil
	}
	w.agg.conf.MergeAfter = 1000
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "gpt",
		Costs: table.Costs([]bucket.Limit{budget}, 0), Now: w.now, Draw: seed})
	w.write(put)
	return w
}

func (w *quotaWorld) write(writes ...item.Write) bool {
	var err error
	if len(writes) == 1 {
		_, err = w.db.Write(w.t.Context(), writes[0])
	} else {
		err = w.db.Transact(w.t.Context(), fmt.Sprint(w.Uint64()), writes)
	}
	return err == nil
}

// shard returns a random existing shard.
func (w *quotaWorld) shard() table.Shard {
	for {
		it := w.db.Item(layout.BucketKey("ns", "e", "gpt", w.IntN(8)))
		if b, err := table.DecodeShard(it); err == nil {
			return b
		}
	}
}

// charge takes tokens from a shard, or gives some back.
func (w *quotaWorld) charge() {
	b := w.shard()
	cost := w.Int64N(6) * bucket.Milli
	force := w.IntN(5) == 0
	if force && w.IntN(2) == 0 {
		cost = -cost
	}
	plan := table.Charge{Image: b, Costs: table.Costs([]bucket.Limit{budget}, cost), Now: w.now, Force: force}.Plan()
	i := plan.Before.Index("budget")
	if !plan.Verdict.Granted && !force || plan.Before.Slots[i].Tokens-cost > plan.Before.CapacityOf(budget) {
		return // only taken tokens are given back
	}
	if !w.write(plan.Update) {
		return
	}
	after, err := table.DecodeShard(w.db.Item(b.Key()))
	check.Must(w.t, err)
	q := after.State.Slots[after.State.Index("budget")]
	w.spent[q.End] += cost
	for _, p := range w.percents(q.End) {
		note(w.reached, q.End, p)
		if b.State.Count() == 1 {
			note(w.must, q.End, p)
		}
	}
}

func note(m map[int64]map[int]bool, end int64, percent int) {
	if m[end] == nil {
		m[end] = map[int]bool{}
	}
	m[end][percent] = true
}

// percents returns the spent percents of a period.
func (w *quotaWorld) percents(end int64) (out []int) {
	for _, p := range []int{50, 80, 100} {
		if w.spent[end]*100 >= budget.Capacity*int64(p) {
			out = append(out, p)
		}
	}
	return out
}

// reshard divides a shard, or merges it with its sibling.
func (w *quotaWorld) reshard() {
	b := w.shard()
	n := b.State.Count()
	if w.IntN(2) == 0 && n < 8 {
		w.write(table.Split(b, w.now)...)
		return
	}
	if k := b.State.Shard; n > 1 && k >= n/2 {
		keep, err := table.DecodeShard(w.db.Item(layout.BucketKey("ns", "e", "gpt", k-n/2)))
		if err == nil && keep.State.Count() == n {
			w.write(table.Merge(keep, b, n/2, w.now)...)
		}
	}
}

// catchUp delivers everything. Then the spent percents of the current period must be reported.
func (w *quotaWorld) catchUp() {
	w.drain(w.lanes[0])
	end := int64(0)
	for k := range 8 {
		if b, err := table.DecodeShard(w.db.Item(layout.BucketKey("ns", "e", "gpt", k))); err == nil {
			end = max(end, b.State.Slots[b.State.Index("budget")].End)
		}
	}
	for _, p := range w.percents(end) {
		note(w.must, end, p)
	}
}

func (w *quotaWorld) Step() {
	switch n := w.IntN(20); {
	case n < 8:
		w.charge()
	case n < 10:
		w.reshard()
	case n < 11:
		w.now += w.Int64N(600_000)
	case n < 12:
		if w.OneIn(2) {
			w.catchUp()
		}
		w.now = (w.now/budgetPeriod+1)*budgetPeriod - 1500 + w.Int64N(4000)
	case n < 13:
		w.catchUp()
	default:
		w.now += w.Int64N(50)
		w.trouble = true
		w.step(w.lanes[0])
		w.trouble = false
	}
}

func (w *quotaWorld) End() {
	w.catchUp()
	for _, wrong := range w.check() {
		w.Fail("%s", wrong)
	}
	w.Done["told"], w.Done["sent"] = len(w.lines.seen), len(w.alerts.sent)
	if w.db.Item(layout.BucketKey("ns", "e", "gpt", 1)) != nil {
		w.Count("divided at the end")
	}
}

// check returns how the reports are wrong.
func (w *quotaWorld) check() (wrong []string) {
	told := map[int64]map[int]bool{}
	for _, c := range w.db.Changes(0) {
		if !strings.HasPrefix(c.Key.SK, "#QUOTA#") {
			continue
		}
		th, err := ledger.DecodeThreshold(c.New)
		if err != nil {
			return []string{err.Error()}
		}
		if told[th.End][th.Percent] {
			wrong = append(wrong, fmt.Sprintf("%d %% of the period to %d was reported twice", th.Percent, th.End))
		}
		note(told, th.End, th.Percent)
		if !w.reached[th.End][th.Percent] {
			wrong = append(wrong, fmt.Sprintf("%d %% of the period to %d was not spent", th.Percent, th.End))
		}
		if w.lines.seen[fmt.Sprint(th.End, " ", th.Percent)] == 0 {
			wrong = append(wrong, fmt.Sprintf("%d %% of the period to %d: not logged", th.Percent, th.End))
		}
		if len(w.alerts.of(th)) == 0 {
			wrong = append(wrong, fmt.Sprintf("%d %% of the period to %d: no alert", th.Percent, th.End))
		}
	}
	ids := map[string]string{}
	for _, a := range w.alerts.sent {
		key := fmt.Sprint(a.ResetsAt.UnixMilli(), " ", a.Percent)
		if !w.reached[a.ResetsAt.UnixMilli()][a.Percent] {
			wrong = append(wrong, key+" was sent but not spent")
		}
		if other, twice := ids[a.ID]; twice && other != key {
			wrong = append(wrong, key+" has the id of "+other)
		}
		ids[a.ID] = key
	}
	if n := len(w.lines.seen); len(ids) < n {
		wrong = append(wrong, fmt.Sprintf("%d ids of %d thresholds", len(ids), n))
	}
	for end, percents := range w.must {
		for p := range percents {
			if !told[end][p] {
				wrong = append(wrong, fmt.Sprintf("%d %% of the period to %d was not reported", p, end))
			}
		}
	}
	return slices.Sorted(slices.Values(wrong))
}

// Reached thresholds are reported once per period, whatever is delivered twice, fails or loses its
// answer, while the bucket is divided and merged.
func TestThresholdsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loadchecktest.Kind[*quotaWorld]{Steps: 250, Worlds: 40, Short: 6,
			New:   func(seed uint64, _ string) *quotaWorld { return newQuotaWorld(t, seed) },
			Least: map[string]float64{"told": 1, "sent": 1, "divided at the end": .1}}.Keeps(t)
	})
}

// A batch that reaches no threshold costs no read. If it reaches one, it reads whether that and the
// lower ones are already reported.
func TestThresholdsReadOnlyWhenReached(t *testing.T) {
	r := newRig(t)
	r.agg.conf.Windows = []usage.Window{usage.Hourly}
	b := budgetShard(0, 1)
	spend := func(milli int64) (reads float64, told int) {
		old := b.Item()
		b.State = b.State.Take([]int64{milli, 1000})
		r.db.Store(b.Item())
		r.db.ResetStats()
		before := len(r.thresholds())
		c := memdynamo.Change{Seq: int64(milli), CreatedAt: r.now, Key: b.Key(), Old: old, New: b.Item()}
		check.MustEqual(t, r.handle(payloadOf([]memdynamo.Change{c})), done)
		return r.db.Stats().ReadUnits, len(r.thresholds()) - before
	}
	spend(1_000) // usage reads earlier counts once
	for _, c := range []struct {
		milli int64
		reads float64
		told  int
	}{{18_000, 0, 0}, {1_000, 1, 1}, {2_000, 0, 0}, {17_500, 2, 1}, {500, 3, 1}, {500, 0, 0}} {
		if reads, told := spend(c.milli); reads != c.reads || told != c.told {
			t.Errorf("%d more: %v read units and %d alerts, want %v and %d", c.milli, reads, told, c.reads, c.told)
		}
	}
	b.State.Slots[b.State.Index("budget")].Tokens += 1_000 // the rest is spent again: one read shows that it was reported
	if reads, told := spend(500); reads != 1 || told != 0 {
		t.Errorf("again: %v read units and %d reported", reads, told)
	}
}

// If a lost batch reached a threshold, the first change in another hour reports it.
func TestLostThresholdIsReportedWithinTheHour(t *testing.T) {
	r := newRig(t)
	b := spentShard(0, 1, 25_000)
	r.db.Store(b.Item()) // without a record
	lost := len(r.since(0))
	for i, want := range []int{0, 1, 1} {
		r.now += 25 * 60_000 // 22:38, 23:03, 23:28
		b.State = b.State.At(r.now).Take([]int64{1_000, 1000})
		r.db.Store(b.Item())
		check.MustEqual(t, r.handle(payloadOf(r.since(0)[lost+i:][:1])), done)
		if told := r.thresholds(); len(told) != want || want > 0 && told[0].Percent != 50 {
			t.Errorf("%d changes later: %+v", i+1, told)
		}
	}
}

// The spent part of a divided bucket is read from all its shards, consistently, even if the batch
// shows one shard, with a smaller count.
func TestAllSharesAreRead(t *testing.T) {
	r := newRig(t)
	share := func(k, n int, left int64) table.Shard {
		b := budgetShard(k, n)
		b.State.Slots[b.State.Index("budget")].Tokens = left
		return b
	}
	for _, b := range []table.Shard{share(0, 2, 20_000), share(1, 4, 0), share(3, 4, 0)} {
		r.db.Store(b.Item())
	}
	r.db.ResetStats()
	before := share(1, 2, 10_000)
	change := memdynamo.Change{Seq: 9, CreatedAt: r.now, Key: before.Key(), New: before.Item()}
	payload := payloadOf([]memdynamo.Change{change})
	read := 0
	r.watch(func(op memdynamo.Op) {
		for _, k := range op.Keys {
			if k.SK == layout.SKBucketState && op.Consistent {
				read++
			}
		}
	})
	check.MustEqual(t, r.handle(payload), done)
	told := r.thresholds()
	if len(told) != 1 || told[0].Percent != 50 || told[0].Spent != 20 || read != 2+4 {
		t.Errorf("reported %+v after %d keys", told, read)
	}
}

// If a shard of a divided bucket cannot be read, nothing is reported, and the record is delivered
// again.
func TestThresholdIsReportedOnceSharesAreRead(t *testing.T) {
	r := newRig(t)
	r.agg.conf.Windows = []usage.Window{usage.Hourly}
	for k := range 2 {
		r.db.Store(spentShard(k, 2, 12_000).Item())
	}
	changes := r.since(0)
	payload := payloadOf(changes)
	r.fails(func(op memdynamo.Op) bool {
		return slices.ContainsFunc(op.Keys, func(k item.Key) bool { return k.SK == layout.SKBucketState })
	})
	check.Equal(t, r.handle(payload), resumeAt(changes[0].SequenceNumber()))
	check.Equal(t, len(r.thresholds()), 0, "reported")
	r.db.SetHook(nil)
	check.Equal(t, r.handle(payload), done, "second response")
	if told := r.thresholds(); len(told) != 1 || told[0].Spent != 24 {
		t.Errorf("reported %+v", told)
	}
}

// If the item of a shard is unreadable, or has more limits than any of ours, the total is unknown.
// Nothing is reported, and the record is not delivered again for that.
func TestUnreadableSharesReportNothing(t *testing.T) {
	for i := range 2 * 2 {
		unreadable, wide := i/2, i%2 != 0
		r := newRig(t)
		for k := range 2 {
			r.db.Store(spentShard(k, 2, 20_000).Item())
		}
		payload := r.payload()
		b := budgetShard(unreadable, 2)
		limits := []bucket.Limit{budget}
		for n := range 4 * bucket.MaxSlots {
			limits = append(limits, bucket.Limit{Name: fmt.Sprint("other", n), Capacity: 9000, Amount: 9, Period: 1})
		}
		if wide {
			b.State = bucket.New(limits, unreadable, 2, t0)
		}
		it := b.Item()
		if !wide {
			it["b_budget_tk"] = item.S("x")
		}
		r.db.Store(it)
		check.Equal(t, r.handle(payload), done, "shard %d, wide %v", unreadable, wide)
		check.Equal(t, len(r.thresholds()), 0, "shard %d, wide %v: reported", unreadable, wide)
	}
}

// A batch that reaches several thresholds, of one quota or of two, reports each.
func TestAllThresholdsOfABatchAreReported(t *testing.T) {
	r := newRig(t)
	day := bucket.Limit{Name: "day", Capacity: 100_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	b := budgetShard(0, 1)
	b.State = bucket.New([]bucket.Limit{budget, day}, 0, 1, t0)
	b.State = b.State.Take([]int64{33_000, 60_000, 1000}) // 82 and 60 %
	r.db.Store(b.Item())
	log := r.logged()
	check.MustEqual(t, r.handle(r.payload()), done)
	var told []string
	for _, th := range r.thresholds() {
		told = append(told, fmt.Sprintf("%s %d", th.Limit, th.Percent))
	}
	slices.Sort(told)
	check.Equal(t, strings.Join(told, ", "), "budget 50, budget 80, day 50", "reported")
	r.wants(r.metrics.String(), `"Thresholds":3`)
	line := `msg="quota threshold" entity=e resource=gpt limit=budget percent=80 spent=33 quota=40 resets_at_ms=1700006400000`
	if !strings.Contains(log.String(), line+"\n") {
		t.Errorf("no %s in %s", line, log.String())
	}
}

func (r *rig) thresholds() (out []ledger.Threshold) {
	for _, it := range r.db.Items() {
		if th, err := ledger.DecodeThreshold(it); err == nil {
			out = append(out, th)
		}
	}
	return out
}

// Limits that were renamed stay in a bucket until their period ends. Its other limits are reported.
func TestRenamedQuotasLeaveTheOthers(t *testing.T) {
	for _, shards := range []int{1, 2} {
		r := newRig(t)
		r.db.Store(budgetShard(0, shards).Item())
		if shards == 2 {
			r.db.Store(budgetShard(1, shards).Item())
		}
		costs := append(slices.Repeat([]int64{500}, 29), 22_000/int64(shards)) // the last one reaches 50 %
		for first := range 6 {
			var limits []bucket.Limit
			for i := range costs {
				l := budget
				l.Name = fmt.Sprint("budget", first+i)
				limits = append(limits, l)
			}
			for k := range shards {
				b, err := table.DecodeShard(r.db.Item(budgetShard(k, shards).Key()))
				check.Must(t, err)
				plan := table.Charge{Image: b, Costs: table.Costs(limits, costs...), Now: r.now}.Plan()
				check.Must(t, check.Err(r.db.Write(t.Context(), plan.Update)))
			}
			r.now += 1000
		}
		check.Equal(t, r.handle(r.payload()), done)
		check.Equal(t, len(r.thresholds()), 6, "%d shards: reported", shards)
	}
}
