package usage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var t0 = at("2023-11-14T22:13:20.000Z")

// change is a change of entity e, resource r that took so many tokens of rpm.
func change(shard int, seq string, created, rpm int64) stream.Change {
	return stream.Change{
		Kind: stream.Modify, Sequence: seq, Created: created, OldShards: 1,
		New: table.Bucket{Namespace: "n", Entity: "e", Resource: "r", State: bucket.State{Shard: shard, Shards: 1}},
		Deltas: []stream.Delta{
			{Limit: "rpm", Milli: rpm * 1000, Tokens: rpm}, {Limit: "wcu", Milli: 1000, Tokens: 1},
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
		if got[0].Changes[i].Sequence != want {
			t.Errorf("change %d is %s, want %s", i, got[0].Changes[i].Sequence, want)
		}
	}
	if got[0].last() != &changes[1] {
		t.Error("the last change is not the one with the highest sequence number")
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

func show(buckets []Bucket) string {
	var out strings.Builder
	for _, b := range buckets {
		fmt.Fprintf(&out, "%s/%s/%s/%d:", b.Namespace, b.Entity, b.Resource, b.Shard)
		for _, c := range b.Changes {
			fmt.Fprintf(&out, " %s %d %d", c.Sequence, c.Created, c.Deltas[0].Tokens)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestMergeOfFoldsIsFoldOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		all := randomChanges(r, 1+r.IntN(20))
		cut := r.IntN(len(all) + 1)
		if got, want := show(Merge(Fold(all[:cut]), Fold(all[cut:]))), show(Fold(all)); got != want {
			t.Fatalf("merge\n%s\nfold\n%s", got, want)
		}
	}
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

// W16: the window is that of the record, whatever the clock of the bucket says.
func TestTotalsFollowTheRecordsOwnTime(t *testing.T) {
	hour := at("2023-11-14T23:00:00.000Z")
	changes := []stream.Change{change(0, "1", hour-1, 1), change(0, "2", hour, 2), change(0, "3", hour+1, 4)}
	for i := range changes {
		changes[i].New.State.RF = hour - 10*hourMillis
	}
	got := Totals(Fold(changes), []Window{Hourly, Daily})
	if len(got) != 3 || got[0].Start != hour-hourMillis || got[1].Start != hour || got[2].Window != Daily {
		t.Fatalf("totals %+v", got)
	}
	for i, want := range []int64{1, 6, 7} {
		if u := got[i].Usage(); u.Counts[0].Tokens != want {
			t.Errorf("total %d counts %d, want %d", i, u.Counts[0].Tokens, want)
		}
	}
	if got[0].First() != "1" || got[1].First() != "2" || got[2].First() != "1" {
		t.Errorf("first: %s %s %s", got[0].First(), got[1].First(), got[2].First())
	}
}

// W28: total_events counts records that changed consumption, not limits.
func TestUsageCountsRecordsNotLimits(t *testing.T) {
	two := change(0, "1", t0, 5)
	two.Deltas = append(two.Deltas, stream.Delta{Limit: "tpm", Milli: -2000, Tokens: -2})
	idle := change(0, "2", t0, 0)
	idle.Deltas = idle.Deltas[1:] // only wcu
	got := Totals(Fold([]stream.Change{two, idle}), []Window{Hourly})
	got[0].TTL = 77
	u := got[0].Usage()
	want := table.Usage{Namespace: "n", Entity: "e", Resource: "r", Window: "hourly", Start: "2023-11-14T22:00:00Z",
		Part: "2023-11-14T22:00:00Z", Counts: []table.Count{{Limit: "rpm", Tokens: 5}, {Limit: "tpm", Tokens: -2}},
		Events: 1,
		Marks:  []table.Mark{{Shard: 0, First: table.Position{Sequence: "1"}, Last: table.Position{Sequence: "1"}}}, TTL: 77}
	if len(got) != 1 || !reflect.DeepEqual(u, want) {
		t.Errorf("got  %+v\nwant %+v", u, want)
	}
}

func TestManyShardsTakeSeveralUpdates(t *testing.T) {
	var changes []stream.Change
	for k := range 70 {
		changes = append(changes, change(k, fmt.Sprint(100+k), t0, 1))
	}
	got := Totals(Fold(changes), []Window{Hourly})
	sum := 0
	for _, total := range got {
		in := total.Usage().Update().Input("t")
		if n := len(*in.ConditionExpression); n > 4096 {
			t.Errorf("condition of %d bytes", n)
		}
		if n := len(*in.UpdateExpression); n > 4096 {
			t.Errorf("update expression of %d bytes", n)
		}
		sum += len(total.Shards)
	}
	if len(got) != 3 || sum != 70 {
		t.Errorf("%d totals of %d shards", len(got), sum)
	}
}

// W18: whatever part of the records is counted already, the rest is added, and
// only the rest.
func TestExceptLeavesExactlyWhatIsNotCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		n := 1 + r.IntN(8)
		var changes []stream.Change
		want := int64(0)
		for i := range n {
			tokens := int64(r.IntN(9) - 3)
			changes = append(changes, change(i%2, fmt.Sprint(95+i), t0, tokens))
			want += tokens
		}
		var snapshot item.Item
		// Prefixes of each shard's records arrive in any grouping, several times.
		for range 6 {
			cut := 1 + r.IntN(n)
			deliver(t, &snapshot, changes[:cut])
		}
		deliver(t, &snapshot, changes)
		got, err := table.UsageCount(snapshot, "rpm")
		if err != nil || got != want {
			t.Fatalf("snapshot counts %d (%v), want %d", got, err, want)
		}
	}
}

// Sequence numbers say nothing across streams: those of a stream that was enabled
// later may be lower.
func TestALaterStreamCountsWhateverItsSequenceNumbers(t *testing.T) {
	old, new := change(0, "500", t0, 1), change(0, "3", t0, 2)
	old.Stream, new.Stream = 1_700_000_000, 1_700_000_001
	twin := new // another record of the same number
	twin.Stream--
	twin.Sequence, twin.Deltas = "3", change(0, "3", t0, 4).Deltas

	var snapshot item.Item
	for i, c := range []struct {
		changes []stream.Change
		want    int64
	}{
		{[]stream.Change{twin, old}, 5},
		{[]stream.Change{new}, 7},
		{[]stream.Change{old}, 7},
		{[]stream.Change{new, twin, old}, 7},
	} {
		deliver(t, &snapshot, c.changes)
		if got, err := table.UsageCount(snapshot, "rpm"); err != nil || got != c.want {
			t.Errorf("delivery %d: snapshot counts %d (%v), want %d", i, got, err, c.want)
		}
	}

	all := Fold([]stream.Change{new, old, new, twin})
	if c := all[0].Changes; len(c) != 3 || c[0].Deltas[0].Tokens != 4 || c[1].Sequence != "500" ||
		c[2].Stream != new.Stream {
		t.Errorf("fold %s", show(all))
	}
}

func deliver(t *testing.T, snapshot *item.Item, changes []stream.Change) {
	t.Helper()
	for _, total := range Totals(Fold(changes), []Window{Hourly}) {
		for !total.Empty() {
			after, held, err := total.Usage().Update().Apply(*snapshot)
			if err != nil {
				t.Fatal(err)
			}
			if held {
				*snapshot = after
				break
			}
			left := total.Except(*snapshot)
			if reflect.DeepEqual(left, total) {
				t.Fatal("refused, but nothing is counted")
			}
			total = left
		}
	}
}

// W27: a limit may have the name of one of the snapshot's own attributes.
func TestLimitsNamedLikeAttributes(t *testing.T) {
	names := []string{"resource", "window", "ttl", "entity_id", "total_events", "window_start", "PK", "SK", "GSI2PK",
		"LSI1SK", "LSI5SK", "w0", "_w0", "_ttl", "in.tok-x"}
	c := change(0, "1", t0, 0)
	c.Deltas = nil
	for i, name := range names {
		c.Deltas = append(c.Deltas, stream.Delta{Limit: name, Milli: int64(i+1) * 1000, Tokens: int64(i + 1)})
	}
	u := Totals(Fold([]stream.Change{c}), []Window{Daily})[0].Usage()
	it, held, err := u.Update().Apply(nil)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	if it["LSI1SK"] != nil || it["LSI5SK"] != nil {
		t.Error("a number stands where a local index of another client has its string key")
	}
	for i, name := range names {
		if got, err := table.UsageCount(it, name); err != nil || got != int64(i+1) {
			t.Errorf("%s counts %d, %v", name, got, err)
		}
	}
	one, two := table.Position{Sequence: "1"}, table.Position{Sequence: "2"}
	if !table.UsageMark(it, 0, one) || table.UsageMark(it, 0, two) || table.UsageMark(it, 1, one) {
		t.Error("watermark is wrong")
	}
}
