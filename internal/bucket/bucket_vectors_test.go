package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// These are the conformance vectors of the Python client's refill: tokens, last, now, capacity,
// amount, period -> tokens, last. Python moves its clock to the instant at which the credit was
// due, rounded down to whole milliseconds. We move the clock to now and keep the remainder. Where
// the credits differ, Python mints or loses tokens, and the table says which.
func TestRefillAgainstPythonVectors(t *testing.T) {
	for _, v := range []struct {
		tokens, last, now, capacity, amount, period int64
		python, pythonLast                          int64
		ours, rest                                  int64
		why                                         string // set if we differ from Python
	}{
		{0, 1000, 1000, 100_000, 100_000, 60_000, 0, 1000, 0, 0, ""},
		{0, 1000, 1001, 100_000, 100_000, 60_000, 1, 1000, 1, 40_000,
			"same credit; theirs leaves last at 1000 and would credit that millisecond again: mints"},
		{0, 1000, 1037, 100_000, 100_000, 60_000, 61, 1036, 61, 40_000,
			"same credit; theirs leaves a millisecond unconsumed that is worth more than the 40000/60000 due: mints"},
		{0, 1000, 999, 100_000, 100_000, 60_000, 0, 1000, 0, 0, ""},
		{99_999, 0, 10, 100_000, 100_000, 60_000, 100_000, 9, 100_000, 0,
			"same credit; theirs keeps a millisecond that a full bucket does not have: mints"},
		{-1500, 0, 60_000, 100_000, 1000, 60_000, -500, 60_000, -500, 0, ""},
		{150_000, 0, 1000, 100_000, 100_000, 60_000, 100_000, 999, 100_000, 0,
			"same level; theirs keeps a millisecond that a full bucket does not have: mints"},
		{150_000, 0, 0, 100_000, 100_000, 60_000, 150_000, 0, 100_000, 0,
			"a level above capacity is cut at once; theirs keeps it until it gains: over-admits"},
		{0, 0, 1, 10_000_000_000, 10_000_000_000, 60_000, 166_666, 0, 166_666, 40_000,
			"same credit; theirs leaves last at 0 and would credit it all again: mints"},
		{0, 0, 86_399, 1000, 1000, 86_400_000, 0, 0, 0, 86_399_000,
			"same credit; theirs does not move last, but its writers store now and drop the remainder"},
		{0, 0, 86_400, 1000, 1000, 86_400_000, 1, 86_400, 1, 0, ""},
		{500, 0, 1, 1000, 1500, 1000, 501, 0, 501, 500,
			"same credit; theirs leaves last at 0 and would credit it again: mints"},
		{0, 0, 3, 1000, 7000, 3000, 7, 3, 7, 0, ""},
	} {
		r := bucket.Rate{Capacity: v.capacity, Amount: v.amount, Period: v.period}
		g := bucket.Refill(v.tokens, 0, r, v.now-v.last)
		if got := v.tokens + g.Credit; got != v.ours || g.Rest != v.rest {
			t.Errorf("%+v: ours is %d rest %d", v, got, g.Rest)
		}
		// Without a reason, Python is exact: it has this level, and no fraction of time left.
		clock := max(v.now, v.last)
		exact := v.ours == v.python && v.rest == 0 && (v.pythonLast == clock || v.python == v.tokens)
		check.Equal(t, exact, v.why == "", "%+v: exact", v)
	}
}

// calculate_retry_after(deficit, amount, period) in seconds. Python waits one millisecond more than
// the floor. We wait the shortest time that is enough.
func TestWaitAgainstPythonVectors(t *testing.T) {
	for _, v := range []struct {
		deficit, amount, period int64
		python, ours            int64 // ms
	}{
		{0, 1, 1, 0, 0},
		{-5, 1000, 1000, 0, 0},
		{1, 100_000, 60_000, 1, 1},
		{1000, 100_000, 60_000, 601, 600},
		{1500, 1000, 60_000, 90_001, 90_000},
		{1, 10_000_000_000, 60_000, 1, 1},
		{999, 7000, 3000, 429, 429},
	} {
		r := bucket.Rate{Capacity: 1 << 40, Amount: v.amount, Period: v.period}
		got := bucket.Wait(0, 0, r, v.deficit)
		check.Equal(t, got, v.ours, "Wait for %d at %d/%d ms", v.deficit, v.amount, v.period)
		if got > v.python || v.python > got+1 {
			t.Errorf("Wait for %d at %d/%d ms is %d, Python's is %d: want at most one more", v.deficit, v.amount, v.period, got,
				v.python)
		}
	}
}

