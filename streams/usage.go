package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// clocksApart is how far our clock may be behind the one that dates records.
const clocksApart = time.Minute

// beginningDays is for how many days after it was over the window in which a bucket was
// created gets what was lost of it since. Records live for a day, and an outage for a
// few; an older snapshot may be gone, because it was kept for less then than now, or
// was deleted by hand.
const beginningDays = 7

// counting is the usage of one bucket on its way into its snapshots.
type counting struct {
	parts []usage.Part
	seen  map[item.Key]item.Item // snapshots that were looked up
	done  bool
	owed  []usage.Owed
	// unknown is of how many shards it is not known what they had consumed before
	// their first records.
	unknown int64
}

// count counts the parts of one bucket in all kinds of windows, shorter ones and
// earlier ones first. If later is set, windows of longer kinds that just go on are
// left to be counted later.
func (a *Aggregator) count(ctx context.Context, c *counting, later bool) (writes int, err error) {
	totals, longer := a.totals(c.parts)
	if later && len(longer) > 0 {
		return a.countAhead(ctx, c, totals, longer)
	}
	for i := range totals {
		totals[i].Current = true
	}
	for i := range longer {
		longer[i].Current = true
	}
	return a.countAll(ctx, c, append(totals, longer...))
}

func (a *Aggregator) countAll(ctx context.Context, c *counting, totals []usage.Total) (writes int, err error) {
	for i := range totals {
		n, last, err := a.countTotal(ctx, &totals[i], c.seen, nil)
		if writes += n; err != nil {
			return writes, err
		}
		c.unknown += int64(last.Unknown)
		totals[i].Reopen(totals[i+1:], last.Behind)
	}
	return writes, nil
}

// countAhead counts what the finest windows take and lets longer ones owe it,
// unless they cannot simply go on. Then these are counted first: so whatever the
// finest snapshots have counted, longer ones either have too, or can by the
// difference alone.
func (a *Aggregator) countAhead(ctx context.Context, c *counting, totals,
	longer []usage.Total) (writes int, err error) {
	var ahead []usage.Ahead
	counted := false
	for i := range totals {
		t := &totals[i]
		t.Current, t.Careful = true, !t.GoesOn(longer)
		before := len(ahead)
		n, last, err := a.countTotal(ctx, t, c.seen, func(step usage.Step, known usage.Snapshots) error {
			if counted {
				return nil
			}
			ahead = append(ahead[:before], t.Ahead(known, !known.Known)...)
			if step.GoesOn(longer) {
				return nil
			}
			n, err := a.countLonger(ctx, c, totals[i+1:], longer, ahead)
			writes += n
			counted = err == nil
			return err
		})
		if writes += n; err != nil {
			return writes, err
		}
		c.unknown += int64(last.Unknown)
		t.Reopen(totals[i+1:], last.Behind)
	}
	if !counted {
		for i := range totals {
			c.owed = append(c.owed, totals[i].Owed())
		}
	}
	return writes, nil
}

// countLonger counts longer windows before the finest ones. The beginnings that later
// totals of these have come first: once a longer window has counted their shards, they
// are not known.
func (a *Aggregator) countLonger(ctx context.Context, c *counting, later, longer []usage.Total,
	ahead []usage.Ahead) (writes int, err error) {
	for i := range later {
		if t := &later[i]; t.MayBegin() {
			t.Careful = true
			n, _, err := a.countTotal(ctx, t, nil, func(usage.Step, usage.Snapshots) error { return errBegun })
			if writes += n; err != nil && !errors.Is(err, errBegun) {
				return writes, err
			}
		}
	}
	for i := range longer {
		longer[i].GoOnFrom(ahead)
	}
	n, err := a.countAll(ctx, c, longer)
	return writes + n, err
}

// errBegun ends the counting of a total after its beginnings.
var errBegun = errors.New("beginnings are counted")

