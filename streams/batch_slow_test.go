package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// slowTable answers calls after a round trip. It accepts a number of write units per second, a
// second's worth at once, and throttles the rest.
type slowTable struct {
	mu       sync.Mutex
	rate     float64
	left     float64
	at       time.Time
	taken    float64 // units, including refused writes
	answered int
	late     time.Time // no call may begin later; zero: no limit
	tooLate  int
}

func (s *slowTable) hook(op memdynamo.Op) (bool, error) {
	time.Sleep(4 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered++
	now := time.Now()
	if !s.late.IsZero() && now.After(s.late) {
		s.tooLate++
	}
	s.left = min(s.rate, s.left+s.rate*now.Sub(s.at).Seconds())
	s.at = now
	units := 0.0
	for _, w := range op.Writes {
		u := 1.0
		if put, ok := w.(item.Put); ok {
			u = float64((item.Size(put.Item) + 1023) / 1024)
		}
		units += u
	}
	if len(op.Writes) > 0 && s.left < 1 {
		return false, memdynamo.Fail(store.Throttled)
	}
	s.left -= units
	s.taken += units
	return true, nil
}

// invocation is one attempt of Lambda: it handles the payload within a minute.
func (r *rig) invocation(s *slowTable, records []json.RawMessage, state []byte, final bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	s.late = time.Now().Add(time.Minute)
	r.metrics.Reset()
	out, err := r.agg.Invoke(ctx, windowed(records, state, final))
	if took := time.Now(); took.After(s.late) {
		r.t.Errorf("an invocation ends %v after its deadline", took.Sub(s.late))
	}
	if err != nil {
		return nil, err
	}
	var response struct{ State json.RawMessage }
	check.Must(r.t, json.Unmarshal(out, &response))
	return response.State, nil
}

// figure returns a figure of the last metric line.
func (r *rig) figure(name string) int64 {
	r.t.Helper()
	found := regexp.MustCompile(`"` + name + `":(-?\d+)`).FindStringSubmatch(r.metrics.String())
	if found == nil {
		r.t.Fatalf("no %s in %s", name, r.metrics.String())
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	check.Must(r.t, err)
	return n
}

// played is the cost of counting many buckets.
type played struct {
	buckets, invocations, failed, state, calls int
	units, told                                float64
	took                                       time.Duration
}

func (p played) String() string {
	return fmt.Sprintf("%d buckets: %d invocations, of which %d failed, in %v; %d calls, %.0f write units; "+
		"state up to %d KB", p.buckets, p.invocations, p.failed, p.took.Round(time.Second), p.calls, p.units, p.state/1000)
}

// playMany charges each of n buckets once, in batches of 2,000 records within one tumbling window.
// The table accepts rate units per second. It repeats invocations until all buckets are counted.
func playMany(t *testing.T, n int, rate float64, padding int, change func(*rig)) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { p = manyBuckets(t, n, rate, padding, change) })
	return p
}

func manyBuckets(t *testing.T, n int, rate float64, padding int, change func(*rig)) (p played) {
	batch := max(200, n/15)
	r := newRig(t)
	begin := time.Now()
	r.agg.now = func() int64 { return t0 + time.Since(begin).Milliseconds() }
	r.agg.concurrency = 16
	if change != nil {
		change(r)
	}
	name := func(i int) string { return fmt.Sprintf("tenant-%06d%0*d", i, padding, i*i) }
	for from := 0; from < n; from += batch { // earlier ones have been counted
		for i := from; i < min(from+batch, n); i++ {
			r.take(name(i), 0, 1, 100)
		}
		r.handle(r.payload())
		r.db.Drain()
	}
	s := &slowTable{rate: rate, at: begin}
	p.buckets = n
	var state []byte
	one := func(records []json.RawMessage, final bool) {
		for {
			p.invocations++
			if p.invocations > 40+n/1000 {
				t.Fatalf("no progress: %v", p)
			}
			after, err := r.invocation(s, records, state, final)
			p.told += float64(r.figure("WriteUnits"))
			if err == nil {
				state, p.state = after, max(p.state, len(after))
				return
			}
			p.failed++
			time.Sleep(time.Second) // Lambda waits between attempts
		}
	}
	for from := 0; from < n; from += batch {
		var changed []json.RawMessage
		for i := from; i < min(from+batch, n); i++ {
			r.take(name(i), 0, 1, 100)
		}
		changed = records(r.since(0))
		r.db.Drain()
		r.db.SetHook(s.hook)
		one(changed, false)
		r.db.SetHook(nil)
	}
	r.db.SetHook(s.hook)
	one(nil, true)
	r.db.SetHook(nil)
	p.took, p.calls, p.units = time.Since(begin), s.answered, s.taken
	counted := 0
	for _, it := range r.db.Items() {
		if strings.HasSuffix(item.KeyOf(it).SK, "#"+anHour) {
			counted++
		}
	}
	if counted != n || s.tooLate > 0 {
		t.Errorf("%d of %d buckets are counted, %d calls after the deadline", counted, n, s.tooLate)
	}
	return p
}

