package admin

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Window is a kind of usage window.
type Window string

// The kinds of windows; which ones are kept is decided where the aggregator is
// deployed.
const (
	Hourly  Window = "hourly"
	Daily   Window = "daily"
	Monthly Window = "monthly"
)

// UsageQuery selects usage. Entity or Resource must be set.
type UsageQuery struct {
	Entity, Resource string
	Window           Window // empty: all kinds; [Namespace.UsageSummary] wants one
	// From and To bound the starts of the windows: From is included, To is not. Zero values do not
	// bound.
	From, To time.Time
	// Live adds to the present window the consumption that buckets show and no snapshot has counted
	// yet, so that it is exact now and not as of the last fold; docs/usage.md names the exceptions.
	// It needs one kind of Window, and reads the buckets of the query; for a resource, all of them.
	// Consumption shortly before the window began, within the last fold, may be shown in it until
	// it is counted; nothing is added for deleted buckets.
	Live bool
}

// Usage is the consumption in one window.
type Usage struct {
	Entity, Resource string
	Window           Window
	Start            time.Time
	End              time.Time        // exclusive
	Tokens           map[string]int64 // by limit, net of tokens given back
	Denied           int64            // requests; a process counts them with its next write on the bucket
	Events           int64            // changes counted; some twice where the stream repeated them
}

func (q UsageQuery) validate() error {
	if q.Entity == "" && q.Resource == "" {
		return validate.Invalid("UsageQuery", validate.Plain("empty"), "an Entity or a Resource")
	}
	if err := (Scope{q.Entity, q.Resource}).validate(); err != nil {
		return err
	}
	switch q.Window {
	case "", Hourly, Daily, Monthly:
	default:
		return validate.Invalid("Window", string(q.Window), "hourly, daily, monthly, or empty for all")
	}
	if q.Live && q.Window == "" {
		return validate.Invalid("Window", "", "hourly, daily or monthly with Live")
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return validate.Invalid("To", q.To.Format(time.RFC3339), "a time after From")
	}
	return nil
}

// query returns the query for the table. Starts of months and days are stored in a
// shorter form, which sorts before their first hour: hence the month.
func (q UsageQuery) query(ns string) item.Query {
	from, to := "", ""
	if !q.From.IsZero() {
		from = q.From.UTC().Format("2006-01")
	}
	if !q.To.IsZero() {
		to = q.To.UTC().Format(time.RFC3339)
	}
	if q.Entity != "" {
		return ledger.UsageOfEntity(ns, q.Entity, q.Resource, from, to)
	}
	return ledger.UsageOfResource(ns, q.Resource, from, to)
}

// isOf reports whether the query is of a resource, and not of another one whose name begins like
// it.
func (q UsageQuery) isOf(resource string) bool { return q.Resource == "" || resource == q.Resource }

func (q UsageQuery) wants(u Usage) bool {
	return q.isOf(u.Resource) && (q.Window == "" || u.Window == q.Window) && q.covers(u.Start)
}

// Usage lists usage snapshots: for an entity sorted by resource and time; for a resource alone
// sorted by time. It lags behind consumption by the aggregator's fold time, a minute by default.
// Days and months lag by up to an hour more, or two if the fold time is ten minutes or more. With
// [UsageQuery.Live] nothing lags; windows that only Live shows come last.
func (n *Namespace) Usage(ctx context.Context, q UsageQuery) iter.Seq2[Usage, error] {
	if err := q.validate(); err != nil {
		return failing[Usage](err)
	}
	return func(yield func(Usage, error) bool) {
		shown := map[Scope]bool{} // whether the current window was yielded, of scopes with snapshots
		current, _ := q.Window.start(n.table.opts.Now())
		for u, err := range n.snapshots(ctx, q) {
			of := Scope{u.Entity, u.Resource}
			if err == nil && !q.wants(u) {
				if q.Live && q.Window.contains(current, u) && !shown[of] {
					shown[of] = false
				}
				continue
			}
			if err == nil && q.Live && u.Start.Equal(current) {
				shown[of] = true
				u, _, err = n.live(ctx, of, q.Window)
			}
			if !yield(u, fail(err, "list usage")) || err != nil {
				return
			}
		}
		if q.Live && q.covers(current) {
			n.rest(ctx, q, shown, yield)
		}
	}
}

