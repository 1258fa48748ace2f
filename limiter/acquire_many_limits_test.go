package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Limits that are no longer wanted stay stored, because dropping them and taking
// them up again must not refill them. So a bucket may get more limits than one
// condition can name. It can be charged, settled and refilled nevertheless, and
// none of them is refilled by coming back.
func TestBucketOfEverNewLimits(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	const names = 80
	ask := func(i int) (Limit, Request) {
		limit := PerMinute(fmt.Sprintf("tpm-%02d", i), 100)
		return limit, asks(Costs{limit.Name: 60}, limit)
	}
	for i := range names {
		limit, req := ask(i)
		lease := must(t, l, req)
		if err := adjustThenCommit(Costs{limit.Name: 30})(t.Context(), lease); err != nil {
			t.Fatalf("limit %d: settle: %v", i, err)
		}
		w.wantHeld(l, limit, 10)
		w.advance(100 * time.Millisecond)
	}
	if n := len(w.shards(l, acme, gpt)[0].State.Slots); n != names+1 {
		t.Fatalf("%d limits are stored, want %d and the meter", n, names)
	}
	for _, i := range []int{0, names / 2, names - 1} {
		if _, req := ask(i); drain(t, l, req) != 0 {
			t.Errorf("limit %d has been refilled", i)
		}
	}
}

// Limits that are replaced by others again and again, as by a release, leave the
// bucket once they are full, and the ones in force get all of their refill.
func TestRenamedLimitsLeave(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	for i := range 100 {
		limit := PerMinute(fmt.Sprintf("tpm-%02d", i%50), 6)
		req := asks(Costs{limit.Name: 1}, limit)
		if n := drain(t, l, req); n != 6 {
			t.Fatalf("release %d: %d granted at once, want 6", i, n)
		}
		w.advance(30 * time.Second)
		if n := drain(t, l, req); n != 3 {
			t.Fatalf("release %d: %d granted after 30s, want 3", i, n)
		}
		w.advance(time.Minute)
	}
	if n := len(w.shards(l, acme, gpt)[0].State.Slots); n > MaxLimits+2 {
		t.Errorf("%d limits are stored", n)
	}
}

// A write that cannot name all limits still lets the bucket live until all of them
// are full.
func TestUnnamedLimitsKeepTheBucketAlive(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	slow := PerDay("zzz", 10)
	must(t, l, asks(Costs{"zzz": 10}, slow))
	for i := range 60 {
		w.advance(time.Second)
		name := fmt.Sprintf("tpm-%02d", i)
		must(t, l, asks(Costs{name: 1}, PerMinute(name, 100)))
	}
	b := w.shards(l, acme, gpt)[0]
	if i := b.State.Index("zzz"); i < 0 || b.State.Slots[i].Tokens > bucket.Milli {
		t.Fatalf("%s is refilled already: %v", slow, b.State)
	}
	if full := b.State.FullAt(w.now.Load()); b.TTL != 0 && b.TTL*1000 < full {
		t.Errorf("expires %d s before it is full", full/1000-b.TTL)
	}
}
