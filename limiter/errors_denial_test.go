package limiter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestDenialText: the error names the limit, the wanted and remaining tokens and the wait, and has
// the status of every limit in force.
func TestDenialText(t *testing.T) {
	w, l := newProcess(t, Options{})
	limits := []Limit{PerMinute("rpm", 10), PerMinute("tpm", 1000), PerDay("rpd", 500)}
	must(t, l, asks(Costs{"rpm": 4, "tpm": 990, "rpd": 1}, limits...))
	_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 8, "tpm": 20}, limits...))
	d, ok := errors.AsType[*LimitError](err)
	if !ok || !errors.Is(err, ErrLimited) || errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want a *LimitError that is ErrLimited alone", err)
	}
	const text = `limiter: acquire "acme/gpt-4": limit rpm: 8 wanted, 6 left, retry after 12s`
	check.Equal(t, err.Error(), text, "text %q", err)
	want := []Status{
		{Entity: acme, Resource: gpt, Limit: "rpd", Capacity: 500, Refill: 500, Period: 24 * time.Hour, Remaining: 499,
			RefillAfter: 172_800 * time.Millisecond, ResetAfter: 172_800 * time.Millisecond, At: w.time()},
		{Entity: acme, Resource: gpt, Limit: "rpm", Capacity: 10, Refill: 10, Period: time.Minute, Remaining: 6,
			RetryAfter: 12 * time.Second, RefillAfter: 6 * time.Second, ResetAfter: 24 * time.Second,
			At: w.time()},
		{Entity: acme, Resource: gpt, Limit: "tpm", Capacity: 1000, Refill: 1000, Period: time.Minute, Remaining: 10,
			RetryAfter: 600 * time.Millisecond, RefillAfter: 60 * time.Millisecond, ResetAfter: 59_400 * time.Millisecond,
			At: w.time()},
	}
	if d.Entity != acme || d.Resource != gpt || d.Wanted != 8 || d.Remaining != 6 ||
		fmt.Sprint(d.Statuses) != fmt.Sprint(want) {
		t.Errorf("denial %+v, want statuses %+v", d, want)
	}
}

// Costs that no shard can ever hold are too large, and the error says how much a shard holds.
func TestCostsAboveEveryShardAreTooLarge(t *testing.T) {
	w := decide.Want{Name: acmeGPT, Costs: []table.Cost{{Limit: rpm10.stored(), Milli: 8000}}}
	err := refusal(decide.Decision{Choice: decide.Choice{Do: decide.Never, Limit: "rpm"}, Want: w, Count: 32})
	const text = `limiter: request too large: acquire "acme/gpt-4": cost of "rpm" is 8, ` +
		`want at most the 0.313 tokens that one of 32 shards holds`
	if !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrLimited) || err.Error() != text {
		t.Errorf("got %v, want %s", err, text)
	}
}

// TestDenialsAreObeyedToTheMillisecond, with several limits of odd rates and without interference:
// in the denied process, while others only check, and without remembered denials.
func TestDenialsAreObeyedToTheMillisecond(t *testing.T) {
	limits := []Limit{lim("a", 10, 7, 3*time.Second), lim("b", 23, 977, time.Minute), lim("c", 5, 1, time.Second)}
	for _, remembers := range []bool{true, false} {
		w, l := newProcess(t, Options{})
		denials := 0
		for i := range 400 {
			if !remembers {
				l = w.process(Options{})
			}
			req := asks(Costs{"a": int64(i % 4), "b": int64(i % 7), "c": int64(i % 3)}, limits...)
			_, err := l.Acquire(t.Context(), req)
			d, ok := errors.AsType[*LimitError](err)
			if !ok {
				check.Must(t, err)
				w.advance(time.Duration(i*i%113) * time.Millisecond)
				continue
			}
			denials++
			longest := time.Duration(0)
			for _, s := range d.Statuses {
				longest = max(longest, s.RetryAfter)
			}
			if longest != d.RetryAfter {
				t.Fatalf("retry after %s, the limits say %v", d.RetryAfter, d.Statuses)
			}
			w.advance(d.RetryAfter - time.Millisecond)
			for _, p := range []*Limiter{l, w.process(Options{})} {
				deniedBy(t, p, req)
			}
			w.advance(time.Millisecond)
			must(t, l, req)
		}
		if denials < 50 {
			t.Fatalf("only %d denials", denials)
		}
	}
}

