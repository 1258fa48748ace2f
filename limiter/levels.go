package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// maxLevels is how many entities one request is charged to at most.
const maxLevels = desk.MaxLevels

// portion is one part of a request: without the others, and with all that is known of its needs.
type portion struct {
	Request
	own    *inforce.Own  // the limits that it brings; nil: none
	wants  []decide.Want // of all its levels, once they are worked out
	at     decide.Name   // the level that was worked out last: with an error, the one that it is about
	policy Policy        // as stored for the namespace, as far as that is known
}

// charges reports whether the part charges a bucket, or would as far as that is known.
func (p portion) charges(n decide.Name) bool {
	return p.at == n || slices.ContainsFunc(p.wants, func(w decide.Want) bool { return w.Name == n })
}

// want works out what a request needs of the bucket of one entity. Its costs are in the room that it is given,
// if that is enough.
func (l *Limiter) want(n decide.Name, req Request, cfg inforce.Config, room []table.Cost) (decide.Want, error) {
	w := decide.Want{Namespace: l.namespace, Name: n, Bypass: cfg.Bypass}
	if cfg.Bypass {
		return w, nil
	}
	if denied := blocked(n, req.Costs, cfg.Limits); denied != nil {
		return w, denied
	}
	if cap(room) < len(cfg.Limits) {
		room = make([]table.Cost, 0, len(cfg.Limits))
	}
	costs, err := price(room, req, cfg.Limits, l.now())
	w.Costs, w.Lifetime, w.Parent, w.Cascade, w.Read = costs, table.Expires, cfg.Parent, cfg.Cascade, cfg.Read
	if cfg.Lasts {
		w.Lifetime = table.NeverExpires
	}
	for _, lim := range cfg.Limits { // the shortest time that a limit says, or else the options' time
		if lim.Ahead > 0 && (w.Ahead == 0 || lim.Ahead < w.Ahead) {
			w.Ahead = lim.Ahead
		}
	}
	w.Ahead = cmp.Or(w.Ahead, l.opts.Ahead.Milliseconds())
	return w, err
}

// blocked returns the denial of a request that takes from a blocked limit, nil if
// it takes from none. Nothing is looked up for it: the statuses of the other limits
// are full.
func blocked(n decide.Name, costs map[string]int64, limits []bucket.Limit) *LimitError {
	i := slices.IndexFunc(limits, func(l bucket.Limit) bool { return costs[l.Name] > 0 && public(l).IsBlocked() })
	if i < 0 {
		return nil
	}
	e := &LimitError{
		Entity: n.Entity, Resource: n.Resource, Limit: limits[i].Name, Wanted: costs[limits[i].Name],
		RetryAfter: blockedPeriod,
	}
	for _, l := range limits {
		s := statusOf(n, decide.Level{Limit: l, Milli: l.Capacity, Remaining: l.Capacity / bucket.Milli})
		if public(l).IsBlocked() {
			s.RetryAfter = -1
		}
		e.Statuses = append(e.Statuses, s)
	}
	return e
}

// price turns costs into what the write needs: one per limit in force, zero where the
// request names none. They are in the room it is given, if that is enough.
func price(room []table.Cost, req Request, limits []bucket.Limit, now int64) ([]table.Cost, error) {
	out, costs, named := room, req.Costs, 0
	for i, l := range limits {
		l = l.InForce(now)
		n, ok := costs[l.Name]
		if ok {
			named++
		}
		out = append(out, table.Cost{Limit: l.Bare(), Milli: n * bucket.Milli, Floor: l.Floor(req.Class)})
		if l.Soft {
			out[i].Floor = 0
		} else if most := l.Slowest().Capacity; out[i].Milli > most { // in any window of its schedule
			return nil, fmt.Errorf("%w: Costs[%q] is %d, want at most the capacity of %d tokens",
				ErrTooLarge, l.Name, costs[l.Name], most/bucket.Milli)
		} else if whole, largest := (bucket.State{}), out[i].Largest(); largest.Need(whole) > most {
			return nil, fmt.Errorf("%w: Costs[%q] is %d, want at most %s: class %q leaves %d percent of %d tokens",
				ErrTooLarge, l.Name, costs[l.Name], bucket.Tokens(most-largest.FloorIn(whole)), req.Class,
				out[i].Floor, most/bucket.Milli)
		}
	}
	if named == len(costs) {
		return out, nil
	}
	for name, n := range costs {
		if !hasLimit(limits, name) {
			return nil, validate.Invalid(fmt.Sprintf("Costs[%q]", name), n,
				"only limits in force: "+strings.Join(table.NamesOf(out), ", "))
		}
	}
	panic("bug: a limit is in force twice")
}

