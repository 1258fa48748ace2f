package function

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ReportMargin is the time that stream functions reserve before the deadline for their report.
const ReportMargin = time.Second

// Job is one task of a batch: a write of the table, an object to store.
type Job struct {
	What      string      // the kind of write, in the words of the glossary
	Attrs     []slog.Attr // the entity and other attributes, for the log
	Malformed string      // why its record is malformed, if the job stores a malformed record
	Resume    string      // sequence number to resume from if it is required and not done
	Required  bool        // if it is not done, its record must be delivered again
	Do        func(context.Context) (writes int, err error)

	// How it ended.
	Begun  bool
	Writes int // writes known to have happened, even with an error
	Err    error
}

// Done reports whether the job was begun and succeeded.
func (j *Job) Done() bool { return j.Begun && j.Err == nil }

// run runs the job. A panic is a bug; it fails only this job.
func (j *Job) run(ctx context.Context) {
	j.Begun = true
	defer func() {
		if p := recover(); p != nil {
			j.Err = fmt.Errorf("bug: %v", p)
		}
	}()
	j.Writes, j.Err = j.Do(ctx)
}

// Pool determines how jobs are run.
type Pool struct {
	Concurrency    int  // the most jobs that run at once
	StopAtAFailure bool // begin no job after one has failed
}

// Run runs jobs, and returns when none is running. After ctx is done, it begins no more. It begins
// jobs in order, so the jobs left are the last ones. That is why it does not use errgroup.Group,
// whose goroutines would check ctx themselves, in any order.
func (p Pool) Run(ctx context.Context, jobs []*Job) {
	var wg sync.WaitGroup
	var stop atomic.Bool
	free := make(chan struct{}, p.Concurrency)
	for _, j := range jobs {
		free <- struct{}{} // check ctx only after this, because it may wait
		if stop.Load() || ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			if j.run(ctx); j.Err != nil && p.StopAtAFailure {
				stop.Store(true)
			}
			<-free
		})
	}
	wg.Wait()
}
