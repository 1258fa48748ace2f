package limiter

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The consumption counter of a limit only grows. When it does not fit 64 bits any
// more, ten days into ten gigabytes per second, the bucket goes on and counts on.
func TestCounterOutgrows64Bits(t *testing.T) {
	w := newWorld(t)
	limit := PerSecond("bytes", MaxTokens)
	half := asks(Costs{"bytes": MaxTokens / 2}, limit)
	const acquires = 50
	var l *Limiter
	for i := range acquires {
		if i%3 == 0 {
			l = w.process(Options{})
		}
		if _, err := l.Acquire(t.Context(), half); err != nil {
			t.Fatalf("acquire %d: %v", i, err)
		}
		w.advance(time.Duration(250+250*(i%2)) * time.Millisecond)
		if i%2 == 1 {
			w.advance(250 * time.Millisecond)
		}
	}
	if b := w.shards(l, acme, gpt)[0]; len(b.Partial) > 0 {
		t.Errorf("read in part: %+v", b.Partial)
	}
	it := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))
	want := item.Item{"tc": &types.AttributeValueMemberN{Value: "25000000000000000000"}}
	if got := (item.Item{"tc": it["b_bytes_tc"]}); !item.EqualItems(got, want) {
		t.Errorf("the counter is %s, want %s", itemtest.JSON(got), itemtest.JSON(want))
	}
}