// More buckets than one invocation can count take only a few invocations: each begins with the
// uncounted ones, and writes little more than necessary. The test has a tenth of 27,000 buckets
// with short names, at 300 units per second. With long names, a quarter of the writes are lists.
// MANY_BUCKETS=27000 runs all of them, with short names.
func TestManyBucketsBehindASlowTable(t *testing.T) {
	n, rate, padding := 2_700, 30.0, 230
	if many, err := strconv.Atoi(os.Getenv("MANY_BUCKETS")); err == nil {
		n, rate, padding = many, 300, 0
	}
	p := playMany(t, n, rate, padding, nil)
	t.Log(p)
	if p.failed > 3+n/10_000 || p.units > 1.5*float64(p.buckets) || p.state < maxState/2 {
		t.Errorf("%v", p)
	}
}

// takes makes a call take this long, unless its caller gives up first.
func takes(op memdynamo.Op, d time.Duration) (bool, error) {
	select {
	case <-time.After(d):
		return true, nil
	case <-op.Done:
		return false, memdynamo.Fail(store.Unknown)
	}
}

// An invocation answers a second before its deadline, whatever the table does. Uncounted usage is
// carried on or delivered again.
func TestAnAnswerComesBeforeTheDeadline(t *testing.T) {
	for _, tumbling := range []bool{false, true} {
		for name, hook := range map[string]func(memdynamo.Op) (bool, error){
			"hung": func(op memdynamo.Op) (bool, error) { <-op.Done; return false, memdynamo.Fail(store.Unknown) },
			"throttled": func(memdynamo.Op) (bool, error) {
				time.Sleep(time.Second)
				return false, memdynamo.Fail(store.Throttled)
			},
			"lists hung": func(op memdynamo.Op) (bool, error) {
				if target(op).PK == ledger.OwedPK {
					<-op.Done
					return false, memdynamo.Fail(store.Unknown)
				}
				return takes(op, 3*time.Second)
			},
			"slow": func(op memdynamo.Op) (bool, error) { return takes(op, 4900*time.Millisecond) },
		} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for range 2 { // the second continues the day of the first
					r.handle(r.payload())
					r.db.Drain()
					for i := range 300 {
						r.take(fmt.Sprint("tenant-", i), 0, 1, 1)
					}
				}
				payload := r.payloadIn(tumbling)
				r.db.SetHook(hook)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begin := time.Now()
				out, err := r.agg.Invoke(ctx, payload)
				if left := time.Minute - time.Since(begin); left < time.Second {
					t.Errorf("%s, tumbling %v: %v left", name, tumbling, left)
				}
				if told := strings.Contains(string(out), "itemIdentifier"); told == tumbling || (err != nil) != tumbling {
					t.Errorf("%s, tumbling %v: %s, %v", name, tumbling, out, err)
				}
			})
		}
	}
}

