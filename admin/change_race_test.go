package admin

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// colliding are operations on the same entity, its parents and its limits on one resource.
func colliding(ctx context.Context) map[string]func(w *world) error {
	at := Scope{"acme", "gpt-4"}
	all := operations(ctx)
	out := map[string]func(w *world) error{}
	for _, name := range []string{"delete limits", "configure", "disable", "cascade", "update an entity",
		"move an entity", "delete an entity", "credit", "raise twice with an id", "apply"} {
		out[name] = all[name]
	}
	out["end raises"] = func(w *world) error { return w.ns.EndRaises(ctx, "acme", "gpt-4") }
	sets := func(attr string, v item.Value) func(w *world) error { // as another client does
		return func(w *world) error {
			return check.Err(w.db.Write(ctx, item.Update{Key: w.ns.config(at).Key(),
				Set: []item.Attr{{Name: attr, Value: v}}, If: item.Exists(item.AttrPK)}))
		}
	}
	out["another client disables"] = sets("disabled", item.Bool(true))
	out["another client decides the cascade"] = sets("cascade", item.Bool(false))
	out["set limits there"] = func(w *world) error { return w.ns.SetLimits(ctx, at, rpm10, tpm500) }
	out["change limits there"] = func(w *world) error {
		return w.ns.ChangeLimits(ctx, Config{Scope: at, Limits: []limiter.Limit{rpm10}}, rpm20)
	}
	out["disable there"] = func(w *world) error { return check.Err(w.ns.SetAccess(ctx, at, AccessDisabled)) }
	out["enable there"] = func(w *world) error { return check.Err(w.ns.SetAccess(ctx, at, AccessInherited)) }
	out["move the other below it"] = func(w *world) error { return check.Err(w.ns.MoveEntity(ctx, "gone", "acme")) }
	out["move it away"] = func(w *world) error { return check.Err(w.ns.MoveEntity(ctx, "acme", "")) }
	return out
}

// Two operations at the same time, one of which comes before any call of the other, have the outcome of one after the
// other. Or the first is refused, and has changed nothing. An application is several changes, and comes second only.
func TestTwoOperationsAtTheSameTime(t *testing.T) {
	base := changeable(t, "")
	_, err := base.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 2}, 3)
	base.must(err)
	outcomes := map[[2]string][]string{}
	outcome := func(first, second string) []string {
		if outcomes[[2]string{first, second}] == nil {
			w := base.copy(t)
			for _, name := range []string{first, second} {
				if do := colliding(t.Context())[name]; do != nil {
					_ = do(w)
				}
			}
			outcomes[[2]string{first, second}] = w.everything()
		}
		return outcomes[[2]string{first, second}]
	}
	for name := range colliding(t.Context()) {
		for rival := range colliding(t.Context()) {
			if name == "apply" || name == "enable there" && rival == "another client disables" { // which stamps no bucket
				continue
			}
			for nth, more := 1, true; more; nth++ {
				var got []string
				synctest.Test(t, func(t *testing.T) { // the one that is raced waits a moment
					w, calls := base.copy(t), atomic.Int64{}
					w.db.SetHook(func(memdynamo.Op) (bool, error) { // no lock: the rival may have to wait
						if calls.Add(1) == int64(nth) {
							w.db.SetHook(nil)
							_ = colliding(t.Context())[rival](w)
						}
						return true, nil
					})
					err = colliding(t.Context())[name](w)
					w.db.SetHook(nil)
					more, got = calls.Load() >= int64(nth), w.everything()
				})
				if more && !slices.Equal(got, outcome(name, rival)) && !slices.Equal(got, outcome(rival, name)) &&
					(err == nil || !slices.Equal(got, outcome(rival, ""))) {
					t.Errorf("%s, before call %d of %s, which returns %v: %s", rival, nth, name, err,
						differences(got, outcome(rival, name)))
				}
			}
		}
	}
}
