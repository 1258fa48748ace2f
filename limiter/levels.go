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
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// maxLevels is how many entities one request is charged to at most.
const maxLevels = desk.MaxLevels

// want works out what a request needs of the bucket of one entity.
func (l *Limiter) want(n decide.Name, req Request, cfg resolved) (decide.Want, error) {
	if cfg.bypass {
		return decide.Want{Namespace: l.namespace, Name: n, Bypass: true}, nil
	}
	if denied := blocked(n, req.Costs, cfg.limits); denied != nil {
		return decide.Want{}, denied
	}
	priced, err := price(make([]table.Cost, 0, len(cfg.limits)), req, cfg.limits, l.now())
	if err != nil {
		return decide.Want{}, err
	}
	return l.wants(n, priced, cfg), nil
}

// wants returns the costs wanted of the bucket of one entity.
func (l *Limiter) wants(n decide.Name, costs []table.Cost, cfg resolved) decide.Want {
	w := decide.Want{Namespace: l.namespace, Name: n, Costs: costs, Lifetime: table.Expires,
		Parent: cfg.parent, Cascade: cfg.cascade, Read: cfg.read,
		Ahead: l.aheadOf(cfg.limits)}
	if cfg.own {
		w.Lifetime = table.NeverExpires
	}
	return w
}

// aheadOf returns for how long, in milliseconds, tokens taken ahead of a bucket with these limits
// may be held. It is the shortest time that a limit says, or else the options' time.
func (l *Limiter) aheadOf(limits []bucket.Limit) (ms int64) {
	for _, lim := range limits {
		if lim.Ahead > 0 && (ms == 0 || lim.Ahead < ms) {
			ms = lim.Ahead
		}
	}
	return cmp.Or(ms, l.opts.Ahead.Milliseconds())
}

// levels works out the wants of a part of a request, of its entity and of the parents that it cascades
// to, in the room it is given. Warm, it does no I/O. It returns the entity's configuration in force.
// With an error it returns the entity that the error is about.
func (l *Limiter) levels(ctx context.Context, a portion, room []decide.Want) (wants []decide.Want, own resolved,
	at decide.Name, err error) {
	n := a.name()
	if own, err = l.configs.resolve(ctx, n, a.own, l.now()); err != nil {
		return nil, own, n, err
	}
	w, err := l.want(n, a.Request, own)
	if err != nil {
		return nil, own, n, err
	}
	wants = append(room, w)
	for cfg := own; cfg.cascade; wants = append(wants, w) {
		parent := decide.Name{Entity: cfg.parent, Resource: n.Resource}
		circle := slices.ContainsFunc(wants, func(w decide.Want) bool { return w.Name == parent })
		if circle || len(wants) == maxLevels {
			return nil, own, n, fmt.Errorf("%w: parents of %q: %s, want no circle and at most %d levels", ErrInvalid,
				n.Entity, chain(wants, parent), maxLevels)
		}
		if cfg, err = l.configs.resolve(ctx, parent, nil, l.now()); err != nil && !errors.Is(err, errNoLimits) {
			return nil, own, parent, err
		}
		if !cfg.exists {
			return nil, own, n, fmt.Errorf("%w: parent of %q: there is no entity %q", ErrInvalid,
				wants[len(wants)-1].Name.Entity, parent.Entity)
		}
		if err != nil {
			return nil, own, parent, err
		}
		if w, err = l.want(parent, a.Request, cfg); err != nil {
			return nil, own, parent, err
		}
	}
	return wants, own, n, nil
}

// chain names the entities of levels and the parent after them.
func chain(wants []decide.Want, parent decide.Name) string {
	var b strings.Builder
	for _, w := range wants {
		b.WriteString(w.Name.Entity + " -> ")
	}
	return b.String() + parent.Entity
}

// needs resolves the limits in force for all parts of a request, at once, and the wants of all their levels,
// in the room it is given. With an error it returns the entity that the error is about.
func (l *Limiter) needs(ctx context.Context, parts []portion, room []decide.Want) (
	wants []decide.Want, cfg resolved, at decide.Name, err error) {
	if len(parts) == 1 {
		return l.levels(ctx, parts[0], room)
	}
	type need struct {
		wants []decide.Want
		cfg   resolved
		at    decide.Name
	}
	each, all := make([]need, len(parts)), make([]portion, len(parts))
	copy(all, parts) // the goroutines would put the room of a single part on the heap
	errs := desk.InParallel(len(all), func(i int) (err error) {
		e := &each[i]
		e.at = all[i].name()
		e.wants, e.cfg, e.at, err = l.levels(ctx, all[i], nil)
		return err
	})
	failed := func(err error) bool { return err != nil }
	known := func(err error) bool { return failed(err) && store.KindOf(err) == 0 } // which no policy turns into a lease
	for _, is := range [...]func(error) bool{known, failed} {
		if i := slices.IndexFunc(errs, is); i >= 0 {
			return nil, each[i].cfg, each[i].at, errs[i]
		}
	}
	for i, e := range each {
		if wants, err = besides(wants, e.wants, i); err != nil {
			return nil, e.cfg, parts[i].name(), err
		}
	}
	return wants, each[0].cfg, parts[0].name(), nil
}

// besides adds what one more part wants. No bucket is wanted twice.
func besides(wants, more []decide.Want, part int) ([]decide.Want, error) {
	for _, w := range more {
		if slices.ContainsFunc(wants, func(o decide.Want) bool { return o.Name == w.Name }) {
			return nil, validate.Invalid(fmt.Sprintf("Also[%d]", part-1), path(more[0].Name),
				fmt.Sprintf("no part that charges %q once more", path(w.Name)))
		}
	}
	return append(wants, more...), nil
}
