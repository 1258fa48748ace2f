package desk

import (
	"fmt"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

var someBucket = decide.Name{Entity: "acme", Resource: "gpt-4"}

// Requests that meet at a bucket which is not remembered get the same desk.
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

// A desk that is pinned is not evicted, and counts, as long as half of the room is left to others. After its
// last pin it is the one that was used last.
func TestPinnedDesksStay(t *testing.T) {
	ds := newCache(Options{Size: 3})
	name := func(i int) decide.Name { return decide.Name{Entity: fmt.Sprint(i), Resource: "gpt-4"} }
	for i := range 3 {
		ds.Pin(name(100 + i))
	}
	ds.Of(name(10))
	ds.Of(name(11))
	if ds.Of(name(12)); len(ds.by) != 5 || ds.recent.Len() != 2 {
		t.Errorf("beside three in use of three, %d others are remembered, want 2", ds.recent.Len())
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

// However many buckets a limiter has met, the number of its desks is bounded.
func TestDesksAreBounded(t *testing.T) {
	const room, names = 100, 100_000
	ds := newCache(Options{Size: room})
	for i := range names {
		n := decide.Name{Entity: fmt.Sprint(i), Resource: "gpt-4"}
		if ds.Of(n); i%2 == 0 {
			ds.Pin(n)
			ds.Unpin(n)
		}
		if len(ds.by) > room || ds.recent.Len() != len(ds.by) {
			t.Fatalf("%d desks, %d in order of use, want %d", len(ds.by), ds.recent.Len(), room)
		}
	}
}
