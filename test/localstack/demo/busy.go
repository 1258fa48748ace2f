package main

import (
	"context"
	"time"

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
