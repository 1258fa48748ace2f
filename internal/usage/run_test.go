package usage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// grew returns a record in which the counter of rpm grew.
func grew(sequence string, created, before, after int64) stream.Change {
	c := change(0, sequence, created, after-before)
	c.Used[0].Before, c.Used[0].After = before, after
	return c
}

// created returns the record that creates a shard with this many tokens taken.
func created(sequence string, created, tokens int64) stream.Change {
	c := change(0, sequence, created, tokens)
	c.Operation, c.New.Generation = stream.Insert, 7
	c.Used = []stream.Used{{Limit: "rpm", After: tokens, Is: true}}
	return c
}

// removed returns the record that removes a shard with this many tokens taken.
func removed(sequence string, created, tokens int64) stream.Change {
	c := change(0, sequence, created, 0)
	c.Operation = stream.Remove
	c.Used = []stream.Used{{Limit: "rpm", Before: tokens, Was: true}}
	return c
}

// A counter goes from 5 to 7. If the next record, in the next hour, shows uncounted tokens, they
// belong to the hour before. A record that changes no counter changes nothing. Neither does a
// duplicate.
func TestNextRecordsCompleteThePreviousHour(t *testing.T) {
	hour := Hourly.Start(t0)
	for _, c := range []struct {
		name         string
		next         stream.Change
		parts, runs  int // runs of the first part
		first, other int64
	}{
		{"goes on in the hour", grew("9", hour+1, 7, 9), 1, 1, 4, 0},
		{"goes on after lost records", grew("9", hour+1, 9, 12), 1, 2, 7, 0},
		{"goes on in the next hour", grew("9", hour+hourMillis, 7, 9), 2, 1, 2, 2},
		{"goes on there after lost records", grew("9", hour+hourMillis, 9, 12), 2, 2, 4, 3},
		{"is created again in the next hour", created("9", hour+hourMillis, 3), 2, 1, 2, 3},
		{"is removed in the next hour", removed("9", hour+hourMillis, 7), 1, 1, 2, 0},
		{"is removed there after lost records", removed("9", hour+hourMillis, 9), 1, 2, 4, 0},
		{"is slightly earlier", grew("9", hour-1, 7, 9), 1, 1, 4, 0},
		{"only refills", grew("9", hour+1, 9, 9), 1, 1, 2, 0},
		{"only refills in the next hour", grew("9", hour+hourMillis, 9, 9), 1, 1, 2, 0},
		{"comes again", grew("1", hour, 5, 7), 1, 1, 2, 0},
		{"comes from before", grew("0", hour, 3, 5), 1, 1, 2, 0},
	} {
		before := Extend(nil, Fold([]stream.Change{grew("1", hour, 5, 7)}), Hourly)
		parts := Extend(before, Fold([]stream.Change{c.next}), Hourly)
		if len(parts) != c.parts || len(parts[0].Runs) != c.runs {
			t.Errorf("%s: %+v", c.name, parts)
			continue
		}
		for i, want := range []int64{c.first, c.other}[:c.parts] {
			got, _ := ledger.CountOf(tallyOf(ledger.Mark{}, false, parts[i].Runs).counts, "rpm")
			check.Equal(t, got, want, "%s: part %d has tokens", c.name, i)
		}
	}
}

// A mark holds 64 limits. A record with more begins its own run, and the next record begins
// another, even if it has fewer.
func TestRecordsOfManyLimitsHaveTheirOwnRun(t *testing.T) {
	const most = ledger.MaxNames
	record := func(sequence string, before, after, n int) stream.Change { // the first of n limits grows
		c := change(0, sequence, t0, 1)
		c.Used = nil
		for i := range n {
			u := stream.Used{Limit: fmt.Sprintf("c%03d", i), Before: 9, After: 9, Was: true, Is: true}
			if i == 0 {
				u.Before, u.After = int64(before), int64(after)
			}
			c.Used = append(c.Used, u)
		}
		return c
	}
	more := record("2", 6, 7, most)
	more.Used = append(more.Used, stream.Used{Limit: "x", After: 3, Is: true})
	for name, c := range map[string]struct {
		changes []stream.Change
		wide    []bool
	}{
		"as many as a mark holds": {[]stream.Change{record("1", 5, 6, most), record("2", 6, 7, most)}, []bool{false}},
		"one more":                {[]stream.Change{record("1", 5, 6, most), more}, []bool{false, true}},
		"fewer again": {
			[]stream.Change{record("1", 5, 6, most+1), record("2", 6, 7, 1)}, []bool{true, false}},
	} {
		var got []bool
		for _, r := range Extend(nil, Fold(c.changes), Hourly)[0].Runs {
			got = append(got, r.Wide)
		}
		check.Slices(t, got, c.wide, "%s: runs", name)
	}
}

