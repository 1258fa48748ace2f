package desk

import (
	"fmt"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Guarded calls f, and turns a panic of the caller's DynamoDB client into an error:
// what happens to one level must not keep the others from being given back.
func Guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return f()
}

// InParallel calls f for 0 to n-1 concurrently, waits for all, and returns their errors, see [Guarded].
func InParallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	guarded := func(i int) { errs[i] = Guarded(func() error { return f(i) }) }
	var all sync.WaitGroup
	for i := 1; i < n; i++ {
		all.Go(func() { guarded(i) })
	}
	if n > 0 {
		guarded(0)
	}
	all.Wait()
	return errs
}