// At most the allowed write units are used, and all of them are reported.
func TestWriteUnitsAreBounded(t *testing.T) {
	p := playMany(t, 300, 10_000, 10, func(r *rig) { r.agg.pace = &pace{each: time.Second / 10} })
	if p.units > 10*(p.took.Seconds()+1) || p.units < 300 || p.told < p.units || p.told > p.units+40 {
		t.Errorf("%v, reported %.0f", p, p.told)
	}
}

// All allowed units are used, however few they are, however many writers wait, and even if a writer
// gives up waiting.
func TestFewWriteUnitsAreAllUsed(t *testing.T) {
	for _, rate := range []int{1, 2, 3} {
		const n = 100
		p := playMany(t, n, 10_000, 10, func(r *rig) { r.agg.pace = &pace{each: time.Second / time.Duration(rate)} })
		if most := (2*n+p.units)/float64(rate) + 60; p.took.Seconds() > most { // two windows of each were counted before
			t.Errorf("%d a second: %v, want at most %.0f s", rate, p, most)
		}
	}
}

// More days than one invocation can sum take only a few invocations. The rest is owed again, and
// the log says how much.
func TestManyDaysCatchUpOverSeveralInvocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		r, seen, begin := newRig(t), int64(0), time.Now()
		r.agg.concurrency = 1
		for i := range n {
			r.take(fmt.Sprint("tenant-", i), 0, 1, 1)
		}
		r.within(&seen, nil, true)
		later := 2 * time.Hour.Milliseconds()
		r.agg.now = func() int64 { return t0 + later + time.Since(begin).Milliseconds() }
		r.db.SetHook(func(op memdynamo.Op) (bool, error) { return takes(op, 15*time.Millisecond) })
		log := r.logged()
		invocations := 0
		for ; r.snapshots("2023-11-14") < n; invocations++ {
			if invocations > 5 {
				t.Fatalf("%d of %d days after %d invocations", r.snapshots("2023-11-14"), n, invocations)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			check.Must(t, check.Err(r.agg.Invoke(ctx, windowed(nil, nil, true))))
			cancel()
			said, left := 0, n-r.snapshots("2023-11-14")
			line := regexp.MustCompile(`msg="longer windows not summed" owed_again=(\d+) err=`)
			for _, m := range line.FindAllStringSubmatch(log.String(), -1) {
				windows, _ := strconv.Atoi(m[1])
				said += windows
			}
			if log.Reset(); said != left {
				t.Errorf("%d days are left, the log says %d", left, said)
			}
			later += time.Hour.Milliseconds()
		}
		if r.db.SetHook(nil); invocations < 2 {
			t.Error("it fits into one invocation")
		}
	})
}

// Work begins until five seconds before the deadline, not later and hardly earlier. Four of the
// five are for the list of owed windows, even on a slow table, and the last one is for the answer.
func TestWorkBeginsUntilFiveSecondsBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, seen := newRig(t), int64(0)
		const n = 200
		for range 2 { // the second continues the day of the first
			r.within(&seen, nil, true)
			for i := range n {
				r.take(fmt.Sprint("tenant-", i), 0, 1, 1)
			}
		}
		state, _ := r.within(&seen, nil, false)
		r.now += time.Hour.Milliseconds() // carried usage is due with the next record
		r.take("another", 0, 1, 1)
		payload := windowed(records(r.since(seen)), state, false)
		begin, mu, last, lists := time.Now(), sync.Mutex{}, time.Duration(0), 0
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if target(op).PK == ledger.OwedPK {
				ok, err := takes(op, 3500*time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if ok {
					lists++
				}
				return ok, err
			}
			mu.Lock()
			last = max(last, time.Since(begin))
			mu.Unlock()
			return takes(op, 500*time.Millisecond)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out, err := r.agg.Invoke(ctx, payload)
		if took := time.Since(begin); err != nil || lists != 1 || took > 19*time.Second || took < 18*time.Second {
			t.Errorf("%v after %v: %d lists stored, answer of %d bytes", err, took, lists, len(out))
		}
		if last > 15*time.Second || last < 14250*time.Millisecond {
			t.Errorf("the last work begins %v after the invocation, of 20 s", last)
		}
	})
}
