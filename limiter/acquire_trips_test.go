package limiter

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// outrunning is a table of several shards on which others are always faster: each write finds other
// levels than it was planned for, and is refused. Of what it was asked, it notes a letter each:
// W for a write, R for a read, T for a transaction.
type outrunning struct {
	*world
	rng    *rand.Rand
	shards int
	cost   int64 // of the request, in tokens
	asked  string
}

// levels gives most shards other levels: any, or what the request needs, about.
func (o *outrunning) levels(l *Limiter) {
	for k, b := range o.world.shards(l, acme, gpt) {
		to := o.rng.Int64N(11)
		switch o.rng.IntN(3) {
		case 0:
			continue
		case 1:
			to = min(10, max(0, o.cost-1+o.rng.Int64N(3)))
		}
		sl, meter := b.State.Slots[b.State.Index("rph")], b.State.Slots[b.State.Index("wcu")]
		o.edit(l, k, item.Item{"b_rph_tk": item.N(to * 1000), "b_rph_tc": item.N(sl.Used + max(0, sl.Tokens-to*1000)),
			"b_wcu_tc": item.N(meter.Used + 1000)})
	}
}

// answer refuses every write, with the levels that others have left.
func (o *outrunning) answer(l *Limiter, trip time.Duration) memdynamo.Hook {
	return func(op memdynamo.Op) (bool, error) {
		time.Sleep(trip)
		if !isWrite(op) {
			o.asked += "R"
			return true, nil
		}
		o.levels(l)
		if op.Name != memdynamo.TransactWriteItems {
			o.asked += "W"
			return false, o.refusedNow(op)
		}
		o.asked += "T"
		c := &store.Canceled{Reasons: make([]store.Reason, len(op.Writes))}
		for i, w := range op.Writes {
			if i == 0 || o.rng.IntN(2) == 0 {
				c.Reasons[i] = store.Reason{Refused: true, Old: o.db.Item(w.Target())}
			}
		}
		return false, c
	}
}

// However a request loses, on one shard or on several, knowing them or not, it is denied after three
// round trips: what it reads counts as what it writes.
func TestADenialTakesThreeRoundTrips(t *testing.T) {
	const trip = 150 * time.Millisecond
	seen := map[string]int{}
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			chance.begin(t.Name())
			rng := rand.New(rand.NewPCG(seed, 5))
			o := &outrunning{rng: rng, shards: 2 << rng.IntN(2), cost: 1 + rng.Int64N(10)}
			o.world = &world{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })}
			limit := PerHour("rph", int64(10*o.shards))
			l := o.started(Options{ConfigTTL: time.Hour, MaxShards: o.shards})
			must(t, l, asks(Costs{"rph": 0}, limit))
			o.now.Store(time.Now().UnixMilli())
			o.split(l, o.shards)
			if rng.IntN(2) == 0 { // more than a share: now all shards are known
				must(t, l, asks(Costs{"rph": 11}, limit)).Rollback(t.Context())
			}
			if rng.IntN(2) == 0 {
				o.cost = 1 + rng.Int64N(limit.Capacity*2/3)
			}
			o.levels(l)
			time.Sleep(time.Duration(rng.IntN(3)) * time.Second)
			writes := 0
			l.opts.Observe = only(EventAcquire, func(e Event) { writes = e.Writes })
			o.db.SetHook(o.answer(l, trip))
			begin := time.Now()
			if _, err := l.Acquire(t.Context(), asks(Costs{"rph": o.cost}, limit)); !errors.Is(err, ErrLimited) {
				t.Errorf("seed %d: %s: %v, want denied", seed, o.asked, err)
			}
			if took := time.Since(begin); took > 3*trip || writes > 3 {
				t.Errorf("seed %d: %s: denied after %s and %d writes, want three round trips at most", seed, o.asked, took, writes)
			}
			seen[o.asked]++
			atRest(t, l)
		})
	}
	if seen["WWW"] == 0 || seen["WRT"] == 0 || seen["RTT"] == 0 {
		t.Errorf("%v shows nothing", seen)
	}
}
