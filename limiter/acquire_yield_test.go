package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// capacity returns the capacity of rpm that is stored, in tokens.
func (w *world) capacity(l *Limiter) int64 {
	s := w.shards(l, acme, gpt)[0].State
	return s.Slots[s.Index("rpm")].Capacity / 1000
}

// Two releases with different limits of their own share a bucket. It does not
// change with every request, nobody pays twice, and the one that came last prevails
// until it is the other's turn.
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
				t.Errorf("%s: told of %+v", c.name, e)
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
		seen := map[int64]int{}  // by the capacity that a grant went by
		for step := range 1200 { // 5 minutes, four requests a second
			i := step % 4
			lease, err := releases[i].Acquire(t.Context(), asks(Costs{"rpm": 1}, limits[i]...))
			if err != nil {
				t.Fatalf("%s: step %d: %v", c.name, step, err)
			}
			granted++
			if now := w.capacity(releases[0]); now != last {
				flips, last = flips+1, now
			}
			seen[lease.Status()[0].Capacity]++
			w.advance(250 * time.Millisecond)
		}
		t.Logf("%s: %d writes for %d grants, %d flips, capacity %v, told %d times", c.name, writes, granted, flips, seen,
			yielded)
		if flips > 10*c.shards || writes > granted*108/100+20*c.shards { // every shard changes by itself
			t.Errorf("%s: %d flips and %d writes for %d grants", c.name, flips, writes, granted)
		}
		if yielded == 0 || yielded > 24 || seen[c.new[0].Capacity] < 300 {
			t.Errorf("%s: told %d times, capacity %v", c.name, yielded, seen)
		}
	}
}

// Two places of one process that give different limits do not flip the bucket either.
func TestOneProcessWithTwoLimits(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	writes, flips, last := 0, 0, int64(0)
	w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { writes++; return true, nil }))
	for step := range 240 {
		must(t, l, asks(Costs{"rpm": 1}, PerMinute("rpm", 600+600*int64(step%2))))
		if now := w.capacity(l); now != last {
			flips, last = flips+1, now
		}
		w.advance(500 * time.Millisecond)
	}
	if flips > 8 || writes > 250 {
		t.Errorf("%d flips, %d writes for 240 grants", flips, writes)
	}
}

// A process that has not read changed configuration yet goes by what those who have
// set, whether it is changed once, back again, or to a third; and it never brings back
// what was replaced.
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
				t.Fatalf("changed to %d: the stale process goes by %d, stored is %d", n, got, w.capacity(stale))
			}
			must(t, fresh, stored(Costs{"rpm": 1}))
			w.advance(time.Second)
		}
	}
	w.advance(time.Minute) // for as long it yields
	must(t, stale, stored(Costs{"rpm": 1}))
	if got := w.capacity(stale); got != 100 {
		t.Errorf("a minute later the capacity is %d, want the 100 of the one that insists", got)
	}
}

// Where some have a limit as a soft one, it denies all the same to those that have it as a hard
// one, whoever came last; the others yield to that, and bring theirs about once a minute.
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
		// Two processes, each about once a minute, there and back, on every shard.
		if flips == 0 || flips > 2*2*12*shards {
			t.Errorf("%d shards: %d flips", shards, flips)
		}
	}
}

// Cascades yield too, before they foresee a denial.
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
