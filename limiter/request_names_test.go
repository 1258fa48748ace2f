package limiter

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestStrangeNamesAreNames: whatever can be printed names an entity or a
// resource. Every pair has a bucket of its own with the names as they were given,
// stored limits of its own, and keys that DynamoDB takes, those of the indexes
// included.
func TestStrangeNamesAreNames(t *testing.T) {
	w, l := newProcess(t, Options{})
	names := append([]string{"plain"}, strange...)
	for i, entity := range names {
		for j, resource := range names {
			limit := PerMinute("rpm", int64(1+i*len(names)+j))
			w.configure(l, entity, resource, limit)
			lease, err := l.Acquire(t.Context(), Request{Entity: entity, Resource: resource, Costs: Costs{"rpm": 1}})
			if err != nil {
				t.Fatalf("%q on %q: %v", entity, resource, err)
			}
			if got := lease.Status()[0].Capacity; got != limit.Capacity {
				t.Fatalf("%q on %q: capacity %d, want %d", entity, resource, got, limit.Capacity)
			}
		}
	}
	seen := map[[2]string]bool{}
	for _, it := range w.db.Items() {
		if err := item.ValidateItem(it); err != nil {
			t.Errorf("%q: %v", item.KeyOf(it).PK, err)
		}
		for attr, most := range indexBytes {
			if s, ok := it[attr].(*types.AttributeValueMemberS); ok && len(s.Value) > most {
				t.Errorf("%q: %s has %d bytes, want at most %d", item.KeyOf(it).PK, attr, len(s.Value), most)
			}
		}
		if item.KeyOf(it).SK != layout.SKBucketState {
			continue
		}
		b, err := table.DecodeShard(it)
		fine(t, err)
		seen[[2]string{b.Entity, b.Resource}] = true
	}
	if want := len(names) * len(names); len(seen) != want {
		t.Errorf("%d buckets, want %d", len(seen), want)
	}
}

// indexBytes is how long the keys of an index may be.
var indexBytes = map[string]int{
	item.AttrGSI1PK: 2048, item.AttrGSI2PK: 2048, item.AttrGSI3PK: 2048, item.AttrGSI4PK: 2048,
	item.AttrGSI1SK: 1024, item.AttrGSI2SK: 1024, item.AttrGSI3SK: 1024, item.AttrGSI4SK: 1024,
}

// TestHashedSecrets: a hash of a key names an entity, for Python clients too.
func TestHashedSecrets(t *testing.T) {
	a, b := Hashed("sk-live-1"), Hashed("sk-live-2")
	if a == b || a != "sha256:f8dc9db173eec64bf3a2a7fc33243e7e" {
		t.Errorf("%q and %q", a, b)
	}
	_, l := newProcess(t, Options{})
	if _, err := l.Acquire(t.Context(),
		Request{Entity: a, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}}); err != nil {
		t.Error(err)
	}
	if err := (Limit{}).Validate(); !errors.Is(err, ErrInvalid) {
		t.Errorf("the zero limit: %v", err)
	}
	report(t, rpm10.Validate())
}
