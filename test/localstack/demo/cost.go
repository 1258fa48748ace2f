package main

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// probeAcquires is how many warm acquires are measured.
const probeAcquires = 100

var probeTenant = &tenant{entity: "probe", resource: "gpt-small", limits: perMinute(100_000, 10_000_000),
	level: perCall}

// warmCost is the consumption of one warm acquire, as the engine reports it for table and indexes,
// and its number of calls.
type warmCost struct{ writes, reads, calls float64 }

// measureWarm measures acquires of a client that knows the bucket and its
// limits already, through a proxy that asks the engine for the capacity of
// every call. Refused conditions, for which AWS charges too, count.
func measureWarm(ctx context.Context, s *rig, l *book) (warmCost, error) {
	f, err := openFleet(ctx, s.probeEngine, s.Table, 1, l)
	if err != nil {
		return warmCost{}, err
	}
	acquire := func() error {
		c := call{tenant: probeTenant, costs: limiter.Costs{"rpm": 1, "tpm": 500}, sent: now()}
		_, err := f.limiters[0].Acquire(ctx, limiter.Request{
			Entity: probeTenant.entity, Resource: probeTenant.resource, Costs: c.costs, Limits: probeTenant.limits,
		})
		c.answered = now()
		if err != nil {
			return fmt.Errorf("warm acquire: %w", err)
		}
		l.granted(c)
		l.count(func(n *counts) { n.probes++ })
		return nil
	}
	if err := acquire(); err != nil { // creates the bucket
		return warmCost{}, err
	}
	s.probe.Meter(true)
	s.probe.Reset()
	for range probeAcquires {
		if err := acquire(); err != nil {
			return warmCost{}, err
		}
	}
	return perAcquire(s.probe.Total()), nil
}

func perAcquire(u fault.Usage) warmCost {
	return warmCost{
		writes: (u.WriteUnits + u.FailedUnits) / probeAcquires,
		reads:  u.ReadUnits / probeAcquires,
		calls:  float64(u.Calls) / probeAcquires,
	}
}

// writesPerThousand is how many writes the aggregator made per 1,000 records
// that were processed.
func writesPerThousand(s *rig) (rate float64, writes, records int) {
	for operation, u := range s.Proxy.Usage() {
		switch operation {
		case "UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems":
			writes += u.Calls
		}
	}
	records = s.aggregating.Stats().Processed
	return 1000 * float64(writes) / float64(max(records, 1)), writes, records
}
