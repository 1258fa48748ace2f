package table_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A bucket in debt must outlive the debt. Each write that sets the expiry ensures that: a
// settlement with a charge, an acquire, and the write that extends the expiry.
func TestDebtMovesTheExpiry(t *testing.T) {
	const now = 1_700_000_000_000
	limits := []bucket.Limit{{Name: "rpm", Capacity: 60_000, Amount: 60_000, Period: 60_000}}
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(limits),
		Lifetime: table.Expires, Now: now})
	b := decode(t, put.Item)
	check.MustEqual(t, b.TTL, now/1000+420, "ttl")
	debt := table.Costs(limits, 3_600_000) // an hour to refill
	const needed = now/1000 + 3600
	settle := table.Charge{Image: b, Costs: debt, Now: now, Force: true}.Plan().Update
	after, _, err := settle.Apply(put.Item)
	if got := decode(t, after).TTL; err != nil || got < needed {
		t.Errorf("settled by a charge: ttl is %d s from now, %v", got-now/1000, err)
	}
	adjusted, _, err := table.Adjust(put.Target(), debt).Apply(put.Item)
	check.Must(t, err)
	prolong, ok := table.Prolong(decode(t, adjusted), now)
	mended, _, err := prolong.Apply(adjusted)
	if got := decode(t, mended).TTL; !ok || err != nil || got < needed {
		t.Errorf("settled by an add: extended %v, ttl is %d s from now, %v", ok, got-now/1000, err)
	}
	if _, again := table.Prolong(decode(t, mended), now); again {
		t.Error("extended twice")
	}
	for early, want := range map[int64]bool{5: false, 4: true} { // seconds from full to the expiry
		b := decode(t, adjusted)
		b.TTL = b.State.FullAt(now)/1000 + early
		if _, ok := table.Prolong(b, now); ok != want {
			t.Errorf("expires %d s after it is full: extended %v", early, ok)
		}
	}
	back := table.Costs(limits, 1_000)
	kept, _, err := table.Charge{Image: b, Costs: back, Now: now,
		Force: true}.Plan().Update.Apply(put.Item)
	if got := decode(t, kept).TTL; err != nil || got != b.TTL {
		t.Errorf("settled without debt: ttl is %d s from now, was %d", got-now/1000, b.TTL-now/1000)
	}
}

// A bucket that is full only after the last storable instant does not expire: because of an
// enormous debt, or because its limit fills in more than 2^53 milliseconds.
func TestBucketsThatNeverFillDoNotExpire(t *testing.T) {
	const now = 1_700_000_000_000
	of := func(period int64) []bucket.Limit {
		return []bucket.Limit{{Name: "rpm", Capacity: 2_000, Amount: 1_000, Period: period}}
	}
	const longest = 1<<53 - now // for a missing token
	for period, expires := range map[int64]bool{60_000: true, longest: true, longest + 1: false, 1 << 54: false} {
		b := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: now, TTL: now/1000 + 1,
			State: bucket.New(of(period), 0, 1, now)}
		i := b.State.Index("rpm")
		b.State.Slots[i].Tokens = 1_000
		for name, life := range map[string]table.Lifetime{"anew": table.Expires, "kept": table.KeepLifetime} {
			u := table.Charge{Image: b, Costs: table.Costs(of(period), 0), Now: now, Lifetime: life}.Plan().Update
			after := applied(t, u, b.Item())
			if got := decode(t, after).TTL; (got > now/1000+1) != expires || !expires && got != 0 {
				t.Errorf("a period of %d, %s: ttl %d", period, name, got)
			}
		}
		u, ok := table.Prolong(b, now)
		after, held, err := u.Apply(b.Item())
		if got := decode(t, after).TTL; !ok || !held || err != nil || (got != 0) != expires {
			t.Errorf("a period of %d, extended: ttl %d, %v, %v, %v", period, got, ok, held, err)
		}
		b.State.Shards = 2
		if _, ok := table.Prolong(b, now); ok {
			t.Error("a shard of two expires")
		}
	}
}

// A remainder counts only with its own refill instant, and within its period. Otherwise it is
// ignored.
func TestRemaindersOfAnotherInstantDoNotCount(t *testing.T) {
	_, b := create(1000, table.Costs([]bucket.Limit{{Name: "rpm", Capacity: 10_000, Amount: 7_000, Period: 60_000}}))
	rr := func(rf, rest int64) item.Value {
		return item.Map(item.Item{"rf": item.N(rf), "r": item.Map(item.Item{"rpm": item.N(rest), "gone": item.N(3)})})
	}
	for _, tt := range []struct {
		rr   item.Value
		want int64
	}{
		{rr(1000, 59_999), 59_999}, {rr(1000, 1), 1}, {rr(999, 1), 0}, {rr(1001, 1), 0},
		{rr(1000, 60_000), 0}, {rr(1000, -1), 0}, {item.S("x"), 0}, {item.Map(nil), 0},
		{item.Map(item.Item{"rf": item.N(1000)}), 0},
	} {
		it := b.Item()
		it["rr"] = tt.rr
		check.Equal(t, decode(t, it).State.Slots[0].Rest, tt.want, "%s", itemtest.JSON(item.Item{"rr": tt.rr}))
	}
	it := b.Item()
	delete(it, "rf")
	it["rr"] = rr(0, 5)
	if got := decode(t, it).State; got.Slots[0].Rest != 0 || !got.NoClock {
		t.Errorf("without a refill instant: %s", got)
	}
}

