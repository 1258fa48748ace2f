package clients

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Of a limit of 100 tokens, 50 are taken, which settle at 30, and so on. The books have exactly
// what clients can know, whatever happens to an answer.
func TestBooksHaveOnlyKnownOutcomes(t *testing.T) {
	db := memdynamo.New(nil)
	lim, err := limiter.Open(t.Context(), db.Client(), "table", &limiter.Options{Register: true})
	check.Must(t, err)
	limits := []limiter.Limit{limiter.PerDay("tpd", 100)}
	var b Book
	ask := func(tokens int64) Call {
		return Call{Request: limiter.Request{Entity: "acme", Resource: "gpt", Costs: limiter.Costs{"tpd": tokens},
			Limits: limits}}
	}
	settled := func(tokens, end int64) Call {
		c := ask(tokens)
		c.Settle = limiter.Costs{"tpd": end}
		return c
	}
	failing := func(tokens int64) Call {
		c := ask(tokens)
		c.Fails = true
		return c
	}
	away, lost := memdynamo.Fail(store.Throttled), memdynamo.Fail(store.Unknown)
	for _, step := range []struct {
		name      string
		call      Call
		fault     error // of a write, and whether the write takes effect
		apply     bool
		from      int   // the first write with the fault
		want      error // the error of the request
		low, high int64
	}{
		{"settled for less", settled(50, 30), nil, true, 0, nil, 30, 30},
		{"settled for more", settled(10, 12), nil, true, 0, nil, 42, 42},
		{"given back", failing(10), nil, true, 0, nil, 42, 42},
		{"denied", ask(90), nil, true, 0, limiter.ErrLimited, 42, 42},
		{"not written", ask(1), away, false, 0, limiter.ErrUnavailable, 42, 42},
		{"without an answer", ask(2), lost, true, 0, limiter.ErrUnknown, 42, 44},
		{"settled without an answer", settled(5, 1), lost, true, 1, nil, 43, 49},
		{"given back without an answer", failing(4), lost, true, 1, nil, 43, 53},
		{"not settled", settled(3, 1), away, false, 1, nil, 46, 56},
		{"as acquired", ask(1), nil, true, 0, nil, 47, 57},
		{"impossible", settled(1, -1), nil, true, 0, nil, 48, 58},
		{"invalid", ask(-1), nil, true, 0, limiter.ErrInvalid, 48, 58},
	} {
		writes := 0
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			if len(op.Writes) == 0 || step.fault == nil {
				return true, nil
			}
			if writes++; writes <= step.from {
				return true, nil
			}
			return step.apply, step.fault
		})
		check.Is(t, b.Make(t.Context(), lim, step.call), step.want, "%s", step.name)
		if p := b.Page(step.call.account("tpd")); p.Low != step.low || p.High != step.high {
			t.Errorf("%s: %d to %d, want %d to %d", step.name, p.Low, p.High, step.low, step.high)
		}
	}
	want := Ends{Granted: 8, Denied: 1, Unavailable: 1, Unknown: 1, Adjusted: 2, RolledBack: 1, Lost: 2, Unsettled: 1}
	if got := b.Ends(); got != want || b.Ends("acme") != want || b.Ends("nobody") != (Ends{}) {
		t.Errorf("%+v, want %+v", got, want)
	}
	a := loadcheck.Account{Entity: "acme", Resource: "gpt", Limit: "tpd"}
	if at := b.Asked(a); len(at) != 11 || !slices.IsSorted(at) || len(b.Errs()) != 2 {
		t.Errorf("asked at %d, errors %q", at, b.Errs())
	}
}
