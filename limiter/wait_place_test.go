package limiter

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Where the costs of a request that has failed could not be given back, they may be taken, whatever else went
// wrong. A missing permission stays that, and so does everything where they were given back.
func TestCostsThatWereNotGivenBackAreUnknown(t *testing.T) {
	notBack := []desk.Trouble{{Op: "rollback", Name: acmeGPT, Errs: []error{memdynamo.Fail(store.Unavailable)}}}
	notSetUp := []desk.Trouble{{Op: "rollback", Name: acmeGPT, Errs: []error{memdynamo.Fail(store.Setup)}}}
	for _, c := range []struct {
		err  error
		back []desk.Trouble
		want store.Kind
	}{
		{memdynamo.Fail(store.Unavailable), nil, store.Unavailable},
		{memdynamo.Fail(store.Throttled), notBack, store.Unknown},
		{memdynamo.Fail(store.Unavailable), notBack, store.Unknown}, {memdynamo.Fail(store.Setup), notBack, store.Setup},
		{memdynamo.Fail(store.Setup), nil, store.Setup}, {ErrUnreadable, notBack, store.Unknown}, {ErrUnreadable, nil, 0},
		{ErrUnreadable, notSetUp, store.Unknown}, // of the costs, nobody knows
	} {
		got := failure(desk.Taken{Err: c.err, Others: c.back})
		_, told := errors.AsType[*SettleError](got)
		if store.KindOf(got) != c.want || !errors.Is(got, c.err) || told != (c.back != nil) ||
			told && !strings.Contains(got.Error(), c.err.Error()+"\n"+outcome("rollback", acmeGPT, c.back[0].Errs[0]).Error()) {
			t.Errorf("%v, and given back: %v: got %v, want %v", c.err, c.back, got, c.want)
		}
	}
}

// A request that waits and has no decision on one level owes nothing on another: all is given back, and a lease
// by policy may go on at once.
func TestWaitOwesNothingWithoutADecision(t *testing.T) {
	for _, policy := range []Policy{PolicyAllow, PolicyLocal} {
		w, l := family(t, 100, Options{})
		must(t, l, stored(Costs{"rpm": 10}))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if isWrite(op) {
				if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity == "org" {
					return false, memdynamo.Fail(store.Unknown)
				}
			}
			return true, nil
		})
		req := stored(Costs{"rpm": 1})
		req.OnUnavailable = policy
		lease, after, err := l.Reserve(t.Context(), req)
		w.db.SetHook(nil)
		if err != nil || lease.Charged() || after != 0 {
			t.Errorf("%v: charged %v, goes on after %s, %v", policy, lease.Charged(), after, err)
		}
		w.wantSpent(l, policy.String(), map[string]int64{acme: 10})
	}
}

// Each shard that could not be given back is classified by itself: the caller and the observer learn that one
// may have been written, whatever another has answered first.
func TestEachShardThatIsNotGivenBackCounts(t *testing.T) {
	first, second := memdynamo.Fail(store.Unavailable), memdynamo.Fail(store.Unknown)
	got := failure(desk.Taken{Err: &desk.Denied{}, Others: []desk.Trouble{
		{Op: "rollback", Name: acmeGPT, Errs: []error{first, second}}}})
	if !errors.Is(got, ErrUnknown) || !errors.Is(got, ErrUnavailable) || !errors.Is(got, ErrLimited) {
		t.Errorf("%v", got)
	}
	e, ok := eventOf(desk.Event{Kind: desk.Returned, Name: acmeGPT, Errs: []error{first, second}})
	if !ok || !errors.Is(e.Err, ErrUnknown) || !errors.Is(e.Err, ErrUnavailable) {
		t.Errorf("%v", e.Err)
	}
}
