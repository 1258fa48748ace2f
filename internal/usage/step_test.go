package usage

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A snapshot is read first where nothing tells whether it has counted what came before: of a
// chain whose creation was not seen, that follows no other one, and whose shard was not charged
// in the window before. Of a window that is over a creation tells nothing: a later one may have
// been counted first.
func TestWhenASnapshotIsReadFirst(t *testing.T) {
	born, plain := ran("1", "2", 0, 5), ran("1", "2", 3, 5)
	born.Born = true
	chain := func(r Run, fresh bool, follows int64) Chain {
		return Chain{Fresh: fresh, Follows: follows, Runs: []Run{r}}
	}
	for _, c := range []struct {
		name   string
		chains []Chain
		over   bool
		want   Action
	}{
		{"a creation", []Chain{chain(born, false, 0)}, false, Add},
		{"a creation in a window that is over", []Chain{chain(born, false, 0)}, true, ReadCurrent},
		{"charged in the window before", []Chain{chain(plain, true, 0)}, false, Add},
		{"the same in a window that is over", []Chain{chain(plain, true, 0)}, true, Add},
		{"after another chain", []Chain{chain(plain, false, t0)}, false, Add},
		{"nobody knows", []Chain{chain(plain, false, 0)}, false, ReadCurrent},
		{"of one of two nobody knows", []Chain{chain(born, false, 0), chain(plain, false, 0)}, false, ReadCurrent},
	} {
		total := Total{Namespace: "n", Entity: "e", Resource: "r", Window: Hourly, Start: Hourly.Start(t0),
			Chains: c.chains, Over: c.over}
		if step := total.Next(Snapshots{}); step.Action != c.want {
			t.Errorf("%s: %d, want %d", c.name, step.Action, c.want)
		}
	}
}

// A run that tells nothing by itself leaves the snapshot to say what of a limit that has vanished
// is not counted; beside one that tells something it is written with that.
func TestARunThatMovesNothingIsReadFirst(t *testing.T) {
	still, counts, removed := ran("1", "2", 5, 5), ran("1", "2", 3, 5), ran("1", "2", 5, 5)
	still.Events, removed.Events, counts.Events = 0, 0, 0
	removed.Gone = true
	for _, c := range []struct {
		name string
		runs []Run // of a shard each
		want Action
	}{
		{"nothing", []Run{still}, ReadCurrent},
		{"a removal", []Run{removed}, Add},
		{"tokens", []Run{counts}, Add},
		{"one of two", []Run{still, counts}, Add},
		{"one of two, the other way round", []Run{counts, still}, Add},
	} {
		total := Total{Namespace: "n", Entity: "e", Resource: "r", Window: Hourly, Start: Hourly.Start(t0)}
		for shard, r := range c.runs {
			total.Chains = append(total.Chains, Chain{Shard: shard, Fresh: true, Runs: []Run{r}})
		}
		if step := total.Next(Snapshots{}); step.Action != c.want {
			t.Errorf("%s: %d, want %d", c.name, step.Action, c.want)
		}
	}
}

