package streams

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/lambdaio"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// owedAtOnce is how many snapshots are read at once to count what is owed.
	owedAtOnce = 100

	// owedAtLeast is how much is read before it is merged.
	owedAtLeast = 10_000

	// owedAtMost is how many snapshots are kept in mind while lists are read.
	owedAtMost = 200_000

	// longFold is from what length of a tumbling window on longer windows catch
	// up every second hour only: who waits for hours wants it cheap, and with many
	// tenants they would be a quarter of the writes.
	longFold = 10 * time.Minute

	// owedClaim is how long others wait for an invocation that is at it.
	owedClaim = time.Minute
)

// catchUp brings the longer windows up to date with what the lists of windows that
// are over say. Whatever shard of the stream they come from, one invocation is at
// it; if it fails, or dies, the next one that closes a tumbling window begins
// again. What is counted already costs it reads only.
func (l *ledger) catchUp(ctx context.Context) {
	finest, others := usage.Finest(l.agg.conf.Windows)
	if len(others) == 0 {
		return
	}
	now := l.agg.now()
	until := l.catchUpUntil(finest, now)
	claim := now + owedClaim.Milliseconds()
	err := func() error {
		items, err := l.agg.store.Read(ctx, false, table.OwedCursorKey())
		if err != nil {
			return err
		}
		cursor := table.DecodeOwedCursor(items[0])
		if cursor.Counted >= until || cursor.Claimed > now {
			return nil
		}
		if _, err := l.agg.store.Write(ctx, cursor.Claim(claim)); err != nil {
			if _, refused := errors.AsType[*store.Refused](err); refused {
				return nil
			}
			return err
		}
		if err := l.catchUpLists(ctx, table.OwedBetween(cursor.Counted, until), finest, others); err != nil {
			return err
		}
		_, err = l.agg.store.Write(ctx, cursor.Advance(claim, until))
		return err
	}()
	if err != nil {
		l.agg.log.LogAttrs(ctx, slog.LevelWarn, "longer windows not caught up", slog.Any("err", err))
	}
}

// catchUpUntil returns up to when lists are due at an instant: all of a whole hour,
// or of two if usage is folded for long. Days and months end with either.
func (l *ledger) catchUpUntil(finest usage.Window, now int64) int64 {
	over := now - 2*owedGrace.Milliseconds() // what began to be written before then has been by now
	if l.tumbling.Length >= longFold.Milliseconds() {
		over -= over % (2 * time.Hour.Milliseconds())
	}
	return finest.Start(over) + owedGrace.Milliseconds()
}

// catchUpLists counts what the lists say that a query finds, all of them together: a
// snapshot that several lists owe something is written once.
func (l *ledger) catchUpLists(ctx context.Context, q item.Query, finest usage.Window, others []usage.Window) error {
	var owed []usage.Owed
	for merged := 0; ; {
		page, err := l.agg.store.List(ctx, q)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			some, err := usage.UnpackOwed(table.PackedOwed(it))
			if err != nil {
				l.agg.log.LogAttrs(ctx, slog.LevelWarn, "list of owed usage ignored", slog.Any("err", err))
			}
			owed = append(owed, some...)
		}
		if q.After = page.Next; q.After != nil && len(owed) < 2*merged+owedAtLeast {
			continue
		}
		owed = usage.MergeOwed(owed)
		merged = len(owed)
		if q.After != nil && merged < owedAtMost {
			continue
		}
		for some := range usage.OwedChunks(owed, owedAtOnce) {
			if err := l.catchUpSome(ctx, some, finest, others); err != nil {
				return err
			}
		}
		if owed, merged = nil, 0; q.After == nil {
			return nil
		}
	}
}

// catchUpSome counts what is owed to whole buckets.
func (l *ledger) catchUpSome(ctx context.Context, owed []usage.Owed, finest usage.Window,
	others []usage.Window) error {
	var keys []item.Key
	for _, o := range owed {
		keys = append(keys, o.Key(finest))
	}
	ahead, err := l.agg.store.Read(ctx, true, keys...)
	if err != nil {
		return err
	}
	var jobs []*lambdaio.Job
	for _, w := range others {
		totals := usage.OwedTotals(owed, ahead, w)
		seen := l.agg.snapshotsOf(ctx, false, totals)
		for _, t := range totals {
			jobs = append(jobs, &lambdaio.Job{Do: func(ctx context.Context) (int, error) {
				n, _, err := l.agg.countTotal(ctx, &t, seen, nil)
				return n, err
			}})
		}
	}
	l.agg.run(ctx, jobs)
	for _, j := range jobs {
		l.caughtUp += int64(j.Writes)
		if err = errors.Join(err, j.Err); !j.Begun {
			err = errors.Join(err, ctx.Err())
		}
	}
	return err
}

// snapshotsOf reads the snapshots of totals, as many as there are, with one call: most
// of those that an interrupted catching up has left are counted already.
func (a *Aggregator) snapshotsOf(ctx context.Context, consistent bool, totals []usage.Total) map[item.Key]item.Item {
	out := make(map[item.Key]item.Item, len(totals))
	for some := range slices.Chunk(totals, item.MaxReadKeys) {
		var keys []item.Key
		for i := range some {
			if k := some[i].Key(); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		items, err := a.store.Read(call, consistent, keys...)
		cancel()
		for i, it := range items {
			if err == nil && it != nil {
				out[keys[i]] = it
			}
		}
	}
	return out
}
