package shard

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardOf returns a shard at the beginning of a generation.
func shardOf(k, count int, generation int64) table.Shard {
	limit := bucket.Limit{Name: "rpm", Capacity: 64_000, Amount: 64_000, Period: 60_000}
	return table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt", Generation: generation,
		State: bucket.New([]bucket.Limit{limit}, k, count, 1)}
}

// says formats the knowledge of a plan for eight shards. At first it knows shards 0 and 1, and that
// shard 3 is missing.
func (p *Plan) says() string {
	s := "knows"
	for _, b := range p.Images() {
		s += fmt.Sprintf(" %d:%d/%d", b.State.Shard, b.State.Shards, b.Generation)
	}
	s += fmt.Sprintf(", missing %v", p.Absent())
	if p.over() {
		s += ", over"
	}
	for k := range 8 {
		if n := p.refusals[k]; n >= maxRefusals {
			s += fmt.Sprintf(", gave up %d", k)
		} else if n > 0 {
			s += fmt.Sprintf(", refused %d", k)
		}
	}
	for k := range 8 {
		if n := p.recount[k]; n > 0 {
			s += fmt.Sprintf(", recounts %d of %d", k, n)
		}
	}
	return s
}

// A plan learns from a refused step, depending on which of its writes was refused.
func TestPlansLearnFromRefusals(t *testing.T) {
	at := func(i int, it item.Item) []store.Reason {
		reasons := make([]store.Reason, 3)
		reasons[i] = store.Reason{Refused: true, Old: it}
		return reasons
	}
	image := func(k, count int) item.Item { return shardOf(k, count, 9).Item() }
	writes := func(shards ...int) (out []item.Write) {
		for _, k := range shards {
			out = append(out, item.Update{Key: shardOf(k, 8, 1).Key()})
		}
		return out
	}
	restore, look, recount := Step{Restore, 3, writes(3, 0, 1)}, Step{Look, 3, writes(3)}, Step{Recount, 1, writes(1)}
	split, merge := Step{Split, 1, writes(1, 5, 0)}, Step{Merge, 1, writes(5, 1, 0)}
	discount := Step{Discount, 1, writes(1, 5, 0)}
	const before = "knows 0:8/1 1:8/1, missing [3]"
	for _, c := range []struct {
		name string
		step Step
		nth  int
		item item.Item
		want string
	}{
		{"restored by others", restore, 0, image(3, 8),
			"knows 0:8/1 1:8/1 3:8/9, missing [], refused 3"},
		{"its parent has merged", restore, 2, image(1, 2),
			"knows 0:8/1 1:2/9, missing [3], refused 1, refused 3"},
		{"shard 0 was written to", restore, 1, image(0, 8),
			"knows 0:8/9 1:8/1, missing [3], refused 3"},
		{"shard 0 has another count", restore, 1, image(0, 4), "knows 0:4/9 1:8/1, missing [3], over, refused 3"},
		{"shard 0 is gone", restore, 1, nil, "knows 1:8/1, missing [3], over, refused 3"},
		{"another shard was returned", restore, 1, image(1, 8), before + ", over, gave up 0, refused 3"},
		{"it has changed", split, 0, image(1, 4),
			"knows 0:8/1 1:4/9, missing [3], refused 1"},
		{"gone", split, 0, nil, "knows 0:8/1, missing [1 3], refused 1"},
		{"another shard was returned for it", split, 0, image(2, 8), before + ", gave up 1"},
		{"its sibling exists", split, 1, image(5, 8),
			"knows 0:8/1 1:8/1 5:8/9, missing [3], refused 1, refused 5, recounts 1 of 8"},
		{"shard 0 has changed its count", split, 2, image(0, 16), "knows 0:16/9 1:8/1, missing [3], over, refused 1"},
		{"looked at", look, 0, image(3, 8),
			"knows 0:8/1 1:8/1 3:8/9, missing [], refused 3"},
		{"the bucket is gone", Step{Look, 0, writes(0)}, 0, nil, "knows 1:8/1, missing [3], over, refused 0"},
		{"counted by others", recount, 0, image(1, 4),
			"knows 0:8/1 1:4/9, missing [3], refused 1"},
		{"the merged shard is gone", merge, 0, nil,
			"knows 0:8/1 1:8/1, missing [3 5], refused 1, refused 5"},
		{"the merged shard has changed", merge, 0, image(5, 16),
			"knows 0:8/1 1:8/1 5:16/9, missing [3], refused 1, refused 5"},
		{"the kept shard has changed", merge, 1, image(1, 16),
			"knows 0:8/1 1:16/9, missing [3], refused 1"},
		{"recounted before a merge", merge, 2, image(0, 16), "knows 0:16/9 1:8/1, missing [3], over, refused 1"},
		{"the discounted shard has changed", discount, 0, image(1, 16),
			"knows 0:8/1 1:16/9, missing [3], refused 1"},
		{"a sibling exists", discount, 1, image(5, 8),
			"knows 0:8/1 1:8/1 5:8/9, missing [3], refused 1, refused 5"},
	} {
		p := Propagate(shardOf(0, 8, 1), shardOf(1, 8, 1))
		p.absent[3] = true
		if got := p.says(); got != before {
			t.Fatal(got)
		}
		if p.Refused(c.step, at(c.nth, c.item)); p.says() != c.want {
			t.Errorf("%s: %s, want %s", c.name, p.says(), c.want)
		}
	}
}
