package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// world is a table in memory with a clock that only the test moves.
type world struct {
	t   testing.TB
	db  *memdynamo.DB
	now atomic.Int64

	mended item.Item // the item that spoil has damaged, as it was
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	chance.begin(t.Name())
	w.now.Store(1_700_000_000_000)
	w.db = memdynamo.New(w.now.Load)
	return w
}

func (w *world) advance(d time.Duration) { w.now.Add(d.Milliseconds()) }

// ages is a bound that no call comes near, however slow the machine is: what is
// bounded by real time in a test gets it.
const ages = 24 * time.Hour

const ms = time.Millisecond

// process returns a limiter with caches of its own, on a namespace that it
// registers if need be. Only a test that says so has a bound that matters; it runs in
// a bubble of testing/synctest then, because bounds are about real time.
func (w *world) process(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	calm := opts.Timeout == 0 // nothing hangs: a read takes as long as the machine needs for it
	if calm {
		opts.Timeout = ages
	}
	opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()) }
	l, err := open(context.Background(), w.db, &opts)
	if err != nil {
		w.t.Fatal(err)
	}
	if calm {
		l.configs.patience = ages
	}
	return l
}

func rpm(n int64) []Limit { return []Limit{PerMinute("rpm", n)} }

func TestDeniedRequestIsGrantedAfterRetryAfter(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1}, Limits: rpm(10)}
	for i := range 10 {
		if _, err := l.Acquire(t.Context(), req); err != nil {
			t.Fatalf("acquire %d: %v", i, err)
		}
	}
	_, err := l.Acquire(t.Context(), req)
	denied, ok := errors.AsType[*LimitError](err)
	if !ok || !errors.Is(err, ErrLimited) {
		t.Fatalf("11th acquire: %v, want a *LimitError", err)
	}
	if denied.RetryAfter != 6*time.Second || denied.Limit != "rpm" || denied.Remaining != 0 || denied.Wanted != 1 {
		t.Fatalf("denial %+v, want rpm, 1 wanted, 0 left, retry after 6s", denied)
	}
	w.advance(denied.RetryAfter - time.Millisecond)
	if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
		t.Fatalf("a millisecond early: %v, want denied", err)
	}
	w.advance(time.Millisecond)
	if _, err := l.Acquire(t.Context(), req); err != nil {
		t.Fatalf("at the told instant: %v", err)
	}
	if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
		t.Fatalf("right after: %v, want denied", err)
	}
}

// TestIdleBucketPaysOnce: a bucket that has been full for an hour grants its
// capacity once, not once from the level and once more from the hour.
func TestIdleBucketPaysOnce(t *testing.T) {
	for _, processes := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			w := newWorld(t)
			ls := make([]*Limiter, processes)
			for i := range ls {
				ls[i] = w.process(Options{})
			}
			req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1}, Limits: rpm(10)}
			for _, l := range ls {
				if _, err := l.Acquire(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			w.advance(5 * time.Minute)
			granted := 0
			for i := range 50 {
				if _, err := ls[i%processes].Acquire(t.Context(), req); err == nil {
					granted++
				} else if !errors.Is(err, ErrLimited) {
					t.Fatal(err)
				}
			}
			if granted != 10 {
				t.Fatalf("%d granted in one instant, want the capacity of 10", granted)
			}
		})
	}
}

func TestWarmAcquireIsOneWriteAndNoRead(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1}, Limits: rpm(1000)}
	if _, err := l.Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	w.db.ResetStats()
	for range 100 {
		w.advance(17 * time.Millisecond)
		if _, err := l.Acquire(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	st := w.db.ResetStats()
	t.Logf("100 warm acquires: %+v", st)
	if st.Updates != 100 || st.Calls() != 100 {
		t.Fatalf("100 warm acquires took %+v, want 100 writes and no reads", st)
	}
}

func TestRepeatedDenialCostsNothing(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 10}, Limits: rpm(10)}
	if _, err := l.Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	w.db.ResetStats()
	for range 1000 {
		if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
			t.Fatalf("got %v, want denied", err)
		}
	}
	if st := w.db.ResetStats(); st.Calls() != 0 {
		t.Fatalf("1000 denials took %+v, want no call", st)
	}
	w.advance(time.Second)
	if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) {
		t.Fatalf("got %v, want denied", err)
	}
	if st := w.db.ResetStats(); st.Updates != 1 || st.Calls() != 1 {
		t.Fatalf("a denial by an old image took %+v, want one write", st)
	}
}

func TestCommitAndRollback(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1},
		Limits: []Limit{PerMinute("rpm", 10), PerMinute("tpm", 1000)}}
	lease, err := l.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := more(lease, Costs{"tpm": 1500}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = l.Acquire(t.Context(), req)
	if d, ok := errors.AsType[*LimitError](err); !ok || d.Limit != "tpm" || d.Remaining != -500 ||
		d.RetryAfter != 30*time.Second {
		t.Fatalf("with tpm in debt: %v, want denied by tpm at -500 for 30s", err)
	}
	if err := lease.Rollback(t.Context()); err != nil { // it has ended: nothing
		t.Fatalf("rollback after commit: %v", err)
	}
	w.advance(30 * time.Second)
	lease, err = l.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLateAdjustmentIsNotForgiven: tokens taken in addition after the bucket has
// filled up again come out of what it holds then.
func TestLateAdjustmentIsNotForgiven(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"tpm": 1}, Limits: []Limit{PerMinute("tpm", 10)}}
	lease, err := l.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	w.advance(10 * time.Minute)
	if err := more(lease, Costs{"tpm": 4}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	granted := 0
	for range 20 {
		if _, err := l.Acquire(t.Context(), req); err == nil {
			granted++
		}
	}
	if granted != 6 {
		t.Fatalf("%d granted after an adjustment of 4 on a full bucket of 10, want 6", granted)
	}
}
