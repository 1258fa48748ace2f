package streams

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// owedAtOnce is how many windows are read together before they are summed.
	owedAtOnce = item.MaxReadKeys

	// owedAtMost is how many snapshots are held in memory while lists are read.
	owedAtMost = 200_000

	// longFold is the length of a tumbling window from which longer windows are updated only every
	// second hour: with many tenants they would be a quarter of the writes.
	longFold = 10 * time.Minute

	// owedClaim is how long other invocations let one invocation update the sums.
	owedClaim = time.Minute
)

// catchUp sums the windows on the lists that are due, from all shards of the stream. One invocation
// claims this work; if it dies, the next one that ends a tumbling window starts again. Nothing
// begins after within ends: the windows left, or not summed, are owed again, in a list that is
// stored before the cursor moves.
func (l *tally) catchUp(ctx, within context.Context) {
	if len(l.agg.kinds()) == 1 {
		return
	}
	now := l.agg.now()
	until := l.catchUpUntil(l.agg.kinds()[0], now)
	claim := now + owedClaim.Milliseconds()
	err := func() error {
		items, err := l.agg.store.Read(within, false, ledger.OwedCursorKey())
		if err != nil {
			return err
		}
		cursor := ledger.DecodeOwedCursor(items[0])
		from, claimed, apart := cursor.Counted, cursor.Claimed-now, owedGrace.Milliseconds()
		if from > now+apart { // a clock was ahead: read all lists that are left, and ignore its claim
			from = 0
		}
		if from >= until || claimed > 0 && claimed < apart {
			return nil
		}
		if _, err := l.agg.store.Write(within, cursor.Claim(claim)); err != nil {
			if _, refused := errors.AsType[*store.Refused](err); refused {
				return nil
			}
			return err
		}
		if err := l.catchUpLists(ctx, within, ledger.OwedBetween(from, until)); err != nil {
			return err
		}
		_, err = l.agg.store.Write(ctx, cursor.Advance(claim, until))
		return err
	}()
	if err != nil {
		l.agg.log.LogAttrs(ctx, slog.LevelWarn, "longer windows not caught up", slog.Any("err", err))
	}
}

// catchUpUntil returns the instant up to which lists are due: in whole hours, or in steps of two
// hours if usage is folded for long. Days and months end on either.
func (l *tally) catchUpUntil(finest usage.Window, now int64) int64 {
	over := now - 2*owedGrace.Milliseconds() // writes that began before this have ended
	if l.tumbling.Length >= longFold.Milliseconds() {
		over -= over % (2 * time.Hour.Milliseconds())
	}
	return finest.Start(over) + owedGrace.Milliseconds()
}

// catchUpLists sums the windows on the lists that a query finds. A window on several lists is
// summed once.
func (l *tally) catchUpLists(ctx, within context.Context, q item.Query) error {
	var owed []usage.Owed
	for merged := 0; ; {
		page, err := l.agg.store.List(ctx, q)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			some, err := usage.UnpackOwed(ledger.PackedOwed(it), l.agg.kinds()[1])
			if err != nil {
				l.agg.log.LogAttrs(ctx, slog.LevelWarn, "list of owed usage ignored", slog.Any("err", err))
			}
			owed = append(owed, some...)
		}
		if q.After = page.Next; q.After != nil && len(owed) < 2*merged {
			continue
		}
		owed = usage.MergeOwed(owed)
		merged = len(owed)
		if q.After != nil && merged < owedAtMost {
			continue
		}
		var left []*counting
		for some := range slices.Chunk(owed, owedAtOnce) {
			rest, err := l.catchUpSome(within, some)
			if err != nil {
				l.agg.log.LogAttrs(ctx, slog.LevelWarn, "longer windows not summed", slog.Int("owed_again", len(rest)),
					slog.Any("err", err))
			}
			if len(rest) > 0 {
				left = append(left, &counting{owed: rest})
			}
		}
		if err := l.owing.storeAll(ctx, l.agg, left); err != nil {
			return err
		}
		if owed, merged = nil, 0; q.After == nil {
			return nil
		}
	}
}

// catchUpSome sums owed windows. With an error, it returns the windows that were not summed and are
// owed again.
func (l *tally) catchUpSome(ctx context.Context, owed []usage.Owed) (left []usage.Owed, err error) {
	if ctx.Err() != nil {
		return owed, ctx.Err()
	}
	read, err := l.agg.readSums(ctx, owed)
	if err != nil {
		return owed, err
	}
	var jobs []*function.Job
	of := map[*function.Job][]usage.Owed{}
	for len(owed) > 0 {
		bucket := owed[:siblings(owed)]
		j := &function.Job{Do: func(ctx context.Context) (int, error) { return l.agg.sum(ctx, bucket, read) }}
		jobs, of[j] = append(jobs, j), bucket
		owed = owed[len(bucket):]
	}
	l.agg.run(ctx, jobs)
	for _, j := range jobs {
		l.caughtUp += int64(j.Writes)
		if !j.Begun || fails(j.Err) {
			left = append(left, of[j]...)
		}
		if !j.Begun {
			err = errors.Join(err, ctx.Err())
		}
		err = errors.Join(err, j.Err)
	}
	return left, err
}
