package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A busy tenant, after the rush: its processes take tokens ahead, and grant most of its requests
// without a call.
const (
	busyProcesses = 4
	busyRate      = 300 // requests a second, half as many again as its limit
	busyTime      = 5 * time.Second
	busyAhead     = 500 * time.Millisecond
	// busyEvery is how often grants and writes are noted.
	busyEvery = 250 * time.Millisecond
)

var busyTenant = &tenant{entity: "busy", resource: "gpt-small", level: perCall,
	limits: []limiter.Limit{limiter.PerMinute("rpm", 12_000).WithCapacity(200)}}

// busy is the outcome of its requests.
type busy struct {
	Granted int
	Units   float64 // write units, refused writes included
	Excess  float64 // tokens admitted beyond the limit, in the worst of all windows
	Moments []busyMoment
}

// busyMoment is how many grants and write units there were until an instant, epoch ms.
type busyMoment struct {
	At, Granted int64
	Units       float64
}

// PerGrant is how many write units a grant took.
func (b busy) PerGrant() float64 { return b.Units / float64(max(b.Granted, 1)) }

// theBusy chooses for worst.
func theBusy(a loadcheck.Account) bool { return a.Entity == busyTenant.entity }

// busyFleet is its processes.
type busyFleet struct {
	*fleet
	mu sync.Mutex
	is busy
}

func openBusy(ctx context.Context, s *rig, l *book) (*busyFleet, error) {
	f, err := openFleet(ctx, s.probeEngine, s.Table, busyProcesses, l, func(o *limiter.Options) { o.Ahead = busyAhead })
	return &busyFleet{fleet: f}, err
}

// play sends requests for busyTime, and notes grants and the write units that the probe meters.
func (f *busyFleet) play(ctx context.Context, s *rig) {
	s.probe.Meter(true)
	s.probe.Reset()
	note := func() {
		u := s.probe.Total()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.is.Units = u.WriteUnits + u.FailedUnits
		f.is.Moments = append(f.is.Moments, busyMoment{now(), int64(f.is.Granted), f.is.Units})
	}
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / busyRate)
	defer tick.Stop()
	noted, begin := time.Now(), time.Now()
	for i := 0; time.Since(begin) < busyTime && ctx.Err() == nil; i++ {
		<-tick.C
		if time.Since(noted) >= busyEvery {
			noted = time.Now()
			note()
		}
		all.Go(func() {
			if f.ask(ctx, f.limiters[i%busyProcesses]) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.is.Granted++
			}
		})
	}
	all.Wait()
	note()
}

// ask makes one request, and reports whether it was granted.
func (f *busyFleet) ask(ctx context.Context, lim *limiter.Limiter) bool {
	c := call{tenant: busyTenant, costs: limiter.Costs{"rpm": 1}, sent: now()}
	_, err := lim.Acquire(ctx, limiter.Request{Entity: busyTenant.entity, Resource: busyTenant.resource,
		Costs: c.costs, Limits: busyTenant.limits})
	if c.answered = now(); err != nil {
		f.refused(ctx, c, err)
		return false
	}
	f.book.granted(c)
	return true
}

// rest makes a request of each process. The next write reports the tokens that expired unspent, and
// processes that ask so seldom prefetch nothing.
func (f *busyFleet) rest(ctx context.Context) {
	for _, lim := range f.limiters {
		f.ask(ctx, lim)
	}
}

// became returns the outcome of all requests.
func (f *busyFleet) became() (busy, error) {
	worst, err := f.book.worst(false, theBusy)
	f.is.Excess = float64(worst.Excess) / bucket.Milli
	return f.is, err
}

func (b busy) print(say func(string, ...any)) {
	say("\nA busy tenant whose %d processes take tokens ahead, and hold them for %v at most (Options.Ahead).",
		busyProcesses, busyAhead)
	say("demo: ahead granted=%d write_units=%.0f write_units_per_grant=%.3f worst_excess_tokens=%.3f bound=0",
		b.Granted, b.Units, b.PerGrant(), b.Excess)
}

// verdict returns an error if the figures are bad.
func (b busy) verdict() error {
	switch {
	case b.Granted == 0:
		return errors.New("the busy tenant was granted nothing")
	case b.Excess > 0:
		return fmt.Errorf("the busy tenant was granted %.3f tokens too much", b.Excess)
	case b.PerGrant() > mostBusy:
		return fmt.Errorf("a grant of the busy tenant took %.2f write units, want at most %.2f", b.PerGrant(), mostBusy)
	}
	return nil
}

// mostBusy is how many write units a grant of the busy tenant may take: far more than it does,
// for machines that stand still now and then.
const mostBusy = 0.5

// busyPlot shows grants and writes a second.
func busyPlot(r story) plot {
	if len(r.Busy.Moments) < 2 {
		return plot{}
	}
	first := r.Busy.Moments[0]
	var grants, writes []point
	most, last := 1.0, first
	for _, m := range r.Busy.Moments[1:] {
		at, over := float64(m.At-first.At)/1000, float64(m.At-last.At)/1000
		if over < busyEvery.Seconds() { // the rest of a time says nothing of a second
			continue
		}
		grants = append(grants, point{at, float64(m.Granted-last.Granted) / over})
		writes = append(writes, point{at, (m.Units - last.Units) / over})
		most, last = max(most, grants[len(grants)-1].Value), m
	}
	f := newFrame(float64(last.At-first.At)/1000, 0, most)
	return plot{frame: f, Unit: "per second", Line: f.line(grants, false), Dashed: f.line(writes, false), Rush: f.Left}
}
