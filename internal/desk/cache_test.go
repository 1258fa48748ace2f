package desk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

var someBucket = decide.Name{Entity: "acme", Resource: "gpt-4"}

// Concurrent requests for a bucket that is not remembered get the same desk.
func TestRequestsMeetAtOneDesk(t *testing.T) {
	for range 3000 {
		ds := newCache(Options{Size: 10})
		var got [4]*Desk
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				<-begin
				got[i] = ds.Of(someBucket)
			})
		}
		close(begin)
		all.Wait()
		if one := ds.Peek(someBucket); one == nil || got != [4]*Desk{one, one, one, one} {
			t.Fatalf("%v, want one of them", got)
		}
	}
}

// A pinned desk is not evicted, and counts, as long as half of the room is left to others. After
// its last pin it is the most recently used one.
func TestPinnedDesksStay(t *testing.T) {
	ds := newCache(Options{Size: 3})
	name := func(i int) decide.Name { return decide.Name{Entity: fmt.Sprint(i), Resource: "gpt-4"} }
	for i := range 3 {
		ds.Pin(name(100 + i))
	}
	ds.Of(name(10))
	ds.Of(name(11))
	if ds.Of(name(12)); len(ds.by) != 5 || ds.recent.Len() != 2 {
		t.Errorf("with three in use of three, %d others are remembered, want 2", ds.recent.Len())
	}
	for i := range 3 {
		ds.Unpin(name(100 + i))
	}
	pinned := ds.Pin(name(0))
	for i := range 5 {
		if ds.Pin(name(0)) != pinned || ds.Of(name(0)) != pinned || ds.Get(name(0)) != pinned {
			t.Fatal("another desk than the one that is pinned")
		}
		ds.Of(name(10 + i))
	}
	for i := range 6 { // five pins are off, one is on
		if n := ds.recent.Len(); n != 2 || len(ds.by) != 3 || ds.Peek(name(0)) != pinned {
			t.Fatalf("%d pins are off: %d desks are remembered of %d", i, n, len(ds.by))
		}
		ds.Unpin(name(0))
	}
	if len(ds.by) != 3 || ds.Peek(name(0)) != pinned || ds.Peek(name(14)) == nil {
		t.Error("a desk that is not pinned any more is not the one used last")
	}
	ds.Of(name(20))
	ds.Of(name(21))
	if ds.Of(name(22)); ds.Peek(name(0)) != nil || len(ds.by) != 3 {
		t.Error("a desk that was pinned stays for ever")
	}
	defer func() {
		if recover() == nil {
			t.Error("a desk is unpinned that is not pinned")
		}
	}()
	ds.Unpin(name(21))
}

// Whatever is used, the most recently used desks are remembered, and no more than there is room
// for. Peek does not count as use. A second version uses a list of names.
func TestTheDesksUsedLastAreRemembered(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	for room := range 9 {
		ds := newCache(Options{Size: room})
		var recent []decide.Name // the least recently used first
		pins := map[decide.Name]int{}
		forget := func(n decide.Name) {
			recent = slices.DeleteFunc(recent, func(o decide.Name) bool { return o == n })
		}
		use := func(n decide.Name) {
			if forget(n); pins[n] == 0 {
				recent = append(recent, n)
			}
		}
		for step := range 3000 {
			n := decide.Name{Entity: fmt.Sprint(rng.IntN(2*room + 2)), Resource: "gpt-4"}
			known := slices.Contains(recent, n) || pins[n] > 0
			switch rng.IntN(6) {
			case 0, 1:
				ds.Of(n)
				use(n)
			case 2:
				if got := ds.Get(n); (got != nil) != known {
					t.Fatalf("room for %d, step %d: got %v, want one that is remembered: %v", room, step, got, known)
				}
				if known {
					use(n)
				}
			case 3:
				ds.Peek(n)
			case 4:
				ds.Pin(n)
				pins[n]++
				forget(n)
			case 5:
				if pins[n] > 0 {
					ds.Unpin(n)
					pins[n]--
					use(n)
				}
			}
			pinned := 0
			for _, p := range pins {
				pinned += min(p, 1)
			}
			if most := max(room-pinned, (room+1)/2); len(recent) > most {
				recent = recent[len(recent)-most:]
			}
			for _, n := range recent {
				if ds.Peek(n) == nil {
					t.Fatalf("room for %d, step %d: %v is forgotten, want %v and %v", room, step, n, recent, pins)
				}
			}
			check.MustEqual(t, len(ds.by), len(recent)+pinned, "room for %d, step %d: desks", room, step)
			check.MustEqual(t, ds.full(), pinned >= room, "room for %d, step %d: all are in use", room, step)
		}
	}
}
