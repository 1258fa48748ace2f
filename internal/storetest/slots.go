package storetest

import (
	"crypto/rand"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// testSlots plays a bucket with slots: every form of taking, giving back and moving.
func testSlots(t *testing.T, db store.Store) {
	const epoch = 10_000
	slots := bucket.Limit{Name: "in.flight-1", Capacity: 8000, Period: epoch, InFlight: true}
	rate := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000}
	l := &life{t: t, db: db, ns: rand.Text(), limits: []bucket.Limit{slots, rate}, now: 1_700_000_002_000}
	create, _ := table.Create(table.NewBucket{Namespace: l.ns, Entity: "key-1", Resource: "gpt", Costs: l.costs(1),
		Lifetime: table.Expires, Now: l.now})
	first := l.do("create", create)
	held := func(b table.Shard, n int64) {
		t.Helper()
		if i := b.State.Index(slots.Name); b.State.Slots[i].Tokens != slots.Capacity-1000*n {
			t.Fatalf("level %d, want %d slots of 8 at work", b.State.Slots[i].Tokens, n)
		}
	}
	of := func(b table.Shard, n int64) []table.Cost {
		return []table.Cost{{Limit: slots, Milli: 1000 * n, End: b.State.Slots[b.State.Index(slots.Name)].End}}
	}
	b := l.charge(first, 2, 0, nil) // in the epoch of its image
	held(b, 3)
	held(l.do("give back", table.Adjust(b.Key(), of(b, -1))), 2)
	b = l.charge(first, 1, epoch, nil) // in the next one, from an image that does not know of 1 of the 2
	held(b, 3)
	cold := table.Add{Room: 50, Namespace: l.ns, Entity: "key-1", Resource: "gpt", Shards: 1, Now: l.now,
		Costs: table.Costs(l.limits, 1000)}
	b = l.do("cold", cold.Plan())
	held(b, 4)
	cold.Costs = table.Costs(l.limits, 7000)
	mustRefuse(t, db, cold.Plan())
	b = l.do("move", table.Renew(b.Key(), b.TTL, of(first, 1)))
	held(b, 4)
	held(l.do("give back to the epoch before", table.Adjust(b.Key(), of(first, -1))), 3)
	back := table.Charge{Image: b, Now: l.now, Force: true,
		Costs: append(of(b, -1), table.Cost{Limit: rate, Milli: 1000})}
	b = l.do("give back, and settle more", back.Plan().Update)
	held(b, 2)
	stale := b
	b = l.charge(b, 8, 2*epoch, nil) // the dead are forgotten
	held(b, 8)
	mustRefuse(t, db, table.Charge{Image: stale, Costs: l.costs(1), Now: l.now}.Plan().Update)
	mustRefuse(t, db, table.Adjust(b.Key(), of(first, -1)))
	mustRefuse(t, db, table.Renew(b.Key(), b.TTL, of(first, 1)))
	more := slots
	more.Capacity, more.Period = 9000, 2*epoch
	l.limits[0] = more
	b = l.charge(b, 1, 0, nil)
	if sl := b.State.Slots[b.State.Index(slots.Name)]; sl.Tokens != 0 || sl.Limit != more {
		t.Errorf("%v with a level of %d, want %v with 9 of 9 at work", sl.Limit, sl.Tokens, more)
	}
}