// A record of thousands of limits has more counts than an update, but not as many as its limits: they
// are compared with each other.
func TestRecordsOfTooManyLimitsAreCut(t *testing.T) {
	c := change(0, "1", t0, 1)
	c.Used = nil
	for i := range 9 * ledger.MaxCounts {
		c.Used = append(c.Used, stream.Used{Limit: fmt.Sprint(i), Before: 1, After: 2, Was: true, Is: true})
	}
	total := AllTotals(Fold([]stream.Change{c}), Hourly)[0]
	counts := total.Progress(nil).Left
	if n := len(counts); n <= ledger.MaxCounts || n > ledger.MaxCounts+1 {
		t.Errorf("%d counts, want one more than %d", n, ledger.MaxCounts)
	}
	check.Equal(t, item.Validate(ledger.Usage{Place: total.place(Hourly, t0), Counts: counts}.Update()) != nil, true,
		"the update is refused")
}

// A chain completes an earlier window with its first tokens, and with runs that add up to nothing.
// A chain that begins with a creation completes nothing.
func TestChainsCompleteEarlierWindows(t *testing.T) {
	counts, still, born, nets := ran("20", "30", 100, 110), ran("10", "11", 90, 90), ran("20", "30", 0, 5),
		ran("10", "11", 90, 90)
	vanishes := still
	vanishes.Events, vanishes.From = 0, append(slices.Clone(still.From), ledger.Count{Limit: "tpm", Tokens: 5})
	still.Events, born.Born, born.From = 0, true, nil // gave back as many tokens as it took
	for _, c := range []struct {
		name string
		runs []Run
		want []int64 // where runs count
	}{
		{"it counts tokens", []Run{counts}, []int64{100}},
		{"a removal before", []Run{still, counts}, []int64{90, 100}},
		{"give-backs are counted", []Run{nets, counts}, []int64{90}},
		{"a removed limit is counted", []Run{vanishes, counts}, []int64{90}},
		{"a creation", []Run{born, counts}, nil},
		{"a creation after a removal", []Run{still, born, counts}, []int64{90}},
		{"only a removal", []Run{still}, []int64{90}},
	} {
		var got []int64
		for _, r := range (&Part{Runs: c.runs}).ending() {
			n, _ := ledger.CountOf(r.To, "rpm")
			if got = append(got, n); r.Events != 0 || r.Born {
				t.Errorf("%s: %+v counts something", c.name, r)
			}
		}
		check.Slices(t, got, c.want, c.name)
	}
}

// A record that only refills counts nothing: it is not a part, and costs no write. A record that
// removes a limit is a part, even if the limit counted nothing, because the next record begins
// without it.
func TestRefillsAreNotParts(t *testing.T) {
	parts := Extend(nil, Fold([]stream.Change{grew("1", t0, 5, 5)}), Hourly)
	check.Equal(t, len(parts), 0, "%+v", parts)
	vanishes := grew("1", t0, 5, 5)
	vanishes.Used = append(vanishes.Used, stream.Used{Limit: "tpm", Was: true})
	check.Equal(t, len(Extend(nil, Fold([]stream.Change{vanishes}), Hourly)), 1, "parts of a removed limit")
}

// A part follows the previous one only if that one writes a snapshot. A new generation or a removal
// alone writes none.
func TestPartsFollowWrittenSnapshots(t *testing.T) {
	hour := Hourly.Start(t0)
	anew, gone := grew("1", hour, 5, 5), grew("1", hour, 5, 5)
	anew.New.Generation = anew.OldGeneration + 1
	gone.Operation = stream.Remove
	for name, c := range map[string]struct {
		first   stream.Change
		follows int64
	}{"tokens": {grew("1", hour, 3, 5), hour}, "a generation": {anew, 0}, "a removal": {gone, 0}} {
		next := grew("9", hour+hourMillis, 5, 7)
		next.OldGeneration, next.New.Generation = c.first.New.Generation, c.first.New.Generation
		if c.first.Operation == stream.Remove {
			next = created("9", hour+hourMillis, 7)
		}
		parts := Extend(nil, Fold([]stream.Change{c.first, next}), Hourly)
		if len(parts) != 2 || parts[1].Follows != c.follows {
			t.Errorf("after %s: %+v", name, parts)
		}
	}
}

// A second, naive way of counting: the records of one shard are counted one by one, each limit by
// the difference to its last record. Limits come and go, the shard is removed and created again,
// generations change, tokens are given back, and records that do none of this are lost.
type ledgerOfRecords struct {
	told, counts map[string]int64
	events       int64
	gone         bool // the shard is gone, and its next life has no record yet
}

