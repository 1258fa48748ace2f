package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// maxState is the size of a tumbling window's state from which it is written completely. Lambda
	// ends a window whose state exceeds 1 MB.
	maxState = 700_000

	// owedGrace is how long after the end of a window lists of longer windows may still arrive,
	// because the clocks of two invocations differ, and writing a list takes time. The lists are
	// read after that.
	owedGrace = 3 * time.Minute

	// owedDays is how long an uncounted list is kept.
	owedDays = 7

	// closeMargin is the time reserved to store the last list of owed windows.
	closeMargin = 4 * time.Second
)

// tally is the usage of one invocation: from the state, and from the batch.
type tally struct {
	agg      *Aggregator
	tumbling stream.Tumbling
	state    usage.State // to be carried on, or uncounted although all had to be counted
	packed   []byte      // state in packed form; nil: it has changed
	newest   int64       // when the newest record was created
	lost     int64       // 1: there was an unreadable state

	due      []*counting
	looked   *lookup
	owing    owing
	owed     int64 // windows on stored lists
	caughtUp int64 // writes for longer windows
	unknown  int64 // see counting
}

// newTally decodes the state and adds the batch to it.
func (a *Aggregator) newTally(ctx context.Context, batch stream.Batch, histories []usage.History) *tally {
	l := &tally{agg: a, tumbling: batch.Tumbling}
	if l.tumbling.On {
		var err error
		if l.state, err = usage.ParseState(l.tumbling.State); err != nil {
			l.lost = 1
			a.log.LogAttrs(ctx, slog.LevelWarn, "state ignored", slog.Any("err", err))
		}
	}
	for i := range batch.Changes {
		l.newest = max(l.newest, batch.Changes[i].Created)
	}
	finest := a.kinds()[0]
	l.state.Parts = usage.Extend(l.state.Parts, histories, finest)
	all := !l.carries()
	if !all {
		l.packed = l.state.JSON()
		all = len(l.packed) > maxState
	}
	l.state.Parts = slices.DeleteFunc(l.state.Parts, func(p usage.Part) bool {
		if !all && finest.End(p.Start) > l.newest {
			return false
		}
		if n := len(l.due); n == 0 || l.due[n-1].parts[0].Bucket != p.Bucket {
			l.due = append(l.due, &counting{})
		}
		c := l.due[len(l.due)-1]
		c.parts = append(c.parts, p)
		l.packed = nil
		return true
	})
	l.looked = newLookup(a, l.due)
	return l
}

// carries reports whether uncounted usage is passed on in the state.
func (l *tally) carries() bool { return l.tumbling.On && !l.tumbling.Final }

// jobs returns the jobs that count the due usage, which are required unless it is passed on.
func (l *tally) jobs(firsts map[usage.Bucket]string) []*function.Job {
	var out []*function.Job
	for _, c := range l.due {
		j := newJob(jobUsage, c.parts[0].Bucket, firsts, func(ctx context.Context) (int, error) {
			return l.count(ctx, c)
		})
		j.Required = !l.carries()
		out = append(out, j)
	}
	return out
}

// count counts the usage of one bucket.
func (l *tally) count(ctx context.Context, c *counting) (int, error) {
	c.seen = l.looked.snapshots(ctx, c)
	n, err := l.agg.count(ctx, c, l.tumbling.On)
	if c.done = !fails(err); c.done {
		l.looked.learn(n)
		l.owing.add(ctx, l.agg, c, n == 0)
	}
	return n, err
}

// close decides which usage to pass on, and stores and counts the owed longer windows. After an
// error, Lambda must repeat the invocation. Longer windows are updated only within the time for
// work.
func (l *tally) close(ctx, within context.Context) error {
	for _, c := range l.due {
		l.unknown += c.unknown
	}
	if !l.tumbling.On {
		return nil
	}
	// Usage missing from the lists counts as not done.
	err := l.owing.storeAll(ctx, l.agg, l.owing.from)
	all := !slices.ContainsFunc(l.due, func(c *counting) bool { return !c.done })
	switch {
	case err == nil && (all || l.carries()):
		err = l.owing.storeAll(ctx, l.agg, l.owing.found)
	case l.carries(): // an earlier attempt may have failed to list it, too
		for _, c := range l.owing.found {
			c.done = false
		}
	}
	l.owed = l.owing.stored
	for _, c := range l.due {
		if !c.done {
			l.state.Parts, l.packed = append(l.state.Parts, c.parts...), nil
		}
	}
	usage.SortParts(l.state.Parts)
	if l.carries() {
		return nil
	}
	if n := len(l.state.Parts); n > 0 {
		return errors.Join(fmt.Errorf("%w: %d parts", errNotCounted, n), err)
	}
	l.catchUp(ctx, within)
	l.owed = l.owing.stored
	return nil
}

// carried returns the state to return; nil without a tumbling window.
func (l *tally) carried() []byte {
	if !l.tumbling.On {
		return nil
	}
	if l.packed == nil {
		l.packed = l.state.JSON()
	}
	return l.packed
}

// lag returns the age of the oldest record that is passed on, in milliseconds.
func (l *tally) lag() int64 {
	oldest := l.state.Oldest()
	if oldest == 0 {
		return 0
	}
	return max(0, l.agg.now()-oldest)
}
