package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// lateAnswers is a table whose answers to reads of several shards are late: late is
// called between such a read and its answer.
type lateAnswers struct {
	store.Store
	late func()
}

func (s lateAnswers) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := s.Store.Read(ctx, consistent, keys...)
	if _, _, _, _, bucket := table.ParseBucketPK(keys[0].PK); bucket && len(keys) > 1 {
		s.late()
	}
	return items, err
}

// What full shards pay together loses no refill, though others take from them while the
// read that it is planned from is on its way: of 600 requests others take 60, and two
// seconds later the shard that paid them has got 10 back. Two are taken of 550, with more
// tokens than a shard has. Who meets others every time is granted all the same.
func TestPaymentFromManyShardsLosesNoRefill(t *testing.T) {
	rpm, tpm := PerMinute("rpm", 600), PerMinute("tpm", 600)
	for _, late := range []int{1, 100} {
		w := newWorld(t)
		other := w.process(Options{})
		must(t, other, asks(Costs{"rpm": 1}, rpm, tpm))
		w.split(other, 2)
		w.advance(time.Hour)
		l, reads := w.process(Options{}), 0
		l.store.Store = lateAnswers{l.store.Store, func() {
			if reads++; reads <= late {
				must(t, other, asks(Costs{"rpm": 60}, rpm, tpm))
				w.advance(2 * time.Second)
			}
		}}
		must(t, l, asks(Costs{"rpm": 2, "tpm": 400}, rpm, tpm))
		if late == 1 {
			w.wantHeld(l, rpm, 548)
		}
		if reads < 2 || reads > min(late+1, spreadAttempts) {
			t.Errorf("%d reads", reads)
		}
	}
}