// Queries for what was counted before end when every shard is found in a snapshot of an earlier
// window, but for those of which the batch tells by itself.
func TestWhetherEveryShardIsTraced(t *testing.T) {
	born, plain := ran("1", "2", 0, 5), ran("1", "2", 3, 5)
	born.Born = true
	snapshot := func(hours int64, shards ...int) item.Item {
		start := Hourly.Start(t0) - hours*hourMillis
		s := table.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly), Part: Hourly.Part(start),
			Start: table.Timestamp(start), Marks: map[int]table.Mark{}, Legend: table.Legend{Stream: t0 / 1000}}
		for _, k := range shards {
			s.Marks[k] = table.Mark{At: table.PositionOf(t0/1000, "1"), Gen: 1}
		}
		return s.Item()
	}
	for _, c := range []struct {
		name   string
		chains []Chain
		over   bool
		items  []item.Item
		want   bool
	}{
		{"found", []Chain{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(1, 0), snapshot(2, 3)}, true},
		{"of another shard", []Chain{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(1, 0)}, false},
		{"its own window", []Chain{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(0, 3)}, false},
		{"created just now", []Chain{{Shard: 3, Runs: []Run{born}}}, false, nil, true},
		{"created in a window that is over", []Chain{{Shard: 3, Runs: []Run{born}}}, true, nil, false},
		{"after another chain", []Chain{{Shard: 3, Follows: t0, Runs: []Run{plain}}}, false, nil, true},
		{"created after another chain, and over", []Chain{{Shard: 3, Follows: t0, Runs: []Run{born}}}, true, nil, true},
		{"one of two", []Chain{{Shard: 3, Runs: []Run{plain}}, {Shard: 4, Runs: []Run{plain}}}, false,
			[]item.Item{snapshot(1, 3)}, false},
		{"both", []Chain{{Shard: 3, Runs: []Run{plain}}, {Shard: 4, Runs: []Run{plain}}}, false,
			[]item.Item{snapshot(1, 3), snapshot(5, 4)}, true},
	} {
		total := Total{Namespace: "n", Entity: "e", Resource: "r", Window: Hourly, Start: Hourly.Start(t0),
			Chains: c.chains, Over: c.over}
		if got := total.Traced(c.items); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A run goes on with the life of a mark if both are of one generation. If not, or if items of
// another client have none, counters that have fallen are of another life.
func TestSameLife(t *testing.T) {
	for _, c := range []struct {
		mark, run   uint8
		counted, is int64
		want        bool
	}{
		{5, 5, 10, 3, true}, {5, 6, 10, 3, false}, {5, 6, 10, 10, true}, {0, 0, 10, 3, false}, {0, 0, 10, 12, true},
	} {
		m := table.Mark{Gen: c.mark, Used: []table.Count{{Limit: "rpm", Tokens: c.counted}, {Limit: "x", Tokens: 1}}}
		r := ran("1", "2", c.is, c.is+1)
		if r.FromGen = c.run; sameLife(m, r) != c.want {
			t.Errorf("%+v: not %v", c, c.want)
		}
	}
}

// Batches of one shard become one part, with one run as long as the records link.
func TestBatchesOfAShardAreOnePart(t *testing.T) {
	grows := func(seq string, before, after int64) stream.Change {
		c := change(0, seq, t0, after-before)
		c.Used = []stream.Used{{Limit: "rpm", Before: before, After: after, Was: true, Is: true}}
		return c
	}
	parts := Extend(nil, Fold([]stream.Change{grows("1", 0, 2)}), Hourly)
	parts = Extend(parts, Fold([]stream.Change{grows("2", 2, 5)}), Hourly)
	if len(parts) != 1 || len(parts[0].Runs) != 1 || parts[0].Runs[0].To[0].Tokens != 5 {
		t.Fatalf("%+v, want one part with one run to 5", parts)
	}
	vanishes := grows("3", 5, 5) // and of another limit nothing is told any more
	vanishes.Used = append(vanishes.Used, stream.Used{Limit: "tpm", Before: 7, Was: true})
	other := Extend(parts, Fold([]stream.Change{vanishes}), Hourly)
	if len(other) != 1 || len(other[0].Runs) != 2 {
		t.Errorf("%+v, want that a limit that vanishes begins another run", other)
	}
	both := ran("1", "2", 5, 5)
	both.To = append(both.To, table.Count{Limit: "tpm", Tokens: 7})
	if both.links(&vanishes) {
		t.Error("a record in which a limit vanishes goes into the run before it")
	}
	if untold := grows("3", 5, 6); both.links(&untold) {
		t.Error("a record that says nothing of one of its limits goes into the run")
	}
	if vanishes.Operation = stream.Remove; !both.links(&vanishes) {
		t.Error("a removal does not")
	}
}

// The window of a creation is known where both clocks are certainly in it.
func TestBirth(t *testing.T) {
	hour := Hourly.Start(t0)
	for after, want := range map[int64]int64{ // seconds after the turn of the hour
		0: 0, 9: 0, 10: hour, 1800: hour, 3588: hour, 3590: 0, 3599: 0,
	} {
		c := stream.Change{Created: hour + 2*3_600_000, OldBorn: hour/1000 + after}
		if got := birth(&c, Hourly); got != want {
			t.Errorf("created %d s after the hour: %d, want %d", after, got, want)
		}
	}
	for born, want := range map[int64]int64{0: 0, t0/1000 + 11: 0, t0/1000 + 9: hour} {
		if got := birth(&stream.Change{Created: t0, OldBorn: born}, Hourly); got != want {
			t.Errorf("created at %d, told at %d: %d, want %d", born, t0/1000, got, want)
		}
	}
}

// Each bucket of a batch is decided by itself: of two with one hot shard each, both double.
func TestBucketsAreDecidedOneByOne(t *testing.T) {
	hot := func(entity string) stream.Change {
		c := spends(0, 1, 1)
		c.New.Entity, c.New.State.Slots[2].Tokens, c.Created = entity, 999, t0+900
		return c
	}
	p := decide(t0+5000, hot("e"), hot("f"))
	if len(p.Reshardings) != 2 || !p.Reshardings[0].double || !p.Reshardings[1].double ||
		p.Reshardings[0].Zero.Entity == p.Reshardings[1].Zero.Entity {
		t.Errorf("%+v, want that both double", p.Reshardings)
	}
}

// A run is written down if it counts something, or says of the shard what its mark does not: that
// it has another life, or has gone. A run that says nothing new costs no write.
func TestRunsThatAreWrittenDown(t *testing.T) {
	at := func(n uint64) table.Position {
		return table.PositionOf(t0/1000, "44215845000000000000000001").Plus(n)
	}
	fives := []table.Count{{Limit: "rpm", Tokens: 5}}
	mark := table.Mark{At: at(1), Used: fives, Gen: 9}
	gone := table.Mark{At: at(1), Gone: true, Gen: 9}
	run := func(edit func(*Run)) Run {
		r := Run{First: at(2), Last: at(2), From: fives, To: fives, FromGen: 9, ToGen: 9}
		edit(&r)
		return r
	}
	same := func(*Run) {}
	leaves := func(r *Run) { r.Gone, r.From, r.To = true, nil, nil }
	for _, c := range []struct {
		name  string
		mark  table.Mark
		known bool
		run   Run
		want  bool
	}{
		{"nothing new", mark, true, run(same), false},
		{"a record that is counted", mark, true, run(func(r *Run) { r.Events = 1 }), true},
		{"two tokens more", mark, true, run(func(r *Run) { r.To = []table.Count{{Limit: "rpm", Tokens: 7}} }), true},
		{"another life", mark, true, run(func(r *Run) { r.ToGen = 8 }), true},
		{"it goes", mark, true, run(leaves), true},
		{"it has gone before", gone, true, run(leaves), false},
		{"no mark yet", table.Mark{}, false, run(func(r *Run) { r.ToGen = 8 }), false},
		{"no mark yet, and it goes", table.Mark{}, false, run(leaves), false},
		{"behind the mark", table.Mark{At: at(3), Used: fives, Gen: 9}, true, run(func(r *Run) { r.Events = 1 }), false},
	} {
		if got := tallyOf(c.mark, c.known, []Run{c.run}).moved; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
