package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// distant is a table so far away, which enters into a bill what it charges for. As a
// [store.Store] it takes the place of a DynamoDB client in [limiter.Open].
type distant struct {
	store.API // never called
	db        *memdynamo.DB
	bill      *bill

	mu   sync.Mutex
	trip time.Duration // there and back, on average
	rng  *rand.Rand
}

// way returns how long one direction takes: half of the round trip, give or take a quarter.
func (d *distant) way() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trip*3/8 + time.Duration(d.rng.Int64N(int64(d.trip/4)))
}

// call carries a call there and its answer back. Enter adds the write units that it was
// charged to the bill, and says whether it was carried out.
func (d *distant) call(ctx context.Context, f func() error, enter func(p *paid, units int, held bool)) error {
	time.Sleep(d.way())
	d.mu.Lock()
	before := d.db.Stats()
	err := f()
	after := d.db.Stats()
	d.mu.Unlock()
	d.bill.add(ctx, func(p *paid, settling bool) {
		p.Reads += after.ReadUnits - before.ReadUnits
		if units := after.WriteUnits - before.WriteUnits; settling {
			p.Settling += units
		} else {
			enter(p, units, err == nil)
		}
	})
	if gone := smithytime.SleepWithContext(ctx, d.way()); gone != nil {
		return &store.Failure{Kind: store.Unknown, Op: "call", Err: gone}
	}
	return err
}

// Write implements [store.Store].
func (d *distant) Write(ctx context.Context, w item.Write) (out item.Item, err error) {
	err = d.call(ctx, func() (err error) { out, err = d.db.Write(context.Background(), w); return err },
		func(p *paid, units int, held bool) {
			if held {
				p.Held += units
			} else {
				p.Refused += units
			}
		})
	return out, err
}

// Transact implements [store.Store].
func (d *distant) Transact(ctx context.Context, token string, writes []item.Write) error {
	return d.call(ctx, func() error { return d.db.Transact(context.Background(), token, writes) },
		func(p *paid, units int, held bool) {
			if held {
				p.Together += units
			} else {
				p.Broken += units
			}
		})
}

// Read implements [store.Store].
func (d *distant) Read(ctx context.Context, consistent bool, keys ...item.Key) (out []item.Item, err error) {
	err = d.call(ctx, func() (err error) {
		out, err = d.db.Read(context.Background(), consistent, keys...)
		return err
	}, func(*paid, int, bool) {})
	return out, err
}

// drawn lets limiters draw shards and pauses from one seed.
func drawn(t *testing.T) {
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(seed, 2))
	before := store.SetRandom(func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return chance.Uint64()
	})
	t.Cleanup(func() { store.SetRandom(before) })
}

// TestTheRushCostsLittle plays the rush in virtual time, near the table and far from it,
// with nothing going wrong. What it costs on the machine that the demo runs on depends on
// how fast that is: the hot bucket has more shards then or fewer, and beside it more
// requests are sent, which cost one unit each, or less. Here it does not. 150 ms away,
// two requests of three are left out, as on a machine that is too slow.
func TestTheRushCostsLittle(t *testing.T) {
	for _, trip := range []time.Duration{4, 15, 60, 150} {
		t.Run(fmt.Sprintf("%d ms", trip), func(t *testing.T) {
			drawn(t)
			synctest.Test(t, func(t *testing.T) { playRush(t, trip*time.Millisecond) })
		})
	}
}

// A machine that is too slow for the rush reaches the limit of the hot bucket all the same, and grants no more.
func TestSlowMachinesReachTheLimit(t *testing.T) {
	drawn(t)
	synctest.Test(t, func(t *testing.T) {
		f := farFleet(t, 150*time.Millisecond)
		(&demo{book: f.book, fleet: f}).exhaust(t.Context())
		time.Sleep(10 * time.Second)
		if got := f.book.seen(); got.hotDenied == 0 {
			t.Errorf("nothing was denied: %+v", got)
		}
		if worst, err := f.book.worst(false, theHot); worst.Excess > 0 || worst.Excess < -30_000 || err != nil {
			t.Errorf("%v, %v: want most of what the limit allows", worst.Result, err)
		}
	})
}

// farFleet opens the processes of a fleet on a table so far away, with the configuration of the demo.
func farFleet(t *testing.T, trip time.Duration) *fleet {
	t.Helper()
	f := &fleet{book: newBook()}
	d := &distant{db: memdynamo.New(now), bill: &f.bill, trip: trip, rng: rand.New(rand.NewPCG(seed, 1))}
	for range processes {
		opts := clientOptions()
		l, err := limiter.Open(t.Context(), d, "table", &opts)
		if err != nil {
			t.Fatal(err)
		}
		f.limiters = append(f.limiters, l)
	}
	if err := seedConfig(t.Context(), d.db, f.limiters[0].NamespaceID(), now()); err != nil {
		t.Fatal(err)
	}
	return f
}

func playRush(t *testing.T, trip time.Duration) {
	f := farFleet(t, trip)
	f.play(t.Context(), generate())
	time.Sleep(10 * time.Second) // for what no caller waits for
	r := result{}
	r.bills, r.billed = f.bill.total()
	r.printBill(func(format string, args ...any) { t.Logf(format, args...) })
	if p := r.billed; p.PerGrant() > wantUnits || p.tooMany() {
		t.Errorf("%d requests, %d granted, cost %.2f write units per grant, want at most %.1f; %d writes", p.Asked,
			p.Granted, p.PerGrant(), wantUnits, p.Held+p.Refused)
	}
	if c := f.book.seen(); c.unavailable+c.unknown+c.unsettled+c.lostSettlements > 0 || len(f.book.errs) > 0 {
		t.Errorf("every call was answered, and %+v, %v", c, f.book.errs)
	}
	if worst, err := f.book.worst(false, everyone); worst.Excess > 0 || err != nil {
		t.Errorf("%v admitted too much: %v, %v", worst.Account, worst.Result, err)
	}
}
