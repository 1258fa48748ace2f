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
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
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
	history  map[string]*buckettest.History
	noted    int64 // the last instant whose surplus is noted
	faulty   int   // percent of writes that go wrong
	outcomes map[string]int
}

// TestRandomSchedules: whatever several processes, splits, configuration
// changes, expiry and lost answers do in whatever order, no window admits more
// than the limit allows (I1), no single call makes tokens (I2), and shares never
// add up to more than the whole (I3).
func TestRandomSchedules(t *testing.T) {
	kinds := []struct {
		name   string
		limits [][]Limit
		faulty int
	}{
		{"one limit", [][]Limit{{PerMinute("rpm", 60)}}, 0},
		{"one limit, lost answers", [][]Limit{{PerMinute("rpm", 60)}}, 30},
		{"fast limit", [][]Limit{{{"rpm", 40, 977, time.Second}}}, 10},
		{"odd limit", [][]Limit{{{"rpm", 37, 7, 3 * time.Second}}}, 10},
		{"two limits", [][]Limit{{PerMinute("rpm", 60), PerSecond("tpm", 100)}}, 10},
		{"limits that change", [][]Limit{{PerMinute("rpm", 60)}, {PerMinute("rpm", 30)}, {PerMinute("rpm", 60), PerMinute("tpm", 90)}}, 10},
	}
	const seeds = 8
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			worst, most, outcomes := big.NewRat(-1<<40, 1), 0, map[string]int{}
			var where string
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					s := &schedule{t: t, r: rand.New(rand.NewPCG(seed, 7)), limits: k.limits, faulty: k.faulty, outcomes: outcomes}
					x, limit, shards := s.run()
					if x.Milli.Cmp(worst) > 0 {
						worst, where = x.Milli, fmt.Sprintf("%s, seed %d: %v", limit, seed, x)
					}
					most = max(most, shards)
				})
			}
			t.Logf("worst excess over all windows of %d schedules, up to %d shards: %s; %v", seeds, most, where, outcomes)
			if worst.Sign() > 0 {
				t.Fatalf("over-admitted: %s", where)
			}
		})
	}
}

