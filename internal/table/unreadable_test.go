package table

import (
	"math"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A shard loses its own schedule and those of its limits, and nothing that a limit named "sched" has.
func TestWhatIsASchedule(t *testing.T) {
	stored := item.Key{PK: "ns/BUCKET#e#r#0", SK: "#STATE"}.Item()
	for _, attr := range []string{"sched", "b_rpm_sched", "b_sched_sched", "x_sched", "o_sched", "b_sched_tk"} {
		stored[attr] = item.S("1c2")
	}
	u, ok := Unschedule(stored, nil)
	if want := []string{"b_rpm_sched", "b_sched_sched", "sched"}; !ok || !slices.Equal(u.Remove, want) {
		t.Errorf("removed %v, %q, want %q", ok, u.Remove, want)
	}
}

// What is kept of a scheduled level is at most the share of the limit in force: all of it where the item
// says no count, or one below 1, and next to nothing of it with a count that nobody can have. A limit
// that the item does not have is not begun.
func TestAScheduledLevelIsCutToItsShare(t *testing.T) {
	rpm := bucket.Limit{Name: "rpm", Capacity: 64_000, Amount: 64_000, Period: 60_000}
	for count, want := range map[int64]int64{0: 64_000, 1: 64_000, 2: 32_000, 4: 16_000, -1: 64_000, math.MaxInt64: 1} {
		put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: sampleNow,
			Costs: Costs([]bucket.Limit{rpm})})
		put.Item["sched"], put.Item["b_rpm_tk"], put.Item[AttrShardCount] = item.S("1c2"), item.N(99_000), item.N(count)
		if count == 0 {
			delete(put.Item, AttrShardCount)
		}
		absent := rpm
		absent.Name = "absent"
		u, ok := Unschedule(put.Item, []bucket.Limit{absent, rpm})
		after, held, err := u.Apply(put.Item)
		if err != nil || !ok || !held || !item.Equal(after["b_rpm_tk"], item.N(want)) || after["b_absent_cp"] != nil {
			t.Errorf("a count of %d: held %v, %v, a level of %v, want %d", count, held, err, after["b_rpm_tk"], want)
		}
	}
}
