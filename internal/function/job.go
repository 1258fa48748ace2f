package function

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ReportMargin is the time that stream functions keep back from the deadline for
// their report.
const ReportMargin = time.Second

// Job is one thing that a batch asks for: a write of the table, an object to store.
type Job struct {
	What      string      // the kind of write, in the words of the glossary
	Attrs     []slog.Attr // the entity and more, for the log
	Malformed string      // why its record is malformed, if it keeps one
	Resume    string      // sequence number to resume from if it is required and not done
	Required  bool        // if it is not done, its record has to come again
	Do        func(context.Context) (writes int, err error)

	// How it ended.
	Begun  bool
	Writes int // those known to have happened, with an error too
	Err    error
}

// Done reports whether the job was begun and did not fail.
func (j *Job) Done() bool { return j.Begun && j.Err == nil }

// run does the job. A panic is a bug; it fails this job and no other.
func (j *Job) run(ctx context.Context) {
	j.Begun = true
	defer func() {
		if p := recover(); p != nil {
			j.Err = fmt.Errorf("bug: %v", p)
		}
	}()
	j.Writes, j.Err = j.Do(ctx)
}

// Pool says how jobs are run.
type Pool struct {
	Concurrency    int  // how many at most
	StopAtAFailure bool // begin none after one has failed
}

// Run runs jobs, and returns when none runs any more. After ctx is done, it begins no
// further one. None is begun before those in front of it, so the jobs left are the
// last ones. That order is why it is no errgroup.Group, whose goroutines would look for
// ctx by themselves, in any order.
func (p Pool) Run(ctx context.Context, jobs []*Job) {
	var wg sync.WaitGroup
	var stop atomic.Bool
	free := make(chan struct{}, p.Concurrency)
	for _, j := range jobs {
		free <- struct{}{} // only then look, because waiting takes time
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
