package usage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var t0 = at("2023-11-14T22:13:20.000Z")

// change is a change of entity e, resource r that took so many tokens of rpm.
func change(shard int, seq string, created, rpm int64) stream.Change {
	return stream.Change{
		Operation: stream.Modify, Sequence: seq, Created: created, OldShards: 1,
		New: table.Shard{Namespace: "n", Entity: "e", Resource: "r", State: bucket.State{Shard: shard, Shards: 1}},
		Deltas: []stream.Delta{
			{Limit: "rpm", Milli: rpm * 1000}, {Limit: "wcu", Milli: 1000},
		},
	}
}

func TestFoldOrdersBySequenceAndDropsDuplicates(t *testing.T) {
	changes := []stream.Change{
		change(0, "9", t0, 1), change(0, "10", t0, 2), change(1, "10", t0, 4), change(0, "0009", t0, 1),
		change(0, "8", t0, 8),
	}
	got := Fold(changes)
	if len(got) != 2 || len(got[0].Changes) != 3 || len(got[1].Changes) != 1 {
		t.Fatalf("fold %+v", got)
	}
	for i, want := range []string{"8", "9", "10"} {
		check.Equal(t, got[0].Changes[i].Sequence, want, "change %d", i)
	}
	check.Equal(t, got[0].last(), &changes[1], "the last change is not the one with the highest sequence number")
}

// A stream that was made anew numbers its records from the beginning: they come after all of the one
// before, in whatever order a batch has them.
func TestRecordsOfTwoStreams(t *testing.T) {
	old, anew := change(0, "900", t0, 1), change(0, "5", t0, 2)
	old.Stream, anew.Stream = 1, 2
	for _, batch := range [][]stream.Change{{old, anew}, {anew, old}} {
		if got := Fold(batch); len(got) != 1 || got[0].last().Sequence != "5" {
			t.Errorf("%+v", got)
		}
	}
}

// A shard's part of a batch is resumed from its lowest sequence number, which is a number: 9 comes
// before 10. In another stream a lower one may come later.
func TestLowestSequenceNumber(t *testing.T) {
	for want, sequences := range map[string][]string{
		"9": {"9", "10", "11"}, "7": {"8", "7", "10"}, "5": {"6", "8", "5"}} {
		var b History
		for _, seq := range sequences {
			c := change(0, seq, t0, 1)
			b.Changes = append(b.Changes, &c)
		}
		if got := b.First(); got != want {
			t.Errorf("of %v: %s, want %s", sequences, got, want)
		}
	}
}

func randomChanges(r *rand.Rand, n int) []stream.Change {
	out := make([]stream.Change, n)
	for i := range out {
		out[i] = change(r.IntN(3), fmt.Sprint(r.IntN(200)), t0+int64(r.IntN(5_000_000)), int64(r.IntN(9)-2))
		out[i].New.Entity = string(rune('a' + r.IntN(3)))
	}
	for i := range out { // the same record says the same
		for j := range i {
			a, b := &out[i], out[j]
			if a.Sequence == b.Sequence && a.New.Entity == b.New.Entity && a.New.State.Shard == b.New.State.Shard {
				*a = b
			}
		}
	}
	return out
}

func show(histories []History) string {
	var out strings.Builder
	for _, b := range histories {
		fmt.Fprintf(&out, "%s/%s/%s/%d:", b.Namespace, b.Entity, b.Resource, b.Shard)
		for _, c := range b.Changes {
			fmt.Fprintf(&out, " %s %d %d", c.Sequence, c.Created, c.Deltas[0].Milli)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestFoldDoesNotDependOnTheOrderOfBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		all := randomChanges(r, 1+r.IntN(20))
		want := show(Fold(all))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got := show(Fold(all)); got != want {
			t.Fatalf("shuffled\n%s\nin order\n%s", got, want)
		}
	}
}
