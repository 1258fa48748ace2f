package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// A quota's status says when it is whole, and a floor is shown in whole tokens. See
// TestStatusesComeTrue for rates.
func TestStatusesOfQuotas(t *testing.T) {
	day := 24 * time.Hour
	daily := bucket.Limit{Name: "rpd", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	for floor, want := range map[int64]Status{0: {Remaining: 4}, 2500: {Remaining: 1, Floor: 3}} {
		want.Entity, want.Resource, want.Limit, want.Capacity = acme, gpt, "rpd", 10
		want.RefillAfter, want.ResetAfter = day, day
		level := decide.Level{Limit: daily, Milli: 4000, Floor: floor, Remaining: want.Remaining, Edge: day.Milliseconds()}
		if got := statuses(acmeGPT, []decide.Level{level})[0]; got != want {
			t.Errorf("floor %d:\n%+v, want\n%+v", floor, got, want)
		}
	}
}

// The status of slots cannot say when they will be free, whatever the floor of a class.
func TestStatusesOfSlots(t *testing.T) {
	jobs := InFlight("jobs", 10, 5*time.Second).stored()
	for milli, after := range map[int64]time.Duration{10_000: 0, 9000: longestWait, 0: longestWait} {
		level := decide.Level{Limit: jobs, Milli: milli, Floor: 5000, Remaining: max(0, milli/1000-5)}
		want := Status{Entity: acme, Resource: gpt, Limit: "jobs", Capacity: 10, Remaining: level.Remaining,
			RefillAfter: after, ResetAfter: after, InFlight: true, Floor: 5}
		check.Equal(t, statuses(acmeGPT, []decide.Level{level})[0], want, "%d millislots", milli)
	}
}

// Every status comes true: after RefillAfter, and not a millisecond before, there is one token more
// than Remaining, and after ResetAfter the limit is full. Held tokens of others leave no room until
// they expire, and floors do not count.
func TestStatusesComeTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	held, floors, full := 0, 0, 0
	for n := range 20_000 {
		capacity := 1 + r.Int64N(20)
		period := time.Duration(1+r.Int64N(3000)) * time.Millisecond
		limit := lim("rps", capacity, 1+r.Int64N(7), period).stored()
		limit.Soft = r.IntN(5) == 0
		l := decide.Level{Limit: limit, Milli: limit.Capacity - r.Int64N(limit.Capacity+3000), Rest: r.Int64N(limit.Period)}
		if r.IntN(4) == 0 {
			l.Milli, l.Rest = limit.Capacity, 0
			full++
		}
		if r.IntN(3) == 0 {
			l.Held, l.Over = min(limit.Capacity, r.Int64N(4)*1000), 1+r.Int64N(3000)
			l.Milli = min(l.Milli, limit.Capacity-l.Held)
			held++
		}
		if r.IntN(3) == 0 {
			l.Floor = r.Int64N(limit.Capacity)
			floors++
		}
		l.Remaining, l.After, l.Estimated = r.Int64N(9), r.Int64N(9), r.IntN(2) == 0
		floor := l.Floor
		if limit.Soft {
			floor = 0
		}
		state := bucket.State{Shards: 1, RF: 1_000_000, HeldUntil: 1_000_000 + l.Over,
			Slots: []bucket.Slot{{Limit: limit, Tokens: l.Milli, Rest: l.Rest, Held: l.Held}}}
		level := func(ms int64) int64 { return state.At(state.RF + ms).Slots[0].Tokens }
		has := func(ms int64) int64 { return bucket.WholeAbove(level(ms), floor) }
		s := statuses(acmeGPT, []decide.Level{l})[0]
		more, whole := s.RefillAfter.Milliseconds(), s.ResetAfter.Milliseconds()
		can := bucket.WholeAbove(limit.Capacity, floor) > has(0)
		if (more > 0) != can || can && (has(more) <= has(0) || has(more-1) != has(0)) {
			t.Fatalf("run %d: %+v has one more than %d in %d ms: %d, then %d", n, l, has(0), more, has(more-1), has(more))
		}
		if level(whole) != limit.Capacity || whole > 0 && level(whole-1) == limit.Capacity {
			t.Fatalf("run %d: %+v is full in %d ms: %d", n, l, whole, level(whole))
		}
		want := Status{Entity: acme, Resource: gpt, Limit: "rps", Capacity: capacity, Refill: limit.Amount / 1000,
			Period: period, Remaining: l.Remaining, Soft: limit.Soft,
			RetryAfter: time.Duration(l.After) * time.Millisecond, RefillAfter: s.RefillAfter, ResetAfter: s.ResetAfter,
			Held: l.Held / 1000, Estimated: l.Estimated, Floor: (floor + 999) / 1000}
		check.MustEqual(t, s, want, "run %d", n)
	}
	if min(held, floors, full) < 1000 {
		t.Errorf("%d are held, %d have floors, %d are full: the random levels show little", held, floors, full)
	}
}

