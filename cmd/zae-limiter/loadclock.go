package main

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// clocks knows how far the clocks may be apart by which a bucket is refilled: the
// limiters' here, which differ from this machine's by their correction, and
// DynamoDB's, for the aggregator's. A Date says its clock's second:
//
//	asked at 5.200 by this machine, answered at 5.300 "6 s":  it was ahead by 0.700 to 1.800
//	asked at 5.900, answered at 6.010 "6 s":                  by -0.010 to 1.100
//
// Together 0.700 to 1.100 s. Make one with newClocks. It is safe for concurrent use.
type clocks struct {
	mu       sync.Mutex
	here     bool            // all processes are on this machine, with one clock
	own      []time.Duration // by limiter: its correction of this machine's clock
	lo, hi   time.Duration   // of own, since the beginning
	heard    bool
	min, max time.Duration // DynamoDB's ahead of this machine's
	past     time.Duration // the largest max before a clock was set
}

func newClocks(limiters int) *clocks {
	return &clocks{own: make([]time.Duration, limiters), past: math.MinInt64}
}

// corrected records a limiter's new correction of this machine's clock.
func (c *clocks) corrected(limiter int, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own[limiter] = by
	c.lo, c.hi = min(c.lo, by), max(c.hi, by)
}

// begin forgets corrections that were replaced before the first request.
func (c *clocks) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lo, c.hi = slices.Min(c.own), slices.Max(c.own)
}

// apart returns by how much a clock that refills may be ahead of one that takes. It is not ok as
// long as DynamoDB's clock is unknown.
func (c *clocks) apart() (most time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard && !c.here {
		return max(c.hi, c.max, c.past) - c.lo, true
	}
	return c.hi - c.lo, c.here
}

// hear narrows the bounds for DynamoDB's clock, which showed date between two instants of this
// machine.
func (c *clocks) hear(date string, sent, received time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	lo, hi := at.Sub(received), at.Add(time.Second).Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.heard:
		c.heard, c.min, c.max = true, lo, hi
	case lo > c.max || hi < c.min: // a clock was set
		c.past, c.min, c.max = max(c.past, c.max), lo, hi
	default:
		c.min, c.max = max(c.min, lo), min(c.max, hi)
	}
}

// listen passes the Date of every answer to the clocks.
type listen struct {
	aws.HTTPClient
	clocks *clocks
}

// Do implements [aws.HTTPClient].
func (l listen) Do(r *http.Request) (*http.Response, error) {
	sent := time.Now().Round(0) // the wall clock
	answer, err := l.HTTPClient.Do(r)
	if err == nil && answer.Header.Get("X-Amzn-Requestid") != "" && answer.Header.Get("Age") == "" {
		l.clocks.hear(answer.Header.Get("Date"), sent, time.Now().Round(0))
	}
	return answer, err
}
