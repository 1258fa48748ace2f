package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
)

// course is the history of one limit since the first request: the tokens admitted by each instant,
// and the tokens that were allowed by then.
type course struct {
	entity, limit     string
	admitted, allowed []point
}

// courseOf returns the course of an account. A grant counts from its answer on. Allowed are the
// largest capacity so far, the refill, and the refill for the time by which clocks may differ.
func courseOf(a loadcheck.Account, page loadcheck.Page, begin int64, apart time.Duration) course {
	c := course{entity: a.Entity, limit: a.Limit}
	rules := loadcheck.InForce(page.Seen)
	capacity := func(at int64) (most float64) {
		for _, r := range rules {
			if r.From <= at && at <= r.To {
				most = max(most, float64(r.Capacity))
			}
		}
		return most
	}
	rate := func(from, to int64) (most float64) {
		for _, r := range rules {
			if r.From < to && from < r.To {
				most = max(most, float64(r.Amount)/float64(r.Period))
			}
		}
		return most
	}
	full, refilled := capacity(begin), rate(begin, begin+1)*float64(apart.Milliseconds())
	admitted, last := 0.0, begin
	c.allowed, c.admitted = []point{{0, full + refilled}}, []point{{0, 0}}
	for _, s := range steps(page.Events, rules, begin) {
		at := float64(s.at-begin) / 1000
		if s.at > last {
			refilled += rate(last, s.at) * float64(s.at-last)
			last = s.at
			c.allowed = append(c.allowed, point{at, full + refilled})
		}
		if now := capacity(s.at); now > full {
			full = now
			c.allowed = append(c.allowed, point{at, full + refilled})
		}
		if s.tokens > 0 {
			c.admitted = append(c.admitted, point{at, admitted}, point{at, admitted + s.tokens})
			admitted += s.tokens
		}
	}
	return c
}

// step is an instant, epoch ms, at which tokens are admitted or the rules change.
type step struct {
	at     int64
	tokens float64
}

// steps returns the steps in order of time, from begin to the last grant.
func steps(events []loadcheck.Event, rules []loadcheck.Rule, begin int64) (out []step) {
	end := begin
	for _, e := range events {
		if e.Kind == loadcheck.Grant {
			out = append(out, step{e.Answered, float64(e.Tokens)})
			end = max(end, e.Answered)
		}
	}
	for _, r := range rules {
		for _, at := range []int64{r.From, r.To} {
			if at > begin && at < end {
				out = append(out, step{at, 0})
			}
		}
	}
	slices.SortFunc(out, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return out
}
