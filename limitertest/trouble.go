package limitertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Errors of DynamoDB in place of an answer, for Trouble and Table.Fail.
var (
	// ErrThrottled: DynamoDB throttles the call; nothing is read or written.
	ErrThrottled = errors.New("limitertest: throttled")
	// ErrDenied: the credentials do not allow the call; nothing is read or written. To
	// a limiter that is limiter.ErrSetup.
	ErrDenied = errors.New("limitertest: access denied")
)

// Trouble is a fault of calls to the table. The zero Trouble is none. The SDK's client retries
// reads; this table does not.
type Trouble struct {
	// Operations are the affected calls: UpdateItem, PutItem, DeleteItem, TransactWriteItems,
	// BatchGetItem, Query or BatchWriteItem. Nil: all.
	Operations []string
	// Times is how many calls are affected; zero: all from now on.
	Times int
	// Err is the error of the calls: limiter.ErrUnavailable, ErrThrottled and ErrDenied read and
	// write nothing, limiter.ErrUnknown writes and loses the answer. Nil: they succeed.
	Err error
	// Delay is how long an answer takes, by the clock of package time, whatever the table's clock
	// says. A caller that stops waiting earlier does not learn the outcome.
	Delay time.Duration
	// Hang keeps calls without an answer until the caller stops waiting. Nothing is
	// written unless Err is limiter.ErrUnknown, but the caller cannot know. A limiter of
	// Table.Limiter waits for a day unless its options have a Timeout.
	Hang bool
}

var operations = []string{string(memdynamo.UpdateItem), string(memdynamo.PutItem), string(memdynamo.DeleteItem),
	string(memdynamo.TransactWriteItems), string(memdynamo.BatchGetItem), string(memdynamo.Query),
	string(memdynamo.BatchWriteItem)}

// Trouble decides the outcome of calls from now on, and replaces earlier troubles. Each call gets
// the first trouble that applies to its operation and has not yet happened Times times. Without
// arguments all calls succeed. It panics for operations, errors and numbers that [Trouble] does not
// name.
//
// After several calls without an answer, a limiter stops calling the table: for a fraction of a
// second of package time, whatever the clock here says, most requests are limiter.ErrUnavailable
// without a call, even after the trouble is over. Test that in a bubble of testing/synctest, with
// [NewLive].
func (t *Table) Trouble(all ...Trouble) {
	for _, one := range all {
		one.check()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble = slices.Clone(all)
}

func (one Trouble) check() {
	for _, o := range one.Operations {
		if !slices.Contains(operations, o) {
			panic(fmt.Sprintf("limitertest: trouble with %q: want some of %q", o, operations))
		}
	}
	if one.Times < 0 || one.Delay < 0 {
		panic(fmt.Sprintf("limitertest: trouble %d times, with a delay of %v: want none that is negative", one.Times,
			one.Delay))
	}
	if one.Err != nil && one.failure() == nil {
		panic(fmt.Sprintf("limitertest: fail with %v: want limiter.ErrUnavailable, limiter.ErrUnknown, ErrThrottled, "+
			"ErrDenied or nil", one.Err))
	}
}

func (one Trouble) failure() error {
	switch {
	case errors.Is(one.Err, limiter.ErrUnavailable):
		return memdynamo.Fail(store.Unavailable)
	case errors.Is(one.Err, limiter.ErrUnknown):
		return memdynamo.Fail(store.Unknown)
	case errors.Is(one.Err, ErrThrottled):
		return memdynamo.Fail(store.Throttled)
	case errors.Is(one.Err, ErrDenied):
		return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform this action"}
	}
	return nil
}

// Fail makes every call to the table fail from now on, with an error that [Trouble.Err] names; nil:
// calls succeed again. It is Trouble for the simple case.
func (t *Table) Fail(err error) {
	t.Trouble(Trouble{Err: err})
}

// next returns the trouble that happens to a call.
func (t *Table) next(operation string) Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.trouble {
		one := &t.trouble[i]
		if one.Operations != nil && !slices.Contains(one.Operations, operation) || one.Times < 0 {
			continue
		}
		if one.Times == 1 {
			one.Times = -1 // it has happened as often as it may
			return *one
		}
		one.Times = max(0, one.Times-1)
		return *one
	}
	return Trouble{}
}

func (t *Table) hook(op memdynamo.Op) (apply bool, err error) {
	one := t.next(string(op.Name))
	written := errors.Is(one.Err, limiter.ErrUnknown)
	if one.Hang {
		<-op.Done
		return written, nil
	}
	if one.Delay > 0 {
		select {
		case <-time.After(one.Delay):
		case <-op.Done:
		}
	}
	return written || one.Err == nil, one.failure()
}
