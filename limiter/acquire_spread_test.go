package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// lateWrites is a table that transactions reach late: late is called before each.
type lateWrites struct {
	store.Store
	late func()
}

func (s lateWrites) Transact(ctx context.Context, token string, writes []item.Write) error {
	s.late()
	return s.Store.Transact(ctx, token, writes)
}

// What full shards pay together loses no refill, though others take from them while the
// transaction is on its way: of 600 requests others take 60, and two
// seconds later the shard that paid them has got 10 back. Two are taken of 550, with more
// tokens than a shard has. The shards are read once. Who meets others every time is granted all
// the same.
func TestPaymentFromManyShardsLosesNoRefill(t *testing.T) {
	rpm, tpm := PerMinute("rpm", 600), PerMinute("tpm", 600)
	for _, late := range []int{1, 100} {
		w := newWorld(t)
		other := w.process(Options{})
		must(t, other, asks(Costs{"rpm": 1}, rpm, tpm))
		w.split(other, 2)
		w.advance(time.Hour)
		l, sent := w.process(Options{}), 0
		must(t, l, asks(Costs{"tpm": 400}, rpm, tpm)).Rollback(t.Context()) // it knows both shards
		w.advance(time.Hour)
		l.store.Store = lateWrites{l.store.Store, func() {
			if sent++; sent <= late {
				must(t, other, asks(Costs{"rpm": 60}, rpm, tpm))
				w.advance(2 * time.Second)
			}
		}}
		must(t, l, asks(Costs{"rpm": 2, "tpm": 400}, rpm, tpm))
		if late == 1 {
			w.wantHeld(l, rpm, 548)
		}
		if sent != 2 {
			t.Errorf("%d transactions, want 2", sent)
		}
	}
}

// fourFull returns a process that knows a bucket of four full shards, and a request for all of it.
func fourFull(t *testing.T, opts Options, limit Limit) (w *world, l *Limiter, all Request) {
	t.Helper()
	w = newWorld(t)
	l, all = w.process(opts), asks(Costs{limit.Name: limit.Capacity}, limit)
	must(t, l, all).Rollback(t.Context())
	w.split(l, 4)
	must(t, l, all).Rollback(t.Context())
	return w, l, all
}

// A request larger than what a shard holds whose calls fail has found nothing missing: as soon as they
// work again it is granted.
func TestALargeRequestAfterCallsThatFailed(t *testing.T) {
	for name, fails := range map[string]func(memdynamo.Op) bool{
		"reads":        func(op memdynamo.Op) bool { return !isWrite(op) },
		"transactions": func(op memdynamo.Op) bool { return op.Name == memdynamo.TransactWriteItems },
	} {
		w, l, all := fourFull(t, Options{}, PerHour("rph", 80))
		w.db.SetHook(onEvery(fails, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		for range desk.BreaksAfter - 1 {
			if _, err := l.Acquire(t.Context(), all); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s fail: %v", name, err)
			}
		}
		w.db.SetHook(nil)
		must(t, l, all)
	}
}

// A shard that has become unreadable refuses what several shards pay together: the caller is told, and none of
// them has paid.
func TestADamagedShardPaysNothingTogether(t *testing.T) {
	w, l, all := fourFull(t, Options{}, PerHour("rph", 80))
	var before *memdynamo.DB
	sent := 0
	l.store.Store = lateWrites{l.store.Store, func() {
		if sent++; sent == 1 {
			w.edit(l, 3, item.Item{"rf": item.S("soon")})
			before = w.db.Snapshot()
		}
	}}
	if _, err := l.Acquire(t.Context(), all); !errors.Is(err, ErrUnreadable) || sent != 1 {
		t.Errorf("%v after %d transactions, want ErrUnreadable after one", err, sent)
	}
	w.sameTable(before)
}
