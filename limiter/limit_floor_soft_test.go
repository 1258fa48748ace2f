package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A soft limit counts every token of every request, into debt, and denies none, however large; it
// reports which requests it would have denied. Other limits deny as usual, and then nothing is
// taken from it.
func TestASoftLimitCountsAndDeniesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second} {
		w := newWorld(t)
		var events []Event
		l := w.process(Options{Ahead: ahead, Observe: only(EventAcquire, func(e Event) { events = append(events, e) })})
		w.configure(l, "", gpt, PerMinute("rpm", 100), PerMinute("tpm", 10).AsSoft())
		for i := range 100 {
			lease := must(t, l, stored(Costs{"rpm": 1, "tpm": 15})) // more than the capacity
			over := lease.Overdrawn()
			if len(over) != 1 || over[0].Limit != "tpm" || !over[0].Soft || over[0].Remaining != int64(10-15*(i+1)) {
				t.Fatalf("request %d: overdrawn %+v", i, over)
			}
		}
		deniedBy(t, l, stored(Costs{"rpm": 1, "tpm": 15}))
		check.Equal(t, w.used(l, "tpm"), 1500, "tokens counted")
		if e := events[0]; len(e.Overdrawn) != 1 || e.Overdrawn[0].Limit != "tpm" || e.Err != nil {
			t.Errorf("event %+v", e)
		}
		if e := events[len(events)-1]; e.Overdrawn != nil {
			t.Errorf("a denial has overdrawn %v", e.Overdrawn)
		}
	}
}

// The status of a soft limit never requires a wait, not even in a denial.
func TestSoftLimitsNeverAskToWait(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1, "tpm": 9}, rpm10, PerMinute("tpm", 10).AsSoft())
	wantGranted(t, l, req, 10)
	denied := deniedBy(t, l, req)
	if denied.Limit != "rpm" || denied.Statuses[1].RetryAfter != 0 || !denied.Statuses[1].Soft {
		t.Errorf("denied by %s, statuses %+v", denied.Limit, denied.Statuses)
	}
	w.advance(denied.RetryAfter)
	lease := must(t, l, req) // the advice holds, whatever the soft limit's debt
	check.Must(t, lease.Rollback(t.Context()))
}

// A request that waits does not wait for a soft limit.
func TestWaitIgnoresSoftLimits(t *testing.T) {
	_, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1, "tpm": 9}, PerMinute("rpm", 60).WithCapacity(1), PerDay("tpm", 1).AsSoft())
	for i := range 2 {
		if _, after, err := l.Reserve(t.Context(), req); err != nil || after != time.Duration(i)*time.Second {
			t.Fatalf("request %d: wait %v, %v", i, after, err)
		}
	}
}

// deniedBy sends a request that must be denied.
func deniedBy(t testing.TB, l *Limiter, req Request) *LimitError {
	t.Helper()
	_, err := l.Acquire(context.Background(), req)
	denied, ok := errors.AsType[*LimitError](err)
	if !ok {
		t.Fatalf("%v, want a denial", err)
	}
	return denied
}

// After it becomes hard, the limit denies, but tokens it had not denied need not be paid; soft
// again, it does not deny. The attribute for Python clients follows: an instant in the past, so
// they read the configuration.
func TestSoftAndHardAgain(t *testing.T) {
	w, l := newProcess(t, Options{ConfigTTL: time.Millisecond})
	limit := PerHour("rph", 3600)
	soft := func() item.Value { return w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))["b_rph_soft"] }
	w.configure(l, "", gpt, limit.AsSoft())
	must(t, l, stored(Costs{"rph": 36_000}))
	if !item.Equal(soft(), item.N(0)) {
		t.Errorf("created with the stamp %v, want 0", soft())
	}
	w.configure(l, "", gpt, limit)
	w.advance(time.Second)
	got := deniedBy(t, l, stored(Costs{"rph": 1}))
	check.Equal(t, got.RetryAfter, time.Second, "denied for")
	w.advance(time.Second)
	must(t, l, stored(Costs{"rph": 1}))
	if soft() != nil {
		t.Errorf("hard, with the stamp %v", soft())
	}
	w.configure(l, "", gpt, limit.AsSoft())
	w.advance(time.Second)
	must(t, l, stored(Costs{"rph": 5000}))
	if !item.Equal(soft(), item.N(0)) {
		t.Errorf("made soft with the stamp %v, want 0", soft())
	}
	// As Python clients renew it.
	w.edit(l, 0, item.Item{"b_rph_soft": item.N(w.now.Load() + 60_000)})
	must(t, l, stored(Costs{"rph": 5000}))
}

