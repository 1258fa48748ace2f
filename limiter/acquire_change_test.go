package limiter

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// TestChangedLimits (W2, W10, W12): whatever the new limits are, the next
// request that needs them is decided by them, in this process and in others, and
// the change itself adds no tokens but the first fill of a limit that is new.
func TestChangedLimits(t *testing.T) {
	base := []Limit{rpm10}
	cases := []struct {
		name  string
		spent int64 // of the old 10
		next  []Limit
		want  map[string]int64 // granted one by one right after the change
	}{
		{"raised capacity adds nothing", 4, []Limit{PerMinute("rpm", 1000)}, map[string]int64{"rpm": 6}},
		{"lowered below the level", 4, []Limit{PerMinute("rpm", 2)}, map[string]int64{"rpm": 2}},
		{"lowered above the level", 8, []Limit{PerMinute("rpm", 5)}, map[string]int64{"rpm": 2}},
		{"other rate only", 4, []Limit{lim("rpm", 10, 1, time.Hour)}, map[string]int64{"rpm": 6}},
		{"another limit added", 4, []Limit{rpm10, PerMinute("tpm", 50)}, map[string]int64{"rpm": 6, "tpm": 50}},
		{"added one sorts first", 4, []Limit{PerMinute("a", 3), rpm10}, map[string]int64{"rpm": 6, "a": 3}},
		{"replaced by another", 4, []Limit{PerMinute("tpm", 50)}, map[string]int64{"tpm": 50}},
		{"added while empty", 10, []Limit{rpm10, PerMinute("tpm", 50)}, map[string]int64{"rpm": 0, "tpm": 50}},
	}
	for _, c := range cases {
		for _, who := range []string{"same process", "another process", "fresh process"} {
			for _, shards := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/%s/%d shards", c.name, who, shards), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						l := w.process(Options{})
						other := w.process(Options{})
						must(t, l, asks(Costs{"rpm": c.spent}, base...))
						if _, err := other.Acquire(t.Context(), asks(Costs{"rpm": 0}, base...)); err != nil {
							t.Fatal(err)
						}
						if shards > 1 {
							w.split(l, shards)
						}
						p := map[string]*Limiter{"same process": l, "another process": other, "fresh process": w.process(Options{})}[who]
						got := map[string]int64{}
						for name := range c.want {
							// Bring the change in on every shard before counting.
							got[name] = int64(drain(t, p, asks(Costs{name: 1}, c.next...)))
						}
						for name, want := range c.want {
							if d := want - got[name]; d != 0 && !(shards > 1 && d == 1) { // half tokens on two shards
								t.Fatalf("%s: %d granted, want %d", name, got[name], want)
							}
						}
						for _, b := range w.shards(l, acme, gpt) {
							for _, lim := range c.next {
								if i := b.State.Index(lim.Name); i < 0 || b.State.Slots[i].Limit != lim.stored() {
									t.Fatalf("shard %d has %v, want %v in force", b.State.Shard, b.State, lim)
								}
							}
						}
						w.sharesAddUp(l)
					})
				})
			}
		}
	}
}

