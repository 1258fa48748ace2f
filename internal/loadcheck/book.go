package loadcheck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Account is one limit of one entity on one resource.
type Account struct{ Entity, Resource, Limit string }

// String names the account in messages.
func (a Account) String() string { return fmt.Sprintf("%s of %s on %s", a.Limit, a.Entity, a.Resource) }

// Compare orders accounts by entity, resource and limit.
func (a Account) Compare(b Account) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit))
}

// Page is the clients' observations of one account.
type Page struct {
	Events []Event
	Seen   []Rule // the rules in force, each from when a grant was sent until it was answered
	// Low and High are the least and the greatest consumption of the clients, minus their
	// give-backs. They differ by the lost answers.
	Low, High int64
}

// Granted returns how many tokens were granted, whatever was given back later.
func (p *Page) Granted() (tokens int64) {
	for _, e := range p.Events {
		if e.Kind == Grant {
			tokens += e.Tokens
		}
	}
	return tokens
}

// Book records the observations of the clients that load the system, independent of anything
// stored. Its zero value is empty. It is safe for concurrent use.
//
// Example: 50 tokens are granted, 20 of them given back, and a request for 7 more gets no answer.
// The clients have consumed 30 to 37.
type Book struct {
	mu    sync.Mutex
	pages map[Account]*Page
}

// on calls do with the page of an account, creating it if necessary.
func (b *Book) on(a Account, do func(*Page)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pages == nil {
		b.pages = map[Account]*Page{}
	}
	if b.pages[a] == nil {
		b.pages[a] = new(Page)
	}
	do(b.pages[a])
}

// Granted records tokens that were granted under a rule, sent at From and answered at To.
func (b *Book) Granted(a Account, under Rule, tokens int64) {
	b.on(a, func(p *Page) {
		p.Low, p.High = p.Low+tokens, p.High+tokens
		p.Seen = append(p.Seen, under)
		if tokens > 0 {
			p.Events = append(p.Events, Event{Kind: Grant, Sent: under.From, Answered: under.To, Tokens: tokens})
		}
	})
}

// Passing records a request that was not granted, but may have taken tokens and given them back
// between two instants.
func (b *Book) Passing(a Account, sent, answered, tokens int64) {
	b.on(a, func(p *Page) {
		p.Events = append(p.Events, Event{Kind: Passing, Sent: sent, Answered: answered, Tokens: tokens})
	})
}

// Settled records a settlement: more tokens were taken, or if negative, some were given back.
// Without an answer, certain is false. A request without an answer is recorded like this too: it
// may have taken tokens that no client uses.
func (b *Book) Settled(a Account, sent, answered, tokens int64, certain bool) {
	b.on(a, func(p *Page) {
		if certain || tokens < 0 {
			p.Low += tokens
		}
		if certain || tokens > 0 {
			p.High += tokens
		}
		if tokens < 0 {
			p.Events = append(p.Events, Event{Kind: Return, Sent: sent, Answered: answered, Tokens: -tokens})
		}
	})
}

// Accounts returns the accounts with observations, in order.
func (b *Book) Accounts() []Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.pages), Account.Compare)
}

// Pages returns the pages of all accounts so far. The caller must not change them.
func (b *Book) Pages() map[Account]Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[Account]Page, len(b.pages))
	for a, p := range b.pages {
		out[a] = *p
	}
	return out
}

// Page returns the page of an account so far. The caller must not change it.
func (b *Book) Page(a Account) (p Page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pages[a] != nil {
		p = *b.pages[a]
	}
	return p
}

// Judged is the worst window of an account.
type Judged struct {
	Account
	Result
}

// Judgement is the worst windows of accounts.
type Judgement []Judged

// Judge returns the worst window of every account with a grant, in order. apart is the greatest
// difference between the clocks of the refilling processes; kept is [Bound.Kept].
func (b *Book) Judge(apart time.Duration, kept bool) (out Judgement, err error) {
	for _, a := range b.Accounts() {
		p := b.Page(a)
		if len(p.Seen) == 0 {
			continue
		}
		skew := (apart + time.Millisecond - 1).Milliseconds()
		r, err := Worst(Bound{Rules: InForce(p.Seen), Skew: skew, Kept: kept}, p.Events)
		if err != nil {
			return nil, fmt.Errorf("%v cannot be checked: %w", a, err)
		}
		out = append(out, Judged{a, r})
	}
	return out, nil
}

// Worst returns the account that came closest to exceeding its limit, or exceeded it most; ok is
// false if there is none.
func (j Judgement) Worst() (worst Judged, ok bool) {
	if len(j) == 0 {
		return worst, false
	}
	return slices.MaxFunc(j, func(a, b Judged) int { return cmp.Compare(a.Excess, b.Excess) }), true
}