// Processes that send only one request, and so never have an image, also make the limit soft in the
// bucket: their debt is forgotten when it becomes hard.
func TestDebtOfShortProcesses(t *testing.T) {
	w := newWorld(t)
	limit := PerHour("rph", 3600)
	l := w.process(Options{})
	w.configure(l, "", gpt, limit)
	must(t, l, stored(Costs{"rph": 3600}))
	w.configure(l, "", gpt, limit.AsSoft())
	for range 10 {
		w.advance(time.Minute)
		must(t, w.process(Options{}), stored(Costs{"rph": 1500}))
	}
	w.configure(l, "", gpt, limit)
	w.advance(time.Minute)
	if got := deniedBy(t, w.process(Options{}), stored(Costs{"rph": 1})); got.RetryAfter > time.Second {
		t.Errorf("denied for %v, want 1s", got.RetryAfter)
	}
}

// With a soft limit in any debt, a hard one grants exactly the same as alone, on shards, with many
// processes at once, with settlements and lost answers.
func TestHardLimitIsExactWithASoftOneInDebt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t)
			var fleet []*Limiter
			for range 4 {
				o := Options{Slack: []int{0, 20, 100}[r.IntN(3)]}
				if r.IntN(2) == 0 {
					o.Ahead = time.Second
				}
				fleet = append(fleet, w.process(o))
			}
			l := fleet[0]
			w.configure(l, "", gpt, PerSecond("rps", 40).WithCapacity(400), PerSecond("tps", 20).AsSoft())
			begin, granted, soft := w.now.Load(), int64(0), int64(0)
			var mu sync.Mutex
			for step := range 60 {
				if step == 10 {
					w.split(l, 4)
				}
				var wg sync.WaitGroup
				for range 1 + r.IntN(6) {
					p, n, m := fleet[r.IntN(len(fleet))], r.Int64N(150), r.Int64N(900)
					wg.Go(func() {
						_, err := p.Acquire(context.Background(), stored(Costs{"rps": n, "tps": m}))
						limited := (*LimitError)(nil)
						switch {
						case errors.As(err, &limited):
							check.Equal(t, limited.Limit, "rps", "denied by")
						case err != nil:
							t.Error(err)
						default:
							mu.Lock()
							granted, soft = granted+n, soft+m
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				for _, p := range fleet {
					p.desks.Wait()
				}
				most := 400 + 40*(w.now.Load()-begin)/1000
				if granted > most {
					t.Fatalf("step %d: %d granted, at most %d", step, granted, most)
				}
				w.advance(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			check.Equal(t, w.used(l, "tps"), soft, "counted of the soft limit")
			check.Equal(t, w.used(l, "rps"), granted, "counted of the hard limit")
			if most := 400 + 40*(w.now.Load()-begin)/1000; granted < most/2 {
				t.Errorf("%d granted of %d: refill is lost", granted, most)
			}
		})
	}
}

// A limit changes back and forth while its tokens, or those of another limit, are held: usage
// counts each request once, and the hard one grants no more than it has.
func TestSoftAndTokensTakenAhead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { softAndAhead(t, seed) })
	}
}

