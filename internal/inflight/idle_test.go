package inflight

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// lends returns a lease on n slots that others may reuse for 8 s.
func (o *office) lends(n int64) *Lease {
	p := o.part(jobs, n)
	p.From, p.Until = o.now(), o.now()+8000
	return o.takes(p)
}

// reuses gives a new lease up to n idle slots, and returns how many.
func (o *office) reuses(n int64) (*Lease, int64) {
	s, got := o.Reuse(nil, acme, acme, table.Cost{Limit: jobs, Milli: n * bucket.Milli}, o.now())
	if (s == nil) != (got == 0) {
		o.Errorf("%d slots, and the lease %v", got, s)
	}
	if s != nil {
		o.Add(s, o.now())
	}
	return s, got / bucket.Milli
}

// releases ends leases, and returns how many slots are given back.
func (o *office) releases(all ...*Lease) (back int64) {
	for _, s := range all {
		if s == nil {
			continue
		}
		out, _ := o.Release(s, o.now())
		for _, c := range out[key] {
			back -= c.Milli / bucket.Milli
		}
	}
	return back
}

// expires returns how many idle slots Next gives back, in one write.
func (o *office) expires() int64 {
	_, idle := o.Next(acme, o.now())
	if idle == nil {
		return 0
	}
	if len(idle.Costs) != 1 || idle.Key() != key || idle.Costs[0].Limit != jobs {
		o.Errorf("%v go back to %v", idle.Costs, idle.Key())
	}
	return -idle.Costs[0].Milli / bucket.Milli
}

func (o *office) equal(step string, got, want int64) {
	o.Helper()
	if got != want {
		o.Errorf("%s: %d slots, want %d", step, got, want)
	}
}

// quiet runs f with an office that does nothing by itself.
func quiet(t *testing.T, f func(o *office)) {
	t.Helper()
	inOffice(t, func(o *office) {
		o.Wake = func(decide.Name) {}
		f(o)
	})
}

// Each slot of a finished lease serves one other lease at a time, alone or together with other
// slots, until it is given back some time after it was taken.
func TestIdleSlots(t *testing.T) {
	quiet(t, func(o *office) {
		one, two := o.lends(3), o.lends(2)
		_, got := o.reuses(9)
		o.equal("while they are in use", got, 0)
		o.equal("released", o.releases(one, two, one), 0)
		three, got := o.reuses(4)
		o.equal("of 5", got, 4)
		four, got := o.reuses(4)
		o.equal("of the rest", got, 1)
		o.equal("early", o.expires(), 0)
		o.until(7.9)
		o.equal("released again", o.releases(three), 0)
		five, got := o.reuses(1)
		o.equal("of 4", got, 1)
		o.until(8)
		o.equal("too late to be idle", o.releases(five), 1)
		_, got = o.reuses(1)
		o.equal("too late to be used", got, 0)
		o.equal("expired", o.expires(), 3)
		o.equal("once", o.expires(), 0)
		o.equal("the last lease", o.releases(four), 1)
		if len(o.shelves) != 0 {
			o.Error("the keeper still has the bucket")
		}
	})
}

// Idle slots serve only their own bucket and limit.
func TestIdleSlotsServeOnlyTheirLimit(t *testing.T) {
	quiet(t, func(o *office) {
		o.releases(o.lends(3))
		other := jobs
		other.Capacity++
		_, got := o.Reuse(nil, acme, acme, table.Cost{Limit: other, Milli: 1000}, o.now())
		o.equal("another limit", got, 0)
		name := decide.Name{Entity: "other", Resource: "gpt"}
		_, got = o.Reuse(nil, acme, name, table.Cost{Limit: jobs, Milli: 1000}, o.now())
		o.equal("another bucket", got, 0)
	})
}

// Slots that end slightly later are given back in the same write. The keeper wakes for it.
func TestIdleSlotsGoBackTogether(t *testing.T) {
	inOffice(t, func(o *office) {
		var back []int64
		o.Wake = func(n decide.Name) {
			o.mu.Lock()
			defer o.mu.Unlock()
			back = append(back, o.expires())
		}
		came := func() []int64 {
			o.mu.Lock()
			defer o.mu.Unlock()
			return slices.Clone(back)
		}
		first := o.lends(1)
		o.until(2)
		second := o.lends(1)
		o.until(4)
		third := o.lends(1)
		o.releases(first, second, third)
		o.until(8.1)
		if back := came(); len(back) != 1 || back[0] != 2 {
			o.Errorf("%v go back at 8 s, want 2 of 3: the third has half of its time left", back)
		}
		o.until(12.1)
		if back := came(); len(back) < 2 || back[len(back)-1] != 1 {
			o.Errorf("%v go back by 12 s, want the third at last", back)
		}
	})
}

// A process that was frozen, or whose clock was set back, does not reuse idle slots that others may
// have now.
func TestClockChangesEndReuse(t *testing.T) {
	quiet(t, func(o *office) {
		p := o.part(jobs, 1)
		p.From, p.Until = o.now(), o.now()+600_000
		o.releases(o.takes(p))
		o.until(118.9)
		s, got := o.reuses(1)
		o.equal("before it is lost", got, 1)
		o.releases(s)
		o.until(119.1)
		_, got = o.reuses(1)
		o.equal("lost", got, 0)
		o.equal("lost, given back", o.expires(), 0)
		if news := o.News(); len(news) > 0 {
			o.Errorf("%v reported as lost, but no lease has lost slots", news)
		}
	})
	quiet(t, func(o *office) {
		p := o.part(jobs, 1)
		p.From, p.Until = o.now()+1000, o.now()+9000
		s := o.takes(p)
		o.equal("set back", o.releases(s), 1)
	})
}

// Idle slots are renewed like slots in use. Slots that are being moved are not divided. If their
// time is over meanwhile, the renewal gives them back.
func TestIdleSlotsAreRenewed(t *testing.T) {
	for name, c := range map[string]struct {
		came       Outcome
		back, left int64
	}{"done": {Done, 0, 3}, "failed": {Failed, 0, 3}, "unknown": {Unknown, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			quiet(t, func(o *office) {
				p, q := o.part(jobs, 2), o.part(jobs, 1)
				p.Until, q.Until = o.now()+100_000, o.now()+100_000
				o.releases(o.takes(p), o.takes(q))
				o.until(71.2)
				r, what := o.next()
				o.want("due", what, "[3 jobs]")
				s, got := o.reuses(1)
				o.equal("in one piece", got, 1)
				o.releases(s)
				o.Moved(r, c.came, nil, o.now())
				s, got = o.reuses(9)
				o.equal("moved", got, c.left)
				o.releases(s)
				o.until(100.1)
				o.equal("expired", o.expires(), c.left)
			})
		})
	}
	quiet(t, func(o *office) {
		p := o.part(jobs, 2)
		p.Until = o.now() + 72_000
		o.releases(o.takes(p))
		o.until(71.2)
		r, _ := o.next()
		time.Sleep(time.Second)
		o.equal("expired while it is moved", o.expires(), 0)
		back := o.Moved(r, Done, nil, o.now())
		o.want("given back by the renewal", costs(back), "[-2 jobs]")
	})
}
