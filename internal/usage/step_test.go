package usage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// A snapshot is read first if it may have counted the earlier tokens. That concerns chains whose
// creation was not seen, that follow no other chain, and whose shard was not charged in the window
// before. In a finished window even a creation proves nothing: a later creation may have been
// counted first.
func TestUnknownOriginsReadTheSnapshotFirst(t *testing.T) {
	born, plain := ran("1", "2", 0, 5), ran("1", "2", 3, 5)
	born.Born = true
	chain := func(r Run, fresh bool, follows int64) Part {
		clock := Hourly.Start(t0) - 1 // the first instant of a window belongs to it
		if fresh {
			clock++
		}
		return Part{Clock: clock, Follows: follows, Runs: []Run{r}}
	}
	for _, c := range []struct {
		name   string
		chains []Part
		over   bool
		want   Action
	}{
		{"a creation", []Part{chain(born, false, 0)}, false, Add},
		{"a creation in a finished window", []Part{chain(born, false, 0)}, true, ReadCurrent},
		{"charged in the window before", []Part{chain(plain, true, 0)}, false, Add},
		{"the same in a finished window", []Part{chain(plain, true, 0)}, true, Add},
		{"after another chain", []Part{chain(plain, false, t0)}, false, Add},
		{"nobody knows", []Part{chain(plain, false, 0)}, false, ReadCurrent},
		{"one of two has an unknown origin", []Part{chain(born, false, 0), chain(plain, false, 0)}, false, ReadCurrent},
	} {
		total := Total{Bucket: ner, Window: Hourly, Start: Hourly.Start(t0), Chains: c.chains, Over: c.over}
		step := total.Next(Snapshots{})
		check.Equal(t, step.Action, c.want, c.name)
	}
}

// A write that continues from a snapshot's mark needs no read, whatever the life of the shard. It
// is refused if the mark has other counters, or is of another life.
func TestWritesContinueFromAMarkWithoutARead(t *testing.T) {
	for _, c := range []struct {
		gen, stored uint8
		counted     int64
		want        bool
	}{{0, 0, 100, true}, {7, 7, 100, true}, {7, 7, 95, false}, {7, 7, 105, false}, {7, 8, 100, false}} {
		goes := ran("20", "30", 100, 110)
		goes.FromGen, goes.ToGen = c.gen, c.gen
		total := hourOf(Part{Clock: t0, Runs: []Run{goes}})
		total.Namespace, total.Entity, total.Resource = "n", "e", "r"
		stored := ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly),
			Part: Hourly.Part(total.Start), Start: layout.Timestamp(total.Start), Counts: map[string]int64{"rpm": 100},
			Legend: ledger.Legend{Stream: 1, Limits: []string{"rpm"}}, Marks: map[int]ledger.Mark{
				0: {At: ledger.PositionOf(1, "10"), Used: []ledger.Count{{Limit: "rpm", Tokens: c.counted}},
					Gen: c.stored}}}.Item()
		step := total.Next(Snapshots{})
		after, held, err := step.Update.Apply(stored)
		if n := ledger.AmountOf(after).Tokens["rpm"]; step.Action != Add || err != nil || held != c.want || held &&
			n != 110 {
			t.Errorf("%+v: %d, held %v, %v: %d", c, step.Action, held, err, n)
		}
	}
}

