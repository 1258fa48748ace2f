package streams

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// owedAtOnce is how many snapshots are read at once to count what is owed.
	owedAtOnce = 100

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
	until := finest.Start(now-owedGrace.Milliseconds()) + owedGrace.Milliseconds()
	claim := now + owedClaim.Milliseconds()
	err := func() error {
		items, err := l.agg.store.Read(ctx, false, table.OwedCursorKey())
		if err != nil {
			return err
		}
		cursor := table.DecodeOwedCursor(items[0])
		if cursor.Settled >= until || cursor.Claimed > now {
			return nil
		}
		if _, err := l.agg.store.Write(ctx, cursor.Claim(claim)); err != nil {
			if _, refused := errors.AsType[*store.Refused](err); refused {
				return nil
			}
			return err
		}
		if err := l.catchUpLists(ctx, table.OwedBetween(cursor.Settled, until), finest, others); err != nil {
			return err
		}
		_, err = l.agg.store.Write(ctx, cursor.Advance(claim, until))
		return err
	}()
	if err != nil {
		l.agg.log.LogAttrs(ctx, slog.LevelWarn, "longer windows not caught up", slog.Any("err", err))
	}
}

// catchUpLists counts what the lists say that a query finds, a page at a time.
func (l *ledger) catchUpLists(ctx context.Context, q item.Query, finest usage.Window, others []usage.Window) error {
	for {
		page, err := l.agg.store.List(ctx, q)
		if err != nil {
			return err
		}
		var owed []usage.Owed
		for _, it := range page.Items {
			some, err := usage.UnpackOwed(table.PackedOwed(it))
			if err != nil {
				l.agg.log.LogAttrs(ctx, slog.LevelWarn, "list of owed usage ignored", slog.Any("err", err))
			}
			owed = append(owed, some...)
		}
		for some := range usage.OwedChunks(usage.MergeOwed(owed), owedAtOnce) {
			if err := l.catchUpSome(ctx, some, finest, others); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = page.Next
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
	var jobs []*job
	for _, w := range others {
		for _, t := range usage.OwedTotals(owed, ahead, w) {
			jobs = append(jobs, &job{part: partUsage, do: func(ctx context.Context) (int, error) {
				return l.agg.countTotal(ctx, &t, nil)
			}})
		}
	}
	l.agg.run(ctx, jobs)
	for _, j := range jobs {
		l.caughtUp += int64(j.writes)
		if err = errors.Join(err, j.err); !j.begun {
			err = errors.Join(err, ctx.Err())
		}
	}
	return err
}
