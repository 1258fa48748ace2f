package desk

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Work begins at the very moment at which the last of the rest ends, while others wait.
func TestBackgroundBeginsWhileOthersWait(t *testing.T) {
	var b background
	var waiting sync.WaitGroup
	for range 8 {
		waiting.Go(func() {
			for range 2000 {
				b.Go(func() {})
				<-b.rest()
			}
		})
	}
	waiting.Wait()
	if <-b.rest(); b.n != 0 {
		t.Errorf("%d run after the end, want none", b.n)
	}
}

func TestBackgroundIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b background
		<-b.rest() // nothing runs
		begun := time.Now()
		var ended atomic.Int64
		for i := range 3 {
			b.Go(func() { time.Sleep(time.Duration(i) * time.Second); ended.Add(1) })
		}
		<-b.rest()
		if took := time.Since(begun); took != 2*time.Second || ended.Load() != 3 {
			t.Errorf("waited %v for %d, want 2s for 3", took, ended.Load())
		}
	})
}
