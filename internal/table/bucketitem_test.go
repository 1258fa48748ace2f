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

// The limits of an item are told by the names of their levels, those of slots by their epochs. What is
// named alike is of something else.
func TestAttributesThatTellOfALimit(t *testing.T) {
	for attr, want := range map[string]string{"b_rpm_tk": "rpm", "b_a_b_tk": "a_b", "c_rpm_tk": "", "b_rpm_tc": "",
		"b__tk": "", "b_tk": "", "tk": ""} {
		if got, ok := limitOfTokens(attr); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", attr, got, ok, want)
		}
	}
	for attr, want := range map[string]bool{"s_fly_ep": true, "b_fly_ep": false, "s_fly_0": false, "s__ep": false,
		"ep": false} {
		if got := HasSlots([]byte(attr)); got != want {
			t.Errorf("%s: slots %v", attr, got)
		}
	}
}

// What is held must be a number, and the error says which attribute is none.
func TestWhatIsHeldIsANumber(t *testing.T) {
	put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: sampleNow,
		Costs: Costs([]bucket.Limit{{Name: "rpm", Capacity: 1000, Amount: 1000, Period: 1000}})})
	held := namesOf("rpm").held
	put.Item[held] = item.S("x")
	want := fmt.Sprintf("attribute %q is the string \"x\"", held)
	if _, err := DecodeShard(put.Item); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