// snapshots yields what snapshots say; an error is the last thing.
func (n *Namespace) snapshots(ctx context.Context, q UsageQuery) iter.Seq2[Usage, error] {
	return sequence(func(yield func(Usage) bool) error {
		for items, err := range n.calls.pages(ctx, q.query(n.id)) {
			if err == nil {
				items, err = n.whole(ctx, items)
			}
			if err != nil {
				return err
			}
			for _, it := range items {
				s, err := ledger.DecodeSnapshot(it)
				if err != nil || !yield(usageOf(s)) {
					return err
				}
			}
		}
		return nil
	})
}

// rest yields the current windows that no snapshot of their kind shows yet: from hours in
// them, and from buckets.
func (n *Namespace) rest(ctx context.Context, q UsageQuery, shown map[Scope]bool, yield func(Usage, error) bool) {
	next := func(of Scope, err error) bool {
		var u Usage
		found := err != nil
		if err == nil && !shown[of] {
			shown[of] = true
			u, found, err = n.live(ctx, of, q.Window)
		}
		return !found && err == nil || yield(u, fail(err, "list usage")) && err == nil
	}
	for _, of := range slices.SortedFunc(maps.Keys(shown), compareScopes) {
		if q.isOf(of.Resource) && !next(of, nil) {
			return
		}
	}
	for of, err := range n.bucketsAt(ctx, Scope{q.Entity, q.Resource}) {
		if !next(of, err) {
			return
		}
	}
}

func compareScopes(a, b Scope) int {
	return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource))
}

// whole returns items that an index brought with all their attributes, reading
// those with keys only; items that have gone since are left out.
func (n *Namespace) whole(ctx context.Context, items []item.Item) ([]item.Item, error) {
	out := slices.Clone(items)
	var at []int
	var keys []item.Key
	for i, it := range items {
		if !layout.IsWhole(it) {
			at, keys = append(at, i), append(keys, item.KeyOf(it))
		}
	}
	read, err := n.calls.read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		out[i] = read[j]
	}
	return slices.DeleteFunc(out, func(it item.Item) bool { return it == nil }), nil
}

func usageOf(s ledger.Snapshot) Usage {
	u := Usage{
		Entity: s.Entity, Resource: s.Resource, Window: Window(s.Window), Start: parseTime(s.Start),
		Tokens: s.Counts, Denied: s.Denied, Events: s.Events,
	}
	if u.Tokens == nil { // marks alone: all was given back
		u.Tokens = map[string]int64{}
	}
	delete(u.Tokens, bucket.WCU)
	u.End = u.Window.end(u.Start)
	return u
}

// end returns when a window ends; the zero time for one of no known kind.
func (w Window) end(start time.Time) time.Time {
	switch w {
	case Hourly:
		return start.Add(time.Hour)
	case Daily:
		return start.AddDate(0, 0, 1)
	case Monthly:
		return start.AddDate(0, 1, 0)
	}
	return time.Time{}
}

// UsageSummary is usage added up over windows.
type UsageSummary struct {
	Window  Window // kind of the added windows
	Windows int    // how many
	// From and To span them; zero if there are none.
	From, To time.Time
	Tokens   map[string]int64
	// Mean is tokens per window, over the windows with any usage.
	Mean   map[string]float64
	Denied int64
	Events int64
}

// UsageSummary adds usage up. The query must name one kind of window, because windows of different
// kinds count the same tokens.
func (n *Namespace) UsageSummary(ctx context.Context, q UsageQuery) (UsageSummary, error) {
	out := UsageSummary{Window: q.Window, Tokens: map[string]int64{}, Mean: map[string]float64{}}
	if q.Window == "" {
		return out, validate.Invalid("Window", "", "hourly, daily or monthly")
	}
	for u, err := range n.Usage(ctx, q) {
		if err != nil {
			return out, err
		}
		if out.Windows++; out.From.IsZero() || u.Start.Before(out.From) {
			out.From = u.Start
		}
		if u.End.After(out.To) {
			out.To = u.End
		}
		out.Events, out.Denied = out.Events+u.Events, out.Denied+u.Denied
		for limit, tokens := range u.Tokens {
			out.Tokens[limit] = bucket.AddSat(out.Tokens[limit], tokens)
		}
	}
	for limit, tokens := range out.Tokens {
		out.Mean[limit] = float64(tokens) / float64(out.Windows)
	}
	return out, nil
}
