package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
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
		got := w.peek("acme", "gpt-4")
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

// In a window of its schedule a limit is shown as it is in force there, and until when: with or without a bucket,
// which is one with the stored limits all the time.
func TestPeekInAWindow(t *testing.T) {
	w := newWorld(t) // at 22:13:20 UTC
	l := limiter.PerMinute("rpm", 60).During("* 22 * * *", "", limiter.Limit{Capacity: 10, Refill: 6})
	w.set(Scope{}, l)
	wants := func(when string, exists bool, capacity, refill, left int64, changes time.Duration) {
		t.Helper()
		got := w.peek("acme", "gpt-4")
		b := got[0]
		if one := b.Levels[0]; b.Exists != exists || !one.Stored || one.Capacity != capacity || one.Refill != refill ||
			one.Remaining != left || one.ChangesIn != changes || one.Schedule != l.Schedule {
			t.Errorf("%s: %+v", when, b)
		}
	}
	in := time.Hour - 13*time.Minute - 20*time.Second + time.Second // behind the edge, when all clocks are past it
	wants("in the window", false, 10, 6, 10, in)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 4})
	wants("taken", true, 10, 6, 6, in)
	w.advance(in)
	wants("behind it", true, 60, 60, 10, 23*time.Hour)
	w.advance(23 * time.Hour)
	wants("in the next", true, 10, 6, 10, time.Hour)
}

func TestPeekWithoutStoredLimits(t *testing.T) {
	w := newWorld(t)
	w.wants(check.Err(w.ns.Peek(t.Context(), "acme", "gpt-4")), limiter.ErrNoLimits)
	w.take("acme", "gpt-4", limiter.Costs{"own": 3}, limiter.PerMinute("own", 10))
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	if err != nil || len(got) != 1 || len(got[0].Levels) != 1 || got[0].Levels[0].Remaining != 7 || got[0].Stored ||
		got[0].Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// A level is the sum over all shards, whole tokens rounded down. What is held is not there yet, and has no room to
// refill before that is over. It is full when the last shard is, and never where that takes longer than a Duration.
// What expired unused was not used.
func TestLevelsOfShards(t *testing.T) {
	const rps, slow, days = 1_000, 24 * 3_600_000, 24 * time.Hour
	for _, c := range []struct {
		name           string
		period         int64 // of a tenth of the capacity
		tokens         []int64
		held, after    int64 // for two seconds more, and how much later it is
		left, heldThen int64
		full           time.Duration
	}{
		{"held", rps, []int64{6}, 4, 0, 6, 4, 6 * time.Second},
		{"held, a second later", rps, []int64{6}, 4, 1_000, 6, 4, 5 * time.Second},
		{"no longer held", rps, []int64{6}, 4, 2_000, 6, 0, 4 * time.Second},
		{"full again", rps, []int64{6}, 4, 6_000, 10, 0, 0},
		{"the second is full last", rps, []int64{5, 2}, 0, 0, 7, 0, 6 * time.Second},
		{"the first is full last", rps, []int64{2, 5}, 0, 0, 7, 0, 6 * time.Second},
		{"in debt", slow, []int64{-990}, 0, 0, -990, 0, 1_000 * days},
		{"in debt for ever", slow, []int64{-999_990}, 0, 0, -999_990, 0, never},
	} {
		l := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1_000, Period: c.period}
		var shards []table.Shard
		for k, tokens := range c.tokens {
			s := bucket.New([]bucket.Limit{l}, k, len(c.tokens), start)
			sl := &s.Slots[s.Index("rps")]
			sl.Tokens, sl.Used, sl.Ended = tokens*1_000, 5_000, 2_000
			sl.Held, s.HeldUntil = c.held*1_000, start+2_000
			shards = append(shards, table.Shard{State: s})
		}
		got := level(l, shards, start+c.after)
		if got.Remaining != c.left || got.Held != c.heldThen || got.FullIn != c.full || got.Used != 3*int64(len(shards)) {
			t.Errorf("%s: %d left, %d held, %d used, full in %v", c.name, got.Remaining, got.Held, got.Used, got.FullIn)
		}
	}
}

// Of an in-flight limit it tells how many slots are free, and how many are taken now.
func TestPeekAtSlots(t *testing.T) {
	w := newWorld(t)
	jobs := limiter.InFlight("jobs", 5, time.Minute)
	w.set(Scope{}, jobs)
	l := w.limiter()
	for range 2 {
		lease, err := acquire(l, limiter.Costs{"jobs": 2})
		w.must(err)
		if lv := w.peek("acme", "gpt-4")[0].Levels[0]; lv.Remaining != 3 || lv.Used != 2 || lv.Limit != jobs {
			t.Errorf("%+v, want 3 free and 2 used", lv)
		}
		w.must(lease.Commit(t.Context()))
	}
	if lv := w.peek("acme", "gpt-4")[0].Levels[0]; lv.Remaining != 5 || lv.Used != 0 {
		t.Errorf("given back: %+v", lv)
	}
}

