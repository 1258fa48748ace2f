package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// A busy tenant, after the rush: its processes prefetch tokens, and grant most of its requests
// without a call.
const (
	busyProcesses = 4
	busyRate      = 300 // requests per second, half as many again as its limit
	busyTime      = 5 * time.Second
	busyAhead     = 500 * time.Millisecond
	// mostBusy is the greatest number of write units per grant for the busy tenant: far more than
	// normal, for machines that sometimes stall.
	mostBusy = 0.5
)

var busyTenant = &tenant{entity: "busy", resource: "gpt-small", level: perCall,
	limits: []limiter.Limit{limiter.PerMinute("rpm", 12_000).WithCapacity(200)}}

// busy is the outcome of the busy tenant's requests.
type busy struct {
	granted int64
	units   float64 // write units, including refused writes
	excess  float64 // tokens admitted beyond the limit, in the worst window
}

// perGrant returns the write units per grant.
func (b busy) perGrant() float64 { return b.units / float64(max(b.granted, 1)) }

// busyFleet is the tenant's processes, behind a proxy that measures them.
type busyFleet struct {
	*fleet
	proxy *fault.Proxy
	is    busy
}

func openBusy(ctx context.Context, s *rig, l *clients.Book) (b *busyFleet, err error) {
	b = new(busyFleet)
	var e *engine.Engine
	if b.proxy, e, err = fault.Engine(s.Engine, seed); err != nil {
		return nil, err
	}
	b.proxy.Meter(true)
	b.fleet, err = openFleet(ctx, e, s.Table, busyProcesses, l, func(o *limiter.Options) { o.Ahead = busyAhead })
	return b, err
}

// play sends requests for busyTime, and records the grants and the measured write units.
func (f *busyFleet) play(ctx context.Context) {
	f.proxy.Reset()
	var requests []request
	for at := time.Duration(0); at < busyTime; at += time.Second / busyRate {
		requests = append(requests, request{at: at, tenant: busyTenant})
	}
	f.fleet.play(ctx, requests)
	page := f.book.Page(loadcheck.Account{Entity: busyTenant.entity, Resource: busyTenant.resource, Limit: "rpm"})
	u := f.proxy.Total()
	f.is.granted, f.is.units = page.Granted(), u.WriteUnits+u.FailedUnits
}

// rest sends one request per process. The next write reports the tokens that expired unspent, and
// processes with so few requests prefetch nothing.
func (f *busyFleet) rest(ctx context.Context) {
	for range f.limiters {
		f.one(ctx, request{tenant: busyTenant})
	}
}

// became returns the outcome of all requests.
func (f *busyFleet) became() (busy, error) {
	worst, err := worst(f.book, busyTenant.entity)
	f.is.excess = float64(worst.Excess) / bucket.Milli
	return f.is, err
}

func (b busy) print(say func(string, ...any)) {
	say("\nA busy tenant whose %d processes take tokens ahead, and hold them for %v at most (Options.Ahead).",
		busyProcesses, busyAhead)
	say("demo: ahead granted=%d write_units=%.0f write_units_per_grant=%.3f worst_excess_tokens=%.3f bound=0",
		b.granted, b.units, b.perGrant(), b.excess)
}

// verdict returns an error if the figures are bad.
func (b busy) verdict() error {
	switch {
	case b.granted == 0:
		return errors.New("the busy tenant was granted nothing")
	case b.excess > 0:
		return fmt.Errorf("the busy tenant was granted %.3f tokens too much", b.excess)
	case b.perGrant() > mostBusy:
		return fmt.Errorf("a grant of the busy tenant took %.2f write units, want at most %.2f", b.perGrant(), mostBusy)
	}
	return nil
}
