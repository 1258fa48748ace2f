package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// judge counts the work under way as its processes know it: from the lease until the work ends or
// the loss of its slots is reported.
type slotsJudge struct {
	mu   sync.Mutex
	open map[*Lease]int64
	most int64
}

func (j *slotsJudge) begin(le *Lease, n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[le] = n
	sum := int64(0)
	for le, n := range j.open {
		if !isLost(le) {
			sum += n
		}
	}
	j.most = max(j.most, sum)
}

func (j *slotsJudge) end(le *Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.open, le)
}

// trouble draws the fate of a process's calls: most are performed, late or not; for others the
// answer is lost, or they are not performed. Some processes die.
type slotsTrouble struct {
	mu   sync.Mutex
	r    *rand.Rand
	dies time.Time // zero: never
}

func (s *slotsTrouble) n(most int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Int64N(most)
}

func (s *slotsTrouble) before(string, []item.Write) fate {
	if !s.dies.IsZero() && time.Now().After(s.dies) {
		return fate{err: memdynamo.Fail(store.Unavailable)}
	}
	switch s.n(20) {
	case 0:
		return fate{apply: true, err: memdynamo.Fail(store.Unknown)}
	case 1:
		return fate{err: memdynamo.Fail(store.Unknown)}
	case 2:
		return fate{err: memdynamo.Fail(store.Throttled)}
	case 3:
		return fate{err: memdynamo.Fail(store.Conflict)}
	case 4:
		return fate{apply: true, delay: time.Duration(s.n(int64(2 * epoch)))}
	case 5, 6, 7:
		return fate{apply: true, delay: time.Duration(s.n(int64(time.Second)))}
	}
	return fate{apply: true}
}

// allEnd is how often epochs of 60, 45, 30 and 7 s end together.
const allEnd = 1260 * time.Second

// workers is a world of processes with clocks up to a second apart. They take slots and hold them
// for up to four epochs of one of the lengths, and end their leases or drop them, with the troubles
// above. It returns the greatest number of slots in use at once, and how many requests reused idle
// slots.
func workers(t *testing.T, o *office, seed uint64, n int64, epochs ...time.Duration) (most, reused int64) {
	r := rand.New(rand.NewPCG(18, seed))
	judge := &slotsJudge{open: map[*Lease]int64{}}
	var all sync.WaitGroup
	var took atomic.Int64
	for range 2 + r.IntN(3) {
		trouble := &slotsTrouble{r: rand.New(rand.NewPCG(r.Uint64(), 1))}
		if r.IntN(3) == 0 {
			trouble.dies = time.Now().Add(time.Duration(r.Int64N(int64(12 * epoch))))
		}
		opts, clients, pause, shorter := Options{Timeout: 2 * time.Second}, 3, epoch/4, int64(0)
		if r.IntN(2) == 0 { // it is busy, and its slots serve other requests of its own
			opts.Ahead, clients, pause, shorter = []time.Duration{epoch / 2, 3 * epoch}[r.IntN(2)], 6, epoch/16, 2
		}
		opts.Observe = func(_ context.Context, e Event) {
			if e.Kind == EventAcquire && e.Err == nil && e.Writes == 0 {
				took.Add(1)
			}
		}
		w := o.worker(time.Duration(r.Int64N(int64(2*time.Second)+1))-time.Second, opts)
		w.on(trouble.before)
		for range clients {
			all.Go(func() {
				for until := time.Now().Add(20 * epoch); time.Now().Before(until); {
					time.Sleep(time.Duration(trouble.n(int64(pause))))
					weight := 1 + trouble.n(min(n, 2))
					limit := InFlight("jobs", n, epochs[trouble.n(int64(len(epochs)))])
					lease, err := w.Acquire(context.Background(), takesJob(weight, limit))
					if err != nil {
						continue
					}
					judge.begin(lease, weight)
					time.Sleep(time.Duration(trouble.n(int64(4*epoch)) >> (shorter + trouble.n(8))))
					judge.end(lease)
					switch trouble.n(8) {
					case 0: // never ended
						w.desks.Slots.Drop(lease.slots)
					case 1:
						_ = lease.Rollback(context.Background())
					case 2: // writes that DynamoDB did not accept are sent again
						_ = lease.Settle(Costs{"rpm": trouble.n(9)})
						_ = lease.Commit(context.Background())
						_ = lease.Commit(context.Background())
					default:
						if err := lease.Commit(context.Background()); errors.Is(err, ErrSetup) {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	all.Wait()
	// Slots two epochs late may have begun two more; then those of all lengths end together.
	time.Sleep(2*epochs[0] + 2*time.Second + 2*epoch)
	if len(epochs) > 1 {
		time.Sleep(2 * allEnd)
	}
	last := o.worker(0, Options{})
	lease, err := last.Acquire(t.Context(), takesJob(n, InFlight("jobs", n, epochs[0])))
	if err != nil {
		t.Errorf("seed %d: slots leak: %v", seed, err)
	} else if err := lease.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	return judge.most, took.Load()
}

func TestNeverMoreAtWorkThanSlots(t *testing.T) {
	t.Parallel()
	for name, epochs := range map[string][]time.Duration{
		"one epoch":     {epoch},
		"others beside": {2 * epoch, 45 * time.Second, epoch, 7 * time.Second},
	} {
		reused := int64(0)
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				inOffice(t, func(t *testing.T, o *office) {
					n := int64(1 + seed%8)
					most, more := workers(t, o, seed, n, epochs...)
					if most > n {
						t.Errorf("%d of %d slots were at work at once", most, n)
					}
					reused += more
				})
			})
		}
		if len(epochs) == 1 && reused == 0 {
			t.Error("no request took over idle slots")
		}
	}
}

// If slots belong to a bucket that was deleted, by expiry or a reset, the next renewal reports it,
// not only the end of their epochs. It takes nothing from newer leases.
func TestRefusedRenewalsAreReported(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var told atomic.Int64
		w, other := o.worker(0, Options{Observe: only(EventUpkeep, func(e Event) {
			if told.Add(1); e.Entity != acme || e.Resource != gpt || e.Err == nil {
				t.Errorf("reported %+v", e)
			}
		})}).renewsAt(0), o.worker(0, Options{})
		old := o.must(w, takesJob(2))
		end := o.slot().End
		o.db.Delete(layout.BucketKey(o.ns, acme, gpt, 0))
		later := o.must(other, takesJob(1))
		time.Sleep(time.Until(time.UnixMilli(end)) + bucket.EdgeMargin*time.Millisecond)
		if isLost(old) {
			t.Fatal("lost before it is renewed")
		}
		time.Sleep(epoch/6 + 10*time.Millisecond)
		select {
		case <-old.Lost():
		default:
			t.Error("not reported when its renewal was refused")
		}
		check.Equal(t, told.Load(), 1, "events report the renewal")
		check.NoError(t, old.Commit(t.Context()))
		o.free("given back by who has lost them", 1)
		time.Sleep(3 * epoch)
		if isLost(later) {
			t.Error("a later lease has lost its slot")
		}
		check.NoError(t, later.Commit(t.Context()))
		o.free("given back", 2)
	})
}

// However many leases a process holds of a bucket, an epoch takes one renewal.
func TestManyLeasesAreRenewedAtOnce(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		w := o.worker(0, Options{}).renewsAt(0)
		limit := InFlight("jobs", 1000, epoch)
		var leases []*Lease
		for range 1000 {
			leases = append(leases, o.must(w, takesJob(1, limit)))
		}
		o.denied(w, takesJob(1, limit))
		start := w.count("transact")
		time.Sleep(4 * epoch)
		check.Equal(t, w.count("transact")-start, 4, "renewals in 4 epochs")
		o.free("held", 0)
		for _, le := range leases {
			if isLost(le) {
				t.Fatal("lost")
			}
			check.Must(t, le.Commit(t.Context()))
		}
		o.free("given back", 1000)
		time.Sleep(5 * epoch)
		check.Equal(t, w.count("transact")-start, 4, "renewals: it continues to renew slots that were given back")
	})
}

