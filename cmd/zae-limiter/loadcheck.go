package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/play"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// inForce is one limit that a grant was charged to.
type inForce struct {
	entity, limit            string
	capacity, amount, period int64 // the period in milliseconds
}

// chargedTo returns what a lease was charged to, its own limits and those of parents.
func chargedTo(all []limiter.Status, costs limiter.Costs) (out []inForce) {
	for _, s := range all {
		if costs[s.Limit] > 0 && s.Refill > 0 { // a quota has no windows but its periods
			out = append(out, inForce{s.Entity, s.Limit, s.Capacity, s.Refill, s.Period.Milliseconds()})
		}
	}
	return out
}

// allowance is the worst window of one limit: from FromMS to ToMS after the first
// request Admitted tokens were granted, and at most Allowed may be.
type allowance struct {
	Entity, Limit           string
	Granted                 int64 // in the whole run
	FromMS, ToMS            int64
	Admitted, Allowed, Over int64
}

// account identifies a limit of an entity.
type account struct{ entity, limit string }

// book is what was seen of one account.
type book struct {
	events  []play.Event
	seen    []play.Rule
	granted int64
}

// judge returns the worst window of every limit, in order, and how many tokens are
// over in them together. Apart is by how many milliseconds the clocks of those who
// refill the buckets may differ.
func judge(p loadPlan, samples []sample, apart time.Duration) (out []allowance, over int64, err error) {
	books := booksOf(p, samples)
	order := func(a, b account) int { return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.limit, b.limit)) }
	begin := int64(math.MaxInt64)
	for _, s := range samples {
		begin = min(begin, s.sent)
	}
	for _, a := range slices.SortedFunc(maps.Keys(books), order) {
		b := books[a]
		bound := play.Bound{Rules: play.InForce(b.seen), Skew: (apart + time.Millisecond - 1).Milliseconds(), Kept: true}
		worst, err := play.Worst(bound, b.events)
		if err != nil {
			return nil, 0, fmt.Errorf("%s of %s cannot be checked: %w", a.limit, a.entity, err)
		}
		one := allowance{Entity: a.entity, Limit: a.limit, Granted: b.granted, Admitted: worst.Admitted, Over: worst.Over()}
		if worst.Admitted > 0 {
			one.FromMS, one.ToMS = worst.From-begin, worst.To-begin
		}
		one.Allowed = worst.Admitted - one.Over
		if one.Over == 0 { // rounded down
			one.Allowed += -worst.Excess / 1000
		}
		over += one.Over
		out = append(out, one)
	}
	return out, over, nil
}

// booksOf enters every request into the books of the limits that it may have been
// charged to.
func booksOf(p loadPlan, samples []sample) map[account]*book {
	books := map[account]*book{}
	charged := make([]map[account]bool, p.Entities) // by entity, where it was granted
	last := int64(0)
	for _, s := range samples {
		last = max(last, s.answered)
		for _, l := range s.limits {
			a := account{l.entity, l.limit}
			if books[a] == nil {
				books[a] = &book{}
			}
			if charged[s.entity] == nil {
				charged[s.entity] = map[account]bool{}
			}
			charged[s.entity][a] = true
			b := books[a]
			b.granted += p.Costs[l.limit]
			b.events = append(b.events, play.Event{Sent: s.sent, Answered: s.answered, Tokens: p.Costs[l.limit]})
			b.seen = append(b.seen, play.Rule{From: s.sent, To: s.answered, Capacity: l.capacity, Amount: l.amount,
				Period: l.period})
		}
	}
	for _, s := range samples {
		if s.err == nil {
			continue
		}
		// Denied by a parent, it gives back before it returns what the entity has paid;
		// without an answer, at some time.
		e := play.Event{Kind: play.Passing, Sent: s.sent, Answered: s.answered}
		if !errors.Is(s.err, limiter.ErrLimited) {
			e.Answered = last
		} else if !s.calls || len(entitiesOf(charged[s.entity])) < 2 {
			continue
		}
		for a := range charged[s.entity] {
			e.Tokens = p.Costs[a.limit]
			books[a].events = append(books[a].events, e)
		}
	}
	return books
}

func entitiesOf(all map[account]bool) map[string]bool {
	out := map[string]bool{}
	for a := range all {
		out[a.entity] = true
	}
	return out
}
