package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Compare accepts two tables that do the same. A table that answers differently once is noticed.
func TestCompare(t *testing.T) {
	quietly(t)
	const calls = 60
	same := func(l *liar) bool {
		return passes(func(t *testing.T) {
			l.DB = memdynamo.New(nil)
			Compare(t, nil, 4, calls, memdynamo.New(nil), l)
		})
	}
	honest := &liar{}
	if !same(honest) {
		t.Fatal("the twin differs from itself")
	}
	for i, c := range honest.calls {
		for _, how := range lies[c.ends] {
			if how == spoils || how == forgets {
				continue // another write may hide it
			}
			l := &liar{lie: how, at: i + 1}
			if same(l) && l.lied {
				t.Errorf("call %d, %s: not noticed: the table %s", i+1, c.ends, how)
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
		t.Errorf("call %d: the item at the end is not noticed", last)
	}
}

// scripted is a table that ends calls as it is scripted, and stores nothing.
type scripted struct {
	calls int
	ends  []error
}

func (s *scripted) end() error {
	s.calls++
	return s.ends[s.calls%len(s.ends)]
}

func (s *scripted) Write(context.Context, item.Write) (item.Item, error) { return nil, s.end() }

func (s *scripted) Transact(context.Context, string, []item.Write) error { return s.end() }

func (s *scripted) Read(_ context.Context, _ bool, keys ...item.Key) ([]item.Item, error) {
	return make([]item.Item, len(keys)), nil
}

// A comparison fails if no call is done, or none is refused, or none is invalid: it would say too
// little.
func TestCompareNeedsEveryOutcome(t *testing.T) {
	quietly(t)
	refused, invalid := error(&store.Refused{}), error(&store.Failure{Kind: store.Setup})
	for _, c := range []struct {
		ends   []error
		passes bool
	}{
		{[]error{nil, refused, invalid}, true}, {[]error{refused, invalid}, false}, {[]error{nil, invalid}, false},
		{[]error{nil, refused}, false},
	} {
		for _, calls := range []int{3, 30} {
			check.Equal(t, passes(func(t *testing.T) {
				Compare(t, nil, 4, calls, &scripted{ends: c.ends}, &scripted{ends: c.ends})
			}), c.passes, "%d calls that end with %v: it passes", calls, c.ends)
		}
	}
}

// The seed determines the calls.
func TestSeedsDetermineTheCalls(t *testing.T) {
	play := func(seed uint64) (ends []string) {
		l := &liar{DB: memdynamo.New(nil)}
		Compare(t, nil, seed, 60, memdynamo.New(nil), l)
		for _, c := range l.calls {
			ends = append(ends, c.ends)
		}
		return ends
	}
	if !slices.Equal(play(4), play(4)) || slices.Equal(play(4), play(5)) {
		t.Error("the same seed gives other calls, or another seed the same")
	}
}

// unmixed reports a refused transaction as invalid.
type unmixed struct{ *memdynamo.DB }

func (u unmixed) Transact(ctx context.Context, token string, writes []item.Write) error {
	err := u.DB.Transact(ctx, token, writes)
	if _, refused := errors.AsType[*store.Canceled](err); refused {
		return &store.Failure{Kind: store.Setup, Op: "unmixed", Err: err}
	}
	return err
}

// A table may report only the type error if that deviation is known.
func TestCompareAllowsKnownDeviationsOfMixedTransactions(t *testing.T) {
	quietly(t)
	for _, known := range []Deviations{nil, {MixedTransaction: "it is old"}} {
		got := passes(func(t *testing.T) { Compare(t, known, 4, 300, memdynamo.New(nil), unmixed{memdynamo.New(nil)}) })
		check.Equal(t, got, known != nil, "known %v: it passes", known)
	}
}
