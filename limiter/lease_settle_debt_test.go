package limiter

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A settlement may put the bucket so deep into debt that it outlives the ttl. The
// write that takes the debt moves the ttl too: a process that dies right after it
// leaves no bucket that expires before the debt is earned.
func TestDebtSurvivesACrash(t *testing.T) {
	for _, taken := range []int64{1, 1000} {
		w, l := newProcess(t, Options{})
		lease := must(t, l, asks(Costs{"tpm": taken}, PerMinute("tpm", 1000)))
		fine(t, more(lease, Costs{"tpm": 100_000}))
		w.db.SetHook(onCall(isWrite, 1,
			func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		fine(t, lease.Commit(t.Context()))
		b := w.shards(l, acme, gpt)[0]
		if full := b.State.FullAt(w.now.Load()); b.TTL*1000 < full {
			t.Errorf("%d taken: expires %d s before the debt is earned", taken, full/1000-b.TTL)
		}
	}
}

// settles ends a lease of work that has cost more than it took.
func settles(t *testing.T, lease *Lease, over int64) {
	t.Helper()
	report(t, errors.Join(more(lease, Costs{"tpm": over}), lease.Commit(t.Context())))
}

// What a bucket owes is what work has cost more than it took, to the millitoken, whoever settles
// it; so is what is counted as used. Nothing is granted while anything is owed. So it owes at most
// what the requests have cost more that were at work when it began to.
func TestDebtIsBoundedByWorkUnderWay(t *testing.T) {
	deepest := int64(0)
	for seed := range uint64(4) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 16))
		tpm := PerMinute("tpm", 60).WithCapacity(200) // a millitoken each millisecond
		var processes []*Limiter
		for range 6 {
			processes = append(processes, w.process(Options{}))
		}
		var atWork []*Lease
		held, spent, since := tpm.Capacity*1000, int64(0), int64(0) // since the last grant settled above, in millitokens
		took := func(lease *Lease, n int64) {
			atWork, held, spent, since = append(atWork, lease), held-n*1000, spent+n, 0
		}
		for range 15 { // from here on it is never full
			took(must(t, processes[0], asks(Costs{"tpm": 10}, tpm)), 10)
		}
		over := func(lease *Lease) {
			n := rng.Int64N(100) * rng.Int64N(100)
			settles(t, lease, n)
			held, spent, since = held-n*1000, spent+n, since+n*1000
		}
		for step := range 400 {
			if i := rng.IntN(60); i < len(atWork) {
				over(atWork[i])
				atWork = append(atWork[:i], atWork[i+1:]...)
			}
			n := 1 + rng.Int64N(9)
			lease, err := processes[rng.IntN(6)].Acquire(t.Context(), asks(Costs{"tpm": n}, tpm))
			switch {
			case err == nil && held < n*1000:
				t.Fatalf("seed %d, step %d: %d granted of %d millitokens", seed, step, n, held)
			case err == nil:
				took(lease, n)
			case !errors.Is(err, ErrLimited):
				t.Fatal(err)
			}
			deepest = max(deepest, -held)
			if -held > since || held >= tpm.Capacity*1000 {
				t.Fatalf("seed %d, step %d: holds %d millitokens, %d settled above since the last grant", seed, step, held, since)
			}
			if got := w.held(processes[0], tpm); got.Cmp(big.NewRat(held, 1000)) != 0 || w.used(processes[0], "tpm") != spent {
				t.Fatalf("seed %d, step %d: holds %s, %d used; want %d millitokens, %d", seed, step, got.FloatString(3),
					w.used(processes[0], "tpm"), held, spent)
			}
			pause := rng.Int64N(3000)
			if rng.IntN(20) == 0 && held < 0 {
				pause = -held // it is earned
			}
			w.advance(time.Duration(pause) * time.Millisecond)
			held += pause
		}
		desk.InParallel(len(atWork), func(i int) error { settles(t, atWork[i], 1000); return nil })
		held -= int64(len(atWork)) * 1_000_000
		_, err := w.process(Options{}).Acquire(t.Context(), asks(Costs{"tpm": 1}, tpm))
		d, ok := errors.AsType[*LimitError](err)
		left := bucket.WholeTokens(held)
		if !ok || d.Estimated || d.RetryAfter.Milliseconds() != 1000-held || d.Remaining != left {
			t.Errorf("seed %d: with %d millitokens: %v", seed, held, err)
		}
	}
	if deepest < 20_000_000 {
		t.Errorf("owed %d millitokens at most, which shows nothing", deepest)
	}
}

// Debts of more than numbers of 64 bits hold are stored and counted as used to the millitoken. Callers
// are told the lowest level and the longest wait that there are.
func TestTheDeepestDebt(t *testing.T) {
	w := newWorld(t)
	l, tpm := w.process(Options{}), PerHour("tpm", 400)
	var leases []*Lease
	for range 12 {
		leases = append(leases, must(t, w.process(Options{}), asks(Costs{"tpm": 1}, tpm)))
	}
	back := must(t, l, asks(Costs{"tpm": 1}, tpm))
	for _, lease := range leases {
		settles(t, lease, MaxTokens-1)
	}
	fine(t, back.Rollback(t.Context()))
	stored := w.db.Item(w.shards(l, acme, gpt)[0].Key())
	for attr, want := range map[string]item.Value{
		"b_tpm_tc": item.Plus(item.N(6*MaxTokens*1000), 6*MaxTokens*1000),
		"b_tpm_tk": item.Plus(item.N(400_000-6*MaxTokens*1000), -6*MaxTokens*1000),
	} {
		if !item.Equal(stored[attr], want) {
			t.Errorf("%s is %v, want %v", attr, stored[attr], want)
		}
	}
	for _, p := range []*Limiter{l, w.process(Options{})} {
		_, denied := p.Acquire(t.Context(), asks(Costs{"tpm": 1}, tpm))
		_, _, full := p.Reserve(t.Context(), asks(Costs{"tpm": 1}, tpm))
		if !errors.Is(full, ErrQueueFull) {
			t.Errorf("reserve: %v", full)
		}
		for _, err := range []error{denied, full} {
			d, ok := errors.AsType[*LimitError](err)
			if !ok {
				t.Fatalf("got %v, want denied", err)
			}
			s := d.Statuses[0]
			if d.RetryAfter != longestWait || s.RetryAfter != longestWait || s.ResetAfter != longestWait ||
				d.Remaining != s.Remaining || s.Remaining > math.MinInt64/1000 {
				t.Errorf("%v: %+v", err, s)
			}
		}
	}
}