// Queries for earlier counts end when each shard was found in a snapshot of an earlier window, or
// is explained by the batch itself.
func TestQueriesEndWhenEveryShardIsFound(t *testing.T) {
	born, plain := ran("1", "2", 0, 5), ran("1", "2", 3, 5)
	born.Born = true
	snapshot := func(hours int64, shards ...int) item.Item {
		start := Hourly.Start(t0) - hours*hourMillis
		s := ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly), Part: Hourly.Part(start),
			Start: layout.Timestamp(start), Marks: map[int]ledger.Mark{}, Legend: ledger.Legend{Stream: t0 / 1000}}
		for _, k := range shards {
			s.Marks[k] = ledger.Mark{At: ledger.PositionOf(t0/1000, "1"), Gen: 1}
		}
		return s.Item()
	}
	for _, c := range []struct {
		name   string
		chains []Part
		over   bool
		items  []item.Item
		want   bool
	}{
		{"found", []Part{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(1, 0), snapshot(2, 3)}, true},
		{"of another shard", []Part{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(1, 0)}, false},
		{"its own window", []Part{{Shard: 3, Runs: []Run{plain}}}, false, []item.Item{snapshot(0, 3)}, false},
		{"created just now", []Part{{Shard: 3, Runs: []Run{born}}}, false, nil, true},
		{"created in a finished window", []Part{{Shard: 3, Runs: []Run{born}}}, true, nil, false},
		{"after another chain", []Part{{Shard: 3, Follows: t0, Runs: []Run{plain}}}, false, nil, true},
		{"created after another chain, finished", []Part{{Shard: 3, Follows: t0, Runs: []Run{born}}}, true, nil, true},
		{"one of two", []Part{{Shard: 3, Runs: []Run{plain}}, {Shard: 4, Runs: []Run{plain}}}, false,
			[]item.Item{snapshot(1, 3)}, false},
		{"both", []Part{{Shard: 3, Runs: []Run{plain}}, {Shard: 4, Runs: []Run{plain}}}, false,
			[]item.Item{snapshot(1, 3), snapshot(5, 4)}, true},
	} {
		total := Total{Bucket: ner, Window: Hourly, Start: Hourly.Start(t0), Chains: c.chains, Over: c.over}
		check.Equal(t, total.Traced(c.items), c.want, c.name)
	}
}

// ner is a bucket: namespace n, resource r, entity e.
var ner = Bucket{"n", "r", "e"}

// hourOf is the total of the hour of t0 with one chain.
func hourOf(c Part) Total {
	return Total{Bucket: ner, Window: Hourly, Start: Hourly.Start(t0), Chains: []Part{c}}
}

// marked is the snapshot of an earlier hour, with a mark of shard 0.
func marked(hours int64, sequence string, used int64) item.Item {
	start := Hourly.Start(t0) - hours*hourMillis
	return ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly), Part: Hourly.Part(start),
		Start: layout.Timestamp(start), Legend: ledger.Legend{Stream: 1, Limits: []string{"rpm"}},
		Marks: map[int]ledger.Mark{0: {At: ledger.PositionOf(1, sequence), Used: []ledger.Count{{Limit: "rpm",
			Tokens: used}}}},
	}.Item()
}

func TestEarlierSnapshotsAreReadForShardsWithoutAMark(t *testing.T) {
	total := hourOf(Part{Runs: []Run{ran("20", "30", 100, 110)}})
	for name, c := range map[string]struct {
		current item.Item
		want    Action
	}{
		"marked":     {marked(0, "10", 100), Add},
		"no mark":    {nil, ReadPrevious},
		"all behind": {marked(0, "30", 110), Done},
	} {
		step := total.Next(Snapshots{Known: true, Current: c.current})
		check.Equal(t, step.Action, c.want, name)
	}
	born := ran("20", "30", 0, 5)
	born.Born, born.From = true, nil
	for over, want := range map[bool]Action{false: Add, true: ReadPrevious} {
		total := hourOf(Part{Runs: []Run{born}})
		if total.Over = over; total.Next(Snapshots{Known: true}).Action != want {
			t.Errorf("a creation, finished window %v: %d, want %d", over, total.Next(Snapshots{Known: true}).Action,
				want)
		}
	}
}

