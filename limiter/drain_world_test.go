package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// drainWorld is a bucket that processes randomly take from, settle, split, merge and drain, also
// between the read and the writes of a drain. It maintains a bound of the bucket's tokens: refills
// and give-backs raise it, up to the capacity; takes lower it; and an answered drain lowers it to a
// level that is zero at its instant.
type drainWorld struct {
	*world
	rng       *rand.Rand
	planted   string
	limit     Limit
	processes []*Limiter
	leases    []*Lease
	returns   bool // leases are given back

	most     *big.Rat // the bound, in tokens
	at       int64    // when
	until    int64    // the latest answered drain, epoch ms
	granted  int64    // since then, before its instant
	returned int64    // since it began
	back     int64    // given back in total
	events   map[string]int
	drains   int // under way
	stream   *follower
}

// pass lets time pass for the bound.
func (d *drainWorld) pass(ms int64) {
	d.now.Add(ms)
	now := d.now.Load()
	gain := big.NewRat((now-d.at)*d.limit.Refill, d.limit.Period.Milliseconds())
	if d.most.Add(d.most, gain); d.most.Cmp(big.NewRat(d.limit.Capacity, 1)) > 0 {
		d.most.SetInt64(d.limit.Capacity)
	}
	d.at = now
}

func (d *drainWorld) took(n int64) { d.most.Sub(d.most, big.NewRat(n, 1)) }

// drainedUntil records that a drain was answered, and how much was given back meanwhile, to shards
// that may have been drained already.
func (d *drainWorld) drainedUntil(until, back int64) {
	low := big.NewRat(-(until-d.now.Load())*d.limit.Refill, d.limit.Period.Milliseconds())
	if low.Add(low, big.NewRat(back, 1)); low.Cmp(d.most) < 0 {
		d.most.Set(low)
	}
	if until >= d.until || d.now.Load() >= d.until {
		d.until, d.granted, d.returned = until, 0, back
	}
}

// step acts as one of the processes from an index on.
func (d *drainWorld) step(t *testing.T, from int) {
	p := d.processes[from+d.rng.IntN(len(d.processes)-from)]
	ctx := context.Background()
	switch op := d.rng.IntN(12); {
	case op < 5:
		cost := 1 + d.rng.Int64N(d.limit.Capacity/4)
		le, err := p.Acquire(ctx, asks(Costs{"rpm": cost}, d.limit))
		p.desks.Wait()
		if err != nil && !errors.Is(err, ErrLimited) {
			t.Fatal(err)
		}
		if err == nil {
			d.took(cost)
			d.leases = append(d.leases, le)
			if d.now.Load() < d.until {
				d.granted += cost
			}
			d.events["granted"]++
		}
	case op < 7 && len(d.leases) > 0:
		i := d.rng.IntN(len(d.leases))
		le := d.leases[i]
		if from > 0 && le.limiter == d.processes[0] { // it is busy
			return
		}
		d.leases = slices.Delete(d.leases, i, i+1)
		held := le.items[0].Of("rpm") / bucket.Milli
		for _, it := range le.items[1:] {
			held += it.Of("rpm") / bucket.Milli
		}
		cost := held + d.rng.Int64N(1+held/4)
		if d.returns {
			cost = d.rng.Int64N(2 * held)
		}
		check.Must(t, errors.Join(le.Settle(Costs{"rpm": cost}), le.Commit(ctx)))
		d.took(cost - held)
		d.returned += max(0, held-cost)
		d.back += max(0, held-cost)
		d.events["settled"]++
	case op < 10:
		all := d.shards(p, acme, gpt)
		run := func(s *shard.Plan) { _, _ = shard.Run(ctx, d.db.Bare(), s, d.now.Load) }
		switch {
		case len(all) == 0:
			return
		case op == 7 && all[0].State.Count() < 8:
			run(shard.Double(all[0]))
		case op == 8:
			run(shard.Shrink(all[0], max(all[0].State.Count()/2, 1)))
		default:
			run(shard.Propagate(all[0], all[1:]...))
			d.refill(t)
		}
		d.events["reshaped"]++
	case op < 11 && from == 0:
		d.drain(t, d.processes[0])
	default:
		d.drain(t, d.processes[len(d.processes)-1])
	}
	p.desks.Wait()
}

// refill does the aggregator's work for buckets that run low, with the changes since the last call.
func (d *drainWorld) refill(t *testing.T) {
	for _, r := range d.stream.plan(usage.Config{MaxShards: 32}).Refills {
		if _, err := d.db.Bare().Write(t.Context(), r.Update); err == nil {
			d.events["refilled"]++
		}
	}
}

