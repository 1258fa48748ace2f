package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// schedule is a random history of several processes on one bucket.
type schedule struct {
	t        *testing.T
	w        *world
	r        *rand.Rand
	log      []string
	limits   [][]Limit // configurations that come and go
	now      int       // the one in force
	procs    []*Limiter
	leases   []*Lease
	judge    *judge
	faulty   int // percent of writes that go wrong
	outcomes map[string]int
	most     int // shards at the end
}

// TestRandomSchedules: whatever several processes, splits, configuration
// changes, expiry and lost answers do in whatever order, no window admits more
// than the limit allows (I1), no write makes tokens (I2), every call takes what it
// says, shares never add up to more than the whole (I3), and once all has been
// refilled the whole can be had.
func TestRandomSchedules(t *testing.T) {
	kinds := []struct {
		name   string
		limits [][]Limit
		faulty int
	}{
		{"one limit", [][]Limit{{PerMinute("rpm", 60)}}, 0},
		{"one limit, lost answers", [][]Limit{{PerMinute("rpm", 60)}}, 30},
		{"fast limit", [][]Limit{{{Name: "rpm", Capacity: 40, Refill: 977, Period: time.Second}}}, 10},
		{"odd limit", [][]Limit{{{Name: "rpm", Capacity: 37, Refill: 7, Period: 3 * time.Second}}}, 10},
		{"two limits", [][]Limit{{PerMinute("rpm", 60), PerSecond("tpm", 100)}}, 10},
		{"limits that change", [][]Limit{{PerMinute("rpm", 60)}, {PerMinute("rpm", 30)},
			{PerMinute("rpm", 60), PerMinute("tpm", 90)}}, 10},
	}
	const seeds = 8
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			worst, most, outcomes := big.NewRat(-1<<40, 1), 0, map[string]int{}
			literal := big.NewRat(-1<<40, 1)
			var where string
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					s := &schedule{t: t, r: rand.New(rand.NewPCG(seed, 7)), limits: k.limits, faulty: k.faulty, outcomes: outcomes}
					for name, h := range s.run() {
						if x := h.Worst(s.largest(name)); x.Milli.Cmp(worst) > 0 {
							worst, where = x.Milli, fmt.Sprintf("%s, seed %d: %v", name, seed, x)
						}
						if x := h.Literal(s.largest(name)); x.Milli.Cmp(literal) > 0 {
							literal = x.Milli
						}
					}
					most = max(most, s.most)
				})
			}
			t.Logf("worst excess over all windows of %d schedules, up to %d shards: %s, literally %s millitokens; %v",
				seeds, most, where, literal.FloatString(3), outcomes)
			if worst.Sign() > 0 {
				t.Fatalf("over-admitted: %s", where)
			}
		})
	}
}

// run plays the schedule and returns what was granted and given back.
func (s *schedule) run() map[string]*buckettest.History {
	s.w = newWorld(s.t)
	for range 4 {
		s.procs = append(s.procs, s.w.process(Options{DenyFor: time.Duration(s.r.IntN(2000)-500) * time.Millisecond}))
	}
	s.judge = newJudge(s.w, s.procs[0].namespace, s.largest)
	s.fault()
	for range 180 {
		s.step()
		if s.t.Failed() {
			break
		}
	}
	s.w.db.SetHook(nil)
	if !s.t.Failed() {
		s.refilled()
	}
	if s.t.Failed() {
		for _, line := range s.log[max(0, len(s.log)-12):] {
			s.t.Log(line)
		}
		s.t.FailNow()
	}
	s.w.sharesAddUp(s.procs[0])
	s.most = len(s.w.shards(s.procs[0], acme, gpt))
	return s.judge.history
}