// Consumption before the first record counts in the window of the creation if a consistent read
// makes that certain. Otherwise it is reported as unknown, and not counted.
func TestConsumptionBeforeTheFirstRecordNeedsCertainty(t *testing.T) {
	start := Hourly.Start(t0)
	all := func(edit func(*Part, *Snapshots)) (Part, Snapshots) {
		c := Part{Birth: start - 3*hourMillis, Runs: []Run{ran("20", "30", 100, 110)}}
		known := Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true}
		edit(&c, &known)
		return c, known
	}
	hour := ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly), Events: 1,
		Part: Hourly.Part(start - hourMillis), Start: layout.Timestamp(start - hourMillis)}.Item()
	sum := ledger.Sum{Place: ner.place(Daily, Daily.Start(t0)), Amount: ledger.Amount{Events: 1},
		Summed: ledger.Summed{Version: 1, Parts: []int{20}}}
	u, _ := sum.Update(nil)
	ofMissing := applied(t, u, nil)
	for name, e := range map[string]struct {
		edit    func(*Part, *Snapshots)
		want    Action
		unknown int
	}{
		"the day lacks an hour": {
			func(_ *Part, k *Snapshots) { k.Seen = []item.Item{ofMissing} }, Add, 1},
		"the day has a newer hour": {
			func(_ *Part, k *Snapshots) { k.Seen, k.Sure = []item.Item{ofMissing}, false }, ReadSurely, 0},
		"certain":               {func(*Part, *Snapshots) {}, CountBeginnings, 0},
		"not read consistently": {func(_ *Part, k *Snapshots) { k.Sure = false }, ReadSurely, 0},
		"not all was read":      {func(_ *Part, k *Snapshots) { k.Whole = false }, Add, 1},
		"nobody knows when":     {func(c *Part, _ *Snapshots) { c.Birth = 0 }, Add, 1},
		"too many limits":       {func(c *Part, _ *Snapshots) { c.Runs[0].Wide = true }, Add, 1},
		"others have counted":   {func(_ *Part, k *Snapshots) { k.Seen = []item.Item{hour} }, Add, 1},
		"it began with nothing": {func(c *Part, _ *Snapshots) { c.Runs[0].From[0].Tokens = 0 }, Add, 0},
		"after another chain":   {func(c *Part, _ *Snapshots) { c.Follows = start - hourMillis }, Add, 0},
	} {
		c, known := all(e.edit)
		total := hourOf(c)
		total.NotesRead = true
		step := total.Next(known)
		if step.Action != e.want || step.Unknown != e.unknown {
			t.Errorf("%s: %d, %d unknown, want %d, %d", name, step.Action, step.Unknown, e.want, e.unknown)
		}
		if step.Action == CountBeginnings && (len(step.Beginnings) != 1 || step.Beginnings[0].Start != c.Birth ||
			tallyOf(ledger.Mark{}, false, step.Beginnings[0].Runs).counts[0].Tokens != 100) {
			t.Errorf("%s: %+v", name, step.Beginnings)
		}
		for _, at := range Totals(step.Beginnings, Hourly) {
			at.Over, at.NotesRead = true, true
			if of := at.Next(Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true}); of.Action != Add ||
				of.Unknown != 0 {
				t.Errorf("%s: then %d, %d unknown", name, of.Action, of.Unknown)
			}
		}
		if total.BeginningsCounted = true; step.Action == CountBeginnings && total.Next(known).Action != Add {
			t.Errorf("%s: it is read again", name)
		}
	}
}

// Consumption before the first record is unknown if another aggregator has counted in any window
// since the creation, including its window. That aggregator's earlier counts do not matter.
func TestOthersSinceTheCreation(t *testing.T) {
	for _, w := range []Window{Hourly, Daily, Monthly} {
		start := w.Start(t0)
		birth := w.Start(w.Start(start-1) - 1)
		for _, c := range []struct {
			name  string
			start int64
			want  Action
		}{
			{"the first", birth, Add}, {"the one after", w.End(birth), Add}, {"the last", start, Add},
			{"of the day or month before", w.Start(Daily.Start(birth) - 1), CountBeginnings},
		} {
			total := hourOf(Part{Birth: birth, Runs: []Run{ran("20", "30", 100, 110)}})
			total.Window, total.Start, total.NotesRead = w, start, true
			counted := ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(w), Events: 1,
				Part: w.Part(c.start), Start: layout.Timestamp(c.start)}.Item()
			known := Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true, Seen: []item.Item{counted}}
			step := total.Next(known)
			check.Equal(t, step.Action, c.want, "%s: %s", w, c.name)
		}
	}
}