func softAndAhead(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t)
	hard, tried := PerSecond("rps", 50), PerSecond("tps", 30)
	var fleet []*Limiter
	for range 3 {
		fleet = append(fleet, w.process(Options{Ahead: time.Second, ConfigTTL: time.Millisecond}))
	}
	l := fleet[0]
	w.configure(l, "", gpt, hard, tried)
	begin, granted := w.now.Load(), Costs{}
	acquire := func(p *Limiter, costs Costs) {
		_, err := p.Acquire(t.Context(), stored(costs))
		synctest.Wait()
		if err == nil {
			granted["rps"] += costs["rps"]
			granted["tps"] += costs["tps"]
		} else if limited, ok := errors.AsType[*LimitError](err); !ok {
			t.Fatal(err)
		} else if limited.Limit == "tps" && tried.Soft {
			for _, s := range limited.Statuses {
				if s.Limit == "tps" && s.Soft {
					t.Fatalf("seed %d: denied by a soft limit", seed)
				}
			}
		}
		if most := 50 + 50*(w.now.Load()-begin)/1000; granted["rps"] > most {
			t.Fatalf("seed %d: %d granted, at most %d", seed, granted["rps"], most)
		}
	}
	for range 1000 {
		if r.IntN(150) == 0 {
			tried.Soft = !tried.Soft
			w.configure(l, "", gpt, hard, tried)
		}
		acquire(fleet[r.IntN(len(fleet))], Costs{"rps": 1, "tps": r.Int64N(3)})
		w.pass(time.Duration(r.IntN(20)) * time.Millisecond)
	}
	// Held tokens expire, and a process reports that with its next charge that neither changes the
	// limits nor adds without an image.
	for range 4 {
		for _, p := range fleet {
			w.pass(time.Minute)
			acquire(p, Costs{"rps": 1, "tps": 1})
		}
	}
	for limit, want := range granted {
		spent := int64(0)
		for _, b := range w.shards(l, acme, gpt) {
			spent += b.State.Slots[b.State.Index(limit)].Spent() / 1000
		}
		check.Equal(t, spent, want, "seed %d: of %s counted", seed, limit)
	}
}

// of returns a request of a class.
func (r Request) of(class string) Request {
	r.Class = class
	return r
}

func TestAClassLeavesItsFloor(t *testing.T) {
	limits := map[string]Limit{
		"rate": PerMinute("x", 100), "quota": Quota("x", 100, Daily("")), "in flight": InFlight("x", 100, time.Minute),
	}
	for name, limit := range limits {
		for _, shards := range []int{1, 4} {
			if limit.InFlight && shards > 1 {
				continue
			}
			t.Run(fmt.Sprint(name, ", shards: ", shards), func(t *testing.T) {
				w := newWorld(t)
				l, other := w.process(Options{}), w.process(Options{})
				w.configure(l, "", gpt, limit.WithFloor("batch", 40).WithFloor("free", 60), PerMinute("rpm", 1000))
				req := asks(Costs{"x": 1, "rpm": 1})
				must(t, l, asks(Costs{"x": 4, "rpm": 4})) // so shards hold whole tokens
				w.split(l, shards)
				taken := int64(4)
				for _, c := range []struct {
					class string
					until int64
				}{{"free", 40}, {"batch", 60}, {"", 100}} {
					for _, who := range []*Limiter{l, other} {
						taken += int64(drain(t, who, req.of(c.class)))
					}
					check.MustEqual(t, taken, c.until, "class %q: taken", c.class)
				}
			})
		}
	}
}

func TestRetryAfterOfAClass(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 60).WithFloor("batch", 50)
	req := asks(Costs{"rpm": 1}, limit)
	wantGranted(t, l, req.of("batch"), 30)
	must(t, l, asks(Costs{"rpm": 10}, limit)) // a remembered denial of one class denies no other
	e := deniedBy(t, l, req.of("batch"))
	if s := e.Statuses[0]; e.RetryAfter != 11*time.Second || e.Remaining != 0 || s.Floor != 30 || s.Remaining != 0 ||
		s.RefillAfter != 11*time.Second || s.ResetAfter != 40*time.Second {
		t.Fatalf("retry after %s, %+v", e.RetryAfter, s)
	}
	if e := deniedBy(t, l, asks(Costs{"rpm": 21}, limit)); e.RetryAfter != time.Second || e.Remaining != 20 {
		t.Errorf("without a class: %v", e)
	}
	w.advance(e.RetryAfter - time.Millisecond)
	deniedBy(t, l, req.of("batch"))
	w.advance(time.Millisecond)
	must(t, l, req.of("batch"))
	must(t, l, asks(Costs{"rpm": 0}, limit).of("batch")) // takes nothing
	if s := must(t, l, asks(Costs{"rpm": 1}, limit)).Status()[0]; s.Floor != 0 || s.Remaining != 29 {
		t.Errorf("%+v", s)
	}
}