// An expired bucket is full: whatever happened before, an item may be deleted only when every limit
// is full, so creating it again adds no tokens.
func TestExpiredBucketsAreFull(t *testing.T) {
	sets := [][]bucket.Limit{
		{{Name: "rpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}},
		{{Name: "sec", Capacity: 5_000, Amount: 5_000, Period: 1_000},
			{Name: "day", Capacity: 3_000, Amount: 1_000, Period: 86_400_000}},
		{{Name: "fast", Capacity: 1_000, Amount: 1_000_000_000, Period: 1_000}},
		{{Name: "tpm", Capacity: 90_000_000, Amount: 1_000_003, Period: 7_001},
			{Name: "rpm", Capacity: 61_000, Amount: 61_000, Period: 60_000}},
	}
	var sweeps, debts, prolonged int
	for seed := range uint64(60) {
		e := &expiring{t: t, rng: rand.New(rand.NewPCG(seed, 3)), limits: sets[seed%uint64(len(sets))],
			now: 1_700_000_000_123}
		e.db = memdynamo.New(func() int64 { return e.now })
		for range 250 {
			e.step()
		}
		sweeps, debts, prolonged = sweeps+e.sweeps, debts+e.debts, prolonged+e.prolonged
	}
	t.Logf("%d items expired, every one full; %d settlements into debt, %d of which moved the expiry", sweeps, debts,
		prolonged)
	if sweeps < 50 || prolonged < 20 {
		t.Error("too few expiries or debts to prove anything")
	}
}

type expiring struct {
	t      *testing.T
	rng    *rand.Rand
	db     *memdynamo.DB
	limits []bucket.Limit
	now    int64
	stale  table.Shard // an earlier image
	seen   bool

	sweeps, debts, prolonged int
}

var expiringKey = layout.BucketKey("ns", "e", "r", 0)

func (e *expiring) image() (table.Shard, bool) {
	it := e.db.Item(expiringKey)
	if it == nil {
		return table.Shard{}, false
	}
	b, err := table.DecodeShard(it)
	check.Must(e.t, err)
	return b, true
}

func (e *expiring) step() {
	b, ok := e.image()
	switch e.rng.IntN(9) {
	case 0:
		e.now += e.rng.Int64N(2000)
	case 1:
		e.now += e.rng.Int64N(600_000)
	case 2:
		if ok && b.TTL > 0 && e.rng.IntN(3) == 0 { // advance to the first instant at which it could be deleted
			e.now = max(e.now, b.TTL*1000+e.rng.Int64N(3000)-1000)
		}
	case 3:
		e.db.Sweep(e.now / 1000)
		if _, left := e.image(); ok && !left {
			e.sweeps++
			e.full(b, e.now, "deleted")
			e.seen = false
		}
	case 4:
		e.settle(b, ok)
	case 5:
		if ok {
			e.stale, e.seen = b, true
		}
	default:
		e.acquire(b, ok)
	}
	if b, ok := e.image(); ok && b.TTL > 0 {
		e.full(b, b.TTL*1000, "to be deleted")
	}
}

// full checks that every limit of an image is full at an instant.
func (e *expiring) full(b table.Shard, at int64, what string) {
	e.t.Helper()
	for i, sl := range b.State.Slots {
		capacity := buckettest.Milli(sl.Capacity)
		if held := buckettest.LevelAt(b.State, i, at); sl.Name != bucket.WCU && held.Cmp(capacity) < 0 {
			e.t.Fatalf("at %d the item is %s with %s of %d millitokens of %s: %s ttl=%d",
				at, what, held.FloatString(3), sl.Capacity, sl.Name, b.State, b.TTL)
		}
	}
}

func (e *expiring) costs() []table.Cost {
	out := make([]table.Cost, len(e.limits))
	for i, l := range e.limits {
		out[i] = table.Cost{Limit: l, Milli: e.rng.Int64N(l.Capacity/bucket.Milli+1) * bucket.Milli}
	}
	return out
}

func (e *expiring) acquire(b table.Shard, ok bool) {
	costs := e.costs()
	var w item.Write
	switch {
	case !ok:
		w, _ = table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
			Costs: costs, Lifetime: table.Expires, Now: e.now})
	case e.rng.IntN(4) == 0:
		w = addAt(e.now, costs).Plan()
	default:
		if e.seen && e.rng.IntN(2) == 0 {
			b = e.stale
		}
		life := []table.Lifetime{table.Expires, table.KeepLifetime}[e.rng.IntN(2)]
		plan := table.Charge{Image: b, Costs: costs, Now: e.now, Lifetime: life}.Plan()
		if !plan.Verdict.Granted {
			return
		}
		w = plan.Update
	}
	e.write(w)
}

func (e *expiring) write(w item.Write) item.Item {
	it, err := e.db.Write(e.t.Context(), w)
	if _, refused := errors.AsType[*store.Refused](err); err != nil && !refused {
		e.t.Fatal(err)
	}
	return it
}

// settle goes into debt in either of the two ways. If the debt could outlive the bucket, it extends
// the expiry like a lease.
func (e *expiring) settle(b table.Shard, ok bool) {
	if !ok {
		return
	}
	costs := e.costs()
	most := int64(30)
	if e.rng.IntN(20) == 0 {
		most = 1 << 30 // a debt of more years than can be stored
	}
	for i := range costs {
		costs[i].Milli *= e.rng.Int64N(most)
	}
	w := item.Write(table.Adjust(expiringKey, costs))
	if e.rng.IntN(2) == 0 {
		if e.seen && e.rng.IntN(2) == 0 {
			b = e.stale
		}
		w = table.Charge{Image: b, Costs: costs, Now: e.now, Lifetime: table.KeepLifetime,
			Force: true}.Plan().Update
	}
	it := e.write(w)
	if it == nil {
		return
	}
	e.debts++
	after, err := table.DecodeShard(it)
	check.Must(e.t, err)
	if u, ok := table.Prolong(after, e.now); ok {
		e.prolonged++
		e.write(u)
	}
}
