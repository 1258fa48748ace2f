package main

import (
	"errors"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// counts are the outcomes that clients saw.
type counts struct {
	acquired, denied, unavailable, unknown int
	adjusted, rolledBack                   int
	lostSettlements                        int // commits and rollbacks without an answer
	unsettled                              int // leases that Do could not settle: nothing was written
	hotDenied                              int // of the denied, on the hot bucket
}

// book is the clients' own bookkeeping, independent of everything stored. It
// is safe for concurrent use. Make one with newBook.
type book struct {
	loadcheck.Book
	mu     sync.Mutex
	counts counts
	asked  map[loadcheck.Account][]int64 // when, epoch ms
	errs   []error                       // things that must not happen
}

func newBook() *book { return &book{asked: map[loadcheck.Account][]int64{}} }

// call is one thing a client asked of a bucket: costs are tokens by limit,
// positive ones are taken, negative ones given back.
type call struct {
	tenant         *tenant
	costs          limiter.Costs
	sent, answered int64 // epoch ms
}

// account is the tenant's account of a limit.
func (c call) account(limit string) loadcheck.Account {
	return loadcheck.Account{Entity: c.tenant.entity, Resource: c.tenant.resource, Limit: limit}
}

func (l *book) granted(c call) {
	l.ask(c, func(n *counts) { n.acquired++ })
	for _, lim := range c.tenant.limits {
		l.Granted(c.account(lim.Name), loadcheck.Rule{From: c.sent, To: c.answered, Capacity: lim.Capacity,
			Amount: lim.Refill,
			Period: lim.Period.Milliseconds()}, c.costs[lim.Name])
	}
}

// refused books an acquire that got no grant; lost says that its tokens may be
// gone all the same.
func (l *book) refused(c call, count func(*counts), lost bool) {
	l.ask(c, count)
	for limit, n := range c.costs {
		if lost {
			l.Settled(c.account(limit), c.sent, c.answered, n, false)
		}
	}
}

// settled books a commit or a rollback; answeredFor says that its answer came.
func (l *book) settled(c call, count func(*counts), answeredFor bool) {
	l.count(count)
	for limit, n := range c.costs {
		l.Settled(c.account(limit), c.sent, c.answered, n, answeredFor)
	}
}

// ask records a request to a bucket, and its outcome.
func (l *book) ask(c call, count func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(&l.counts)
	for limit := range c.costs {
		l.asked[c.account(limit)] = append(l.asked[c.account(limit)], c.sent)
	}
}

// failed books an error that nothing in the demo explains.
func (l *book) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// count books an outcome that moves no tokens.
func (l *book) count(count func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(&l.counts)
}

// seen returns the outcomes so far.
func (l *book) seen() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// worst returns the worst window over all limits of an entity, or of all tenants for "".
func (l *book) worst(entity string) (loadcheck.Judged, error) {
	all, err := l.Judge(0, false)
	others := func(j loadcheck.Judged) bool { return entity != "" && j.Entity != entity }
	worst, ok := slices.DeleteFunc(all, others).Worst()
	if err == nil && !ok {
		err = errors.New("no request was granted")
	}
	return worst, err
}

// rule returns the rule of a limit, which does not change; ok is false if it granted nothing.
func (l *book) rule(of loadcheck.Account) (r loadcheck.Rule, ok bool) {
	if seen := l.Page(of).Seen; len(seen) > 0 {
		return seen[0], true
	}
	return r, false
}
