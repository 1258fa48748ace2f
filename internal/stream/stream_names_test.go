package stream_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Whatever is accepted as a name comes out of a record as it went in.
func TestStrangeNamesAreDecoded(t *testing.T) {
	names := []string{
		"plain", "#", "a#b#1", "%", "%23", "a%2523b", "$SYSTEM", "_", "a/b", "é", "用户", "\U0001f600", " ", `"\`, "<&>",
		"\u2028", "auth0|5f7c", "v2:0",
	}
	for _, entity := range names {
		for _, resource := range names {
			_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: entity, Resource: resource, Now: 1_700_000_000_000})
			it := b.Item()
			batch, err := stream.Decode(streamtest.Payload(streamtest.Record{Sequence: "1", Created: 1, New: it}))
			if err != nil || len(batch.Changes) != 1 || len(batch.Malformed) != 0 {
				t.Fatalf("%q on %q: %v: %+v", entity, resource, err, batch)
			}
			got := batch.Changes[0].New
			if got.Entity != entity || got.Resource != resource || got.Key() != item.KeyOf(it) {
				t.Errorf("%q on %q came out as %q on %q", entity, resource, got.Entity, got.Resource)
			}
		}
	}
}
