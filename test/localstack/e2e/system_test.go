package e2e

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// seededEntity is the one whose shards a test stores itself.
const seededEntity = "seeded"

// I1, I6: clients that always want more get all there is and no more, with one
// shard and with eight, while the aggregator refills beside them. least is the
// design's share in percent of capacity + rate * time, less what a full bucket was
// not refilled by while the machine did not run the clients. Of eight shards some
// can be full then, so a run in which a call took long says nothing about least.
func TestSaturationDeliversTheRateAndNoMore(t *testing.T) {
	for _, c := range []struct{ shards, clients, least int }{{1, 1, 99}, {1, 32, 99}, {8, 32, 95}} {
		t.Run(fmt.Sprintf("%d shards, %d clients", c.shards, c.clients), func(t *testing.T) {
			const slow = 200 * time.Millisecond
			switch had, slowest := saturate(t, c.shards, c.clients); {
			case had >= float64(c.least):
			case slowest > slow:
				t.Logf("void: %.1f %% of the tokens that were due were had, but a call took %v", had, slowest)
			default:
				t.Errorf("%.1f %% of the tokens that were due were delivered or are left, want %d %%", had, c.least)
			}
		})
	}
}

// saturate plays clients that always want more on a new bucket of 24 tokens and 20
// per second. It checks what must hold, and returns how many percent of the tokens
// that were due from the first request on were taken or are still there, and how long
// the slowest call took.
func saturate(t *testing.T, shards, clients int) (had float64, slowest time.Duration) {
	r := start(t, setup{shards: 4})
	tn := tenant{entity: seededEntity, resource: "gpt",
		limits: []limiter.Limit{limiter.PerSecond("rpm", 20).WithCapacity(24)}}
	for k := range shards {
		r.put(r.seeded(tn, k, shards, 0).Item())
	}
	const length = 3 * time.Second
	l := r.play(load{clients: clients, tenants: []tenant{tn}, length: length, seed: 3})
	end := now()
	left := r.left(tn, end)
	events := l.Page(tn.account("rpm")).Events
	all, err := l.Judge(0, false) // nothing is given back: the promise is literal
	worst, ok := all.Worst()
	if err != nil || !ok || worst.Excess > 0 {
		t.Errorf("%v, %v", worst.Result, err)
	}
	// There was a full bucket, and what it was refilled by from the first request
	// on. What is not taken and not there is lost.
	span := end - events[0].Sent
	due := l.due(24, 20, events, end)
	had = 100 * (float64(l.granted) + left) / due
	for _, g := range events {
		slowest = max(slowest, time.Duration(g.Answered-g.Sent)*time.Millisecond)
	}
	for _, d := range l.denials {
		slowest = max(slowest, time.Duration(d.answered-d.sent)*time.Millisecond)
	}
	t.Logf("delivered=%d left=%.2f of %.2f tokens in %d ms (%.1f %%); denied=%d; worst_excess=%d millitokens, bound=0",
		l.granted, left, due, span, had, l.denied, worst.Excess)
	r.rest()
	r.hold(r.observe(l))
	return had, slowest
}

// due returns how many tokens a full bucket held and was refilled by, a second, from
// the first request on until end: all the time but while it was full, because nobody
// had asked. Who is denied shows that nothing was left, unless the answer took so long
// that there may be again.
func (l *book) due(capacity, rate float64, grants []loadcheck.Event, end int64) float64 {
	const soon = 100 // ms
	type answer struct {
		at     int64
		denied bool
	}
	var all []answer
	for _, g := range grants {
		all = append(all, answer{at: g.Answered})
	}
	for _, d := range l.denials {
		if d.answered-d.sent <= soon {
			all = append(all, answer{d.answered, true})
		}
	}
	slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
	due, held, last := capacity, capacity, grants[0].Sent
	for _, a := range all {
		earned := min(rate*float64(a.at-last)/1000, capacity-held)
		due, held, last = due+earned, max(held+earned-1, 0), a.at
		if a.denied {
			held = 0
		}
	}
	return due + min(rate*float64(end-last)/1000, capacity-held)
}