// An earlier hour that lacks nothing is not completed, and its day is not summed again: the counter
// was at 100 at its end, and continues from 100.
func TestCompleteHoursAreNotCompletedAgain(t *testing.T) {
	total := hourOf(Part{Runs: []Run{ran("20", "30", 100, 110)}})
	for name, c := range map[string]struct {
		before item.Item
		want   []int64
	}{
		"not completed":             {marked(1, "10", 100), nil},
		"completed just before now": {marked(1, "19", 100), []int64{total.Start - hourMillis}},
	} {
		step := total.Next(Snapshots{Known: true, PreviousKnown: true, Sure: true, Previous: []item.Item{c.before}})
		if step.Action != Add || !slices.Equal(step.Completed, c.want) {
			t.Errorf("%s: %d, completed %v, want %v", name, step.Action, step.Completed, c.want)
		}
	}
}

// An earlier hour is completed only after a consistent read, and only if no other client has
// counted since, in an hour between or the current one: that client saw the records missing here.
func TestEarlierHoursNeedAConsistentRead(t *testing.T) {
	foreign := func(hours int64) item.Item {
		start := Hourly.Start(t0) - hours*hourMillis
		return ledger.Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: string(Hourly),
			Part: Hourly.Part(start), Start: layout.Timestamp(start), Events: 1}.Item()
	}
	total := hourOf(Part{Runs: []Run{ran("20", "30", 110, 115)}})
	for _, c := range []struct {
		name     string
		current  item.Item
		previous []item.Item
		sure     bool
		want     Action
	}{
		{"read consistently", nil, []item.Item{marked(2, "10", 100)}, true, Complete},
		{"not read consistently", nil, []item.Item{marked(2, "10", 100)}, false, ReadSurely},
		{"others have counted between", nil, []item.Item{foreign(1), marked(2, "10", 100)}, true, Add},
		{"others had counted before", nil, []item.Item{marked(2, "10", 100), foreign(3)}, true, Complete},
		{"others have counted the current hour", foreign(0), []item.Item{marked(2, "10", 100)}, true, Add},
		{"nothing is lacking", nil, []item.Item{marked(2, "10", 110)}, false, Add},
	} {
		step := total.Next(Snapshots{Known: true, Current: c.current, PreviousKnown: true, Previous: c.previous,
			Sure: c.sure})
		if step.Action != c.want || c.want == Complete && step.Update.Key != item.KeyOf(marked(2, "10", 100)) {
			t.Errorf("%s: %d of %v, want %d", c.name, step.Action, step.Update.Key, c.want)
		}
		if step.Action != Add {
			continue
		}
		after := applied(t, step.Update, c.current)
		if n := ledger.AmountOf(after).Tokens["rpm"]; n != 5 || step.Unknown != 0 {
			t.Errorf("%s: %d tokens, %d unknown, want the 5 from 110 to 115", c.name, n, step.Unknown)
		}
	}
}

// A shard whose records are all before the mark adds nothing. A shard with only some records before
// it adds the rest.
func TestRecordsBeforeTheMarkAddNothing(t *testing.T) {
	total := hourOf(Part{Runs: []Run{ran("20", "30", 100, 110)}})
	for sequence, want := range map[string][]int{"10": nil, "25": nil, "30": {0}, "40": {0}} {
		step := total.Next(Snapshots{Known: true, Current: marked(0, sequence, 105)})
		if !slices.Equal(step.Behind, want) || (step.Action == Done) != (want != nil) {
			t.Errorf("a mark at %s: %d, behind %v, want %v", sequence, step.Action, step.Behind, want)
		}
	}
}

