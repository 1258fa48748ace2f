package limiter

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A request that this process grants by itself is told as such, and why it asked nobody else. Settling its lease
// writes nothing. Of a lease that has charged nothing the end is not told.
func TestWhatIsGrantedWithoutTheTableIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.observe(t, Options{LocalShare: 50})
		w.down()
		req := asks(Costs{"rpm": 1}, rpm10)
		req.OnUnavailable = PolicyLocal
		lease := must(t, l.Limiter, req)
		l.expect("acquire unavailable map[rpm:1] 0 0s local")
		if err := errors.Join(lease.Settle(Costs{"rpm": 3}), lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		l.expect("commit ok map[rpm:2] 0 0s")
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("acquire unavailable map[rpm:1] 0 0s local", "rollback ok map[rpm:-1] 0 0s")
		req.OnUnavailable = PolicyAllow
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("breaker open", "acquire unavailable map[rpm:1] 0 0s allow")
		w.db.SetHook(nil)
		w.says(l.Limiter, acme, gpt, "disabled", item.S("bypass"))
		time.Sleep(probesEvery)
		must(t, l.Limiter, req).Rollback(t.Context())
		l.expect("look", "breaker", "acquire ok map[rpm:1] 0 0s")
	})
}

// A request that a parent denies is not told as granted from what was taken ahead, also if its own entity had
// that.
func TestADenialIsNotToldAsTakenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, denied := 0, 0
		w, l := family(t, 60, Options{Ahead: time.Second, Observe: only(EventAcquire, func(e Event) {
			switch {
			case e.Err == nil && e.Ahead:
				ahead++
			case e.Err != nil:
				if denied++; e.Ahead {
					t.Errorf("told %+v", e)
				}
			}
		})})
		w.configure(l, acme, gpt, PerMinute("rpm", 6000))
		w.busy(l, stored(Costs{"rpm": 1}), 200)
		if ahead == 0 || denied == 0 {
			t.Errorf("%d are granted ahead, and %d denied", ahead, denied)
		}
	})
}
