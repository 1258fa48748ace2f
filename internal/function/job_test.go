package function

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoolsStartJobsInTime(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name string
		n    int
		time time.Duration
		pool Pool
		fail int // the job that fails
		want int // the number of started jobs
	}{
		{"all", 10, time.Hour, Pool{Concurrency: 3}, none, 10},
		{"fewer than at once", 2, time.Hour, Pool{Concurrency: 3}, none, 2},
		{"nothing to do", 0, time.Hour, Pool{Concurrency: 3}, none, 0},
		{"time for two rounds and a bit", 10, 1700 * time.Millisecond, Pool{Concurrency: 3}, none, 7},
		{"no time", 10, 0, Pool{Concurrency: 3}, none, 0},
		{"the first fails", 10, time.Hour, Pool{Concurrency: 3}, 0, 10},
		{"stopped by the first", 10, time.Hour, Pool{Concurrency: 3, StopAtAFailure: true}, 0, 3},
		{"stopped by the last", 10, time.Hour, Pool{Concurrency: 3, StopAtAFailure: true}, 9, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.time)
				defer cancel()
				var running, most atomic.Int64
				var jobs []*Job
				for i := range c.n {
					jobs = append(jobs, &Job{Required: true, Do: func(context.Context) (int, error) {
						most.Store(max(most.Load(), running.Add(1)))
						defer running.Add(-1)
						if i > 0 { // the first takes half a second, the others one
							time.Sleep(time.Second / 2)
						}
						time.Sleep(time.Second / 2)
						if i == c.fail {
							return 1, errors.New("refused the second time")
						}
						return 1, nil
					}})
				}
				c.pool.Run(ctx, jobs)
				if running.Load() != 0 || most.Load() > int64(c.pool.Concurrency) {
					t.Errorf("%d run after the end, %d at once", running.Load(), most.Load())
				}
				for i, j := range jobs {
					begun := i < c.want
					if j.Begun != begun || j.Done() != (begun && i != c.fail) || (j.Writes == 1) != begun {
						t.Errorf("job %d of %d: begun %v, done %v, %d writes, want the first %d", i, c.n, j.Begun, j.Done(),
							j.Writes, c.want)
					}
				}
			})
		})
	}
}

// A panic fails its own job only.
func TestPanicsFailOnlyTheirJob(t *testing.T) {
	jobs := []*Job{
		{Do: func(context.Context) (int, error) { panic("no such limit") }},
		{Do: func(context.Context) (int, error) { return 1, nil }},
	}
	Pool{Concurrency: 1}.Run(t.Context(), jobs)
	if !jobs[0].Begun || jobs[0].Err == nil || !jobs[1].Done() {
		t.Errorf("begun %v, errors %v and %v", jobs[0].Begun, jobs[0].Err, jobs[1].Err)
	}
}

// Unfinished required jobs determine where to resume, whether they failed or were not started.
func TestUnfinishedJobsDetermineWhereToResume(t *testing.T) {
	s := Summary{Writes: 1}
	notBegun := s.Count([]*Job{
		{Resume: "7", Required: true, Begun: true, Writes: 2},
		{Resume: "8", Begun: true, Writes: 1, Err: errors.New("refused")},
		{Resume: "10", Required: true},
		{Resume: "9", Required: true, Begun: true, Err: errors.New("lost")},
	})
	at, _ := s.Resume.At()
	if s.Writes != 4 || s.WritesFailed != 2 || notBegun != 1 || at != "9" {
		t.Errorf("%d writes, %d failed, %d not begun, resume at %s", s.Writes, s.WritesFailed, notBegun, at)
	}
}
