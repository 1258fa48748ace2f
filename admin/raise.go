package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Raise is an increase of a limit until an instant.
type Raise struct {
	Limit string
	More  int64 // whole tokens a period
	Until time.Time
}

// String returns "500 more until 2026-12-01T00:00:00Z".
func (r Raise) String() string {
	return validate.Amount(r.Limit, true, r.More) + " more until " + r.Until.Format(time.RFC3339)
}

// longestRaise bounds how long a raise lasts.
const longestRaise = 3660 * day

// Raise raises limits of an entity on a resource from now until an instant, wherever the limits are
// stored, and records that as "limits_raised". Raises at the same time add up, at most 16 of a
// limit. The next change removes expired ones.
//
// A rate has more tokens in each period, and its capacity grows in proportion, rounded down: with
// 300 more, 600 a minute with a capacity of 1,000 become 900 with 1,500. Buckets fill up to that at
// the new rate. A quota by a calendar has more tokens at once, and in each period that begins
// before the instant; so the raise ends at the edge of a period. As at every edge, a bucket changes
// a second later. Quotas that count from their first use, in-flight and blocked limits cannot be
// raised (limiter.ErrInvalid), nor can limits that come with a request.
//
// It returns the raises with their real ends, and brings them to the bucket: processes follow with
// their next write on it, at the latest when they read the limits again. The error is ErrNotFound
// if no limit of a name is in force, and ErrReach, together with the raises, if they are stored but
// not in the bucket yet. See [Namespace.Once] for calls whose answer is lost.
func (n *Namespace) Raise(
	ctx context.Context, entity, resource string, more limiter.Costs, until time.Time,
) ([]Raise, error) {
	return n.raiseLimits(ctx, Scope{entity, resource}, more, func(l bucket.Limit, now int64) int64 {
		end := until.UnixMilli()
		if l.Renews() && end > now {
			return l.Next(end - 1)
		}
		return end
	})
}

// RaiseFor is Raise for a number of periods from now, 1 to 1000: for a quota the present one and
// the next ones, for a rate that many times its Period.
func (n *Namespace) RaiseFor(
	ctx context.Context, entity, resource string, more limiter.Costs, periods int,
) ([]Raise, error) {
	if periods < 1 || periods > 1000 {
		return nil, validate.Invalid("periods", periods, "1 to 1000")
	}
	return n.raiseLimits(ctx, Scope{entity, resource}, more, func(l bucket.Limit, now int64) int64 {
		if !l.Renews() {
			return bucket.AddSat(now, int64(periods)*l.Own().Period)
		}
		for range periods {
			now = l.Next(now)
		}
		return now
	})
}

// raiseLimits raises limits until the instants that end returns.
func (n *Namespace) raiseLimits(
	ctx context.Context, at Scope, more limiter.Costs, end func(l bucket.Limit, now int64) int64,
) ([]Raise, error) {
	if err := checkPair(at.Entity, at.Resource); err != nil {
		return nil, err
	}
	if err := checkTokens(more); err != nil {
		return nil, err
	}
	var done table.Operation
	_, err := n.commit(ctx, at, func(s stored) (writes []item.Write, err error) {
		if done, err = n.operation(ctx, at, table.OperationRaise); done.Tokens != nil || err != nil {
			return nil, err
		}
		in, err := n.inForce(ctx, at.Entity, at.Resource)
		if err != nil {
			return nil, err
		}
		after, now := s.config, n.table.now()
		ends, until := map[string]int64{}, item.Item{}
		after.Raises = map[string]string{}
		maps.Copy(after.Raises, s.config.Raises)
		for _, limit := range slices.Sorted(maps.Keys(more)) {
			l, err := in.raised(at, limit)
			if err != nil {
				return nil, err
			}
			ends[limit] = end(l, now)
			if ends[limit] <= now || ends[limit] > now+longestRaise.Milliseconds() {
				return nil, validate.Invalid("until of "+limit, time.UnixMilli(ends[limit]).UTC().Format(time.RFC3339),
					"a time after now, and at most 3660 days")
			}
			until[limit] = item.S(layout.Timestamp(ends[limit]))
			all := append(s.config.Lasting(limit, now), bucket.Raise{Tokens: more[limit], End: ends[limit]})
			if after.Raises[limit], err = raisesOn(l, all); err != nil {
				return nil, err
			}
		}
		done = n.operationOf(at, table.OperationRaise)
		done.Writer, done.Tokens, done.Ends, done.At = n.table.ids.next(now), more, ends, now
		writes = n.replaces(ctx, at, s, after, ledger.ActionLimitsRaised,
			with(ledger.BucketLevels(more, n.once), item.Item{"until": item.Map(until)})).all(n.id)
		if n.once != "" {
			writes = append(writes, done.Create())
		}
		return writes, nil
	})
	if err != nil {
		return nil, fail(err, "raise limits of %s", at)
	}
	var out []Raise
	for _, limit := range slices.Sorted(maps.Keys(done.Tokens)) {
		out = append(out, raisesOf(limit, []bucket.Raise{{Tokens: done.Tokens[limit], End: done.Ends[limit]}})...)
	}
	_, err = n.reach(ctx, at, nil)
	return out, err
}

