package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Observer receives what happens, for metrics. Every function may be nil; they
// are called synchronously, from any goroutine, and must be quick.
type Observer struct {
	// Acquired is called for every granted request.
	Acquired func(AcquireInfo)
	// Denied is called for every denial; Info.Calls is zero for one that cost
	// nothing.
	Denied func(AcquireInfo)
	// Lost is called when a write was refused because somebody else changed
	// the bucket first; the limiter decides again.
	Lost func(entity, resource string)
	// Failed is called when there was no decision or no answer, with the error
	// that the policy then turns into an outcome.
	Failed func(entity, resource string, err error)
	// Canceled is called when the caller's own context ended a call, with the
	// error; that says nothing about the table.
	Canceled func(entity, resource string, err error)
	// Split is called after this process doubled a bucket's shards.
	Split func(entity, resource string, shards int)
	// Clock is called when the correction of the system's clock changes (see
	// Options.Now), and when DynamoDB's answers ask for one of more than a day,
	// which is not believed.
	Clock func(ClockInfo)
}

// ClockInfo describes a change of what is added to the system's clock.
type ClockInfo struct {
	// Before and After are the corrections; equal ones mean that what the answers
	// asked for is not believed.
	Before, After time.Duration
	// Told is what DynamoDB's answers asked for.
	Told time.Duration
	// Set tells that the system's clock was set, which drops the correction; Told
	// is zero unless an answer followed at once.
	Set bool
}

// AcquireInfo describes one Acquire.
type AcquireInfo struct {
	Entity, Resource string
	Calls            int           // writes sent
	Elapsed          time.Duration // by the limiter's clock
}

func (o *Observer) acquired(i AcquireInfo) {
	if o.Acquired != nil {
		o.Acquired(i)
	}
}

func (o *Observer) denied(i AcquireInfo) {
	if o.Denied != nil {
		o.Denied(i)
	}
}

func (o *Observer) lost(n name) {
	if o.Lost != nil {
		o.Lost(n.entity, n.resource)
	}
}

func (o *Observer) failed(n name, err error) {
	if o.Failed != nil {
		o.Failed(n.entity, n.resource, err)
	}
}

func (o *Observer) canceled(n name, err error) {
	if o.Canceled != nil {
		o.Canceled(n.entity, n.resource, err)
	}
}

func (o *Observer) split(n name, shards int) {
	if o.Split != nil {
		o.Split(n.entity, n.resource, shards)
	}
}

func (o *Observer) clock(c store.ClockChange) {
	if o.Clock != nil {
		o.Clock(ClockInfo{c.Before, c.After, c.Told, c.Set})
	}
}
