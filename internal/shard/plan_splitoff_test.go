package shard

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestMissingShardOfAnUnsplitParentStaysClosed: shard 3 is missing because its parent, shard 1, was
// never split. Opening it would hand out a share that shard 1 still has.
func TestMissingShardOfAnUnsplitParentStaysClosed(t *testing.T) {
	limits := []bucket.Limit{{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000}}
	at := func(shard, shards int) table.Shard {
		return table.Shard{Namespace: "n", Entity: "e", Resource: "r",
			State: bucket.New(limits, shard, shards, 1_700_000_000_000)}
	}
	p := Propagate(at(0, 4), at(1, 2))
	for range 100 {
		step, ok := p.Next(1_700_000_000_000, 3)
		if !ok {
			return
		}
		if step.Action == Restore && step.Shard == 3 {
			t.Fatal("opens shard 3 although its parent has the count 2")
		}
		switch {
		case step.Action == Split && step.Shard == 1: // always refused
			p.Refused(step, []store.Reason{{Refused: true, Old: at(1, 2).Item()}, {}})
		case step.Action == Look:
			p.Refused(step, []store.Reason{{Refused: true}})
		default:
			p.Applied(step, nil)
		}
	}
	t.Fatal("the plan does not end")
}