// countTotal brings one snapshot up to date, step by step. Before each write it calls
// check, if there is one, with the step and what was known of the snapshots before
// any of it; an error of check ends it. seen are snapshots that were read before. It
// returns the last step.
func (a *Aggregator) countTotal(ctx context.Context, t *usage.Total, seen map[item.Key]item.Item,
	check func(usage.Step, usage.Snapshots) error) (writes int, step usage.Step, err error) {
	var known, first usage.Snapshots
	if it := seen[t.Key()]; it != nil {
		known = usage.Snapshots{Known: true, Current: it}
		first = known
	}
	t.TTL = t.Expiry(a.now(), a.conf.SnapshotTTLDays)
	t.Kept = a.now() - int64(min(a.conf.SnapshotTTLDays, beginningDays))*(24*time.Hour).Milliseconds()
	t.Over = t.Window.End(t.Start) <= a.now()+clocksApart.Milliseconds()
	for range 2 * rounds {
		step = t.Next(known)
		switch step.Action {
		case usage.Done:
			return writes, step, nil
		case usage.Begin:
			n, err := a.countBeginnings(ctx, step.Beginnings)
			if writes += n; err != nil {
				return writes, step, err
			}
			known, first, t.Begun = usage.Snapshots{}, usage.Snapshots{}, true
			continue
		case usage.ReadCurrent, usage.ReadPrevious, usage.ReadSurely:
			if known, err = a.read(ctx, t, step.Action, known); err != nil {
				return writes, step, err
			}
			first = known
			known.Previous = slices.Clone(known.Previous)
			continue
		}
		if check != nil {
			if err := check(step, first); err != nil {
				return writes, step, err
			}
		}
		after, err := a.write(ctx, step.Update, usageAttempts) // commit point: counted once this succeeds
		if err == nil {
			if writes++; step.Action == usage.Add {
				return writes, step, nil
			}
			known.Previous[step.At] = after
			continue
		}
		old, seen, giveUp := again(ctx, err)
		switch {
		case giveUp != nil:
			return writes, step, giveUp
		case !seen:
		case step.Action == usage.Close:
			known.Previous[step.At] = old
		default:
			known.Known, known.Current = true, old
			first.Known, first.Current = true, old
		}
	}
	return writes, step, errRounds
}

// countBeginnings counts what shards had consumed before their first records. Longer
// windows come first: once the finest snapshot has it, nobody looks for it again.
func (a *Aggregator) countBeginnings(ctx context.Context, parts []usage.Part) (writes int, err error) {
	finest, longer := a.totals(parts)
	return a.countAll(ctx, &counting{}, append(longer, finest...))
}

// totals returns what the parts add to the finest windows, and to longer ones.
func (a *Aggregator) totals(parts []usage.Part) (finest, longer []usage.Total) {
	window, others := usage.Finest(a.conf.Windows)
	for _, w := range others {
		longer = append(longer, usage.Totals(parts, w, false)...)
	}
	return usage.Totals(parts, window, true), longer
}

// read learns what a total needs to know of snapshots. What is known of the total's
// own is newer than what a query finds.
func (a *Aggregator) read(ctx context.Context, t *usage.Total, action usage.Action,
	known usage.Snapshots) (usage.Snapshots, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if action == usage.ReadCurrent && !t.Finest {
		items, err := a.store.Read(ctx, false, t.Key())
		if err != nil {
			return known, err
		}
		return usage.Snapshots{Known: true, Current: items[0]}, nil
	}
	var items []item.Item
	q := t.PreviousQuery()
	q.Consistent = action == usage.ReadSurely
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
	found, missing := t.Sift(items)
	found.Seen, found.Whole, found.Sure = items, q.After == nil, q.Consistent
	if found.Sure {
		births, err := a.store.Read(ctx, true, t.BirthKeys()...)
		if err != nil {
			return known, err
		}
		found.Births = births
	}
	earlier, err := a.store.Read(ctx, q.Consistent, missing...)
	if err != nil {
		return known, err
	}
	for _, it := range earlier {
		if it != nil {
			found.Previous = append(found.Previous, it)
		}
	}
	if known.Known && !found.Sure {
		found.Current = known.Current
	}
	return found, nil
}
