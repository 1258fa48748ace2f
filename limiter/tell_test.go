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