func (s *schedule) run() (worst buckettest.Excess, limit string, shards int) {
	s.w = newWorld(s.t)
	s.history = map[string]*buckettest.History{}
	for range 4 {
		s.procs = append(s.procs, s.w.process(Options{DenyFor: time.Duration(s.r.IntN(2000)-500) * time.Millisecond}))
	}
	s.fault()
	for range 180 {
		s.step()
		if s.t.Failed() {
			break
		}
	}
	if s.t.Failed() {
		for _, line := range s.log[max(0, len(s.log)-12):] {
			s.t.Log(line)
		}
		s.t.FailNow()
	}
	s.w.sharesAddUp(s.procs[0])
	worst.Milli = big.NewRat(-1<<50, 1)
	for name, h := range s.history {
		x := h.Worst(s.largest(name))
		if x.Milli.Cmp(worst.Milli) > 0 {
			worst, limit = x, name
		}
	}
	return worst, limit, len(s.w.shards(s.procs[0], acme, gpt))
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
	s.w.db.SetHook(func(op memdb.Op) (bool, error) {
		if op.Name == memdb.BatchGetItem || s.r.IntN(100) >= s.faulty {
			return true, nil
		}
		kind := []store.Kind{store.Unknown, store.Unknown, store.Throttled, store.Conflict, store.Unavailable}[s.r.IntN(5)]
		return kind == store.Unknown && s.r.IntN(2) == 0, memdb.Fail(kind)
	})
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
				s.w.edit(p, b.State.Shard, item.Item{"b_wcu_tk": item.N(-2_000_000)})
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

// names returns the limits that any configuration has.
func (s *schedule) names() (out []Limit) {
	for _, set := range s.limits {
		for _, l := range set {
			if !slices.ContainsFunc(out, func(o Limit) bool { return o.Name == l.Name }) {
				out = append(out, l)
			}
		}
	}
	return out
}

// held returns what the bucket holds of every limit.
func (s *schedule) held(p *Limiter) map[string]*big.Rat {
	out := map[string]*big.Rat{}
	inForce := s.limits[s.now]
	for _, l := range s.names() {
		if i := slices.IndexFunc(inForce, func(o Limit) bool { return o.Name == l.Name }); i >= 0 {
			l = inForce[i] // what a bucket that is not there would start with
		}
		out[l.Name] = s.w.held(p, l)
	}
	return out
}

// account checks that a call has made no tokens: what is held now plus what the
// call says it took is at most what was held before.
func (s *schedule) account(what string, p *Limiter, before map[string]*big.Rat, took Costs, certain bool) {
	s.t.Helper()
	for limit, had := range before {
		sum := new(big.Rat).Set(s.held(p)[limit])
		if certain {
			sum.Add(sum, big.NewRat(took[limit], 1))
		} else if took[limit] < 0 { // may have been given back
			sum.Add(sum, big.NewRat(took[limit], 1))
		}
		if sum.Cmp(had) > 0 {
			for _, b := range s.w.shards(p, acme, gpt) {
				s.t.Logf("stored now %d: %v", s.w.now.Load(), b.State)
			}
			changes := s.w.db.Changes(0)
			last := changes[len(changes)-1].Key
			changes = slices.DeleteFunc(changes, func(c memdb.Change) bool { return c.Key != last })
			for _, c := range changes[max(0, len(changes)-4):] {
				o, _ := table.DecodeBucket(c.Old)
				n, _ := table.DecodeBucket(c.New)
				s.t.Logf("change %d: %v\n -> %v", c.Seq, o.State, n.State)
			}
			s.t.Errorf("%s made tokens: of %s there were %s, now %s with %d taken (certain: %v)",
				what, limit, had.FloatString(6), s.held(p)[limit].FloatString(6), took[limit], certain)
		}
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
	before, at := s.held(p), s.w.now.Load()
	s.surplus(before)
	lease, err := p.Acquire(context.Background(), asks(costs, s.limits[s.now]...))
	s.outcomes[kindName(err)]++
	s.log = append(s.log, fmt.Sprintf("%d acquire %v: %s", at, costs, kindName(err)))
	switch {
	case err == nil:
		s.account("a grant", p, before, costs, true)
		s.take(at, costs)
		s.leases = append(s.leases, lease)
	case errors.Is(err, ErrUnknown):
		s.account("an unknown outcome", p, before, costs, false)
	case errors.Is(err, ErrLimited), errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge):
		s.account("no grant", p, before, nil, true)
	default:
		s.t.Errorf("acquire: %v", err)
	}
}

func (s *schedule) take(at int64, costs Costs) {
	for limit, n := range costs {
		if s.history[limit] == nil {
			s.history[limit] = &buckettest.History{}
		}
		s.history[limit].Take(at, n*bucket.Milli)
	}
}

// settle commits or rolls back a lease. Tokens that may have been given back
// count as given back.
func (s *schedule) settle() {
	if len(s.leases) == 0 {
		return
	}
	i := s.r.IntN(len(s.leases))
	lease := s.leases[i]
	s.leases = slices.Delete(s.leases, i, i+1)
	p, at := lease.limiter, s.w.now.Load()
	before := s.held(p)
	s.surplus(before)
	took := Costs{}
	var err error
	if s.r.IntN(2) == 0 {
		for _, limit := range lease.limits {
			took[limit] = int64(s.r.IntN(9) - 3)
		}
		for _, c := range lease.items[0].taken { // no more is given back than was taken
			took[c.Limit] = max(took[c.Limit], -c.Milli/bucket.Milli)
		}
		for _, limit := range lease.limits {
			if !slices.ContainsFunc(lease.items[0].taken, func(c table.Cost) bool { return c.Limit == limit }) {
				took[limit] = max(took[limit], 0)
			}
		}
		if err = lease.Adjust(took); err == nil {
			err = lease.Commit(context.Background())
		}
	} else {
		for _, c := range lease.items[0].taken {
			took[c.Limit] = -c.Milli / bucket.Milli
		}
		err = lease.Rollback(context.Background())
	}
	s.log = append(s.log, fmt.Sprintf("%d settle %v: %s", at, took, kindName(err)))
	exists := len(s.w.shards(p, acme, gpt)) > 0
	switch {
	case err == nil, errors.Is(err, ErrUnknown):
		// A bucket that is gone has nothing to settle, so less may be taken.
		for limit, n := range took {
			if n > 0 && (err != nil || !exists) {
				took[limit] = 0
			}
		}
		if err == nil && exists {
			s.accountSettled(p, before, took)
		}
		for limit, n := range took {
			if h := s.history[limit]; h != nil && n < 0 {
				h.Return(at, -n*bucket.Milli)
			}
		}
	case errors.Is(err, ErrUnavailable):
		s.account("an unavailable settlement", p, before, nil, true)
		if s.r.IntN(2) == 0 {
			s.leases = append(s.leases, lease)
			lease.pending = nil
		}
	default:
		s.t.Errorf("settle: %v", err)
	}
}

// surplus notes what is held above capacity just before an instant: tokens that
// were given back to a full bucket, whose later grant is no excess. That nothing
// else gets there is what account checks, call by call.
func (s *schedule) surplus(held map[string]*big.Rat) {
	at := s.w.now.Load()
	if at == s.noted {
		return
	}
	s.noted = at
	for limit, had := range held {
		over := new(big.Rat).Mul(had, big.NewRat(bucket.Milli, 1))
		over.Sub(over, big.NewRat(s.largest(limit).Capacity, 1))
		if s.history[limit] == nil {
			s.history[limit] = &buckettest.History{}
		}
		s.history[limit].Surplus(at, over)
	}
}

func (s *schedule) accountSettled(p *Limiter, before map[string]*big.Rat, took Costs) {
	s.t.Helper()
	for limit := range took {
		if b := s.w.shards(p, acme, gpt); b[0].State.Index(limit) < 0 {
			delete(before, limit) // the bucket is another one, without that limit
		}
	}
	s.account("a settlement", p, before, took, true)
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