// If the answer of the write that gives slots back is lost, the lease is not settled again: that
// could give back another lease's slot.
func TestSlotsAreGivenBackOnce(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		for _, applied := range []bool{true, false} {
			w, other := o.worker(0, Options{}), o.worker(0, Options{})
			mine, theirs := o.must(w, takesJob(1)), o.must(other, takesJob(1))
			w.on(func(string, []item.Write) fate { return fate{apply: applied, err: memdynamo.Fail(store.Unknown)} })
			check.MustBe(t, mine.Commit(t.Context()), ErrUnknown)
			w.on(nil)
			check.MustBe(t, mine.Commit(t.Context()), ErrLeaseClosed)
			check.NoError(t, mine.Rollback(t.Context()))
			want := int64(0)
			if applied {
				want = 1
			}
			o.free("given back once", want)
			time.Sleep(2*epoch + 2*time.Second)
			o.free("free by the epochs", 1)
			if isLost(theirs) || theirs.Commit(t.Context()) != nil {
				t.Error("the slot of another is lost")
			}
			o.free("given back", 2)
		}
	})
}

// Observers are notified once of each lease that has lost its slots, however it is found: by the
// clock, Lost, Commit, or because the lease was forgotten. Leases that end in time lose nothing.
func TestLostSlotsAreObserved(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var told atomic.Int64
		var w *worker
		var asks atomic.Pointer[Lease] // an observer may call it, too
		w = o.worker(0, Options{Observe: func(_ context.Context, e Event) {
			if e.Kind != EventLost {
				return
			}
			if told.Add(1); e.Entity != acme || e.Resource != gpt || e.Err != nil {
				t.Errorf("reported %+v", e)
			}
			if le := asks.Load(); le != nil {
				le.Lost()
			}
		}})
		frozen := func(*Lease) { w.skew.Add(int64(2 * epoch)) }
		for name, tt := range map[string]struct {
			lose func(*Lease)
			want int64
		}{
			"the clock":  {func(*Lease) { w.crash(); time.Sleep(3 * epoch); w.on(nil) }, 1},
			"Lost":       {func(le *Lease) { frozen(le); le.Lost() }, 1},
			"Commit":     {frozen, 1},
			"dropped":    {func(le *Lease) { w.desks.Slots.Drop(le.slots); time.Sleep(epoch) }, 1},
			"held":       {func(*Lease) { time.Sleep(5 * epoch) }, 0},
			"ended soon": {func(*Lease) {}, 0},
		} {
			told.Store(0)
			lease := o.must(w, takesJob(2))
			asks.Store(lease)
			if tt.lose(lease); name == "Lost" && told.Load() != 1 {
				t.Errorf("%s: reported %d times at once", name, told.Load())
			}
			check.NoError(t, lease.Commit(t.Context()))
			time.Sleep(4 * epoch)
			check.Equal(t, told.Load(), tt.want, "%s: reports", name)
		}
	})
}
