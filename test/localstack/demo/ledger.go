package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/play"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// account identifies one limit of one entity on one resource.
type account struct{ entity, resource, limit string }

func compareAccounts(a, b account) int {
	return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.resource, b.resource), cmp.Compare(a.limit, b.limit))
}

// balance is what clients know they have consumed: at least low, at most high
// tokens. The two differ by what lost answers leave open.
type balance struct{ low, high int64 }

// counts are the outcomes that clients saw.
type counts struct {
	acquired, denied, unavailable, unknown int
	adjusted, rolledBack                   int
	lostSettlements                        int // commits and rollbacks without an answer
	unsettled                              int // leases that Do could not settle: nothing was written
	probes                                 int // of the acquired, those that measure the cost
}

// ledger is the clients' own bookkeeping, independent of everything stored. It
// is safe for concurrent use. Make one with newLedger.
type ledger struct {
	mu       sync.Mutex
	counts   counts
	balances map[account]balance
	events   map[account][]play.Event
	bounds   map[account]play.Bound
	asked    map[account][]int64 // when, epoch ms
	errs     []error             // what must not happen
}

func newLedger() *ledger {
	return &ledger{
		balances: map[account]balance{}, events: map[account][]play.Event{}, bounds: map[account]play.Bound{},
		asked: map[account][]int64{},
	}
}

// call is one thing a client asked of a bucket: costs are tokens by limit,
// positive ones are taken, negative ones given back.
type call struct {
	tenant         *tenant
	costs          limiter.Costs
	sent, answered int64 // epoch ms
}

// granted books a granted acquire.
func (l *ledger) granted(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.acquired++
	l.ask(c)
	for _, lim := range c.tenant.limits {
		a := account{c.tenant.entity, c.tenant.resource, lim.Name}
		l.bounds[a] = play.Bound{Rules: play.Always(lim.Capacity, lim.Refill, lim.Period.Milliseconds())}
	}
	l.book(c, true, true)
	for limit, n := range c.costs {
		l.see(c, limit, play.Grant, n)
	}
}

// refused books an acquire that got no grant; lost says that its tokens may be
// gone all the same.
func (l *ledger) refused(c call, count func(*counts), lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(&l.counts)
	l.ask(c)
	if lost {
		l.book(c, false, true)
	}
}

// settled books a commit or a rollback; answeredFor says that its answer came.
func (l *ledger) settled(c call, count func(*counts), answeredFor bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(&l.counts)
	l.book(c, answeredFor, true)
	for limit, n := range c.costs {
		if n < 0 {
			l.see(c, limit, play.Return, -n)
		}
	}
}

// ask books that a bucket was asked for tokens.
func (l *ledger) ask(c call) {
	for limit := range c.costs {
		a := account{c.tenant.entity, c.tenant.resource, limit}
		l.asked[a] = append(l.asked[a], c.sent)
	}
}

func (l *ledger) book(c call, certain, possible bool) {
	for limit, n := range c.costs {
		a := account{c.tenant.entity, c.tenant.resource, limit}
		b := l.balances[a]
		if certain || possible && n < 0 {
			b.low += n
		}
		if certain || possible && n > 0 {
			b.high += n
		}
		l.balances[a] = b
	}
}

func (l *ledger) see(c call, limit string, kind play.Kind, tokens int64) {
	a := account{c.tenant.entity, c.tenant.resource, limit}
	l.events[a] = append(l.events[a], play.Event{Kind: kind, Sent: c.sent, Answered: c.answered, Tokens: tokens})
}

// failed books an error that nothing in the demo explains.
func (l *ledger) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// count books an outcome that moves no tokens.
func (l *ledger) count(count func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(&l.counts)
}

// seen returns the outcomes so far.
func (l *ledger) seen() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// worst returns the worst window over all limits of all tenants that are of
// interest, and which limit it is of.
func (l *ledger) worst(kept bool, of func(account) bool) (play.Result, account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var worst play.Result
	var where account
	found := false
	for _, a := range l.accounts() {
		if !of(a) {
			continue
		}
		b := l.bounds[a]
		b.Kept = kept
		r, err := play.Worst(b, l.events[a])
		if err != nil {
			return r, a, fmt.Errorf("%s on %s, %s: %w", a.entity, a.resource, a.limit, err)
		}
		if !found || r.Excess > worst.Excess {
			worst, where, found = r, a, true
		}
	}
	if !found {
		return worst, where, fmt.Errorf("no request was granted")
	}
	return worst, where, nil
}

// capacity returns that of a limit, in tokens; zero if nothing was granted of it.
func (l *ledger) capacity(of account) float64 {
	for _, r := range l.bounds[of].Rules {
		return float64(r.Capacity)
	}
	return 0
}

// everyone and theHot choose for worst.
func everyone(account) bool { return true }
func theHot(a account) bool { return a.entity == hotEntity }

// accounts returns what was granted from, sorted.
func (l *ledger) accounts() []account {
	out := make([]account, 0, len(l.bounds))
	for a := range l.bounds {
		out = append(out, a)
	}
	slices.SortFunc(out, compareAccounts)
	return out
}
