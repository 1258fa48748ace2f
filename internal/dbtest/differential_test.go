package dbtest

import (
	"context"
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Two tables that do the same are the same, and one that tells anything else once is not.
func TestCompare(t *testing.T) {
	quietly(t)
	const calls = 60
	same := func(l *liar) bool {
		return passes(func(t *testing.T) {
			l.DB = memdb.New(nil)
			Compare(t, nil, 4, calls, memdb.New(nil), l)
		})
	}
	honest := &liar{}
	if !same(honest) {
		t.Fatal("the twin is not the same as itself")
	}
	for i, c := range honest.calls {
		for _, how := range lies[c.ends] {
			if how == spoils || how == forgets {
				continue // another write may cover that up
			}
			l := &liar{lie: how, at: i + 1}
			if same(l) && l.lied {
				t.Errorf("call %d, %s: nobody notices that the table %s", i+1, c.ends, how)
			}
		}
	}
	last := 0
	for i, c := range honest.calls {
		if c.ends == "Write done" {
			last = i + 1
		}
	}
	if l := (&liar{lie: spoils, at: last}); same(l) && l.lied {
		t.Errorf("call %d: nobody notices the item at the end", last)
	}
}

// A comparison in which nothing is refused says little, and fails.
func TestCompareNeedsRefusals(t *testing.T) {
	quietly(t)
	if passes(func(t *testing.T) { Compare(t, nil, 4, 1, memdb.New(nil), memdb.New(nil)) }) {
		t.Error("one call is enough")
	}
}

// unmixed tells of a refused transaction that it is not valid.
type unmixed struct{ *memdb.DB }

func (u unmixed) Transact(ctx context.Context, token string, writes []item.Write) error {
	err := u.DB.Transact(ctx, token, writes)
	if _, refused := errors.AsType[*store.Canceled](err); refused {
		return &store.Failure{Kind: store.Setup, Op: "unmixed", Err: err}
	}
	return err
}

// Only where it is known to deviate may a table tell of the type error alone.
func TestCompareKnowsOfMixedTransactions(t *testing.T) {
	quietly(t)
	for _, known := range []Deviations{nil, {MixedTransaction: "it is old"}} {
		got := passes(func(t *testing.T) { Compare(t, known, 4, 300, memdb.New(nil), unmixed{memdb.New(nil)}) })
		if got != (known != nil) {
			t.Errorf("known %v: it passes is %v", known, got)
		}
	}
}