func (l *ledgerOfRecords) take(c *stream.Change) {
	moved := false
	if c.Operation == stream.Insert {
		l.told, l.gone = map[string]int64{}, true
	}
	for _, u := range c.Used {
		last, has := l.told[u.Limit]
		switch {
		case u.Was && has:
			l.counts[u.Limit] += u.Before - last
		case u.Was && l.gone: // of a life whose creation was lost
			l.counts[u.Limit] += u.Before
		}
		if delete(l.told, u.Limit); u.Is {
			l.told[u.Limit] = u.After
			l.counts[u.Limit] += u.After - u.Before
			moved = moved || u.After != u.Before
		}
	}
	if l.gone = c.Operation == stream.Remove; moved {
		l.events++
	}
}

// lifeOfAShard returns the records of a shard, in order, and which of them are lost.
func lifeOfAShard(r *rand.Rand, n int) (records []stream.Change, lost []bool) {
	var used map[string]int64 // nil while the shard does not exist
	generation, gives := int64(r.IntN(2)), 0
	if generation > 0 {
		generation, gives = int64(1+r.IntN(1000)), 3 // without generations, a falling counter means a new life
	}
	for i := range n {
		c := change(0, fmt.Sprint(100+i), t0+int64(i), 0)
		c.OldGeneration, c.New.Generation = generation, generation
		before := maps.Clone(used)
		last := i == n-1 // shows all counters
		loses := i > 0 && !last && r.IntN(4) == 0
		switch limit := string(rune('a' + r.IntN(4))); {
		case used == nil:
			used = map[string]int64{"b": int64(r.IntN(5)), "d": int64(r.IntN(5))}
			c.Operation, before, c.OldGeneration = stream.Insert, nil, 0
			if generation > 0 {
				generation += 1 + int64(r.IntN(100))
			}
			c.New.Generation = generation
		case last:
			for limit := range used {
				used[limit]++
			}
		case r.IntN(12) == 0:
			c.Operation, c.New.Generation, used, loses = stream.Remove, 0, nil, false
		case r.IntN(8) == 0 && generation > 0:
			generation, loses = generation+1, false
			c.New.Generation = generation
		case r.IntN(6) == 0 && used[limit] > 0:
			delete(used, limit)
			loses = false
		case r.IntN(6) == 0:
			if _, has := used[limit]; !has {
				used[limit], loses = int64(1+r.IntN(5)), false
			}
		default:
			for _, limit := range slices.Sorted(maps.Keys(used)) {
				used[limit] += int64(r.IntN(6+gives) - gives)
			}
		}
		for _, limit := range []string{"a", "b", "c", "d"} {
			u := stream.Used{Limit: limit}
			u.Before, u.Was = before[limit]
			if u.After, u.Is = used[limit]; u.Was || u.Is {
				c.Used = append(c.Used, u)
			}
		}
		records, lost = append(records, c), append(lost, loses)
	}
	return records, lost
}

// Records count the same however they are batched: collected until they are counted together, or
// counted batch by batch, with repeated batches.
func TestRunsCountWhatTheirRecordsCount(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 9))
		records, lost := lifeOfAShard(r, 1+r.IntN(16))
		naive := ledgerOfRecords{told: map[string]int64{}, counts: map[string]int64{}}
		var batch []stream.Change
		var carried State
		var mark ledger.Mark
		byBatch, known := map[string]int64{}, false
		for i := range records {
			if !lost[i] {
				if significant(&records[i]) { // others are counted with the next one
					naive.take(&records[i])
				}
				batch = append(batch, records[i])
			}
			if i < len(records)-1 && r.IntN(3) > 0 {
				continue
			}
			var err error
			if carried, err = ParseState(carried.JSON()); err != nil {
				t.Fatal(err)
			}
			carried.Parts = Extend(carried.Parts, Fold(batch), Hourly)
			again := batch
			if r.IntN(3) == 0 { // repeats earlier records, even lost ones
				again = append(slices.Clone(records[r.IntN(i+1):i+1]), batch...)
			}
			for _, p := range Extend(nil, Fold(again), Hourly) {
				sum := tallyOf(mark, known, p.Runs)
				for _, c := range sum.counts {
					byBatch[c.Limit] += c.Tokens
				}
				mark, known = sum.mark, true
			}
			batch = nil
		}
		atOnce := map[string]int64{}
		events := int64(0)
		for _, p := range carried.Parts {
			sum := tallyOf(ledger.Mark{}, false, p.Runs)
			for _, c := range sum.counts {
				atOnce[c.Limit] += c.Tokens
			}
			events += sum.events
		}
		for _, limit := range []string{"a", "b", "c", "d"} {
			if want := naive.counts[limit]; atOnce[limit] != want || byBatch[limit] != want {
				t.Fatalf("world %d: %s: %d at once, %d batch by batch, want %d", seed, limit, atOnce[limit],
					byBatch[limit], want)
			}
		}
		if events != naive.events || len(carried.Parts) > 1 {
			t.Fatalf("world %d: %d records in %d parts, want %d", seed, events, len(carried.Parts), naive.events)
		}
	}
}