// refilled checks that nothing is lost for good: a process that has seen every
// shard and brought the limits in force there, and has nobody beside it until all
// is refilled, can have the whole, but for a part of a token on every shard.
// Counts that leave a shard less than one token are not looked at.
func (s *schedule) refilled() {
	p := s.procs[s.r.IntN(len(s.procs))]
	time.Sleep(desk.ProbesEvery)   // the table answers again, and that is found out
	p.desks.Settings.MaxShards = 1 // else a shard with the old limit could be split too far for the new one
	for _, l := range s.limits[s.now] {
		req := asks(Costs{l.Name: 1}, s.limits[s.now]...)
		if slices.ContainsFunc(s.w.shards(p, acme, gpt),
			func(b table.Shard) bool { return int64(b.State.Shards) > l.Capacity }) {
			return
		}
		for rounds := 0; rounds < 2 || !s.ready(p, l); rounds++ { // a call asks, and changes, a shard or two
			if rounds > 100 {
				s.t.Errorf("%s is not in force everywhere after 100 days", l)
				return
			}
			s.w.advance(24 * time.Hour)
			drain(s.t, p, req)
		}
		s.w.advance(24 * time.Hour)
		n, shards := drain(s.t, p, req), len(s.w.shards(p, acme, gpt))
		if got := int64(n); got > l.Capacity || got < l.Capacity-int64(shards)+1 {
			s.t.Errorf("%d of %s can be had from %d shards after a day, want %d", n, l.Name, shards, l.Capacity)
		}
	}
}

// ready reports whether a process has seen every shard and a limit is in force
// there.
func (s *schedule) ready(p *Limiter, l Limit) bool {
	known := seen(p)
	all := s.w.shards(p, acme, gpt)
	return len(all) > 0 && !slices.ContainsFunc(all, func(b table.Shard) bool {
		k, ok := known[b.State.Shard]
		i := b.State.Index(l.Name)
		return !ok || k.Absent || k.Image.Generation != b.Generation || i < 0 || b.State.Slots[i].Limit != l.stored()
	})
}

// largest returns the most that any configuration allows of a limit.
func (s *schedule) largest(name string) bucket.Rate {
	var out bucket.Rate
	for _, set := range s.limits {
		for _, l := range set {
			if l.Name == name {
				b := l.stored()
				out = bucket.Rate{Capacity: max(out.Capacity, b.Capacity), Amount: max(out.Amount, b.Amount), Period: b.Period}
			}
		}
	}
	return out
}

// fault makes some writes go wrong: not carried out, or carried out with the
// answer lost.
func (s *schedule) fault() {
	s.w.db.SetHook(oneByOne(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.BatchGetItem || s.r.IntN(100) >= s.faulty {
			return true, nil
		}
		kind := []store.Kind{store.Unknown, store.Unknown, store.Throttled, store.Conflict, store.Unavailable}[s.r.IntN(5)]
		return kind == store.Unknown && s.r.IntN(2) == 0, memdynamo.Fail(kind)
	}))
}

func (s *schedule) step() {
	p := s.procs[s.r.IntN(len(s.procs))]
	switch n := s.r.IntN(100); {
	case n < 10: // a burst, which drains the bucket
		for range 12 {
			s.acquire(p)
		}
	case n < 55:
		s.acquire(p)
	case n < 70:
		s.settle()
	case n < 88:
		d := time.Duration(s.r.IntN(3000)) * time.Millisecond
		if s.r.IntN(12) == 0 {
			d = time.Duration(s.r.IntN(600)) * time.Second
		}
		s.w.advance(d)
		s.log = append(s.log, "advance "+d.String())
	case n < 92:
		for _, b := range s.w.shards(p, acme, gpt) {
			if s.r.IntN(2) == 0 {
				s.w.heat(p, b.State.Shard)
			}
		}
	case n < 95:
		s.expire(p)
	case n < 98:
		s.now = s.r.IntN(len(s.limits))
	default: // a process is replaced by one that knows nothing
		i := s.r.IntN(len(s.procs))
		s.procs[i] = newLimiter(s.w.db, p.namespace, s.procs[i].opts)
	}
}

