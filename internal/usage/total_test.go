package usage

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

var t0 = at("2023-11-14T22:13:20.000Z")

// change returns a change of entity e, resource r that took tokens of rpm.
func change(shard int, seq string, created, rpm int64) stream.Change {
	return stream.Change{
		Operation: stream.Modify, Sequence: seq, Created: created, OldShards: 1,
		New:  table.Shard{Namespace: "n", Entity: "e", Resource: "r", State: bucket.State{Shard: shard, Shards: 1}},
		Used: []stream.Used{{Limit: "rpm", After: rpm, Was: true, Is: true, Milli: rpm * 1000}}, Metered: 1000,
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
	check.Equal(t, got[0].last(), &changes[1], "the last change has not the highest sequence number")
}

// A stream that was enabled again starts its sequence numbers again. Its records come after all
// records of the previous stream, whatever their order in a batch.
func TestRecordsOfTwoStreams(t *testing.T) {
	old, anew := change(0, "900", t0, 1), change(0, "5", t0, 2)
	old.Stream, anew.Stream = 1, 2
	for _, batch := range [][]stream.Change{{old, anew}, {anew, old}} {
		if got := Fold(batch); len(got) != 1 || got[0].last().Sequence != "5" {
			t.Errorf("%+v", got)
		}
	}
}

// A bucket's part of a batch resumes at the lowest sequence number of all its shards, compared as
// numbers: 9 comes before 10. A lower number of another stream may come later.
func TestLowestSequenceNumber(t *testing.T) {
	for want, sequences := range map[string][]string{
		"9": {"9", "10", "11"}, "7": {"8", "7", "10"}, "5": {"6", "8", "5"}} {
		other := change(0, "1", t0, 1)
		other.New.Entity = "another"
		for cut := range sequences {
			histories := []History{{Bucket: ner}, {Bucket: ner, Shard: 1}, {Bucket: bucketOf(other.New)}}
			histories[2].Changes = []*stream.Change{&other}
			for i, seq := range sequences {
				c := change(0, seq, t0, 1)
				of := &histories[min(i/(cut+1), 1)]
				of.Changes = append(of.Changes, &c)
			}
			got := Firsts(histories)
			check.Equal(t, got[ner], want, "of %v", sequences)
			check.Equal(t, got[bucketOf(other.New)], "1", "the other bucket")
		}
	}
}

// ran returns a run of records between two sequence numbers, in which the counter of rpm grew.
func ran(first, last string, from, to int64) Run {
	return Run{First: ledger.PositionOf(1, first), Last: ledger.PositionOf(1, last), Events: 2,
		From: []ledger.Count{{Limit: "rpm", Tokens: from}}, To: []ledger.Count{{Limit: "rpm", Tokens: to}}}
}

// The parts of a bucket become one total per window, in order, with a chain for each shard.
func TestTotalsByWindow(t *testing.T) {
	const hour = 3_600_000
	part := func(shard int, start int64, runs ...Run) Part {
		return Part{Bucket: ner, Shard: shard, Start: start, Runs: runs}
	}
	got := Totals([]Part{part(0, hour, ran("3", "4", 3, 5)), part(0, 0, ran("1", "2", 0, 3)),
		part(1, 0, ran("1", "2", 0, 9))}, Hourly)
	if len(got) != 2 || got[0].Start != 0 || len(got[0].Chains) != 2 || got[1].Start != hour || len(got[1].Chains) != 1 ||
		got[1].Window != Hourly || got[1].Entity != "e" {
		t.Fatalf("%+v", got)
	}
}

// One write includes up to 32 shards of a bucket. With two limits each, it stays within DynamoDB's
// bounds in any state. Another write counts the further shards.
func TestOneWriteCarriesThirtyTwoShards(t *testing.T) {
	for shards, want := range map[int][]int{1: {1}, 32: {32}, 33: {32, 1}, 80: {32, 32, 16}} {
		var parts []Part
		for shard := range shards {
			runs := []Run{ran("1", "2", 0, 3), ran("3", "4", 3, 5)}
			parts = append(parts, Part{Bucket: ner, Shard: 900 + shard, Runs: runs})
		}
		var got []int
		for _, total := range Totals(parts, Hourly) {
			got = append(got, len(total.Chains))
			total.NotesRead = true
			step := total.Next(Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true})
			if err := item.Validate(step.Update); step.Action != Add || err != nil {
				t.Errorf("%d shards: action %d, %v", shards, step.Action, err)
			}
		}
		check.Slices(t, got, want, "%d shards are counted by writes of", shards)
	}
}

// Progress separates the part of a total that a snapshot has counted, the part before its marks,
// and the rest. Here the counter goes from 10 to 17 with the records 20 to 30.
func TestProgress(t *testing.T) {
	runs := []Run{ran("20", "30", 10, 17)}
	total := Totals([]Part{{Bucket: ner, Runs: runs}}, Hourly)[0]
	marked := func(seq string, used int64) item.Item {
		return ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: "hourly", Part: "p",
			Legend: ledger.Legend{Stream: 1, Limits: []string{"rpm"}},
			Marks: map[int]ledger.Mark{0: {At: ledger.PositionOf(1, seq),
				Used: []ledger.Count{{Limit: "rpm", Tokens: used}}}},
		}.Item()
	}
	for _, c := range []struct {
		name                  string
		stored                item.Item
		left, counted, behind int64
		records               int
	}{
		{"no snapshot", nil, 7, 0, 0, 0},
		{"a mark before", marked("19", 10), 7, 0, 0, 0},
		{"a mark before, and 2 without a record", marked("10", 8), 9, 0, 0, 0},
		{"a mark within", marked("25", 14), 3, 4, 0, 0},
		{"a mark at the end", marked("30", 17), 0, 0, 7, 2},
		{"a mark behind", marked("40", 99), 0, 0, 7, 2},
	} {
		p := total.Progress(c.stored)
		left, _ := ledger.CountOf(p.Left, "rpm")
		counted, _ := ledger.CountOf(p.Counted, "rpm")
		behind, _ := ledger.CountOf(p.Behind, "rpm")
		if left != c.left || counted != c.counted || behind != c.behind || p.Records != c.records {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// One query finds the ten latest snapshots up to the total's own, including it, for half a read
// unit.
func TestOneQueryFindsTenSnapshots(t *testing.T) {
	const at = 1_700_000_000_000
	db := memdynamo.New(func() int64 { return at })
	for h := range int64(15) {
		start := Hourly.Start(at - (h-1)*hourMillis) // the first is later than the total
		db.Store(ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: "hourly", Part: Hourly.Part(start),
			Start: Hourly.Part(start)}.Item())
	}
	other := Hourly.Start(at)
	db.Store(ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "a", Window: "hourly", Part: Hourly.Part(other),
		Start: Hourly.Part(other)}.Item())
	total := Total{Bucket: ner, Window: Hourly, Start: Hourly.Start(at)}
	page, err := db.List(t.Context(), total.PreviousQuery())
	if err != nil || len(page.Items) != 10 || item.KeyOf(page.Items[0]) != total.Key() ||
		startOf(page.Items[9]) != Hourly.Start(at)-9*hourMillis {
		t.Errorf("%d snapshots, %v", len(page.Items), err)
	}
	total.Start = Hourly.Start(at) - 12*hourMillis // two are left, without those of another resource
	if page, err := db.List(t.Context(), total.PreviousQuery()); err != nil || len(page.Items) != 2 {
		t.Errorf("%d of the first two snapshots, %v", len(page.Items), err)
	}
}
