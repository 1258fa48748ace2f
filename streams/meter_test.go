package streams

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A write takes a unit for each 1,024 bytes of its item, and a transaction two for each of its writes,
// be they refused or without an answer. What DynamoDB throttles takes nothing.
func TestWriteUnits(t *testing.T) {
	put := func(bytes int) item.Put {
		it := item.Key{PK: "p", SK: "s"}.Item()
		it["a"] = item.B(nil)
		it["a"] = item.B(make([]byte, bytes-item.Size(it)))
		return item.Put{Item: it}
	}
	for _, c := range []struct {
		name    string
		bytes   int
		fault   error // not applied
		applied error // applied, and the answer is lost
		want    int64 // of a write
		two     int64 // of a transaction of two
	}{
		{"small", 100, nil, nil, 1, 4},
		{"a unit", 1024, nil, nil, 1, 4},
		{"a little more", 1025, nil, nil, 2, 4},
		{"throttled", 1025, memdb.Fail(store.Throttled), nil, 0, 0},
		{"in conflict", 1025, memdb.Fail(store.Conflict), nil, 0, 0},
		{"without an answer", 1025, nil, memdb.Fail(store.Unknown), 2, 4},
	} {
		r := newRig(t)
		r.db.SetHook(func(memdb.Op) (bool, error) {
			if c.fault != nil {
				return false, c.fault
			}
			return true, c.applied
		})
		a, m := r.agg.metered()
		_, err := a.store.Write(t.Context(), put(c.bytes))
		if got := m.units.Load(); got != c.want || (err != nil) != (c.fault != nil || c.applied != nil) {
			t.Errorf("%s: %d units, %v, want %d", c.name, got, err, c.want)
		}
		m.units.Store(0)
		second := item.Update{Key: item.Key{PK: "p", SK: "t"}, Set: []item.Attr{{Name: "a", Value: item.N(1)}}}
		_ = a.store.Transact(t.Context(), "token", []item.Write{put(c.bytes), second})
		if got := m.units.Load(); got != c.two {
			t.Errorf("%s: a transaction takes %d units, want %d", c.name, got, c.two)
		}
	}
}