// try_consume and force_consume on capacity 10 tokens, 10 per minute.
func TestTakeAgainstPythonVectors(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}
	for _, v := range []struct {
		tokens, cost, now int64
		granted           bool
		after, retry      int64
		why               string
	}{
		{5000, 5, 0, true, 0, 0, ""},
		{4999, 5, 0, false, 4999, 6, "Python says 7 ms: floor and one more"},
		{4999, 5, 6, true, 0, 0, ""},
		{-1500, 1, 0, false, -1500, 15_000, "Python says 15001 ms"},
		{-1, 0, 0, false, -1, 6, "Python says 7 ms"},
		{5000, -3, 0, true, 8000, 0, "giving back; Decide is not asked"},
	} {
		s := bucket.State{Slots: []bucket.Slot{{Limit: limit, Tokens: v.tokens}}}
		costs := []int64{v.cost * bucket.Milli}
		d := s.Decide(costs, v.now)
		if d.Granted != v.granted || !v.granted && d.At-v.now != v.retry {
			t.Errorf("%+v: %+v", v, d)
		}
		if v.granted {
			s = s.At(v.now).Take(costs)
		}
		check.Equal(t, s.Slots[0].Tokens, v.after, "%+v: level after", v)
	}
	for _, v := range []struct{ tokens, amount, now, after int64 }{
		{1000, 3, 0, -2000}, {1000, -20, 0, 21_000}, {1000, 2, 6000, 0},
	} {
		s := bucket.State{Slots: []bucket.Slot{{Limit: limit, Tokens: v.tokens}}}
		check.Equal(t, s.At(v.now).Take([]int64{v.amount * bucket.Milli}).Slots[0].Tokens, v.after,
			"force %+v: level", v)
	}
}

// The lifetime equals Python's, to the second.
func TestTTLSecondsAgainstPythonVectors(t *testing.T) {
	limit := func(capacity, amount, seconds int64) bucket.Limit {
		return bucket.Limit{Name: "x", Capacity: capacity * bucket.Milli, Amount: amount * bucket.Milli,
			Period: seconds * 1000}
	}
	for _, v := range []struct {
		limits     []bucket.Limit
		multiplier int
		want       int64
	}{
		{[]bucket.Limit{limit(100, 100, 60)}, 7, 420},
		{[]bucket.Limit{limit(1000, 10, 60)}, 7, 42_000},
		{[]bucket.Limit{limit(1000, 3, 60)}, 7, 140_000},
		{[]bucket.Limit{limit(1, 7, 1)}, 7, 1},
		{[]bucket.Limit{limit(1, 1_000_000, 1)}, 7, 0},
		{[]bucket.Limit{limit(100, 100, 60), limit(1000, 10, 60)}, 7, 42_000},
		{[]bucket.Limit{limit(60, 1, 1), {Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}}, 7,
			420}, // a quota does not count
		{[]bucket.Limit{limit(60, 0, 1), limit(100, 100, 60)}, 7, 0}, // a limit that never fills keeps the bucket forever
		{nil, 7, 0},
		{[]bucket.Limit{limit(100, 100, 60)}, 0, 0},
	} {
		check.Equal(t, bucket.New(v.limits, 0, 1, 0).TTLSeconds(v.multiplier), v.want,
			"%v, %d times", v.limits, v.multiplier)
	}
}

func TestTokensRenders(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 1000: "1", 1500: "1.5", -1500: "-1.5", 1: "0.001", -1: "-0.001", 10_010: "10.01",
		-1 << 63: "-9223372036854775.808", 1<<63 - 1: "9223372036854775.807",
	} {
		check.Equal(t, bucket.Tokens(milli), want, "Tokens(%d)", milli)
	}
}