// left returns how many tokens of rpm the shards of a bucket hold.
func (r *rig) left(tn tenant, at int64) float64 {
	sum := new(big.Rat)
	for k := 0; ; k++ {
		b, ok := r.shard(tn.entity, tn.resource, k)
		if !ok {
			tokens, _ := sum.Quo(sum, buckettest.Milli(bucket.Milli)).Float64()
			return tokens
		}
		sum.Add(sum, buckettest.LevelAt(b.State, b.State.Index("rpm"), at))
	}
}

// D13: the aggregator refills what the stored tokens would not cover once more,
// so that the next request is one write that needs no clock, and mints nothing. What is
// lacking is back within 2 ms, and no batch is delivered before the batching window is over.
func TestBucketsAreKeptWarm(t *testing.T) {
	r := start(t, setup{})
	tn := tenant{entity: "warm", resource: "gpt", most: 1, limits: []limiter.Limit{
		limiter.PerSecond("rpm", 20_000).WithCapacity(100), limiter.PerSecond("tpm", 1_000_000).WithCapacity(10_000)}}
	l := new(book)
	for range 8 {
		c := call{tenant: tn, costs: limiter.Costs{"rpm": 70, "tpm": 6000}, sent: now()}
		if _, err := r.lib.Acquire(t.Context(),
			limiter.Request{Entity: tn.entity, Resource: tn.resource, Costs: c.costs, Limits: tn.limits}); err != nil {
			t.Fatal(err)
		}
		c.answered = now()
		l.grant(c)
		r.rest()
		after, _ := r.shard(tn.entity, tn.resource, 0)
		for _, sl := range after.State.Slots {
			if cost := c.costs[sl.Name] * 1000; sl.Tokens < cost {
				t.Errorf("stored %v: %s does not cover %d millitokens once more", after.State, sl.Name, cost)
			}
		}
	}
	o, refills := r.observe(l), 0
	r.hold(o)
	for _, c := range o.changes {
		if c.old != nil && c.new.State.RF > c.old.State.RF && used(c.new, "rpm") == used(c.old, "rpm") {
			refills++
		}
	}
	t.Logf("refilled %d of %d times before the client came back", refills, l.granted)
	if refills != l.granted {
		t.Errorf("refilled %d times, want once for each of %d requests", refills, l.granted)
	}
}

// D5: when the count of shard 0 grows, every other shard gets there, whatever
// becomes of the process on the way; and at every instant the shares add up and
// nothing is minted.
func TestShardCountReachesEveryShardAfterACrashAtEveryStep(t *testing.T) {
	crashed, steps := 0, 0
	r := start(t, setup{shards: 2})
	l := new(book)
	for at := 1; ; at++ {
		for _, applied := range []bool{false, true} {
			tn := tenant{entity: fmt.Sprintf("grow-%d-%v", at, applied), resource: "gpt", limits: hot.limits}
			kill := r.crashAt(at, applied, func(c callInfo) bool { return c.Operation == "TransactWriteItems" })
			r.grow(tn, 3)
			r.rest()
			r.Proxy.Clear()
			crashed += kill()
			for k := range 8 {
				b, ok := r.shard(tn.entity, tn.resource, k)
				if !ok || b.State.Shards != 8 {
					t.Fatalf("crash at step %d (applied: %v): shard %d is %v", at, applied, k, b.State)
				}
			}
			if applied {
				steps = at
			}
		}
		if crashed < 2*at || !long() && at == 2 {
			break // there is no such step any more
		}
	}
	o := r.observe(l)
	for _, c := range []check{writesConserve, sharesAddUp} {
		broken, figures := c.find(o)
		t.Logf("%-24s %s", c.name, figures)
		for _, b := range first(broken, 5) {
			t.Errorf("%s: %s", c.name, b)
		}
	}
	t.Logf("crashed=%d times, at each of the first %d steps", crashed, steps)
	if crashed < 4 {
		t.Error("hardly anything crashed")
	}
}

// grow stores a bucket and doubles its shard 0 so often, as clients do that feel
// it is hot. The other shards are left for the aggregator.
func (r *rig) grow(tn tenant, times int) {
	r.t.Helper()
	r.put(r.seeded(tn, 0, 1, 0).Item())
	for range times {
		zero, _ := r.shard(tn.entity, tn.resource, 0)
		if err := r.direct.Transact(r.t.Context(), rand.Text(),
			table.Split(zero, time.Now().UnixMilli())); err != nil {
			r.t.Fatal(err)
		}
	}
}
