package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// sandbox returns a limiter on a table in memory, and a function that lets time pass. Programs use
// [Open] instead.
func sandbox() (l *Limiter, pass func(time.Duration)) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := memdynamo.New(func() int64 { return now.UnixMilli() })
	l, err := open(context.Background(), db, &Options{
		Register: true, Timeout: ages, Now: func() time.Time { return now },
	})
	if err != nil {
		panic(err)
	}
	return l, func(d time.Duration) { now = now.Add(d) }
}

// A denial names the limit that is short, and when the same request will be granted.
func ExampleLimiter_Acquire() {
	l, pass := sandbox()
	req := Request{
		Entity: "acme", Resource: "gpt-4",
		Costs:  Costs{"rpm": 1, "tpm": 400},
		Limits: []Limit{PerMinute("rpm", 60), PerMinute("tpm", 1000)},
	}
	for range 3 {
		lease, err := l.Acquire(context.Background(), req)
		if denied, ok := errors.AsType[*LimitError](err); ok {
			fmt.Println("denied:", denied)
			pass(denied.RetryAfter)
			lease, err = l.Acquire(context.Background(), req)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		rpm, tpm := lease.Status()[0], lease.Status()[1]
		fmt.Printf("left: %d of %d %s, %d of %d %s\n",
			rpm.Remaining, rpm.Capacity, rpm.Limit, tpm.Remaining, tpm.Capacity, tpm.Limit)
	}
	// Output:
	// left: 59 of 60 rpm, 600 of 1000 tpm
	// left: 58 of 60 rpm, 200 of 1000 tpm
	// denied: limiter: acquire "acme/gpt-4": limit tpm: 400 wanted, 200 left, retry after 12s
	// left: 59 of 60 rpm, 0 of 1000 tpm
}

// Estimate before the call, settle after it, give everything back if it fails.
func ExampleLimiter_Do() {
	l, _ := sandbox()
	req := Request{
		Entity: "acme", Resource: "gpt-4",
		Costs:  Costs{"rpm": 1, "tpm": 500}, // an estimate
		Limits: []Limit{PerMinute("rpm", 60), PerMinute("tpm", 1000)},
	}
	call := func(used int64, failure error) error {
		return l.Do(context.Background(), req, func(ctx context.Context, lease *Lease) error {
			if failure != nil {
				return failure
			}
			return lease.Settle(Costs{"tpm": used})
		})
	}
	fmt.Println(call(120, nil))
	fmt.Println(call(0, errors.New("the model is down")))
	lease, err := l.Acquire(context.Background(), req)
	fmt.Println(lease.Status()[1].Remaining, err) // 1000 - 120 - 500
	// Output:
	// <nil>
	// the model is down
	// 380 <nil>
}

// Costs that turn out higher than the remaining tokens are still taken: the bucket goes into debt
// and denies until that is paid.
func ExampleLease_Settle() {
	l, _ := sandbox()
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"tpm": 100}, Limits: []Limit{PerMinute("tpm", 1000)}}
	lease, err := l.Acquire(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lease.Settle(Costs{"tpm": 1500}); err != nil {
		fmt.Println(err)
	}
	if err := lease.Commit(context.Background()); err != nil {
		fmt.Println(err)
	}
	_, err = l.Acquire(context.Background(), req)
	fmt.Println(err)
	// Output:
	// limiter: acquire "acme/gpt-4": limit tpm: 100 wanted, -500 left, retry after 36s
}

// With PolicyAllow, requests continue when the table cannot be reached.
func ExampleLease_Charged() {
	l, _ := sandbox()
	l.store.Store.(*memdynamo.DB).SetHook(func(memdynamo.Op) (bool, error) {
		return false, errors.New("no route to host")
	})
	lease, err := l.Acquire(context.Background(), Request{
		Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1},
		Limits: []Limit{PerMinute("rpm", 60)}, OnUnavailable: PolicyAllow,
	})
	fmt.Println(err, lease.Charged(), errors.Is(lease.Cause(), ErrUnavailable))
	// Output:
	// <nil> false true
}

// The cost of a stream is unknown in advance. Charge takes tokens for the next part while it runs.
// Settle(nil) keeps them if the stream breaks, and the last Settle replaces them by the total that
// the provider reports.
func ExampleLease_Charge() {
	l, _ := sandbox()
	req := Request{
		Entity: "acme", Resource: "gpt-4",
		Costs:  Costs{"rpm": 1, "tpm": 200}, // the prompt, and a first part of the answer
		Limits: []Limit{PerMinute("rpm", 60), PerMinute("tpm", 1000)},
	}
	stream := func(parts int, total int64, failure error) error {
		return l.Do(context.Background(), req, func(ctx context.Context, lease *Lease) error {
			for range parts {
				lease.Settle(nil) // the provider bills what it has sent
				if err := lease.Charge(ctx, Costs{"tpm": 100}); err != nil {
					return err
				}
			}
			if failure != nil {
				return failure
			}
			return lease.Settle(Costs{"tpm": total})
		})
	}
	left := func() { // of tpm
		look := req
		look.Costs = Costs{"tpm": 0}
		lease, _ := l.Acquire(context.Background(), look)
		fmt.Println(lease.Status()[1].Remaining, "left")
	}
	fmt.Println(stream(3, 430, nil))
	left() // 1000 - 430
	fmt.Println(stream(1, 0, errors.New("connection reset")))
	left() // 570 - 200 - 100, kept
	fmt.Println(stream(0, 0, errors.New("the model is down")))
	left() // nothing was kept: everything is given back
	fmt.Println(stream(3, 0, nil))
	// Output:
	// <nil>
	// 570 left
	// connection reset
	// 270 left
	// the model is down
	// 270 left
	// limiter: acquire "acme/gpt-4": limit tpm: 100 wanted, 70 left, retry after 1.8s
}

// A worker that has time reserves its tokens and starts when they are available; a reservation that
// would take too long is given back. [Limiter.Wait] does this with a context's deadline.
func ExampleLimiter_Reserve() {
	l, _ := sandbox()
	work := func(job string, tokens int64, patience time.Duration) {
		lease, after, err := l.Reserve(context.Background(), Request{
			Entity: "acme", Resource: "gpt-4", Costs: Costs{"tpm": tokens}, Limits: []Limit{PerMinute("tpm", 1000)},
		})
		switch {
		case err != nil:
			fmt.Println(job, err)
		case after > patience:
			fmt.Println(job, "would begin after", after, lease.Rollback(context.Background()))
		default:
			fmt.Println(job, "begins after", after)
		}
	}
	work("a", 900, time.Minute)
	work("b", 1000, time.Minute)
	work("c", 100, time.Minute) // behind b, although it is small
	work("d", 600, time.Minute)
	work("e", 50, time.Minute)
	// Output:
	// a begins after 0s
	// b begins after 54s
	// c begins after 1m0s
	// d would begin after 1m36s <nil>
	// e would begin after 1m3s <nil>
}

// A waiting worker continues when the tokens are available, in order of arrival, and is denied
// immediately if that is after its deadline.
func ExampleLimiter_Wait() {
	l, _ := sandbox()
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"tpm": 1000}, Limits: []Limit{PerMinute("tpm", 1000)}}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		lease, err := l.Wait(ctx, req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("working")
		if err := lease.Commit(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// working
	// limiter: acquire "acme/gpt-4": limit tpm: 1000 wanted, 0 left, retry after 1m0s
}
