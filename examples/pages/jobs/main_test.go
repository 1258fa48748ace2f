package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		limit := limiter.PerMinute("rpm", 60).WithCapacity(1)
		if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limit); err != nil {
			t.Fatal(err)
		}
		begin, done := time.Now(), 0
		jobs := make(chan job, 3)
		for range cap(jobs) {
			jobs <- job{"acme"}
		}
		close(jobs)
		err := worker(t.Context(), table.Limiter(nil), jobs, func(job) error { done++; return nil })
		if took := time.Since(begin); err != nil || done != 3 || took < 2*time.Second {
			t.Errorf("%v, %d jobs within %v, want 3 within two seconds and more", err, done, took)
		}
	})
}