// TestLocalDenialEndsWithItsBound: tokens given back by another process are noticed after DenyFor;
// tokens of this process immediately.
func TestLocalDenialEndsWithItsBound(t *testing.T) {
	w := newWorld(t)
	a, b := w.process(Options{DenyFor: 500 * time.Millisecond}), w.process(Options{})
	limit := PerHour("rph", 10)
	lease := must(t, b, asks(Costs{"rph": 10}, limit))
	req := asks(Costs{"rph": 5}, limit)
	denied := func(calls int) {
		t.Helper()
		w.db.ResetStats()
		if _, err := a.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) || w.db.Stats().Calls() != calls {
			t.Fatalf("got %v with %+v, want denied with %d calls", err, w.db.Stats(), calls)
		}
	}
	deniedBy(t, a, req)
	denied(0)
	check.Must(t, lease.Rollback(t.Context()))
	w.advance(499 * time.Millisecond)
	denied(0)
	w.advance(time.Millisecond)
	own := must(t, a, req)
	must(t, a, req)
	denied(0)
	check.Must(t, own.Rollback(t.Context()))
	must(t, a, req)
}

// A remembered denial applies only to the limits under which it was made.
func TestDenialIsOfItsLimits(t *testing.T) {
	_, l := newProcess(t, Options{})
	must(t, l, asks(Costs{"rpm": 5}, PerDay("rpm", 5)))
	for _, c := range []struct {
		limit Limit
		want  time.Duration
	}{ // in this order: the last ones win
		{PerDay("rpm", 5), 24 * time.Hour / 5}, {PerSecond("rpm", 5), 200 * time.Millisecond},
	} {
		if d := deniedBy(t, l, asks(Costs{"rpm": 1}, c.limit)); d.RetryAfter != c.want {
			t.Errorf("%s: %v, want retry after %s", c.limit, d, c.want)
		}
	}
}

// exhausted returns a process with images of all shards of an exhausted bucket, and a denied
// request.
func exhausted(t testing.TB, count int) (*world, *Limiter, Request) {
	w, l := newProcess(t, Options{MaxShards: count})
	req := asks(Costs{"rpm": 1}, PerMinute("rpm", 2*int64(count)))
	must(t, l, req)
	w.split(l, count)
	drain(t, l, req)
	return w, l, req
}

// A repeated denial is not decided again: it takes no more on 64 shards than on one. Allocations
// stand for time, which a test does not measure.
func TestRepeatedDenialDoesNotGrowWithShards(t *testing.T) {
	var allocs [2]float64
	for i, count := range []int{1, 64} {
		_, l, req := exhausted(t, count)
		allocs[i] = testing.AllocsPerRun(20, func() { l.Acquire(t.Context(), req) })
	}
	if allocs[1] > allocs[0]+2 {
		t.Errorf("%v allocations on 1 shard, %v on 64", allocs[0], allocs[1])
	}
}

// BenchmarkDenial denies at one instant from the images of all shards: repeated, as in a flood of
// requests, and decided again, as after a look.
func BenchmarkDenial(b *testing.B) {
	for _, count := range []int{1, 32, 1024} {
		w, l, req := exhausted(b, count)
		calls := w.db.Stats().Calls()
		deny := func(b *testing.B, before func(k *desk.Desk)) {
			k := l.desks.Of(acmeGPT)
			b.ReportAllocs()
			for b.Loop() {
				before(k)
				check.MustBe(b, check.Err(l.Acquire(b.Context(), req)), ErrLimited)
			}
			check.MustEqual(b, w.db.Stats().Calls()-calls, 0, "calls, want none")
		}
		b.Run(fmt.Sprintf("repeated/%d shards", count), func(b *testing.B) { deny(b, func(*desk.Desk) {}) })
		b.Run(fmt.Sprintf("anew/%d shards", count), func(b *testing.B) {
			deny(b, func(k *desk.Desk) { k.See(k.Seen(0).Image, w.now.Load(), decide.Unsent) })
		})
	}
}