func TestWaitLeavesAFloor(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		limit := PerSecond("rps", 10).WithFloor("batch", 50)
		must(t, l, asks(Costs{"rps": 5}, limit))
		begin := time.Now()
		var low, high sync.WaitGroup
		for range 3 {
			low.Go(func() {
				waits(t, l, asks(Costs{"rps": 2}, limit).of("batch"))
			})
		}
		time.Sleep(10 * time.Millisecond)
		for range 5 {
			high.Go(func() {
				waits(t, l, asks(Costs{"rps": 1}, limit))
			})
		}
		if high.Wait(); time.Since(begin) > 50*time.Millisecond {
			t.Errorf("a request without a floor has waited for %s", time.Since(begin))
		}
		if low.Wait(); time.Since(begin) < time.Second {
			t.Errorf("all had their tokens after %s", time.Since(begin))
		}
		_, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 4}, limit).of("batch"))
		check.Is(t, err, ErrQueueFull, "reserved for in %s", after)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		check.Is(t, check.Err(l.Wait(ctx, asks(Costs{"rps": 5}, limit).of("batch"))), ErrLimited, "too late")
	})
}

func TestPrefetchedTokensAreNotForClassesWithAFloor(t *testing.T) {
	t.Parallel()
	w, l := newProcess(t, Options{Ahead: time.Second})
	limit := PerMinute("rpm", 6000).WithFloor("batch", 50)
	req := asks(Costs{"rpm": 10}, limit)
	if n, last := w.busy(l, req, 101); n != 101 || !last.ahead {
		t.Fatalf("%d granted, from held tokens: %t", n, last.ahead)
	}
	lease := must(t, l, req.of("batch"))
	if lease.ahead {
		t.Error("granted from held tokens")
	}
	before := w.db.Stats().Calls()
	if !must(t, l, req).ahead {
		t.Error("nothing is held any more")
	}
	if n := w.db.Stats().Calls(); n != before {
		t.Errorf("%d writes", n-before)
	}
	if n := drain(t, l, req.of("batch")); n == 0 || n > 300 {
		t.Errorf("%d granted", n)
	}
	must(t, l, req)
}

func TestFloorsOfLocalShares(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 10})
	req := asks(Costs{"rpm": 1}, PerMinute("rpm", 100).WithFloor("batch", 50))
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
	wantGranted(t, l, req.of("batch"), 5)
	e := deniedBy(t, l, req.of("batch"))
	if e.Statuses[0].Floor != 5 || e.Remaining != 0 || e.RetryAfter != 6*time.Second {
		t.Errorf("%+v", e)
	}
	wantGranted(t, l, req, 5)
}

// The low class demands five times the refill of the limit, in the same process and in another; the
// high class demands a fifth of it, and sometimes its floor at once.
func TestAHighClassIsNotDeniedUnderOverload(t *testing.T) {
	t.Parallel()
	const length, burst = 20 * time.Second, 16
	limit := PerSecond("rps", 100).WithFloor("batch", 40)
	for _, alone := range []bool{false, true} {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			high, end := process(), time.Now().Add(length)
			must(t, high, asks(Costs{"rps": 0}, limit))
			var mu sync.Mutex
			var lows, asked int64
			var all sync.WaitGroup
			for i, l := range []*Limiter{high, process()} {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					for time.Now().Before(end) {
						all.Go(func() {
							_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, limit).of("batch"))
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								lows++
							} else if !errors.Is(err, ErrLimited) {
								t.Error(err)
							}
						})
						time.Sleep(4 * time.Millisecond)
					}
				})
			}
			for i := 1; time.Now().Before(end) && !alone; i++ {
				n := int64(1)
				if i%100 == 0 {
					n = burst
				}
				for range n {
					if _, err := high.Acquire(t.Context(), asks(Costs{"rps": 1}, limit)); err != nil {
						t.Errorf("the high class is denied after %s: %v", length-time.Until(end), err)
					}
					asked++
				}
				time.Sleep(50 * time.Millisecond)
			}
			all.Wait()
			rest := 60 + 100*int64(length/time.Second) - asked
			t.Logf("the low class got %d of %d that the high one left: %.1f %%",
				lows, rest, 100*float64(lows)/float64(rest))
			if lows*100 < rest*98 || lows > rest+1 {
				t.Errorf("the low class got %d of %d", lows, rest)
			}
		})
	}
}