// TestLimitDroppedAndAddedAgain: a limit that is not in force for a while comes
// back with what it had, plus what time has earned it.
func TestLimitDroppedAndAddedAgain(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	both, one := []Limit{rpm10, tpm1000}, []Limit{rpm10}
	must(t, l, asks(Costs{"tpm": 1000}, both...))
	must(t, l, asks(Costs{"rpm": 1}, one...))
	if _, err := l.Acquire(t.Context(), asks(Costs{"tpm": 1}, both...)); !errors.Is(err, ErrLimited) {
		t.Fatalf("dropping a limit refilled it: %v", err)
	}
	// A limit not in force does not deny, even in debt.
	lease := must(t, l, asks(Costs{"rpm": 1}, both...))
	if err := adjustThenCommit(Costs{"tpm": 500})(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	must(t, l, asks(Costs{"rpm": 1}, one...))
	w.advance(31 * time.Second)
	must(t, l, asks(Costs{"rpm": 1}, one...))
	if n := drain(t, l, asks(Costs{"tpm": 1}, both...)); n != 16 {
		t.Fatalf("%d granted, want the 16 that 31s have earned beyond a debt of 500", n)
	}
}

// TestSkeletonIsMended (W6): what an unconditional write of another client has
// left of a bucket is completed. Nothing but counters counts from a full bucket.
func TestSkeletonIsMended(t *testing.T) {
	key := func(l *Limiter) item.Key { return layout.BucketKey(l.namespace, acme, gpt, 0) }
	cases := []struct {
		name  string
		item  item.Item // besides the key
		edit  item.Item // or changes to a whole bucket of 10
		grant int
	}{
		{"adjust of a deleted bucket", item.Item{"b_rpm_tk": item.N(-3000), "b_rpm_tc": item.N(3000)}, nil, 7},
		{"rollback of a deleted bucket", item.Item{"b_rpm_tk": item.N(3000), "b_rpm_tc": item.N(-3000)}, nil, 10},
		{"rollback of much", item.Item{"b_rpm_tk": item.N(3_000_000), "b_rpm_tc": item.N(-3_000_000)}, nil, 10},
		{"shard count alone", item.Item{"shard_count": item.N(1)}, nil, 10},
		{"without capacity", nil, item.Item{"b_rpm_cp": nil}, 10},
		{"without period", nil, item.Item{"b_rpm_rp": nil}, 10},
		{"without counter", nil, item.Item{"b_rpm_tc": nil}, 10},
		{"without clock", nil, item.Item{"rf": nil}, 10},
		{"without shard count", nil, item.Item{"shard_count": nil}, 10},
		{"without write meter", nil, item.Item{"b_wcu_tk": nil, "b_wcu_cp": nil, "b_wcu_ra": nil, "b_wcu_rp": nil,
			"b_wcu_tc": nil}, 10},
		{"with half a write meter", nil, item.Item{"b_wcu_cp": nil}, 10},
		{"tokens without parameters for another limit", nil, item.Item{"b_tpm_tk": item.N(0)}, 10},
		{"parameters without tokens (W2)", nil, item.Item{"b_rpm_tk": nil}, 10},
		{"clock in the far future", nil, item.Item{"rf": item.N(1 << 45)}, 10},
		{"clock in the far future, empty", nil, item.Item{"rf": item.N(1 << 45), "b_rpm_tk": item.N(0)}, 0},
		{"without clock, empty", nil, item.Item{"rf": nil, "b_rpm_tk": item.N(0)}, 0},
		{"clock a little ahead", nil, item.Item{"rf": item.N(1_700_000_000_500)}, 10},
	}
	for _, c := range cases {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/fresh process %v", c.name, fresh), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					l := w.process(Options{})
					must(t, l, asks(Costs{"rpm": 0}, rpm10))
					if c.item != nil {
						it := key(l).Item()
						for k, v := range c.item {
							it[k] = v
						}
						w.db.Store(it)
					} else {
						w.edit(l, 0, c.edit)
					}
					if fresh {
						l = w.process(Options{})
					}
					if n := drain(t, l, asks(Costs{"rpm": 1}, rpm10)); n != c.grant {
						t.Fatalf("%d granted, want %d", n, c.grant)
					}
					w.advance(2 * time.Minute)
					if n := drain(t, l, asks(Costs{"rpm": 1}, rpm10)); n != 10 {
						t.Fatalf("%d granted two minutes later, want 10", n)
					}
					b := w.shards(l, acme, gpt)[0]
					if len(b.Partial) > 0 && c.name != "tokens without parameters for another limit" || b.State.NoClock ||
						b.State.Index(bucket.WCU) < 0 {
						t.Fatalf("not mended: %+v", b)
					}
				})
			})
		}
	}
}

// TestLifetimes (wire format 1.4): a bucket by limits of the entity on the
// resource never expires; by any other it does, after seven times what it takes
// to fill, and every refill renews that.
func TestLifetimes(t *testing.T) {
	for _, lv := range levels {
		t.Run(lv.name, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{ConfigTTL: -1})
			w.configure(l, lv.entity, lv.resource, rpm10)
			must(t, l, stored(Costs{"rpm": 10}))
			ttl := func() int64 { return w.shards(l, acme, gpt)[0].TTL }
			now := func() int64 { return w.now.Load() / 1000 }
			own := lv.name == "entity on resource"
			if own && ttl() != 0 || !own && ttl() != now()+420 {
				t.Fatalf("created with ttl in %d s", ttl()-now())
			}
			w.advance(6 * time.Second)
			must(t, l, stored(Costs{"rpm": 1}))
			if own && ttl() != 0 || !own && ttl() != now()+420 {
				t.Fatalf("refilled with ttl in %d s", ttl()-now())
			}
			// The limits move to the other kind of level and back.
			if own {
				w.db.Delete(layout.EntityConfigKey(l.namespace, acme, gpt))
				w.configure(l, "", "", rpm10)
			} else {
				w.configure(l, acme, gpt, rpm10)
			}
			w.advance(6 * time.Second)
			must(t, l, stored(Costs{"rpm": 1}))
			if own && ttl() != now()+420 || !own && ttl() != 0 {
				t.Fatalf("after the level changed: ttl in %d s", ttl()-now())
			}
		})
	}
}

