package table

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
)

// A bucket in debt must outlive the debt. Each write that sets the expiry ensures that: a
// settlement with a charge, an acquire, and the write that extends the expiry.
func TestDebtMovesTheExpiry(t *testing.T) {
	limits := []bucket.Limit{newRate("rpm", 60_000, 60_000)}
	put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: Costs(limits),
		Lifetime: Expires, Now: sampleNow})
	b := decode(t, put.Item)
	check.MustEqual(t, b.TTL, sampleNow/1000+420, "ttl")
	debt := Costs(limits, 3_600_000) // an hour to refill
	const needed = sampleNow/1000 + 3600
	settle := Charge{Image: b, Costs: debt, Now: sampleNow, Force: true}.Plan().Update
	if got := decode(t, applied(t, settle, put.Item)).TTL; got < needed {
		t.Errorf("settled by a charge: ttl is %d s from now", got-sampleNow/1000)
	}
	adjusted := applied(t, Adjust(put.Target(), debt), put.Item)
	prolong, ok := Prolong(decode(t, adjusted), sampleNow)
	check.MustEqual(t, ok, true, "extended")
	mended := decode(t, applied(t, prolong, adjusted))
	if mended.TTL < needed {
		t.Errorf("settled by an add: ttl is %d s from now", mended.TTL-sampleNow/1000)
	}
	_, again := Prolong(mended, sampleNow)
	check.Equal(t, again, false, "extended twice")
	for early, want := range map[int64]bool{5: false, 4: true} { // seconds from full to the expiry
		b := decode(t, adjusted)
		b.TTL = b.State.FullAt(sampleNow)/1000 + early
		_, ok := Prolong(b, sampleNow)
		check.Equal(t, ok, want, "extended, as it expires %d s after it is full", early)
	}
	back := Costs(limits, 1_000)
	kept := applied(t, Charge{Image: b, Costs: back, Now: sampleNow, Force: true}.Plan().Update, put.Item)
	check.Equal(t, decode(t, kept).TTL, b.TTL, "settled without debt")
}

// A bucket that is full only after the last storable instant does not expire: because of an
// enormous debt, or because its limit fills in more than 2^53 milliseconds.
func TestBucketsThatNeverFillDoNotExpire(t *testing.T) {
	of := func(period int64) []bucket.Limit {
		return []bucket.Limit{{Name: "rpm", Capacity: 2_000, Amount: 1_000, Period: period}}
	}
	const longest = 1<<53 - sampleNow // for a missing token
	for period, expires := range map[int64]bool{60_000: true, longest: true, longest + 1: false, 1 << 54: false} {
		b := Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: sampleNow, TTL: sampleNow/1000 + 1,
			State: bucket.New(of(period), 0, 1, sampleNow)}
		i := b.State.Index("rpm")
		b.State.Slots[i].Tokens = 1_000
		for name, life := range map[string]Lifetime{"anew": Expires, "kept": KeepLifetime} {
			u := Charge{Image: b, Costs: Costs(of(period), 0), Now: sampleNow, Lifetime: life}.Plan().Update
			if ttl := decode(t, applied(t, u, b.Item())).TTL; (ttl > b.TTL) != expires || !expires && ttl != 0 {
				t.Errorf("a period of %d, %s: ttl %d", period, name, ttl)
			}
		}
		u, ok := Prolong(b, sampleNow)
		check.MustEqual(t, ok, true, "a period of %d: extended", period)
		check.Equal(t, decode(t, applied(t, u, b.Item())).TTL != 0, expires, "a period of %d, extended", period)
		b.State.Shards = 2
		_, ok = Prolong(b, sampleNow)
		check.Equal(t, ok, false, "a shard of two expires")
	}
}

// A remainder counts only with its own refill instant, and within its period. Otherwise it is
// ignored.
func TestRemaindersOfAnotherInstantDoNotCount(t *testing.T) {
	_, b := create(1000, Costs([]bucket.Limit{{Name: "rpm", Capacity: 10_000, Amount: 7_000, Period: 60_000}}))
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
		{newRate("rpm", 10_000, 60_000)},
		{newRate("sec", 5_000, 1_000), {Name: "day", Capacity: 3_000, Amount: 1_000, Period: 86_400_000}},
		{{Name: "fast", Capacity: 1_000, Amount: 1_000_000_000, Period: 1_000}},
		{{Name: "tpm", Capacity: 90_000_000, Amount: 1_000_003, Period: 7_001}, newRate("rpm", 61_000, 60_000)},
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
	stale  Shard // an earlier image
	seen   bool

	sweeps, debts, prolonged int
}

var expiringKey = layout.BucketKey("ns", "e", "r", 0)

func (e *expiring) image() (Shard, bool) {
	it := e.db.Item(expiringKey)
	if it == nil {
		return Shard{}, false
	}
	return decode(e.t, it), true
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
func (e *expiring) full(b Shard, at int64, what string) {
	e.t.Helper()
	for i, sl := range b.State.Slots {
		capacity := buckettest.Milli(sl.Capacity)
		if held := buckettest.LevelAt(b.State, i, at); sl.Name != bucket.WCU && held.Cmp(capacity) < 0 {
			e.t.Fatalf("at %d the item is %s with %s of %d millitokens of %s: %s ttl=%d",
				at, what, held.FloatString(3), sl.Capacity, sl.Name, b.State, b.TTL)
		}
	}
}

func (e *expiring) costs() []Cost {
	out := make([]Cost, len(e.limits))
	for i, l := range e.limits {
		out[i] = Cost{Limit: l, Milli: e.rng.Int64N(l.Capacity/bucket.Milli+1) * bucket.Milli}
	}
	return out
}

func (e *expiring) acquire(b Shard, ok bool) {
	costs := e.costs()
	var w item.Write
	switch {
	case !ok:
		w, _ = Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
			Costs: costs, Lifetime: Expires, Now: e.now})
	case e.rng.IntN(4) == 0:
		w = addAt(e.now, costs).Plan()
	default:
		if e.seen && e.rng.IntN(2) == 0 {
			b = e.stale
		}
		life := []Lifetime{Expires, KeepLifetime}[e.rng.IntN(2)]
		plan := Charge{Image: b, Costs: costs, Now: e.now, Lifetime: life}.Plan()
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
func (e *expiring) settle(b Shard, ok bool) {
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
	w := item.Write(Adjust(expiringKey, costs))
	if e.rng.IntN(2) == 0 {
		if e.seen && e.rng.IntN(2) == 0 {
			b = e.stale
		}
		w = Charge{Image: b, Costs: costs, Now: e.now, Lifetime: KeepLifetime, Force: true}.Plan().Update
	}
	it := e.write(w)
	if it == nil {
		return
	}
	e.debts++
	if u, ok := Prolong(decode(e.t, it), e.now); ok {
		e.prolonged++
		e.write(u)
	}
}
