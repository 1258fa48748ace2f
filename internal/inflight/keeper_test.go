package inflight

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The epoch of these tests is 60 s. A slot of the epoch that ends at E can be moved from E + 1 s
// on, is renewed between E + 11 s and E + 21 s, and is lost at E + 59 s.
const epoch = int64(60_000)

var (
	acme = decide.Name{Entity: "acme", Resource: "gpt"}
	key  = layout.BucketKey("ns", "acme", "gpt", 0)
	jobs = bucket.Limit{Name: "jobs", Capacity: 10_000, Period: epoch, InFlight: true}
)

// shelves exist while they are pinned.
type shelves map[decide.Name]*Shelf

// Find implements [Shelves].
func (all shelves) Find(n decide.Name) *Shelf { return all[n] }

// Pin implements [Shelves].
func (all shelves) Pin(n decide.Name) *Shelf {
	if all[n] != nil {
		panic("a shelf is pinned twice")
	}
	all[n] = &Shelf{}
	return all[n]
}

// Unpin implements [Shelves].
func (all shelves) Unpin(n decide.Name) {
	if s := all[n]; s == nil || s.timer != nil || len(s.all)+len(s.idle) > 0 {
		panic("something is held on a shelf that is not pinned")
	}
	delete(all, n)
}

// office is a keeper in virtual time that records the buckets it wakes.
type office struct {
	*testing.T
	Keeper
	shelves shelves
	begun   int64

	mu    sync.Mutex
	woken []string // with the second
}

// wakes returns the buckets that were woken since the last call.
func (o *office) wakes() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.woken = nil }()
	return fmt.Sprint(o.woken)
}

// inOffice runs f from the beginning of an epoch, with renewals as early as possible.
func inOffice(t *testing.T, f func(o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UnixMilli()
		time.Sleep(time.Duration(epoch-now%epoch) * time.Millisecond)
		o := &office{T: t, shelves: shelves{}, begun: time.Now().UnixMilli()}
		o.Shelves = o.shelves
		o.Random = func() uint64 { return 0 }
		o.Wake = func(n decide.Name) {
			o.mu.Lock()
			o.woken = append(o.woken, fmt.Sprintf("%s at %d", n.Entity, (o.now()-o.begun)/1000))
			o.mu.Unlock()
			o.Next(n, o.now()) // sets the next wake-up
		}
		f(o)
		for _, s := range o.shelves {
			s.timer.Stop()
		}
	})
}

func (o *office) now() int64 { return time.Now().UnixMilli() }

// until lets time pass to a second after the beginning.
func (o *office) until(second float64) {
	time.Sleep(time.Duration(o.begun-o.now())*time.Millisecond + time.Duration(second*float64(time.Second)))
	synctest.Wait()
}

// part returns n slots of a limit that count in the first epoch.
func (o *office) part(l bucket.Limit, n int64) Part {
	cost := table.Cost{Limit: l, Milli: n * bucket.Milli, End: o.begun + l.Period}
	return Part{Name: acme, Key: key, TTL: 77, Cost: cost}
}

func (o *office) takes(parts ...Part) *Lease {
	s := NewLease(acme)
	for _, p := range parts {
		s.Take(p)
	}
	o.Add(s, o.now())
	return s
}

func (o *office) job(n int64) *Lease { return o.takes(o.part(jobs, n)) }

func (s *Lease) isLost() bool {
	select {
	case <-s.Lost():
		return true
	default:
		return false
	}
}

// next returns what the keeper wants to renew now: slots by limit.
func (o *office) next() (*Renewal, string) {
	r, _ := o.Next(acme, o.now())
	if r == nil {
		return nil, "nothing"
	}
	return r, costs(r.Costs)
}

func costs(all []table.Cost) string {
	out := []string{}
	for _, c := range all {
		out = append(out, fmt.Sprintf("%d %s", c.Milli/bucket.Milli, c.Limit.Name))
	}
	return fmt.Sprint(out)
}

func (o *office) want(step, got, want string) {
	o.Helper()
	if got != want {
		o.Errorf("%s: %s, want %s", step, got, want)
	}
}

// Slots are renewed at a random instant between a sixth and a third of the next epoch, all slots of
// a bucket together, and again in each epoch.
func TestSlotsAreRenewedOnceInAnEpoch(t *testing.T) {
	for _, c := range []struct {
		part uint64
		due  float64
	}{{0, 71}, {0x8000, 76}, {0xffff, 80.9}, {0x1_0000, 71}} { // 16 bits of the random number count
		inOffice(t, func(o *office) {
			o.Random = func() uint64 { return c.part }
			o.Wake = func(decide.Name) {}
			o.job(1)
			o.until(30)
			o.job(2)
			for _, epoch := range []float64{0, 1, 2} {
				o.until(c.due + 60*epoch - 0.1)
				_, got := o.next()
				o.want("too early", got, "nothing")
				o.until(c.due + 60*epoch + 0.2)
				r, got := o.next()
				o.want("due", got, "[3 jobs]")
				_, again := o.next()
				o.want("while it is under way", again, "nothing")
				if back := o.Moved(r, Done, nil, o.now()); back != nil || r.Key() != key || r.TTL() != 77 {
					o.Errorf("%v are given back of %v, whose TTL is %d", back, r.Key(), r.TTL())
				}
			}
		})
	}
}