// If a shard has more limits than a mark holds, each record counts only its own changes: here a
// goes from 5 to 6, then b from 100 to 101.
func TestManyLimitsAreCountedRecordByRecord(t *testing.T) {
	var changes []stream.Change
	for i := range 2 {
		c := change(0, fmt.Sprint(i+1), t0, 0)
		for n := range ledger.MaxNames + 1 {
			c.Used = append(c.Used, stream.Used{Limit: fmt.Sprintf("c%03d", n), Before: 9, After: 9, Was: true, Is: true})
		}
		c.Used[0] = stream.Used{Limit: "a", Before: 5, After: 5, Was: true, Is: true}
		c.Used[1] = stream.Used{Limit: "b", Before: 100, After: 100, Was: true, Is: true}
		c.Used[i].After++
		changes = append(changes, c)
	}
	parts := Extend(nil, Fold(changes), Hourly)
	got := tallyOf(ledger.Mark{}, false, parts[0].Runs)
	want := []ledger.Count{{Limit: "a", Tokens: 1}, {Limit: "b", Tokens: 1}}
	if !slices.Equal(got.counts, want) || got.events != 2 || len(got.mark.Used) != 0 {
		t.Errorf("%+v, want %v and a mark without counters", got, want)
	}
}

// Batches of a shard become one part, with one run as long as its records link.
func TestBatchesOfAShardAreOnePart(t *testing.T) {
	grows := func(seq string, before, after int64) stream.Change {
		c := change(0, seq, t0, after-before)
		c.Used = []stream.Used{{Limit: "rpm", Before: before, After: after, Was: true, Is: true}}
		return c
	}
	parts := Extend(nil, Fold([]stream.Change{grows("1", 0, 2)}), Hourly)
	parts = Extend(parts, Fold([]stream.Change{grows("2", 2, 5)}), Hourly)
	if len(parts) != 1 || len(parts[0].Runs) != 1 || parts[0].Runs[0].To[0].Tokens != 5 || parts[0].Oldest != t0 {
		t.Fatalf("%+v, want one part since %d with one run to 5", parts, t0)
	}
	vanishes := grows("3", 5, 5) // and another limit is removed
	vanishes.Used = append(vanishes.Used, stream.Used{Limit: "tpm", Before: 7, Was: true})
	other := Extend(parts, Fold([]stream.Change{vanishes}), Hourly)
	if len(other) != 1 || len(other[0].Runs) != 2 {
		t.Errorf("%+v, want another run for the removed limit", other)
	}
	both := ran("1", "2", 5, 5)
	both.To = append(both.To, ledger.Count{Limit: "tpm", Tokens: 7})
	if both.links(&vanishes) {
		t.Error("a record that removes a limit joined the run before it")
	}
	if untold := grows("3", 5, 6); both.links(&untold) {
		t.Error("a record that lacks one of its limits joined the run")
	}
	if vanishes.Operation = stream.Remove; !both.links(&vanishes) {
		t.Error("a removal did not join the run")
	}
}

// The window of a creation is known if both clocks are certainly in it.
func TestBirth(t *testing.T) {
	hour := Hourly.Start(t0)
	for after, want := range map[int64]int64{ // seconds after the full hour
		0: 0, 9: 0, 10: hour, 1800: hour, 3589: hour, 3590: 0, 3599: 0,
	} {
		c := stream.Change{Created: hour + 2*3_600_000, OldBorn: hour/1000 + after}
		check.Equal(t, birth(&c, Hourly), want, "created %d s after the hour", after)
	}
	for born, want := range map[int64]int64{0: 0, -1800: 0, t0/1000 + 11: 0, t0/1000 + 10: hour} {
		check.Equal(t, birth(&stream.Change{Created: t0, OldBorn: born}, Hourly), want, "created at %d, reported at %d",
			born, t0/1000)
	}
}

