package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// outages measures the cost of an acquire while the table does not answer, after the limiter has
// noticed.
func (f fleet) outages(ctx context.Context) (rows []Row, err error) {
	if err := takes(f.a, 1)(ctx, "outage"); err != nil { // puts its limits into the cache
		return nil, err
	}
	f.w.proxy.Add(&fault.Rule{Fault: fault.Fault{Reset: true}})
	defer f.w.proxy.Clear()
	for range 3 { // after this, the breaker is open
		if err := takes(f.a, 1)(ctx, "outage"); !errors.Is(err, limiter.ErrUnknown) {
			return nil, fmt.Errorf("got %w, want no answer", err)
		}
	}
	for _, c := range []struct {
		path   string
		policy limiter.Policy
		right  func(*limiter.Lease, error) bool
	}{
		{"no answer, breaker open, PolicyBlock", limiter.PolicyBlock, func(_ *limiter.Lease, err error) bool {
			return errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrUnknown)
		}},
		{"no answer, breaker open, PolicyAllow", limiter.PolicyAllow, func(le *limiter.Lease, err error) bool {
			return err == nil && !le.Charged()
		}},
		{"no answer, breaker open, PolicyLocal", limiter.PolicyLocal, func(le *limiter.Lease, err error) bool {
			return err == nil && !le.Charged() && len(le.Status()) == 2
		}},
	} {
		row := Row{Path: c.path, Note: "but for one probe in a quarter of a second"}
		row.Measured, err = f.whileOpen(func(int) error {
			req := asks("outage", 1)
			req.OnUnavailable = c.policy
			le, err := f.a.Acquire(ctx, req)
			if !c.right(le, err) {
				return fmt.Errorf("got %v, %w", le, err)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.Path, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// whileOpen bills ten acquires. A probe of the breaker may be among them, once in several times at
// most, and more often on a slow machine.
func (f fleet) whileOpen(acquire func(int) error) (bill Bill, err error) {
	for range 100 {
		if bill, err = f.w.billed(10, acquire); err != nil || len(bill.Calls) == 0 {
			return bill, err
		}
	}
	return bill, nil
}
