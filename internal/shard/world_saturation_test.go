package shard_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Under saturation no refill is lost (I6): what is delivered is at least
// capacity + rate*time less one request per shard, and not a token more than
// allowed, with one client and with 32, each with images of its own.
func TestSaturationDeliversEverything(t *testing.T) {
	for _, shards := range []int{1, 2, 8} {
		for _, clients := range []int{1, 32} {
			t.Run(fmt.Sprintf("%d shards, %d clients", shards, clients), func(t *testing.T) {
				w := newWorld(t, 1, []bucket.Limit{{Name: "rpm", Capacity: 80_000, Amount: 97_003, Period: 6_007}})
				const cost, last, tick = 3 * bucket.Milli, 6_000, 211
				saturate(w, shards, clients, cost, last, tick)

				l := w.limits[0]
				r := bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
				due := buckettest.Milli(l.Capacity)
				due.Add(due, buckettest.Earned(r, last))
				floor := new(big.Rat).Sub(due, buckettest.Milli(int64(shards)*cost))
				got := buckettest.Milli(w.history["rpm"].Taken())
				share, _ := new(big.Rat).Quo(got, due).Float64()
				t.Logf("delivered %s of %s tokens, %.2f %%; worst excess %s", bucket.Tokens(w.history["rpm"].Taken()),
					new(big.Rat).Quo(due, buckettest.Milli(bucket.Milli)).FloatString(1), 100*share, w.worst()["rpm"])
				if got.Cmp(floor) < 0 {
					t.Errorf("delivered %s millitokens, want at least %s", got.FloatString(0), floor.FloatString(0))
				}
				if x := w.worst()["rpm"]; x.Milli.Sign() > 0 {
					t.Errorf("worst excess %s, want none", x)
				}
			})
		}
	}
}

// saturate lets every client take from every shard, again and again, until the
// table itself says that nothing is left.
func saturate(w *world, shards, clients int, cost, last, tick int64) {
	fleet := make([]*actor, clients)
	for i := range fleet {
		fleet[i] = newActor(w, i)
	}
	costs := table.Costs(w.limits, cost)
	put, _ := table.Create(table.NewBucket{Namespace: namespace, Entity: entity, Resource: resource,
		Costs: table.Costs(w.limits),
		Now:   w.now})
	w.call("create", nil, nothing, false, put)
	for n := 1; n < shards; n *= 2 {
		zero, _ := w.image(0)
		a := newActor(w, 99)
		for _, plan := range []func() *shard.Plan{
			func() *shard.Plan { return shard.Double(zero) },
			func() *shard.Plan { z, _ := w.image(0); return shard.Propagate(z) },
		} {
			for a.plan = plan(); a.step(); {
				a.land(false)
			}
		}
	}
	for begin := w.now; w.now <= begin+last; w.now += tick {
		for _, i := range w.rng.Perm(clients) {
			for k := range shards {
				fleet[i].drain(k, costs)
			}
		}
		if left := begin + last - w.now; left > 0 && left < tick {
			w.now = begin + last - tick
		}
	}
}

// drain takes from one shard until a fresh image says that it is empty.
func (a *actor) drain(k int, costs []table.Cost) {
	for fresh := false; ; {
		image, ok := a.images[k]
		if ok {
			plan := table.Charge{Image: image, Costs: costs, Now: a.clock(), Lifetime: table.KeepLifetime}.Plan()
			if plan.Verdict.Granted {
				a.send(flight{what: "charge", image: &image, costs: costs, writes: []item.Write{plan.Update},
					done: a.answer(k, costs)})
				a.land(false)
				fresh = true
				continue
			}
			if fresh {
				return
			}
		}
		u := table.Add{Room: 50, Namespace: namespace, Entity: entity, Resource: resource, Shard: k,
			Shards: max(a.count, len(a.w.shards())),
			Costs:  costs, Now: a.clock()}.Plan()
		a.send(flight{what: "ask", costs: costs, writes: []item.Write{u}, done: a.answer(k, costs)})
		a.land(false)
		fresh = true
	}
}
