package desk

import (
	"fmt"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Guarded calls f and turns a panic of the caller's DynamoDB client into an error:
// what happens to one level must not keep the others from being given back.
func Guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	f()
	return nil
}

// InParallel calls f for 0 to n-1 concurrently and waits for all.
func InParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := 1; i < n; i++ {
		all.Go(func() { f(i) })
	}
	if n > 0 {
		f(0)
	}
	all.Wait()
}