// TestNewLimitsRemainFull: a limit new to the bucket starts full, so its capacity remains: for a
// process with an image of the bucket, for a new one, in a denial, and in the first lease with that
// limit.
func TestNewLimitsRemainFull(t *testing.T) {
	rpm40, tpm := PerMinute("rpm", 40), PerMinute("tpm", 500)
	for _, parts := range []int{1, 4} {
		w, l := newProcess(t, Options{})
		must(t, l, asks(Costs{"rpm": 40}, rpm40))
		if parts > 1 {
			w.split(l, parts)
		}
		for name, who := range map[string]*Limiter{"warm": l, "cold": w.bystander(l)} {
			denied := deniedBy(t, who, asks(Costs{"rpm": 4, "tpm": 1}, rpm40, tpm))
			if denied.Limit != "rpm" || len(denied.Statuses) != 2 {
				t.Fatalf("%s, %d shards: %v, want a denial by rpm", name, parts, denied)
			}
			s := denied.Statuses[1]
			if s.Limit != "tpm" || s.Remaining != 500 || s.RetryAfter != 0 || s.ResetAfter != 0 {
				t.Errorf("%s, %d shards: %+v, want all 500 of tpm", name, parts, s)
			}
		}
		w.advance(time.Minute)
		must(t, l, asks(Costs{"rpm": 40}, rpm40)).Rollback(t.Context()) // reads all shards
		lease := must(t, l, asks(Costs{"rpm": 1, "tpm": 20}, rpm40, tpm))
		if s := lease.Status(); s[1].Limit != "tpm" || s[1].Remaining != 480 {
			t.Errorf("%d shards: granted with %+v, want 480 left", parts, s)
		}
	}
}

// TestRemainingCanBeHad: the remaining tokens in a denial or a lease of a sharded bucket are what
// one request can get. Fractions of tokens on each shard are not.
func TestRemainingCanBeHad(t *testing.T) {
	for _, shards := range []int{1, 8, 32} {
		w, l := newProcess(t, Options{})
		limit := PerSecond("rps", 320)
		must(t, l, asks(Costs{"rps": 0}, limit))
		if shards > 1 {
			w.split(l, shards)
		}
		for range shards + 2 { // all shards are read, and empty
			l.Acquire(t.Context(), asks(Costs{"rps": 320}, limit))
		}
		drain(t, l, asks(Costs{"rps": 1}, limit))
		seen := map[int64]bool{}
		for range 60 {
			w.advance(3 * time.Millisecond) // 0.96 tokens in all
			denied := deniedBy(t, l, asks(Costs{"rps": 200}, limit))
			if denied.Remaining >= denied.Wanted || denied.Remaining != denied.Statuses[0].Remaining {
				t.Fatalf("%d shards: %v, want denied for more than is left", shards, denied)
			}
			left := denied.Remaining
			seen[left] = true
			if _, err := w.bystander(l).Acquire(t.Context(), asks(Costs{"rps": left + 1}, limit)); err == nil {
				t.Fatalf("%d shards: %d left, and %d can be had", shards, left, left+1)
			}
			lease, err := l.Acquire(t.Context(), asks(Costs{"rps": left}, limit))
			check.Must(t, err, "%d shards: %d left, and they cannot be had", shards, left)
			s := lease.Status()
			check.MustEqual(t, s[0].Remaining, 0, "%d shards: left after all that can be had", shards)
			check.Must(t, lease.Rollback(t.Context()))
		}
		if len(seen) < 2 {
			t.Errorf("%d shards: %v left, want different levels", shards, seen)
		}
	}
}
