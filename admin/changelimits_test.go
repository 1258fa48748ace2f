package admin

import (
	"errors"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Of two operators who change what both have read, one is told: nothing is lost.
func TestOfTwoChangesAtOnceOneIsTold(t *testing.T) {
	for _, at := range scopes {
		w := newWorld(t)
		empty := Config{Scope: at}
		w.must(w.ns.ChangeLimits(t.Context(), empty, rpm10))
		w.wants(w.ns.ChangeLimits(t.Context(), empty, tpm500), ErrBusy)
		was, err := w.ns.Config(t.Context(), at)
		w.must(err)
		w.must(w.ns.ChangeLimits(t.Context(), was, rpm10, tpm500))
		w.wants(w.ns.ChangeLimits(t.Context(), was, rpm20), ErrBusy)
		got, err := w.ns.Config(t.Context(), at)
		if err != nil || !slices.Equal(got.Limits, []limiter.Limit{rpm10, tpm500}) {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
		// Somebody else comes between the look and the write.
		was.Limits = []limiter.Limit{rpm10, tpm500}
		came := false
		w.db.SetHook(func(op memdb.Op) (bool, error) {
			if len(op.Writes) > 0 && !came {
				came = true
				w.must(w.ns.SetLimits(t.Context(), at, rpm20))
			}
			return true, nil
		})
		w.wants(w.ns.ChangeLimits(t.Context(), was), ErrBusy)
		w.db.SetHook(nil)
		was.Limits = []limiter.Limit{rpm20}
		w.must(w.ns.ChangeLimits(t.Context(), was))
		if _, err := w.ns.Config(t.Context(), at); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: not removed: %v", at, err)
		}
		w.wants(w.ns.ChangeLimits(t.Context(), empty, limiter.Limit{}), limiter.ErrInvalid)
	}
}