// levels works out the wants of a part of a request, of its entity and of the parents that it cascades
// to, in the room it is given. Warm, it does no I/O; unless fresh, it never does, and uses the configuration
// that was read last, however old. If nothing is known of a level, it returns those before, with the error.
func (l *Limiter) levels(ctx context.Context, p *portion, room []decide.Want, fresh bool) ([]decide.Want, error) {
	wants := room
	p.at = p.name()
	for own := p.own; ; own = nil {
		cfg, err := l.configs.Resolve(ctx, p.at, own, l.now(), fresh)
		if len(wants) == 0 {
			p.policy, _ = validate.PolicyOf[Policy](cfg.Policy)
		} else if !cfg.Exists && (err == nil || errors.Is(err, ErrNoLimits)) {
			err = fmt.Errorf("%w: parent of %q: there is no entity %q", ErrInvalid, wants[len(wants)-1].Name.Entity,
				p.at.Entity)
			p.at = p.name()
			return nil, err
		}
		if err != nil {
			return wants, err
		}
		w, err := l.want(p.at, p.Request, cfg, nil)
		if err != nil {
			return nil, err
		}
		if wants = append(wants, w); !cfg.Cascade {
			p.wants = wants
			return wants, nil
		}
		p.at.Entity = cfg.Parent
		circle := slices.ContainsFunc(wants, func(w decide.Want) bool { return w.Name == p.at })
		if circle || len(wants) == maxLevels {
			chain := ""
			for _, w := range wants {
				chain += w.Name.Entity + " -> "
			}
			err = fmt.Errorf("%w: parents of %q: %s%s, want no circle and at most %d levels", ErrInvalid, p.Entity,
				chain, cfg.Parent, maxLevels)
			p.at = p.name()
			return nil, err
		}
	}
}

// needs resolves the limits in force for all parts of a request, at once, and the wants of all their levels,
// in the room it is given. With an error it returns the entity that the error is about.
func (l *Limiter) needs(ctx context.Context, parts []portion, room []decide.Want) ([]decide.Want, decide.Name, error) {
	if len(parts) == 1 {
		wants, err := l.levels(ctx, &parts[0], room, true)
		return wants, parts[0].at, err
	}
	each := slices.Clone(parts) // the goroutines would put the room of a single part on the heap
	errs := desk.InParallel(len(each), func(i int) error {
		_, err := l.levels(ctx, &each[i], nil, true)
		return err
	})
	copy(parts, each)
	failed := func(err error) bool { return err != nil }
	known := func(err error) bool { return failed(err) && store.KindOf(err) == 0 } // which no policy turns into a lease
	for _, is := range [...]func(error) bool{known, failed} {
		if i := slices.IndexFunc(errs, is); i >= 0 {
			return nil, parts[i].at, errs[i]
		}
	}
	return together(parts)
}

// together returns the wants of all parts. No bucket is wanted twice: with an error it returns the part that does.
func together(parts []portion) (wants []decide.Want, at decide.Name, err error) {
	for i, p := range parts {
		for _, w := range p.wants {
			if slices.ContainsFunc(wants, func(o decide.Want) bool { return o.Name == w.Name }) {
				return nil, p.name(), validate.Invalid(fmt.Sprintf("Also[%d]", i-1), path(p.name()),
					fmt.Sprintf("no part that charges %q once more", path(w.Name)))
			}
		}
		wants = append(wants, p.wants...)
	}
	return wants, parts[0].name(), nil
}