// Parents that charge each other in a circle, as others may have stored them, are shown once each, and of a longer
// chain no more than are ever charged.
func TestPeekAtParents(t *testing.T) {
	for want, parents := range map[string]map[string]string{
		"e0 e1 e2":       {"e0": "e1", "e1": "e2", "e2": "e0"},
		"e0 e1 e2 e3 e4": {"e0": "e1", "e1": "e2", "e2": "e3", "e3": "e4", "e4": "e5", "e5": "e6"},
	} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		for id, parent := range parents {
			w.db.Store(config.Entity{Namespace: w.ns.ID(), ID: id, Parent: parent, Cascade: true,
				CreatedAt: "2026-01-01T00:00:00Z"}.Item())
		}
		var got []string
		for _, b := range w.peek("e0", "gpt-4") {
			got = append(got, b.Entity)
		}
		check.Equal(t, strings.Join(got, " "), want)
	}
}

// An unused bucket is removed when its item says, and one with limits of its own is not.
func TestPeekShowsWhenABucketExpires(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	for i, parent := range []string{"org", ""} {
		if b := w.peek("acme", "gpt-4")[i]; b.Parent != parent || b.Cascade != (parent != "") {
			t.Errorf("the parent is not the one that is stored: %+v", b)
		}
	}
	expires := func() time.Time { return w.peek("acme", "gpt-4")[0].Expires }
	if want := time.Unix(w.bucket("acme", "gpt-4", 0).TTL, 0); !expires().Equal(want) || want.Unix() == 0 {
		t.Errorf("expires at %v, want %v", expires(), want)
	}
	w.set(Scope{"acme", "gpt-4"}, rpm10)
	if !expires().IsZero() {
		t.Errorf("expires at %v", expires())
	}
}

// A bucket shows the limits that it has: those of callers, where they bring their own, and none that
// are only stored. Where there is no bucket yet, it shows those that are stored.
func TestPeekShowsWhatTheBucketHas(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "api"}, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 500))
	peek := func(entity string) Bucket { return w.peek(entity, "api")[0] }
	if b := peek("nobody"); b.Exists || len(b.Levels) != 2 || !b.Levels[0].Stored || !b.Levels[1].Stored {
		t.Errorf("no bucket: %+v", b)
	}
	w.take("acme", "api", limiter.Costs{"own": 3, "rpm": 4}, limiter.PerMinute("own", 10), limiter.PerMinute("rpm", 50))
	b := peek("acme")
	if len(b.Levels) != 2 || b.Levels[0].Limit != limiter.PerMinute("own", 10) || b.Levels[0].Used != 3 ||
		b.Levels[1].Limit != limiter.PerMinute("rpm", 50) || b.Levels[1].Used != 4 || b.Levels[1].Remaining != 46 ||
		b.Levels[0].Stored || b.Levels[1].Stored {
		t.Errorf("callers' own limits: %+v", b.Levels)
	}
	rps := limiter.PerSecond("rps", 9).WithFloor("batch", 40).WithAhead(time.Second)
	w.set(Scope{Resource: "floors"}, rps)
	w.take("acme", "floors", limiter.Costs{"rps": 1})
	got := w.peek("acme", "floors")
	if !got[0].Exists || !got[0].Levels[0].Stored || got[0].Levels[0].Limit != rps {
		t.Errorf("what buckets do not have of a limit: %+v", got)
	}
	w.take("beta", "api", limiter.Costs{"rpm": 4})
	if b := peek("beta"); len(b.Levels) != 2 || !b.Levels[0].Stored || b.Levels[0].Remaining != 6 {
		t.Errorf("stored limits: %+v", b.Levels)
	}
	for b, err := range w.ns.Buckets(t.Context(), Scope{"acme", "api"}) {
		if w.must(err); len(b.Levels) != 2 || b.Levels[0].Name != "own" {
			t.Errorf("listed: %+v", b.Levels)
		}
	}
}

// Shards that differ, as one that a new limit has reached and one that it has not, show all limits.
func TestPeekShowsTheLimitsOfEveryShard(t *testing.T) {
	rpm, tpm := bucket.Limit{Name: "rpm", Capacity: 20_000, Amount: 20_000, Period: 60_000},
		bucket.Limit{Name: "tpm", Capacity: 40_000, Amount: 40_000, Period: 60_000}
	shards := []table.Shard{{State: bucket.New([]bucket.Limit{rpm}, 0, 2, start)},
		{State: bucket.New([]bucket.Limit{rpm, tpm}, 1, 2, start)}}
	got := whole(Scope{"acme", "api"}, inForce{limits: []bucket.Limit{rpm, tpm}}, shards, start)
	if len(got.Levels) != 2 || got.Levels[1].Name != "tpm" || got.Levels[1].Remaining != 40 || !got.Levels[1].Stored {
		t.Errorf("%+v", got.Levels)
	}
}
