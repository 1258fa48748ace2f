package shard

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardOf is a shard as it was right after a generation began.
func shardOf(k, count int, generation int64) table.Shard {
	limit := bucket.Limit{Name: "rpm", Capacity: 64_000, Amount: 64_000, Period: 60_000}
	return table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt", Generation: generation,
		State: bucket.New([]bucket.Limit{limit}, k, count, 1)}
}

// says is what a plan for eight shards that knows shards 0 and 1, and that shard 3 is missing,
// knows after an answer.
func (p *Plan) says() string {
	s := "knows"
	for _, b := range p.Images() {
		s += fmt.Sprintf(" %d:%d/%d", b.State.Shard, b.State.Shards, b.Generation)
	}
	s += fmt.Sprintf(", missing %v, pattern %d", p.Absent(), p.zero.Generation)
	for k := range 8 {
		if n := p.refusals[k]; n >= maxRefusals {
			s += fmt.Sprintf(", gave up %d", k)
		} else if n > 0 {
			s += fmt.Sprintf(", refused %d", k)
		}
	}
	for k := range 8 {
		if p.recount[k] {
			s += fmt.Sprintf(", recounts %d", k)
		}
	}
	return s
}

// What a plan learns from a step that was refused, by which of its writes was.
func TestWhatARefusalTells(t *testing.T) {
	at := func(i int, it item.Item) (refused []bool, items []item.Item) {
		refused, items = make([]bool, 3), make([]item.Item, 3)
		refused[i], items[i] = true, it
		return refused, items
	}
	image := func(k, count int) item.Item { return shardOf(k, count, 9).Item() }
	merge := []item.Write{item.Delete{Key: shardOf(5, 8, 1).Key()}, item.Update{Key: shardOf(1, 8, 1).Key()},
		item.Update{Key: shardOf(0, 8, 1).Key()}}
	discount := []item.Write{merge[1], merge[0], merge[2]}
	const before = "knows 0:8/1 1:8/1, missing [3], pattern 1"
	for _, c := range []struct {
		name string
		step Step
		nth  int
		item item.Item
		want string
	}{
		{"restored by others", Step{Action: Restore, Shard: 3}, 0, image(3, 8),
			"knows 0:8/1 1:8/1 3:8/9, missing [], pattern 1, refused 3"},
		{"its parent has merged", Step{Action: Restore, Shard: 3}, 2, image(1, 2),
			"knows 0:8/1 1:2/9, missing [3], pattern 1, refused 3"},
		{"shard 0 was written to", Step{Action: Restore, Shard: 3}, 1, image(0, 8),
			"knows 0:8/9 1:8/1, missing [3], pattern 9, refused 3"},
		{"shard 0 has another count", Step{Action: Restore, Shard: 3}, 1, image(0, 4), before + ", gave up 3"},
		{"shard 0 is gone", Step{Action: Restore, Shard: 3}, 1, nil, before + ", gave up 3"},
		{"another shard came back", Step{Action: Restore, Shard: 3}, 1, image(1, 8), before + ", gave up 3"},
		{"not what it was", Step{Action: Split, Shard: 1}, 0, image(1, 4),
			"knows 0:8/1 1:4/9, missing [3], pattern 1, refused 1"},
		{"gone", Step{Action: Split, Shard: 1}, 0, nil, "knows 0:8/1, missing [1 3], pattern 1, refused 1"},
		{"not itself", Step{Action: Split, Shard: 1}, 0, image(2, 8), before + ", gave up 1"},
		{"its sibling is there", Step{Action: Split, Shard: 1}, 1, image(5, 8), before + ", refused 1, recounts 1"},
		{"shard 0 has moved on", Step{Action: Split, Shard: 1}, 2, image(0, 16), before + ", gave up 1"},
		{"looked at", Step{Action: Look, Shard: 3}, 0, image(3, 8),
			"knows 0:8/1 1:8/1 3:8/9, missing [], pattern 1, refused 3"},
		{"the bucket is gone", Step{Action: Look, Shard: 0}, 0, nil, "knows 1:8/1, missing [3], pattern 1, gave up 0"},
		{"counted by others", Step{Action: Recount, Shard: 1}, 0, image(1, 4),
			"knows 0:8/1 1:4/9, missing [3], pattern 1, refused 1"},
		{"what merges is gone", Step{Merge, 1, merge}, 0, nil,
			"knows 0:8/1 1:8/1, missing [3 5], pattern 1, refused 1, refused 5"},
		{"what merges is another", Step{Merge, 1, merge}, 0, image(5, 16),
			"knows 0:8/1 1:8/1 5:16/9, missing [3], pattern 1, refused 1, refused 5"},
		{"what is kept is another", Step{Merge, 1, merge}, 1, image(1, 16),
			"knows 0:8/1 1:16/9, missing [3], pattern 1, refused 1"},
		{"shard 0 has moved on from a merge", Step{Merge, 1, merge}, 2, image(0, 16), before + ", gave up 1"},
		{"what is discounted is another", Step{Discount, 1, discount}, 0, image(1, 16),
			"knows 0:8/1 1:16/9, missing [3], pattern 1, refused 1"},
		{"a sibling is there", Step{Discount, 1, discount}, 1, image(5, 8),
			"knows 0:8/1 1:8/1 5:8/9, missing [3], pattern 1, refused 1, refused 5"},
	} {
		p := Propagate(shardOf(0, 8, 1), shardOf(1, 8, 1))
		p.absent[3] = true
		if got := p.says(); got != before {
			t.Fatal(got)
		}
		refused, items := at(c.nth, c.item)
		if p.Refused(c.step, refused, items); p.says() != c.want {
			t.Errorf("%s: %s, want %s", c.name, p.says(), c.want)
		}
	}
}

// A plan that does not know shard 0 by itself takes a newer image of it for the pattern alone.
func TestAPatternIsNoImage(t *testing.T) {
	p := Propagate(shardOf(0, 8, 1))
	delete(p.known, 0)
	p.Refused(Step{Action: Restore, Shard: 3}, []bool{false, true}, []item.Item{nil, shardOf(0, 8, 9).Item()})
	if got := p.says(); got != "knows, missing [], pattern 9, refused 3" {
		t.Error(got)
	}
}