// A run adds its growth to a mark. How much that is depends on what is known of the lives of the
// shard and the limit.
func TestRunsAddTheirGrowthToAMark(t *testing.T) {
	count := func(limit string, n int64) ledger.Count { return ledger.Count{Limit: limit, Tokens: n} }
	run := func(gen uint8, from, to int64) Run {
		r := ran("20", "30", from, to)
		r.FromGen, r.ToGen = gen, gen
		return r
	}
	born := run(9, 0, 5)
	born.Born, born.From = true, nil
	whole := run(9, 12, 12)
	whole.Born, whole.whole = true, true
	begins := run(9, 104, 110)
	begins.To = append(begins.To, count("tpm", 4))
	at := func(sequence string, used ...ledger.Count) ledger.Mark {
		return ledger.Mark{At: ledger.PositionOf(1, sequence), Used: used, Gen: 9}
	}
	gone := at("10")
	gone.Gone = true
	for _, c := range []struct {
		name     string
		mark     ledger.Mark
		known    bool
		run      Run
		rpm, tpm int64
	}{
		{"no mark", ledger.Mark{}, false, run(9, 100, 110), 10, 0},
		{"an empty mark", at("10"), true, run(9, 100, 110), 10, 0},
		{"within the run", at("25", count("rpm", 104)), true, run(9, 100, 110), 6, 0},
		{"before it, 3 tokens unseen", at("10", count("rpm", 104)), true, run(9, 107, 110), 6, 0},
		{"before it, 3 tokens given back", at("10", count("rpm", 104)), true, run(9, 101, 110), 6, 0},
		{"of another life", at("10", count("rpm", 104)), true, run(8, 3, 5), 5, 0},
		{"of a generation before, in the same life", at("10", count("rpm", 104)), true, run(8, 107, 110), 6, 0},
		{"of a shard that is gone", gone, true, run(9, 3, 5), 5, 0},
		{"a creation", ledger.Mark{}, false, born, 5, 0},
		{"a creation after another life", at("10", count("rpm", 3)), true, born, 5, 0},
		{"all since a creation", ledger.Mark{}, false, whole, 12, 0},
		{"all since a creation, 9 already counted", at("10", count("rpm", 9)), true, whole, 3, 0},
		{"a limit begins again", at("10", count("rpm", 104), count("tpm", 9)), true, begins, 6, 4},
		{"a limit has begun", at("25", count("rpm", 104), count("tpm", 1)), true, begins, 6, 3},
	} {
		got := tallyOf(c.mark, c.known, []Run{c.run}).counts
		rpm, _ := ledger.CountOf(got, "rpm")
		if tpm, _ := ledger.CountOf(got, "tpm"); rpm != c.rpm || tpm != c.tpm {
			t.Errorf("%s: %v, want %d and %d", c.name, got, c.rpm, c.tpm)
		}
	}
}

// A run is written if it counts something, or shows something new about its shard: another life, or
// its removal. Any other run costs no write.
func TestOnlyRunsWithNewsAreWritten(t *testing.T) {
	at := func(n uint64) ledger.Position {
		return ledger.PositionOf(t0/1000, "44215845000000000000000001").Plus(n)
	}
	fives := []ledger.Count{{Limit: "rpm", Tokens: 5}}
	mark := ledger.Mark{At: at(1), Used: fives, Gen: 9}
	gone := ledger.Mark{At: at(1), Gone: true, Gen: 9}
	ahead := ledger.Mark{At: at(3), Used: fives, Gen: 9}
	run := func(edit func(*Run)) Run {
		r := Run{First: at(2), Last: at(2), From: fives, To: fives, FromGen: 9, ToGen: 9}
		edit(&r)
		return r
	}
	same := func(*Run) {}
	leaves := func(r *Run) { r.Gone, r.From, r.To = true, nil, nil }
	for _, c := range []struct {
		name  string
		mark  ledger.Mark
		known bool
		run   Run
		want  bool
	}{
		{"nothing new", mark, true, run(same), false},
		{"a record that is counted", mark, true, run(func(r *Run) { r.Events = 1 }), true},
		{"two tokens more", mark, true, run(func(r *Run) { r.To = []ledger.Count{{Limit: "rpm", Tokens: 7}} }), true},
		{"another life", mark, true, run(func(r *Run) { r.ToGen = 8 }), true},
		{"it goes", mark, true, run(leaves), true},
		{"it was removed before", gone, true, run(leaves), false},
		{"no mark yet", ledger.Mark{}, false, run(func(r *Run) { r.ToGen = 8 }), false},
		{"no mark yet, removed", ledger.Mark{}, false, run(leaves), false},
		{"behind the mark", ahead, true, run(func(r *Run) { r.Events = 1 }), false},
	} {
		check.Equal(t, tallyOf(c.mark, c.known, []Run{c.run}).moved, c.want, c.name)
	}
}