// EndRaises ends the raises of limits at once, such as a mistyped one, or all raises if no limit is
// named, and records that as "raises_ended". Used tokens stay used, as if a limit had been lowered
// by as much. A limit without a raise is not an error, so the call may be repeated. Otherwise it
// behaves like Raise; the error is ErrNotFound if no limit of a name is in force.
func (n *Namespace) EndRaises(ctx context.Context, entity, resource string, limits ...string) error {
	at := Scope{entity, resource}
	if err := checkPair(entity, resource); err != nil {
		return err
	}
	_, err := n.commit(ctx, at, func(s stored) ([]item.Write, error) {
		names := limits
		if len(names) == 0 {
			names = slices.Collect(maps.Keys(s.config.Raises))
		}
		in, err := n.inForce(ctx, entity, resource)
		if err != nil {
			return nil, err
		}
		after, ended := s.config, limiter.Costs{}
		after.Raises = maps.Clone(s.config.Raises)
		for _, limit := range names {
			if after.Raises[limit] == "" {
				if _, err := in.raised(at, limit); err != nil {
					return nil, err
				}
			}
			for _, r := range s.config.Lasting(limit, n.table.now()) {
				ended[limit] += r.Tokens
			}
			delete(after.Raises, limit)
		}
		if len(after.Raises) == len(s.config.Raises) {
			return nil, nil
		}
		return n.replaces(ctx, at, s, after, ledger.ActionRaisesEnded, ledger.BucketLevels(ended, "")).all(n.id), nil
	})
	if err == nil {
		_, err = n.reach(ctx, at, nil)
	}
	return fail(err, "end raises of %s", at)
}

// raised returns a limit in force that can be raised.
func (in inForce) raised(at Scope, limit string) (bucket.Limit, error) {
	var names []string
	for _, l := range in.limits {
		if l.Name != limit {
			names = append(names, l.Name)
			continue
		}
		if !l.CanRaise() || publicLimit(l).IsBlocked() {
			return l, validate.Invalid("limit", limit, "a rate that is not blocked, or a quota by a calendar")
		}
		return l, nil
	}
	return bucket.Limit{}, fmt.Errorf("%w: limit %q, %s has %s", ErrNotFound, limit, at,
		cmp.Or(strings.Join(names, ", "), "none"))
}

// raisesOn returns the form of raises that a limit can have together.
func raisesOn(l bucket.Limit, all []bucket.Raise) (form string, err error) {
	form = bucket.FormOfRaises(all)
	if _, err := bucket.ParseRaises(form); err != nil {
		return "", validate.Invalid("raises of "+l.Name, len(all), fmt.Sprintf("at most %d that last", bucket.MaxRaises))
	}
	const most = limiter.MaxTokens * bucket.Milli
	if is := l.WithRaises(form).Most(); is.Capacity >= most || is.Amount >= most {
		return "", validate.Invalid("tokens of "+l.Name, all[len(all)-1].Tokens,
			fmt.Sprintf("less than %d tokens in all, of the capacity too", int64(limiter.MaxTokens)))
	}
	return form, nil
}

// raisesOf returns raises of a limit as callers have them.
func raisesOf(limit string, raises []bucket.Raise) (out []Raise) {
	for _, r := range raises {
		out = append(out, Raise{limit, r.Tokens, time.UnixMilli(r.End).UTC()})
	}
	return out
}