// A new process is denied on many empty shards after at most two writes, with a wait of at most two
// hours. With one shard, the wait is exact.
func TestFreshProcessIsDeniedAfterTwoWrites(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 8, 32} {
		for _, cost := range []int64{1, 7, 640} {
			t.Run(fmt.Sprintf("%d shards, cost %d", count, cost), func(t *testing.T) {
				w, l := newProcess(t, Options{})
				limit := PerHour("rph", 640)
				must(t, l, asks(Costs{"rph": 1}, limit)).Rollback(t.Context())
				w.split(l, count)
				drain(t, l, asks(Costs{"rph": 1}, limit))
				fresh := w.process(Options{})
				w.db.ResetStats()
				_, err := fresh.Acquire(t.Context(), asks(Costs{"rph": cost}, limit))
				writes := w.db.Stats().Calls() - w.db.Stats().Reads
				fresh.desks.Wait()
				d, ok := errors.AsType[*LimitError](err)
				if !ok || writes > 2 {
					t.Fatalf("%v after %d writes, want denied after two", err, writes)
				}
				if d.RetryAfter <= 0 || d.RetryAfter > 2*time.Hour || count == 1 && d.Estimated {
					t.Errorf("denial %+v", d)
				}
				t.Logf("%d writes, %d reads, retry after %s, estimated %v", writes, w.db.Stats().Reads, d.RetryAfter, d.Estimated)
			})
		}
	}
}

// A bucket that was deleted, and created again by a process whose clock is behind, looks older than
// the remembered one. The answer to a look is used nevertheless.
func TestAnswerToAQuestionReplacesTheImage(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1}, PerHour("rpm", 10))
	drain(t, l, req)
	gone := item.Delete{Key: layout.BucketKey(l.namespace, acme, gpt, 0)}
	check.Must(t, check.Err(w.db.Bare().Write(t.Context(), gone)))
	w.advance(-5 * time.Second)
	must(t, w.process(Options{}), req)
	w.advance(10 * time.Second)
	w.db.ResetStats()
	for n := range 9 {
		check.Must(t, check.Err(l.Acquire(t.Context(), req)), "after %d of 9 granted", n)
	}
	if n := w.db.Stats().Updates; n > 10 {
		t.Errorf("%d writes for 9 grants", n)
	}
}

// If all shards together lack the tokens, they are still checked again, as for any denial: the
// bucket may have been deleted and created meanwhile.
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
		check.Must(t, check.Err(w.db.Bare().Write(t.Context(), item.Delete{Key: b.Key()})))
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

// exhausted creates an empty bucket of a limit with several shards.
func (w *world) exhausted(limit Limit, shards int) {
	w.t.Helper()
	l := w.started(Options{})
	must(w.t, l, asks(Costs{limit.Name: 1}, limit)).Rollback(w.t.Context())
	w.now.Store(time.Now().UnixMilli())
	w.split(l, shards)
	for known := 0; known < shards; {
		drain(w.t, l, asks(Costs{limit.Name: 1}, limit))
		time.Sleep(2 * time.Second)
		known = 0
		for _, s := range seen(l) {
			if !s.Absent {
				known++
			}
		}
	}
}

// A flood of callers on an exhausted key pays for one look per DenyFor, however many callers and
// shards there are, and for no look that another caller has just made.
func TestFloodOnAnExhaustedKey(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 32} {
		t.Run(fmt.Sprint(shards, " shards"), bubble(func(t *testing.T) {
			w := virtual(t, 4*ms)
			limit := PerDay("rpd", 320)
			w.exhausted(limit, shards)
			l := w.started(Options{})
			req := asks(Costs{"rpd": 1}, limit)
			for range shards { // reads the shards
				deniedBy(t, l, req)
				time.Sleep(2 * time.Second)
			}
			w.db.ResetStats()
			const seconds = 4
			denied := flood(t, l, req, 300, seconds*time.Second, 50*time.Millisecond, func(err error) bool {
				d, ok := errors.AsType[*LimitError](err)
				if !ok || d.RetryAfter <= 0 || d.RetryAfter > 24*time.Hour {
					t.Errorf("got %v", err)
				}
				return ok
			})
			st := w.db.Stats()
			t.Logf("%d shards: %d denials in %d s cost %d calls", shards, denied, seconds, st.Calls())
			if st.Calls() > 2*seconds {
				t.Errorf("%d calls in %d s, want at most 2 a second", st.Calls(), seconds)
			}
			atRest(t, l)
		}))
	}
}

