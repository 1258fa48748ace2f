package streams

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// part is what part of a plan a job is.
type part int

const (
	partMalformed part = iota
	partUsage
	partResharding
	partRefill
	partLifetime
	parts
)

// String returns what is written, in the words of the glossary.
func (p part) String() string {
	return [parts]string{"malformed record", "usage", "resharding", "refill", "lifetime"}[p]
}

// job is one part of a plan on its way into the table.
type job struct {
	part   part
	resume string // sequence number to resume from if it is not done
	do     func(context.Context) (writes int, err error)
	attrs  []slog.Attr // who it is about, for the log

	// What became of it.
	begun  bool
	writes int
	err    error
}

// jobs returns everything there is to do: what is owed before what is not, and in
// the order of the records it came from, so that an invocation that runs out of
// time has moved the point to resume from as far as it could.
func (a *Aggregator) jobs(led *ledger, buckets []usage.Shard, p usage.Plan, malformed []stream.Malformed) []*job {
	var out []*job
	for _, k := range kept(malformed) {
		out = append(out, &job{part: partMalformed, resume: k.Sequence,
			attrs: []slog.Attr{slog.String("object", k.Key), slog.String("err", k.Malformed)},
			do:    func(ctx context.Context) (int, error) { return a.setAside(ctx, k) }})
	}
	out = append(out, led.jobs(buckets)...)
	for _, r := range p.Reshardings {
		out = append(out, &job{part: partResharding, resume: r.Resume(), attrs: attrs(r.Zero.Entity, r.Zero.Resource),
			do: func(ctx context.Context) (int, error) { return a.reshard(ctx, r) }})
	}
	for _, r := range p.Refills {
		out = append(out, &job{part: partRefill, resume: r.Resume(), attrs: attrs(r.Entity, r.Resource),
			do: func(ctx context.Context) (int, error) { return a.refill(ctx, r) }})
	}
	for _, l := range p.Lifetimes {
		out = append(out, &job{part: partLifetime, resume: l.Resume(), attrs: attrs(l.Entity, l.Resource),
			do: func(ctx context.Context) (int, error) { return a.mend(ctx, l) }})
	}
	slices.SortStableFunc(out, func(a, b *job) int {
		if a.best() != b.best() {
			return cmp.Compare(a.part, b.part)
		}
		return cmp.Or(sequence.Compare(a.resume, b.resume), cmp.Compare(a.part, b.part))
	})
	return out
}

// best reports whether the job is best effort: a bucket that cannot be refilled,
// split or given a longer life now is left to its clients and to its next record.
// Reporting its record as not done would hold up the records of everybody behind
// it.
func (j *job) best() bool { return j.part > partUsage }

// owed reports whether the record of a job that is not done has to come again.
// Usage that a tumbling window carries on is not lost.
func (j *job) owed(led *ledger) bool {
	return !j.best() && (j.part == partMalformed || !led.carries())
}

func attrs(entity, resource string) []slog.Attr {
	return []slog.Attr{slog.String("entity", entity), slog.String("resource", resource)}
}

// run does the jobs, several at once, and begins none after ctx is done. It
// returns when nothing is in flight any more. One job's failure does not keep
// the others from being done: what they write stays true when Lambda delivers
// the batch again, and might be lost if it does not.
func (a *Aggregator) run(ctx context.Context, jobs []*job) {
	lambdaio.Each(ctx, a.concurrency, len(jobs), func(i int) bool {
		jobs[i].run(ctx)
		return true
	})
}

// run does the job. A panic is a bug; it fails this job and no other.
func (j *job) run(ctx context.Context) {
	j.begun = true
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("bug: %v", p)
		}
	}()
	j.writes, j.err = j.do(ctx)
}