func (d *drainWorld) drain(t *testing.T, p *Limiter) {
	if d.drains > 0 && p == d.processes[0] {
		return
	}
	d.drains++
	until, back := d.now.Load()+1+d.rng.Int64N(30_000), d.back
	err := p.Drain(context.Background(), acme, gpt, time.Duration(until-d.now.Load())*ms)
	p.desks.Wait()
	d.drains--
	if err != nil {
		d.events["failed"]++
		return
	}
	if d.now.Load() < until {
		d.drainedUntil(until, d.back-back)
	}
	d.events["drained"]++
}

// judge compares the bucket with the bound.
func (d *drainWorld) judge() error {
	held := d.held(d.processes[0], d.limit)
	// A drained shard has less than a millitoken at the instant. A split gives the first half the
	// larger share of an odd rate.
	most := new(big.Rat).Add(d.most, big.NewRat(1, 10))
	if d.now.Load() <= d.until && held.Cmp(most) > 0 { // other worlds check buckets near full
		return fmt.Errorf("%s tokens are held, %s at most may be", held.FloatString(3), d.most.FloatString(3))
	}
	if d.granted > d.returned {
		return fmt.Errorf("%d tokens granted before the instant, and %d given back", d.granted, d.returned)
	}
	return nil
}

// meddling is the store of a draining process: others act between its calls, and it can have a
// defect.
type meddling struct {
	store.Store
	mu      sync.Mutex
	t       *testing.T
	w       *drainWorld
	planted string
}

func (m *meddling) Write(ctx context.Context, w item.Write) (item.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := w.(item.Update)
	if !ok || m.w.drains == 0 {
		return m.Store.Write(ctx, w)
	}
	for range m.w.rng.IntN(3) {
		m.w.step(m.t, 1)
		m.w.pass(m.w.rng.Int64N(20))
	}
	switch m.planted {
	case "shard 0 alone":
		if _, _, _, k, _ := layout.ParseBucketPK(u.Key.PK); k > 0 { // reports the others as drained
			if it, held, err := u.Apply(m.w.db.Item(u.Key)); held {
				return it, err
			}
		}
	case "whatever others took":
		u.If = item.Exists(item.AttrPK)
	case "no generation":
		u.Set = slices.DeleteFunc(u.Set, func(a item.Attr) bool { return a.Name == table.AttrGeneration })
	}
	chance := m.w.rng.IntN(10)
	if chance == 0 {
		return nil, memdynamo.Fail(store.Unknown)
	}
	it, err := m.Store.Write(ctx, u)
	if refused, ok := errors.AsType[*store.Refused](err); ok && m.planted == "one pass" && refused.Old != nil {
		return refused.Old, nil
	}
	if chance == 1 && err == nil {
		return nil, memdynamo.Fail(store.Unknown)
	}
	return it, err
}

func playDrains(t *testing.T, seed uint64, planted string) (*drainWorld, error) {
	rng := rand.New(rand.NewPCG(seed, 40))
	d := &drainWorld{world: newWorld(t), rng: rng, planted: planted, limit: PerMinute("rpm", 40+rng.Int64N(4000)),
		returns: rng.IntN(2) == 0, events: map[string]int{}}
	d.limit.Capacity += rng.Int64N(2) * rng.Int64N(4000)
	d.most, d.at = big.NewRat(d.limit.Capacity, 1), d.now.Load()
	d.stream = &follower{w: d.world}
	first := d.process(Options{})
	for i := range 4 {
		opts := first.opts
		opts.DenyFor = time.Duration(rng.IntN(3)) * 500 * time.Millisecond
		var s store.Store = d.db.Bare()
		if i == 0 {
			s = &meddling{Store: s, t: t, w: d, planted: planted}
		}
		d.processes = append(d.processes, newLimiter(s, first.namespace, opts))
	}
	must(t, first, asks(Costs{"rpm": 0}, d.limit)) // creates the bucket
	for range 60 {
		d.pass(rng.Int64N(1500))
		d.step(t, 0)
		if err := d.judge(); err != nil {
			return d, err
		}
	}
	return d, nil
}

// Between the answer to a drain and its instant, only tokens given back since are granted, and the
// bucket holds no more, whatever others do meanwhile: take, settle, drain, split, merge, lose
// answers.
func TestDrainWorlds(t *testing.T) {
	t.Parallel()
	events := map[string]int{}
	for seed := range uint64(60) {
		d, err := playDrains(t, seed, "")
		check.Must(t, err, "seed %d, %v", seed, d.limit)
		for k, n := range d.events {
			events[k] += n
		}
	}
	t.Log(events)
}

// The worlds detect defects of a drain.
func TestDrainWorldsSeeDefects(t *testing.T) {
	for _, planted := range []string{"shard 0 alone", "whatever others took", "no generation", "one pass"} {
		caught := false
		for seed := uint64(0); seed < 400 && !caught; seed++ {
			_, err := playDrains(t, seed, planted)
			if caught = err != nil; caught {
				t.Logf("%s: seed %d: %v", planted, seed, err)
			}
		}
		if !caught {
			t.Errorf("%s: not detected", planted)
		}
	}
}
