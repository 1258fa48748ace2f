package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A hierarchy: an API key belongs to an organization, and its tokens are taken from both, or from
// neither. Package limitertest replaces a table on AWS here.
func ExampleLimiter_Acquire_hierarchy() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	ns := table.Admin("default")
	ctx := context.Background()
	_, org := ns.CreateEntity(ctx, admin.Entity{ID: "acme"})
	_, key := ns.CreateEntity(ctx, admin.Entity{ID: "key-1", Parent: "acme", Cascade: true})
	err := errors.Join(org, key,
		ns.SetLimits(ctx, admin.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 10)),                 // every key
		ns.SetLimits(ctx, admin.Scope{Entity: "acme", Resource: "gpt-4"}, limiter.PerMinute("rpm", 12)), // all keys of acme
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	l := table.Limiter(nil)
	req := limiter.Request{Entity: "key-1", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 7}}
	for range 2 {
		lease, err := l.Acquire(ctx, req)
		if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
			fmt.Printf("denied by %s, retry after %s\n", denied.Entity, denied.RetryAfter)
			table.Advance(denied.RetryAfter)
			lease, err = l.Acquire(ctx, req)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, s := range lease.Status() { // of the key, then of those above it
			fmt.Printf("%s: %d of %d left\n", s.Entity, s.Remaining, s.Capacity)
		}
	}
	// Output:
	// key-1: 3 of 10 left
	// acme: 5 of 12 left
	// denied by key-1, retry after 24s
	// key-1: 0 of 10 left
	// acme: 2 of 12 left
}

// While the table cannot be reached, a process can grant a share of each limit by itself: more than
// PolicyBlock, which grants nothing, and less than PolicyAllow, which grants everything.
func ExamplePolicy() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	l := table.Limiter(&limiter.Options{OnUnavailable: limiter.PolicyLocal, LocalShare: 20}) // of five processes
	req := limiter.Request{
		Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	}
	for range 3 {
		table.Fail(limiter.ErrUnavailable)
		lease, err := l.Acquire(context.Background(), req)
		if err != nil {
			fmt.Println(errors.Is(err, limiter.ErrLimited), errors.Is(err, limiter.ErrUnavailable))
			return
		}
		fmt.Println(lease.Charged(), lease.Status()[0].Remaining, errors.Is(lease.Cause(), limiter.ErrUnavailable))
	}
	// Output:
	// false 1 true
	// false 0 true
	// true true
}

// Every event as one line of a log.
func ExampleEvent() {
	t := new(testing.T) // in a test, its own
	table := limitertest.New(t)
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case "time", "msg", "resource", "writes", "elapsed", "costs": // to shorten the line
				return slog.Attr{}
			}
			return a
		},
	}))
	l := table.Limiter(&limiter.Options{Observe: func(ctx context.Context, e limiter.Event) {
		level := slog.LevelDebug
		switch e.Outcome() {
		case "denied":
			level = slog.LevelInfo
		case "unavailable", "unknown", "setup":
			level = slog.LevelError
		}
		log.Log(ctx, level, "rate limit", "l", e)
	}})
	req := limiter.Request{
		Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 4},
		Limits: []limiter.Limit{{Name: "rpm", Capacity: 6, Refill: 6, Period: time.Minute}},
	}
	l.Acquire(context.Background(), req)
	l.Acquire(context.Background(), req)
	// Output:
	// level=INFO l.event=acquire l.entity=acme l.outcome=denied l.denied_by=acme l.limit=rpm l.retry_after=20s
}
