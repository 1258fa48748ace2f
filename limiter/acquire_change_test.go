package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// TestChangedLimits (W2, W10, W12): whatever the new limits are, the next request that needs them
// is decided by them, in this process and in others, and the change adds no tokens except the first
// fill of a new limit.
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
					inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
						other := w.process(Options{})
						must(t, l, asks(Costs{"rpm": c.spent}, base...))
						check.Must(t, check.Err(other.Acquire(t.Context(), asks(Costs{"rpm": 0}, base...))))
						if shards > 1 {
							w.split(l, shards)
						}
						p := map[string]*Limiter{"same process": l, "another process": other, "fresh process": w.process(Options{})}[who]
						got := map[string]int64{}
						for name := range c.want {
							// Apply the change on every shard before counting.
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

// TestLimitDroppedAndAddedAgain: a limit that is temporarily not in force returns with its tokens
// plus the refill since then.
func TestLimitDroppedAndAddedAgain(t *testing.T) {
	w, l := newProcess(t, Options{})
	both, one := []Limit{rpm10, tpm1000}, []Limit{rpm10}
	must(t, l, asks(Costs{"tpm": 1000}, both...))
	must(t, l, asks(Costs{"rpm": 1}, one...))
	check.MustBe(t, check.Err(l.Acquire(t.Context(), asks(Costs{"tpm": 1}, both...))), ErrLimited,
		"dropping a limit refilled it")
	// A limit not in force does not deny, even in debt.
	lease := must(t, l, asks(Costs{"rpm": 1}, both...))
	check.Must(t, adjustThenCommit(Costs{"tpm": 500})(t.Context(), lease))
	must(t, l, asks(Costs{"rpm": 1}, one...))
	w.advance(31 * time.Second)
	must(t, l, asks(Costs{"rpm": 1}, one...))
	wantGranted(t, l, asks(Costs{"tpm": 1}, both...), 16)
}

// TestLifetimes (wire format 1.4): a bucket with limits of the entity on the resource never
// expires. With any other limits it expires after seven times its fill time, and every refill
// renews that.
func TestLifetimes(t *testing.T) {
	for _, lv := range levels {
		t.Run(lv.name, func(t *testing.T) {
			w, l := newProcess(t, Options{ConfigTTL: -1})
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

// A raised limit, or one that refills faster, takes effect even if every request is denied: the
// denying limit is put in force, and then the reported wait is exact.
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
		w, l := newProcess(t, Options{})
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
				t.Fatalf("%v, from %v: at the reported instant %v", c.limit, c.old, err)
			}
		}
		w.sharesAddUp(l)
	}
}

// capacity returns the stored capacity of rpm, in tokens.
func (w *world) capacity(l *Limiter) int64 {
	s := w.shards(l, acme, gpt)[0].State
	return s.Slots[s.Index("rpm")].Capacity / 1000
}

// Two releases with different limits share a bucket. It does not change with every request, no
// request pays twice, and the last release wins until it is the other's turn.
func TestTwoReleasesDoNotFlipABucket(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new []Limit
		shards   int
	}{
		{"raised", []Limit{PerMinute("rpm", 600)}, []Limit{PerMinute("rpm", 1200)}, 1},
		{"lowered", []Limit{PerMinute("rpm", 1200)}, []Limit{PerMinute("rpm", 600)}, 1},
		{"one more", []Limit{PerMinute("rpm", 600)}, []Limit{PerMinute("rpm", 1200), PerMinute("tpm", 6000)}, 1},
		{"split", []Limit{PerMinute("rpm", 600)}, []Limit{PerMinute("rpm", 1200)}, 4},
	} {
		w := newWorld(t)
		yielded := 0
		observe := only(EventYield, func(e Event) {
			if yielded++; e.Limits[0].Name != "rpm" || e.Entity != acme || e.Resource != gpt {
				t.Errorf("%s: reported %+v", c.name, e)
			}
		})
		releases := []*Limiter{
			w.process(Options{Observe: observe}), w.process(Options{Observe: observe}),
			w.process(Options{Observe: observe}), w.process(Options{Observe: observe}),
		}
		limits := [][]Limit{c.old, c.old, c.new, c.new}
		must(t, releases[0], asks(Costs{"rpm": 1}, limits[0]...))
		w.split(releases[0], c.shards)
		must(t, releases[1], asks(Costs{"rpm": 1}, limits[1]...))
		writes, flips, granted := 0, 0, 0
		w.db.SetHook(onEvery(isWrite, func(op memdynamo.Op) (bool, error) { writes++; return true, nil }))
		last := w.capacity(releases[0])
		seen := map[int64]int{}  // by the capacity under which a grant was decided
		for step := range 1200 { // 5 minutes, four requests a second
			i := step % 4
			lease, err := releases[i].Acquire(t.Context(), asks(Costs{"rpm": 1}, limits[i]...))
			check.Must(t, err, "%s: step %d", c.name, step)
			granted++
			if now := w.capacity(releases[0]); now != last {
				flips, last = flips+1, now
			}
			seen[lease.Status()[0].Capacity]++
			w.advance(250 * time.Millisecond)
		}
		t.Logf("%s: %d writes for %d grants, %d flips, capacity %v, told %d times", c.name, writes, granted, flips, seen,
			yielded)
		if flips > 10*c.shards || writes > granted*108/100+20*c.shards { // every shard changes independently
			t.Errorf("%s: %d flips and %d writes for %d grants", c.name, flips, writes, granted)
		}
		if yielded == 0 || yielded > 24 || seen[c.new[0].Capacity] < 300 {
			t.Errorf("%s: reported %d times, capacity %v", c.name, yielded, seen)
		}
	}
}

