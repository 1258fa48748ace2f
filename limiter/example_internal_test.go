package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
)

// sandbox returns a limiter on a table in memory, and a function that lets time
// pass. Programs use [Open] instead.
func sandbox() (l *Limiter, pass func(time.Duration)) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := memdb.New(func() int64 { return now.UnixMilli() })
	l, err := open(context.Background(), db, &Options{Register: true, Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	return l, func(d time.Duration) { now = now.Add(d) }
}

// A denial says which limit is short and when the same request is granted.
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
			return lease.Add(Costs{"tpm": used - 500})
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

// Costs that turn out higher than what is left are taken all the same: the
// bucket goes into debt and denies until that is paid.
func ExampleLease_Add() {
	l, _ := sandbox()
	req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"tpm": 100}, Limits: []Limit{PerMinute("tpm", 1000)}}
	lease, err := l.Acquire(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lease.Add(Costs{"tpm": 1400}); err != nil {
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

// With PolicyAllow, requests go on when the table cannot be reached.
func ExampleLease_Charged() {
	l, _ := sandbox()
	l.store.(*memdb.DB).SetHook(func(memdb.Op) (bool, error) { return false, errors.New("no route to host") })
	lease, err := l.Acquire(context.Background(), Request{
		Entity: "acme", Resource: "gpt-4", Costs: Costs{"rpm": 1},
		Limits: []Limit{PerMinute("rpm", 60)}, OnUnavailable: PolicyAllow,
	})
	fmt.Println(err, lease.Charged(), errors.Is(lease.Cause(), ErrUnavailable))
	// Output:
	// <nil> false true
}
