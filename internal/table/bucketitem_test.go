package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A capacity, an amount or a period that makes no sense is named, with its value. So is a count of
// shards that nobody has.
func TestNumbersOfABucketThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		attr  string
		v     int64
		wrong bool
	}{
		{"b_rpm_cp", 0, true}, {"b_rpm_cp", -1, true}, {"b_rpm_ra", -1, true}, {"b_rpm_rp", 0, true}, {"b_rpm_rp", -1, true},
		{"b_rpm_cp", 1, false}, {"b_rpm_ra", 1, false}, {"b_rpm_rp", 1, false}, {"b_rpm_tk", -1, false},
		{"shard_count", 0, true}, {"shard_count", 1<<20 + 1, true}, {"shard_count", 1 << 20, false},
	} {
		put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: sampleNow,
			Costs: Costs([]bucket.Limit{{Name: "rpm", Capacity: 1000, Amount: 1000, Period: 1000}})})
		put.Item[c.attr] = item.N(c.v)
		_, err := DecodeShard(put.Item)
		if (err != nil) != c.wrong {
			t.Errorf("%s=%d: %v", c.attr, c.v, err)
		}
		if want := fmt.Sprintf("attribute %q is %d, want 1 to ", c.attr, c.v); c.wrong &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
