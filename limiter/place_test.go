package limiter

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Where the costs of a request that has failed could not be given back, they may be taken, whatever else went
// wrong. A missing permission stays that, and so does everything where they were given back.
func TestWhatIsKnownOfCostsThatWereNotGivenBack(t *testing.T) {
	notBack := &SettleError{Op: "rollback", Err: ErrUnavailable}
	for _, c := range []struct {
		err  error
		back error
		want store.Kind
	}{
		{memdb.Fail(store.Unavailable), nil, store.Unavailable}, {memdb.Fail(store.Throttled), notBack, store.Unknown},
		{memdb.Fail(store.Unavailable), notBack, store.Unknown}, {memdb.Fail(store.Setup), notBack, store.Setup},
		{memdb.Fail(store.Setup), nil, store.Setup}, {ErrUnreadable, notBack, store.Unknown}, {ErrUnreadable, nil, 0},
	} {
		got := keptBy(c.err, c.back)
		_, told := errors.AsType[*SettleError](got)
		if store.KindOf(got) != c.want || !errors.Is(got, c.err) || told != (c.back != nil) {
			t.Errorf("%v, and given back: %v: got %v, want %v", c.err, c.back, got, c.want)
		}
	}
}