// The keeper wakes when something is due, and at least six times in an epoch.
func TestTheKeeperWakesSixTimesInAnEpoch(t *testing.T) {
	inOffice(t, func(o *office) {
		o.job(1)
		o.until(1)
		o.want("at once", o.wakes(), "[]")
		o.until(50.5)
		o.want("waiting", o.wakes(), "[acme at 10 acme at 20 acme at 30 acme at 40 acme at 50]")
		short := jobs
		short.Name, short.Period = "calls", 5_000
		p := o.part(short, 1)
		p.Cost.End = o.now() - o.now()%5_000 + 5_000 // 55 s
		o.takes(p)
		o.until(52)
		o.want("with a shorter epoch", o.wakes(), "[acme at 51]")
	})
	inOffice(t, func(o *office) {
		wake := o.Wake
		o.Wake = func(n decide.Name) {
			if at := (o.now() - o.begun) / 1000; at != 71 {
				wake(n)
			} else if r, got := o.next(); got != "[1 jobs]" {
				o.Errorf("renews %s", got)
			} else {
				o.wakes()
				o.Moved(r, Failed, nil, o.now())
			}
		}
		s := o.job(1)
		o.until(75)
		o.want("after a renewal that failed", o.wakes(), "[acme at 74]")
		o.until(119.5)
		if !s.isLost() {
			o.Error("not lost in time during a renewal")
		}
	})
	inOffice(t, func(o *office) {
		o.job(1)
		o.until(118.9)
		o.wakes()
		o.until(130)
		o.want("while a renewal of lost slots hangs", o.wakes(), "[acme at 119 acme at 129]")
	})
}

// Slots that are not renewed are lost a second before others may take them. The loss is reported
// once.
func TestSlotsAreLostByTheClock(t *testing.T) {
	inOffice(t, func(o *office) {
		o.Wake = func(decide.Name) {}
		s := o.takes(o.part(jobs, 1), o.part(bucket.Limit{Name: "calls", Period: epoch, InFlight: true}, 1))
		o.until(118.9)
		if o.Look(s, o.now()); s.isLost() || len(o.News()) > 0 {
			o.Error("lost too early")
		}
		o.until(119)
		if o.Look(s, o.now()); !s.isLost() {
			o.Error("not lost in time")
		}
		o.Look(s, o.now())
		if news := o.News(); !slices.Equal(news, []decide.Name{acme}) || len(o.News()) > 0 {
			o.Errorf("reported %v", news)
		}
		other := o.takes(o.part(jobs, 1))
		if back, _ := o.Release(other, o.now()); len(back) > 0 || !other.isLost() {
			o.Errorf("lost by then: given back %v", back)
		}
		if back, _ := o.Release(s, o.now()); len(back) > 0 {
			o.Errorf("lost, but given back: %v", back)
		}
		if len(o.shelves) != 0 {
			o.Error("a bucket without slots is kept")
		}
	})
}

// Next closes the Lost channels of leases that have lost slots, and drops buckets without slots.
func TestNextClosesLostLeases(t *testing.T) {
	for name, lose := range map[string]func(*office, *Lease){
		"by the clock": func(o *office, _ *Lease) { o.until(119) },
		"dropped":      func(o *office, s *Lease) { o.Drop(s) },
	} {
		inOffice(t, func(o *office) {
			o.Wake = func(decide.Name) {}
			s := o.job(1)
			lose(o, s)
			if _, got := o.next(); got != "nothing" || !s.isLost() || len(o.News()) != 1 || len(o.shelves) != 0 {
				o.Errorf("%s: renews %s, lost: %t, %d buckets are kept", name, got, s.isLost(), len(o.shelves))
			}
			if _, got := o.next(); got != "nothing" {
				o.Errorf("%s: renews %s of a bucket without slots", name, got)
			}
		})
	}
}

// A released lease gives its slots back once, by item.
func TestReleasesGiveBackOnce(t *testing.T) {
	inOffice(t, func(o *office) {
		calls := bucket.Limit{Name: "calls", Period: epoch, InFlight: true}
		other := o.part(jobs, 3)
		other.Name.Entity, other.Key = "org", layout.BucketKey("ns", "org", "gpt", 0)
		s, beside := o.takes(o.part(jobs, 1), o.part(calls, 2), other), o.job(5)
		back, _ := o.Release(s, o.now())
		o.want("its own", costs(back[key]), "[-1 jobs -2 calls]")
		o.want("its parent's", costs(back[other.Key]), "[-3 jobs]")
		if again, _ := o.Release(s, o.now()); len(back) != 2 || len(again) != 0 || s.isLost() || len(o.shelves) != 1 {
			o.Errorf("given back %v, then %v; lost: %t; %d buckets are kept", back, again, s.isLost(), len(o.shelves))
		}
		if o.Release(beside, o.now()); len(o.shelves) != 0 {
			o.Error("a bucket without slots is kept")
		}
	})
}

// Finished leases are removed when they are half of all, so a lease costs the same however many
// there are, and memory follows the held slots.
func TestMemoryFollowsHeldSlots(t *testing.T) {
	inOffice(t, func(o *office) {
		all := []*Lease{}
		for range 1000 {
			all = append(all, o.job(1))
		}
		for i, s := range all {
			o.Release(s, o.now())
			if held := len(all) - 1 - i; held > 0 && len(o.shelves[acme].all) > 2*held {
				o.Fatalf("%d are kept of %d", len(o.shelves[acme].all), held)
			}
		}
		if len(o.shelves) != 0 {
			o.Error("a bucket without slots is kept")
		}
	})
}
