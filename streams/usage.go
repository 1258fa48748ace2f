package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// clocksApart is how far our clock may be behind the clock that dates records.
const clocksApart = time.Minute

// beginningDays is for how many days after its end a window still receives the lost usage of a
// bucket that was created in it. Records live for a day, and an outage lasts a few days at most. An
// older snapshot may be gone: it was kept for fewer days, or deleted by hand.
const beginningDays = 7

// counting is the usage of one bucket while it is counted.
type counting struct {
	parts []usage.Part
	seen  map[item.Key]item.Item // snapshots looked up
	done  bool
	owed  []usage.Owed
	// unknown is how many shards had consumption before their first records that may already be
	// counted.
	unknown int64
}

// count counts the parts of one bucket in the finest windows, earlier ones first. If later is set,
// the longer windows are owed; otherwise they are summed.
func (a *Aggregator) count(ctx context.Context, c *counting, later bool) (writes int, err error) {
	kinds := a.kinds()
	totals := usage.Totals(c.parts, kinds[0])
	writes, c.unknown, err = a.countAll(ctx, totals, c.seen)
	if fails(err) || len(kinds) == 1 {
		return writes, err
	}
	var owed []usage.Owed
	for i := range totals {
		owed = append(owed, totals[i].Owed(totals[i].Start, kinds[1]))
	}
	if owed = usage.MergeOwed(owed); later {
		c.owed = owed
		return writes, err
	}
	n, failed := a.sumNow(ctx, owed)
	return writes + n, worse(err, failed)
}

// countAll counts totals of one bucket. Where one can never be stored, its shards are counted one by
// one, and it goes on with the next.
func (a *Aggregator) countAll(ctx context.Context, totals []usage.Total,
	seen map[item.Key]item.Item) (writes int, unknown int64, err error) {
	for len(totals) > 0 {
		t, later := &totals[0], totals[1:]
		n, last, failed := a.countTotal(ctx, t, seen)
		writes, err = writes+n, worse(err, failed)
		if fails(err) {
			return writes, unknown, err
		}
		t.Reopen(later, last.Behind)
		if totals = later; last.Action == usage.Add && failed != nil && len(t.Chains) > 1 {
			totals = slices.Concat(t.Apart(), later)
			continue
		}
		unknown += int64(last.Unknown)
	}
	return writes, unknown, err
}

// countTotal updates one snapshot, step by step. seen are snapshots that were read before. It
// returns the last step.
func (a *Aggregator) countTotal(ctx context.Context, t *usage.Total,
	seen map[item.Key]item.Item) (writes int, step usage.Step, err error) {
	var known usage.Snapshots
	if it := seen[t.Key()]; it != nil {
		known = usage.Snapshots{Known: true, Current: it}
	}
	now := a.now()
	a.date(t, now)
	var never error
	for left := 2 * rounds; left > 0; left-- {
		step = t.Next(known)
		n, prepares, err := a.prepare(ctx, t, step, &known, now)
		if !prepares {
			n, err = a.sumCompleted(ctx, t, step.Completed)
		}
		writes, never = writes+n, worse(never, err)
		if fails(never) || step.Action == usage.Done {
			return writes, step, never
		}
		if prepares {
			continue
		}
		after, err := a.writeUsage(ctx, step.Update, usageAttempts) // commit point: counted once this succeeds
		if err == nil {
			if writes++; step.Action == usage.Add {
				return writes, step, never
			}
			known.Previous[step.At] = after
			continue
		}
		old, seen, giveUp := again(ctx, err)
		switch {
		case step.Action == usage.Complete && errors.Is(giveUp, errNever):
			t.Unstored, never = append(t.Unstored, step.Update.Key), worse(never, giveUp)
			left++ // each of them once, however many there are
		case !known.Known && errors.Is(giveUp, errNever):
			t.Wide = true
		case giveUp != nil:
			return writes, step, giveUp
		case !seen:
		case step.Action == usage.Complete:
			known.Previous[step.At] = old
		default:
			known.Known, known.Current = true, old
			t.NotesRead = t.NotesRead && old != nil // it may have been deleted just now
		}
	}
	return writes, step, errRounds
}

// prepare carries out a step that prepares the next one. prepares is false for other steps.
func (a *Aggregator) prepare(ctx context.Context, t *usage.Total, step usage.Step, known *usage.Snapshots,
	now int64) (writes int, prepares bool, err error) {
	switch step.Action {
	case usage.CountBeginnings:
		writes, err = a.countBeginnings(ctx, t, step.Beginnings)
		*known, t.BeginningsCounted = usage.Snapshots{}, true
	case usage.ReadNotes:
		var notes map[item.Key]item.Item
		if notes, err = a.readAll(ctx, true, t.NoteKeys()); err == nil {
			t.Forget(*known, notes, now)
		}
	case usage.ReadCurrent, usage.ReadPrevious, usage.ReadSurely:
		*known, err = a.read(ctx, t, step.Action == usage.ReadSurely, *known)
		known.Previous = slices.Clone(known.Previous)
	default:
		return 0, false, nil
	}
	return writes, true, err
}

// date sets what depends on the instant at which a total is counted.
func (a *Aggregator) date(t *usage.Total, now int64) {
	kinds := a.kinds()
	t.TTL = usage.Expiry(now, t.Start, kinds[min(1, len(kinds)-1)], a.conf.SnapshotTTLDays)
	t.Kept = now - int64(min(a.conf.SnapshotTTLDays, beginningDays))*(24*time.Hour).Milliseconds()
	t.Over = t.Window.End(t.Start) <= now+clocksApart.Milliseconds()
}

// countBeginnings counts consumption of shards before the first records of a total.
func (a *Aggregator) countBeginnings(ctx context.Context, t *usage.Total, parts []usage.Part) (writes int, err error) {
	totals := usage.Totals(parts, t.Window)
	for i := range totals {
		totals[i].NotesRead = true // read for the life that they begin
	}
	writes, _, err = a.countAll(ctx, totals, nil)
	if fails(err) {
		return writes, err
	}
	var starts []int64
	for i := range totals {
		starts = append(starts, totals[i].Start)
	}
	n, failed := a.sumCompleted(ctx, t, starts)
	return writes + n, worse(err, failed)
}

// read returns the snapshots that a total needs. The total's own, if already read, are newer than a
// query's.
func (a *Aggregator) read(ctx context.Context, t *usage.Total, consistent bool,
	known usage.Snapshots) (usage.Snapshots, error) {
	var items []item.Item
	q := t.PreviousQuery()
	q.Consistent = consistent
	for range usage.Remembered {
		page, err := a.store.List(ctx, q)
		if err != nil {
			return known, err
		}
		items = append(items, t.Own(page.Items)...)
		if q.After = page.Next; q.After == nil || t.Traced(items) {
			break
		}
	}
	found := t.Sift(items)
	found.Whole, found.Sure = q.After == nil, consistent
	if known.Known && !found.Sure {
		found.Current = known.Current
	}
	return found, nil
}