// A process that has not yet read changed configuration uses the limits of those that have, whether
// it was changed once, changed back, or changed twice; and it never restores replaced limits.
func TestStaleConfigurationYields(t *testing.T) {
	w := newWorld(t)
	stale := w.process(Options{ConfigTTL: time.Hour})
	fresh := w.process(Options{ConfigTTL: -1})
	w.configure(stale, "", "", PerMinute("rpm", 100))
	must(t, stale, stored(Costs{"rpm": 1}))
	for _, n := range []int64{200, 100, 300, 400, 100, 200} {
		w.configure(stale, "", "", PerMinute("rpm", n))
		must(t, fresh, stored(Costs{"rpm": 1}))
		for range 3 {
			lease := must(t, stale, stored(Costs{"rpm": 1}))
			if got := lease.Status()[0].Capacity; got != n || w.capacity(stale) != n {
				t.Fatalf("changed to %d: the stale process uses %d, stored is %d", n, got, w.capacity(stale))
			}
			must(t, fresh, stored(Costs{"rpm": 1}))
			w.advance(time.Second)
		}
	}
	w.advance(time.Minute) // it yields for this long
	must(t, stale, stored(Costs{"rpm": 1}))
	check.Equal(t, w.capacity(stale), 100, "the capacity a minute later: of the one that insists")
}

// If some processes have a limit as soft and others as hard, it denies to the latter, whichever
// came last; the former yield, and put theirs in force about once a minute.
func TestHardLimitsDoNotYieldToSoftOnes(t *testing.T) {
	for _, shards := range []int{1, 4} {
		w := newWorld(t)
		hard := PerMinute("rpm", 60)
		limits := []Limit{hard, hard.AsSoft(), hard, hard.AsSoft()}
		var fleet []*Limiter
		for range limits {
			fleet = append(fleet, w.process(Options{}))
		}
		must(t, fleet[0], asks(Costs{"rpm": 1}, hard))
		w.split(fleet[0], shards)
		stored := func() (soft int) {
			for _, b := range w.shards(fleet[0], acme, gpt) {
				if b.State.Slots[b.State.Index("rpm")].Soft {
					soft++
				}
			}
			return soft
		}
		begin, granted, flips, last := w.now.Load(), int64(1), 0, 0
		for step := range 2400 { // 10 minutes, four requests a second
			i := step % 4
			lease, err := fleet[i].Acquire(t.Context(), asks(Costs{"rpm": 1}, limits[i]))
			if err != nil && !errors.Is(err, ErrLimited) {
				t.Fatalf("step %d: %v", step, err)
			}
			if err == nil && !limits[i].Soft {
				granted++
				if lease.Status()[0].Soft {
					t.Fatalf("step %d: granted by the soft limit of others", step)
				}
			}
			if now := stored(); now != last {
				flips, last = flips+1, now
			}
			if most := 60 + (w.now.Load()-begin)/1000; granted > most {
				t.Fatalf("step %d: %d granted, at most %d", step, granted, most)
			}
			w.advance(250 * time.Millisecond)
		}
		// Two processes, each about once a minute, back and forth, on every shard.
		if flips == 0 || flips > 2*2*12*shards {
			t.Errorf("%d shards: %d flips", shards, flips)
		}
	}
}

// Cascades yield too, before they predict a denial.
func TestCascadesYield(t *testing.T) {
	w, l := family(t, 100, Options{ConfigTTL: time.Hour})
	must(t, l, stored(Costs{"rpm": 1}))
	other := w.process(Options{})
	w.configure(l, "org", gpt, PerMinute("rpm", 200))
	must(t, other, Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 1}})
	var writes atomic.Int64
	w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { writes.Add(1); return true, nil }))
	for range 3 {
		lease, err := l.Acquire(context.Background(), stored(Costs{"rpm": 1}))
		if err != nil || fmt.Sprint(lease.Status()[1].Capacity) != "200" {
			t.Fatalf("%v, %+v", err, lease.Status())
		}
	}
	if n := writes.Load(); n > 7 {
		t.Errorf("%d writes for three cascades of two", n)
	}
}
