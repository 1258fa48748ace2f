package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A bucket that was deleted, and created again by a process whose clock is
// behind, looks older than the one that is remembered. The answer to a call that
// was made to learn the news is believed nevertheless.
func TestAnswerToAQuestionReplacesTheImage(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1}, PerHour("rpm", 10))
	drain(t, l, req)
	gone := item.Delete{Key: layout.BucketKey(l.namespace, acme, gpt, 0)}
	if _, err := w.db.Bare().Write(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	w.advance(-5 * time.Second)
	must(t, w.process(Options{}), req)
	w.advance(10 * time.Second)
	w.db.ResetStats()
	for n := range 9 {
		if _, err := l.Acquire(t.Context(), req); err != nil {
			t.Fatalf("after %d of 9 granted: %v", n, err)
		}
	}
	if n := w.db.Stats().Updates; n > 10 {
		t.Errorf("%d writes for 9 grants", n)
	}
}

// What all shards together do not hold is asked again like any denial: the bucket
// may have been deleted and created whole meanwhile.
func TestDenialOfAllShardsIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	l, other := w.process(Options{}), w.process(Options{})
	limit := PerMinute("rpm", 100)
	half := asks(Costs{"rpm": 50}, limit)
	must(t, l, asks(Costs{"rpm": 1}, limit))
	w.split(l, 4)
	drain(t, w.process(Options{}), asks(Costs{"rpm": 1}, limit))
	deniedBy(t, l, half)
	for _, b := range w.shards(l, acme, gpt) {
		if _, err := w.db.Bare().Write(t.Context(), item.Delete{Key: b.Key()}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, other, half)
	w.advance(time.Minute)
	w.db.ResetStats()
	for range 5 {
		if _, err := l.Acquire(t.Context(), half); err == nil {
			return
		}
		w.advance(time.Second)
	}
	t.Errorf("never granted, after %d writes", w.db.Stats().Updates)
}
