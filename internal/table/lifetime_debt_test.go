package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A bucket that goes into debt must outlive it, however the expiry is told: by a
// settlement that keeps it, by an acquire that sets it, and by what mends it.
func TestDebtMovesTheExpiry(t *testing.T) {
	const now = 1_700_000_000_000
	limits := []bucket.Limit{{Name: "rpm", Capacity: 60_000, Amount: 60_000, Period: 60_000}}
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(limits),
		Lifetime: table.Expires, Now: now})
	b := decode(t, put.Item)
	if b.TTL != now/1000+420 {
		t.Fatalf("ttl is %d s from now", b.TTL-now/1000)
	}
	debt := table.Costs(limits, 3_600_000) // an hour to earn it
	const needed = now/1000 + 3600
	settle := table.Charge{Image: b, Costs: debt, Now: now, Force: true}.Plan().Update
	after, _, err := settle.Apply(put.Item)
	if got := decode(t, after).TTL; err != nil || got < needed {
		t.Errorf("settled by a charge: ttl is %d s from now, %v", got-now/1000, err)
	}
	adjusted, _, err := table.Adjust(put.Target(), debt).Apply(put.Item)
	if err != nil {
		t.Fatal(err)
	}
	prolong, ok := table.Prolong(decode(t, adjusted), now)
	mended, _, err := prolong.Apply(adjusted)
	if got := decode(t, mended).TTL; !ok || err != nil || got < needed {
		t.Errorf("settled by an add: prolonged %v, ttl is %d s from now, %v", ok, got-now/1000, err)
	}
	if _, again := table.Prolong(decode(t, mended), now); again {
		t.Error("prolonged twice")
	}
	for early, want := range map[int64]bool{5: false, 4: true} { // seconds from full to the expiry
		b := decode(t, adjusted)
		b.TTL = b.State.FullAt(now)/1000 + early
		if _, ok := table.Prolong(b, now); ok != want {
			t.Errorf("expires %d s after it is full: prolonged %v", early, ok)
		}
	}
	back := table.Costs(limits, 1_000)
	kept, _, err := table.Charge{Image: b, Costs: back, Now: now,
		Force: true}.Plan().Update.Apply(put.Item)
	if got := decode(t, kept).TTL; err != nil || got != b.TTL {
		t.Errorf("settled without debt: ttl is %d s from now, was %d", got-now/1000, b.TTL-now/1000)
	}
}

// A bucket that is not full before any instant that can be stored does not expire: one of an enormous
// debt, or whose limit is filled in more than 2^53 milliseconds.
func TestWhatIsNotFullForEverDoesNotExpire(t *testing.T) {
	const now = 1_700_000_000_000
	of := func(period int64) []bucket.Limit {
		return []bucket.Limit{{Name: "rpm", Capacity: 2_000, Amount: 1_000, Period: period}}
	}
	const longest = 1<<53 - now // of a token that is missing
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
			t.Errorf("a period of %d, prolonged: ttl %d, %v, %v, %v", period, got, ok, held, err)
		}
		b.State.Shards = 2
		if _, ok := table.Prolong(b, now); ok {
			t.Error("a shard of two expires")
		}
	}
}

// A remainder counts with the refill instant that it belongs to, within its
// period; whatever else is there says nothing.
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
		if got := decode(t, it).State.Slots[0].Rest; got != tt.want {
			t.Errorf("%s: rest %d, want %d", itemtest.JSON(item.Item{"rr": tt.rr}), got, tt.want)
		}
	}
	it := b.Item()
	delete(it, "rf")
	it["rr"] = rr(0, 5)
	if got := decode(t, it).State; got.Slots[0].Rest != 0 || !got.NoClock {
		t.Errorf("without a refill instant: %s", got)
	}
}