func (s *schedule) acquire(p *Limiter) {
	costs := Costs{}
	for _, l := range s.limits[s.now] {
		costs[l.Name] = int64(s.r.IntN(4))
		if s.r.IntN(10) == 0 {
			costs[l.Name] = int64(s.r.IntN(12))
		}
	}
	at := s.w.now.Load()
	s.judge.begin()
	lease, err := p.Acquire(context.Background(), asks(costs, s.limits[s.now]...))
	p.desks.Wait()
	s.outcomes[kindName(err)]++
	s.log = append(s.log, fmt.Sprintf("%d acquire %v: %s", at, costs, kindName(err)))
	switch {
	case err == nil:
		s.judge.expect("a grant", costs, true)
		s.judge.granted(at, costs)
		s.leases = append(s.leases, lease)
	case errors.Is(err, ErrUnknown):
		s.judge.expect("an unknown outcome", costs, false)
	case errors.Is(err, ErrLimited), errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge):
		s.judge.expect("no grant", nil, true)
	default:
		s.t.Errorf("acquire: %v", err)
	}
}

// settle commits or rolls back a lease.
func (s *schedule) settle() {
	if len(s.leases) == 0 {
		return
	}
	i := s.r.IntN(len(s.leases))
	lease := s.leases[i]
	multi := len(lease.items) > 1
	s.leases = slices.Delete(s.leases, i, i+1)
	at := s.w.now.Load()
	s.judge.begin()
	took := Costs{}
	var err error
	if s.r.IntN(2) == 0 {
		for _, limit := range lease.limits {
			took[limit.Name] = int64(s.r.IntN(9) - 3)
		}
		paid := paidBy(lease)
		for _, limit := range lease.limits { // no more is given back than was taken
			took[limit.Name] = max(took[limit.Name], -paid[limit.Name])
		}
		if err = more(lease, took); err == nil {
			err = lease.Commit(context.Background())
		}
	} else {
		for limit, n := range paidBy(lease) {
			took[limit] = -n
		}
		err = lease.Rollback(context.Background())
	}
	s.log = append(s.log, fmt.Sprintf("%d settle %v: %s", at, took, kindName(err)))
	for limit, n := range took { // there is nothing to settle in what is gone
		if s.lacking(lease, limit) { // on some of the shards that paid, or on all
			took[limit] = max(min(s.judge.grown(limit)/bucket.Milli, max(n, 0)), min(n, 0))
		}
	}
	switch {
	case err != nil && multi: // some of the shards that paid may be settled, others not
		s.judge.begin()
	case err == nil:
		s.judge.expect("a settlement", took, true)
	case errors.Is(err, ErrUnknown):
		s.judge.expect("an unknown settlement", took, false)
	case errors.Is(err, ErrUnavailable):
		s.judge.expect("an unavailable settlement", nil, true)
		if s.r.IntN(2) == 0 {
			s.leases = append(s.leases, lease)
			lease.actual = nil
		}
	default:
		s.t.Errorf("settle: %v", err)
	}
}

// lacking reports whether one of the shards that a lease has charged does not have
// a limit any more.
func (s *schedule) lacking(lease *Lease, limit string) bool {
	return slices.ContainsFunc(lease.items, func(it leaseItem) bool {
		stored := s.w.db.Item(it.Key)
		return stored == nil || stored["b_"+limit+"_tk"] == nil
	})
}

// paidBy returns what all items of a lease have paid, in tokens.
func paidBy(lease *Lease) Costs {
	out := Costs{}
	for _, it := range lease.items {
		for _, c := range it.Taken {
			out[c.Limit.Name] += c.Milli / bucket.Milli
		}
	}
	return out
}

// expire lets the sweeper remove what has expired; what it removes was full.
func (s *schedule) expire(p *Limiter) {
	b := s.w.shards(p, acme, gpt)
	if len(b) == 1 && b[0].TTL > 0 && s.r.IntN(2) == 0 {
		s.w.now.Store(max(s.w.now.Load(), (b[0].TTL+1)*1000))
	}
	if len(b) != 1 {
		return
	}
	full := true
	st := b[0].State.At(s.w.now.Load())
	for i, sl := range st.Slots {
		full = full && (sl.Name == bucket.WCU || sl.Tokens >= st.Rate(i).Capacity)
	}
	if n := s.w.db.Sweep(s.w.now.Load() / 1000); n > 0 {
		s.log = append(s.log, "expired")
		if !full {
			s.t.Errorf("swept while it held %v", st)
		}
	}
}
