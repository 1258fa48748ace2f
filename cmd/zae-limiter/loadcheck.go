package main

import (
	"errors"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// inForce is one limit that a grant charged.
type inForce struct {
	entity, limit            string
	capacity, amount, period int64 // the period in milliseconds
}

// chargedTo returns the limits that a lease charged, the entity's and its parents'.
func chargedTo(all []limiter.Status, costs limiter.Costs) (out []inForce) {
	for _, s := range all {
		// A quota has no windows other than its periods, and a soft limit allows everything.
		if costs[s.Limit] > 0 && s.Refill > 0 && !s.Soft {
			out = append(out, inForce{s.Entity, s.Limit, s.Capacity, s.Refill, s.Period.Milliseconds()})
		}
	}
	return out
}

// allowance is the worst window of one limit: from FromMS to ToMS after the first request. In it,
// Admitted tokens were granted, and at most Allowed should have been.
type allowance struct {
	Entity, Limit           string
	Granted                 int64 // in the whole run
	FromMS, ToMS            int64
	Admitted, Allowed, Over int64
}

// judge returns the worst window of every limit, in order; the course of the limit that came
// nearest to its bound; and the sum of the tokens over, in all windows. Buckets are refilled by
// clocks that may differ by apart.
func judge(p loadPlan, samples []sample, apart time.Duration) (out []allowance, c course, over int64, err error) {
	book := bookOf(p, samples)
	all, err := book.Judge(apart, true)
	if err != nil {
		return nil, c, 0, err
	}
	begin := int64(math.MaxInt64)
	for _, s := range samples {
		begin = min(begin, s.sent)
	}
	for _, worst := range all {
		page := book.Page(worst.Account)
		one := allowance{Entity: worst.Entity, Limit: worst.Limit, Granted: page.Granted(), Admitted: worst.Admitted,
			Over: worst.Over()}
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
	if nearest, ok := all.Worst(); ok {
		c = courseOf(nearest.Account, book.Page(nearest.Account), begin, apart)
	}
	return out, c, over, nil
}

// bookOf enters every request for all limits that may have been charged.
func bookOf(p loadPlan, samples []sample) *loadcheck.Book {
	book := new(loadcheck.Book)
	charged := make([]map[loadcheck.Account]bool, p.Entities) // by entity, from its grants
	parent := make([]bool, p.Entities)                        // and whether a grant charged a parent
	last := int64(0)
	for _, s := range samples {
		last = max(last, s.answered)
		for _, l := range s.limits {
			a := loadcheck.Account{Entity: l.entity, Resource: p.Resource, Limit: l.limit}
			if charged[s.entity] == nil {
				charged[s.entity] = map[loadcheck.Account]bool{}
			}
			charged[s.entity][a] = true
			parent[s.entity] = parent[s.entity] || l.entity != s.limits[0].entity
			book.Granted(a, loadcheck.Rule{From: s.sent, To: s.answered, Capacity: l.capacity, Amount: l.amount,
				Period: l.period}, p.Costs[l.limit])
		}
	}
	for _, s := range samples {
		if s.err == nil {
			continue
		}
		// A denial by a parent is returned only after the entity's tokens are given back. Without
		// an answer, they are given back at some time.
		answered := s.answered
		if !errors.Is(s.err, limiter.ErrLimited) {
			answered = last
		} else if !s.calls || !parent[s.entity] {
			continue
		}
		for a := range charged[s.entity] {
			book.Passing(a, s.sent, answered, p.Costs[a.Limit])
		}
	}
	return book
}