// A class takes nearly its whole part at once, in another process, so its next request lacks
// tokens. That does not affect the 410 of 1000 that remain for requests without a floor.
func TestABurstOfALowClassDeniesNoHighOne(t *testing.T) {
	limit := PerMinute("rpm", 1000).WithFloor("batch", 40).WithFloor("free", 50)
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		must(t, l, asks(Costs{"rpm": 1}, limit))
		must(t, other, asks(Costs{"rpm": 490}, limit).of("free"))
		time.Sleep(50 * time.Millisecond)
		must(t, other, asks(Costs{"rpm": 98}, limit).of("batch"))
		for _, c := range []struct {
			class string
			cost  int64
		}{{"free", 10}, {"batch", 100}} {
			deniedBy(t, l, asks(Costs{"rpm": c.cost}, limit).of(c.class))
		}
		for range 5 {
			time.Sleep(60 * time.Millisecond)
			must(t, l, asks(Costs{"rpm": 1}, limit))
		}
	})
}

// The part above a floor bounds a request of its class, but a soft limit leaves nothing to others.
func TestMoreThanAFloorLeaves(t *testing.T) {
	_, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 100).WithFloor("batch", 40)
	for cost, says := range map[int64]string{
		61:  `Costs["rpm"] is 61, want at most 60: class "batch" leaves 40 percent of 100 tokens`,
		101: `Costs["rpm"] is 101, want at most the capacity of 100 tokens`,
	} {
		_, err := l.Acquire(t.Context(), asks(Costs{"rpm": cost}, limit).of("batch"))
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrTooLarge that says %s", err, says)
		}
	}
	must(t, l, asks(Costs{"rpm": 60}, limit).of("batch"))
	s := must(t, l, asks(Costs{"rpm": 60}, limit.AsSoft()).of("batch")).Status()[0]
	if s.Floor != 0 || s.Remaining != -20 {
		t.Errorf("a soft limit leaves nothing to others: %+v", s)
	}
}

// If a schedule changes the capacity, a class's part changes too. So a wait beyond that is an
// estimate.
func TestAFloorBeyondAnEdgeIsEstimated(t *testing.T) {
	w, l := newProcess(t, Options{})
	opens := w.time().Truncate(time.Minute).Add(time.Minute)
	w.advance(opens.Sub(w.time()) - 30*time.Second)
	window := fmt.Sprintf("%d * * * *", opens.Minute())
	limit := PerSecond("rps", 1).WithCapacity(20).WithFloor("batch", 50).During(window, "", Limit{Capacity: 100})
	wantGranted(t, l, asks(Costs{"rps": 20}, limit), 1)
	for cost, want := range map[int64]time.Duration{10: 20 * time.Second, 11: 31 * time.Second} {
		req := asks(Costs{"rps": cost}, limit)
		req.Class = "batch"
		denied := deniedBy(t, l, req)
		beyond := cost > 10 // more than that is not available of 20
		if denied.Estimated != beyond || denied.Statuses[0].Estimated != beyond || denied.RetryAfter < want {
			t.Errorf("a cost of %d: %v, %+v", cost, denied, denied.Statuses)
		}
	}
	denied := deniedBy(t, l, asks(Costs{"rps": 50}, limit))
	if denied.Estimated { // without a class there is no floor
		t.Errorf("%v", denied)
	}
}
