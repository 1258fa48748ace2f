package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
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
