package ledger

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Several functions count the shards of a bucket in one hour, each from what it saw, without
// refusing each other. Denials of all shards are in the snapshot and in its sum. None of our
// numbers looks like a limit.
func TestDenialsOfAllShardsAreCounted(t *testing.T) {
	usage := func(seen item.Item, shard int, denied int64) Usage {
		m := MarksOf(seen)
		return Usage{Place: hour, Seen: &m, Counts: []Count{{bucket.Denied, denied}, {"rpm", 4}},
			Moves: []Move{{Shard: shard, To: Mark{At: PositionOf(1, "7"),
				Used: []Count{{bucket.Denied, denied}, {"rpm", 4}}}}}}
	}
	first := applied(t, usage(nil, 0, 5).Update(), nil)
	third := usage(first, 2, 2).Update()
	all := applied(t, third, applied(t, usage(first, 1, 3).Update(), first))
	if _, held, err := third.Apply(all); held || err != nil {
		t.Fatalf("counted twice: %v", err)
	}
	s, err := DecodeSnapshot(all)
	if err != nil || s.Denied != 10 || s.Counts["rpm"] != 12 || len(s.Counts) != 1 {
		t.Errorf("%d denied, %v, %v", s.Denied, s.Counts, err)
	}
	if a := AmountOf(all); a.Tokens[bucket.Denied] != 10 || len(MarksOf(all).Others()) != 0 {
		t.Errorf("%+v, others %v", a, MarksOf(all).Others())
	}
	sum := Sum{Place: hour, Amount: Amount{Tokens: map[string]int64{bucket.Denied: 11}}}
	check.Equal(t, AmountOf(summed(t, &sum, all)).Tokens[bucket.Denied], 11, "denials of the sum")
	if _, number := all["_!0"].(*types.AttributeValueMemberN); number {
		t.Error("other clients would read it as a limit")
	}
	for _, odd := range []item.Value{item.S("x"), item.N(7), item.B([]byte("7"))} {
		all["_!0"] = odd
		if s, err := DecodeSnapshot(all); err != nil || s.Denied != 5 {
			t.Errorf("%v: %d denied, %v", odd, s.Denied, err)
		}
	}
}

// The names of another client may be longer than the key of an index.
func TestUsageOfLongNamesCanBeStored(t *testing.T) {
	u := Usage{Place: hour, Events: 1, Moves: []Move{{To: Mark{At: PositionOf(1, "7")}}}}
	u.Namespace, u.Entity = strings.Repeat("n", 900), strings.Repeat("e", layout.MaxName)
	check.NoError(t, item.Validate(u.Update()))
}
