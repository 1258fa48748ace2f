package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A soft limit counts every token of every request, into debt, and denies none, however
// large; it tells which requests it would have denied. The others deny as ever, and then
// nothing is taken of it.
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

// The status of a soft limit never asks to wait, in a denial neither.
func TestASoftLimitAsksNobodyToWait(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := asks(Costs{"rpm": 1, "tpm": 9}, rpm10, PerMinute("tpm", 10).AsSoft())
	wantGranted(t, l, req, 10)
	denied := deniedBy(t, l, req)
	if denied.Limit != "rpm" || denied.Statuses[1].RetryAfter != 0 || !denied.Statuses[1].Soft {
		t.Errorf("denied by %s, statuses %+v", denied.Limit, denied.Statuses)
	}
	w.advance(denied.RetryAfter)
	lease := must(t, l, req) // the advice holds, whatever the soft limit owes
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

// deniedBy is a request that must be denied.
func deniedBy(t testing.TB, l *Limiter, req Request) *LimitError {
	t.Helper()
	_, err := l.Acquire(context.Background(), req)
	denied, ok := errors.AsType[*LimitError](err)
	if !ok {
		t.Fatalf("%v, want a denial", err)
	}
	return denied
}

// Made hard, the limit denies, but nobody pays for what it had not denied; made soft again it
// does not. What Python clients read of it follows: a stamp that is over, so that they ask.
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
	if got := deniedBy(t, l, stored(Costs{"rph": 1})); got.RetryAfter != time.Second {
		t.Errorf("denied for %v, want 1s", got.RetryAfter)
	}
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

// Processes that send one request each, and so never see an image, make the limit soft in the
// bucket too: what they owe is forgotten when it is made to deny.
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

// Beside a soft limit in any debt the hard one grants to the token what it would grant alone,
// on shards, from many processes at once, with settlements and answers that are lost.
func TestHardLimitIsExactWithASoftOneInDebt(t *testing.T) {
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

// A limit that changes to and fro while its tokens, or those of another limit, are held: usage
// counts each request once, and the hard one lets no more pass than it has.
func TestSoftAndTokensTakenAhead(t *testing.T) {
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
	// What is held ends, and a process tells so with its next charge that neither changes the
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
