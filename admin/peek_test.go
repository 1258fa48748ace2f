package admin

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Peek sees the whole bucket, refilled to now, of the entity and of every parent
// that is charged with it, and changes nothing.
func TestPeek(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 80))
	w.create(Entity{ID: "root"})
	w.create(Entity{ID: "org", Parent: "root"}) // does not cascade
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	w.set(Scope{"acme", "gpt-4"}, rpm10, tpm500)
	peek := func() []Bucket {
		t.Helper()
		got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
		w.must(err)
		return got
	}
	got := peek()
	if len(got) != 2 || got[0].Exists || got[0].Levels[0].Remaining != 10 || got[0].Levels[1].Remaining != 500 ||
		got[1].Entity != "org" ||
		!got[0].Stored || got[0].From != scopes[0] || got[1].From != (Scope{}) || got[1].Levels[0].Remaining != 80 {
		t.Fatalf("before any bucket %+v", got)
	}
	w.must(w.ns.DeleteLimits(t.Context(), Scope{"acme", "gpt-4"}))
	w.split("org", "gpt-4", 2) // takes 1
	before := w.db.Snapshot()
	w.advance(375 * time.Millisecond) // half a token
	got = peek()
	if b := got[1]; !b.Exists || b.Shards != 4 || b.Levels[0].Remaining != 79 || b.Levels[0].FullIn <= 0 ||
		b.Levels[0].Used != 1 ||
		b.Levels[0].Limit != limiter.PerMinute("rpm", 80) || len(b.Levels) != 1 {
		t.Errorf("split bucket %+v", b)
	}
	w.advance(375 * time.Millisecond)
	if b := peek()[1]; b.Levels[0].Remaining != 80 && b.Levels[0].FullIn > time.Second {
		t.Errorf("filled bucket %+v", b)
	}
	for _, it := range before.Items() {
		if !item.EqualItems(it, w.db.Item(item.KeyOf(it))) {
			t.Errorf("%q has changed", item.KeyOf(it))
		}
	}
}

func TestPeekWithoutStoredLimits(t *testing.T) {
	w := newWorld(t)
	_, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	w.wants(err, limiter.ErrNoLimits)
	w.take("acme", "gpt-4", limiter.Costs{"own": 3}, limiter.PerMinute("own", 10))
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	if err != nil || len(got) != 1 || len(got[0].Levels) != 1 || got[0].Levels[0].Remaining != 7 || got[0].Stored ||
		got[0].Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of 10 tokens 4 are held for two seconds more: until then no more than 6 are left, and the
// rest refills from then on.
func TestPeekShowsWhatIsHeld(t *testing.T) {
	const now = 1_700_000_000_000
	l := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1_000, Period: 1_000}
	b := table.Shard{State: bucket.State{RF: now, HeldUntil: now + 2_000,
		Slots: []bucket.Slot{{Limit: l, Tokens: 6_000, Held: 4_000}}}}
	for _, c := range []struct{ after, left, held, full int64 }{
		{0, 6, 4, 6}, {1_000, 6, 4, 5}, {2_000, 6, 0, 4}, {6_000, 10, 0, 0},
	} {
		got := level(l, []table.Shard{b}, now+c.after)
		if got.Remaining != c.left || got.Held != c.held || got.FullIn != time.Duration(c.full)*time.Second {
			t.Errorf("after %d ms: %d left, %d held, full in %v", c.after, got.Remaining, got.Held, got.FullIn)
		}
	}
}

// A limit that blocks leaves nothing, whatever it is stored with.
func TestPeekAtABlockedLimit(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "gpt-4"}, limiter.Blocked("rpm"))
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	w.must(err)
	if l := got[0].Levels; len(l) != 1 || !l[0].Limit.IsBlocked() || l[0].Remaining != 0 {
		t.Errorf("levels %+v", l)
	}
}
