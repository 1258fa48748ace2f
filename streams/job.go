package streams

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The kinds of writes of a batch's jobs, for the log.
const (
	jobMalformed  = "malformed record"
	jobUsage      = "usage"
	jobThreshold  = "threshold"
	jobResharding = "resharding"
	jobRefill     = "refill"
	jobLifetime   = "lifetime"
)

// jobs returns all jobs in the order in which they begin. Required jobs come first, and both kinds
// are in the order of their records. So an invocation that runs out of time has advanced the point
// to resume from as far as possible.
//
// Malformed records, usage and thresholds of quotas are required. Everything else is only tried. A
// bucket that cannot be refilled, split or given a longer life now is left to its clients and to
// its next record. A shard that was left behind is left to its clients, to the next batch with a
// record of shard 0, or to its next minute. Reporting such a record as not done would delay all
// records after it.
func (a *Aggregator) jobs(led *tally, histories []usage.History, p usage.Upkeep,
	malformed []stream.Malformed) []*function.Job {
	var required, reshardings, refills, lifetimes []*function.Job
	for _, k := range kept(malformed) {
		required = append(required, &function.Job{What: jobMalformed, Resume: k.Sequence, Required: true,
			Attrs: []slog.Attr{slog.String("object", k.Key)}, Malformed: k.Malformed,
			Do: func(ctx context.Context) (int, error) { return 0, a.setAside(ctx, k) }})
	}
	firsts := usage.Firsts(histories)
	required = append(required, led.jobs(firsts)...)
	for _, s := range p.Spendings {
		j := newJob(jobThreshold, s.Bucket, firsts, func(ctx context.Context) (int, error) { return a.report(ctx, s) })
		j.Required = true
		required = append(required, j)
	}
	for _, r := range p.Reshardings {
		reshardings = append(reshardings, newJob(jobResharding, r.Bucket(), firsts,
			func(ctx context.Context) (int, error) { return shard.Run(ctx, a.store, r.Steps, a.now) }))
	}
	for _, r := range p.Refills {
		refills = append(refills, newJob(jobRefill, r.Bucket, firsts,
			func(ctx context.Context) (int, error) { return a.refill(ctx, r) }))
	}
	for _, l := range p.Lifetimes {
		lifetimes = append(lifetimes, newJob(jobLifetime, l.Bucket, firsts,
			func(ctx context.Context) (int, error) { return a.once(ctx, l.Update, attempts) }))
	}
	return slices.Concat(inOrder(required), inOrder(reshardings), inOrder(refills), inOrder(lifetimes))
}

// newJob returns a job of a bucket. It resumes at the bucket's first record in the batch, if it has
// one. A job that can never succeed is not required: another delivery would only delay others.
func newJob(what string, of usage.Bucket, firsts map[usage.Bucket]string,
	do func(context.Context) (int, error)) *function.Job {
	j := &function.Job{What: what, Resume: firsts[of],
		Attrs: []slog.Attr{slog.String("entity", of.Entity), slog.String("resource", of.Resource)}}
	j.Do = func(ctx context.Context) (int, error) {
		n, err := do(ctx)
		if errors.Is(err, ErrAlertRefused) || errors.Is(err, errNever) {
			j.Required = false
		}
		return n, err
	}
	return j
}

// inOrder sorts jobs by their records.
func inOrder(jobs []*function.Job) []*function.Job {
	slices.SortStableFunc(jobs, func(a, b *function.Job) int { return sequence.Compare(a.Resume, b.Resume) })
	return jobs
}

// run runs the jobs, several at once. If one fails, the others still run: their writes remain valid
// if Lambda delivers the batch again, and could be lost if it does not.
func (a *Aggregator) run(ctx context.Context, jobs []*function.Job) {
	function.Pool{Concurrency: a.concurrency}.Run(ctx, jobs)
}