// TestExpiredButPresent: the sweeper takes its time; a bucket whose ttl is past
// is revived with its old tokens and clock, by processes that know it or not.
func TestExpiredButPresent(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 10}, rpm10))
		w.edit(l, 0, item.Item{"ttl": item.N(w.now.Load()/1000 - 1)})
		w.advance(12 * time.Second)
		if fresh {
			l = w.process(Options{})
		}
		if n := drain(t, l, asks(Costs{"rpm": 1}, rpm10)); n != 2 {
			t.Fatalf("fresh process %v: %d granted, want the 2 that 12s have earned", fresh, n)
		}
		if b := w.shards(l, acme, gpt)[0]; b.TTL <= w.now.Load()/1000 {
			t.Fatalf("fresh process %v: still expired", fresh)
		}
	}
}

// A limit that is raised, or refills faster, does so also when every request is
// denied: what denies is brought in force, and then the time told is exact.
func TestRaisedLimitFillsWithoutAGrant(t *testing.T) {
	for _, c := range []struct {
		shards int
		old    Limit
		limit  Limit
		cost   int64
	}{
		{1, PerMinute("rpm", 5), PerMinute("rpm", 10), 8},
		{1, PerDay("rpm", 5), PerMinute("rpm", 5), 5},
		{1, PerMinute("rpm", 60).WithCapacity(5), PerHour("rpm", 60).WithCapacity(10), 10},
		{8, PerMinute("rpm", 40), PerMinute("rpm", 80), 8},
	} {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpm": 5}, c.old))
		w.split(l, c.shards)
		drain(t, l, asks(Costs{"rpm": 1}, c.old))
		req := asks(Costs{"rpm": c.cost}, c.limit)
		_, err := l.Acquire(t.Context(), req)
		for tries := 0; err != nil; tries++ {
			d, ok := errors.AsType[*LimitError](err)
			if !ok || d.Remaining >= d.Wanted && c.shards == 1 || tries > 2*c.shards {
				t.Fatalf("%v, from %v on %d shards, denied %d times: %v", c.limit, c.old, c.shards, tries, err)
			}
			w.advance(d.RetryAfter - time.Millisecond)
			if _, err = l.Acquire(t.Context(), req); err == nil {
				t.Fatalf("%v, from %v: granted a millisecond early", c.limit, c.old)
			}
			w.advance(time.Millisecond)
			if _, err = l.Acquire(t.Context(), req); err != nil && c.shards == 1 {
				t.Fatalf("%v, from %v: at the told instant %v", c.limit, c.old, err)
			}
		}
		w.sharesAddUp(l)
	}
}

// Two releases that want different limits of an exhausted bucket pay for bringing
// theirs in force, but no more often than for looks.
func TestDeniedOverridesDoNotFlapForEveryRequest(t *testing.T) {
	for _, processes := range []int{1, 2} {
		w := newWorld(t)
		ls := []*Limiter{w.process(Options{}), w.process(Options{})}[:processes]
		reqs := []Request{asks(Costs{"rph": 5}, PerHour("rph", 5)), asks(Costs{"rph": 10}, PerHour("rph", 10))}
		must(t, ls[0], reqs[0])
		w.db.ResetStats()
		const seconds = 20
		for range seconds * 20 {
			for i := range reqs {
				if _, err := ls[i%processes].Acquire(t.Context(), reqs[i]); !errors.Is(err, ErrLimited) {
					t.Fatal(err)
				}
			}
			w.advance(50 * time.Millisecond)
		}
		if n := w.db.Stats().Calls(); n > 4*processes*seconds {
			t.Errorf("%d processes: %d calls in %d s", processes, n, seconds)
		}
	}
}

// A request that is denied brings its limits in force on one shard at most, also if it may always ask.
func TestADenialBringsItsLimitsToOneShard(t *testing.T) {
	w := newWorld(t)
	old, limit := PerHour("rpm", 40), PerHour("rpm", 44)
	first := w.process(Options{MaxShards: 4})
	must(t, first, asks(Costs{"rpm": 0}, old))
	w.split(first, 4)
	must(t, first, asks(Costs{"rpm": 0}, old))
	drain(t, first, asks(Costs{"rpm": 1}, old))
	l := w.process(Options{MaxShards: 4, DenyFor: -1})
	for range 3 {
		if _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 5}, limit)); !errors.Is(err, ErrLimited) {
			t.Fatal(err)
		}
		n := 0
		for _, b := range w.shards(l, acme, gpt) {
			if b.State.Slots[b.State.Index("rpm")].Limit.Amount == limit.stored().Amount {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d shards have the limits, want 1", n)
		}
	}
}