// flood makes several callers send requests continuously, starting one after the other with pauses
// between requests, and returns how many answers count.
func flood(t *testing.T, l *Limiter, req Request, callers int, lasting, pause time.Duration,
	counts func(error) bool) int {
	begin := time.Now()
	var answers atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 37 * time.Microsecond)
			for time.Since(begin) < lasting && !t.Failed() {
				if _, err := l.Acquire(t.Context(), req); counts(err) {
					answers.Add(1)
				}
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	return int(answers.Load())
}

// counted returns the counted denials of a bucket's shards.
func (w *world) counted(l *Limiter, entity string) (n int64) {
	for _, b := range w.shards(l, entity, gpt) {
		n += b.Denied / 1000
	}
	return n
}

// Denials are counted without extra writes. While requests are granted, they go with the charges.
// When a quota is spent, the look of each second includes them, at most ten seconds late.
func TestDenialsCostNoWrite(t *testing.T) {
	for limit, most := range map[Limit]int{
		PerSecond("rps", 2):                  2 * 62,
		Quota("spend", 5, Monthly(1, "UTC")): 5 + 62, // each is granted, and one look per second
	} {
		synctest.Test(t, func(t *testing.T) {
			w := virtual(t, 4*ms)
			l := w.started(Options{})
			denied, before := int64(0), w.db.Stats().WriteUnits
			for range 600 { // a minute, ten requests a second
				_, err := l.Acquire(t.Context(), asks(Costs{limit.Name: 1}, limit))
				if errors.Is(err, ErrLimited) {
					denied++
				} else {
					check.Must(t, err)
				}
				l.desks.Wait()
				time.Sleep(96 * time.Millisecond)
				if late := denied - w.counted(l, acme); late < 0 || late > 120 {
					t.Fatalf("%s: of %d denials %d are not counted", limit.Name, denied, late)
				}
			}
			if n := w.db.Stats().WriteUnits - before; n > most {
				t.Errorf("%s: %d writes, want at most %d", limit.Name, n, most)
			}
		})
	}
}

// Whatever is refused, lost or split, a denial is counted once, or not at all if an answer was lost
// or its process has ended.
func TestDenialsAreCountedOnce(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			w, r := virtual(t, 4*ms), rand.New(rand.NewPCG(seed, 51))
			procs := []*Limiter{w.started(Options{}), w.started(Options{Ahead: time.Second}), w.started(Options{})}
			limits := []Limit{PerSecond("rps", 5), PerDay("rpd", 100000)}
			denied := int64(0)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				switch n := r.IntN(40); {
				case len(op.Writes) != 1 || seed%2 == 0:
				case n == 0:
					return false, memdynamo.Fail(store.Unavailable)
				case n == 1:
					return r.IntN(2) == 0, memdynamo.Fail(store.Unknown)
				}
				return true, nil
			})
			for i := range 400 {
				if i == 200 {
					w.split(procs[0], 2)
				}
				l := procs[r.IntN(len(procs))]
				_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1 + r.Int64N(3)}, limits...))
				l.desks.Wait()
				if errors.Is(err, ErrLimited) {
					denied++
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
			w.db.SetHook(nil)
			for _, l := range procs {
				time.Sleep(5 * time.Second)
				for range 3 { // each is granted once more, on each shard
					_, _ = l.Acquire(t.Context(), asks(Costs{"rps": 1}, limits...))
					l.desks.Wait()
				}
			}
			got := w.counted(procs[0], acme)
			if got > denied || seed%2 == 0 && got < denied {
				t.Errorf("seed %d: %d counted of %d", seed, got, denied)
			}
			if denied == 0 || got == 0 {
				t.Errorf("seed %d: %d denied, %d counted: it says nothing", seed, denied, got)
			}
		})
	}
}
