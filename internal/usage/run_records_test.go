package usage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// A naive second version of counting: the records of one shard are counted one by one, each limit
// by the difference to the last record that told of it. Limits come and go, the shard is removed
// and made anew, generations change, tokens are given back, and records that do none of this get lost.
type ledgerOfRecords struct {
	told, counts map[string]int64
	events       int64
	gone         bool // the shard, and no record has told of its next life yet
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
	var used map[string]int64 // nil while the shard is not there
	generation, gives := int64(r.IntN(2)), 0
	if generation > 0 {
		generation, gives = int64(1+r.IntN(1000)), 3 // where there are none, falling counters are a new life
	}
	for i := range n {
		c := change(0, fmt.Sprint(100+i), t0+int64(i), 0)
		c.OldGeneration, c.NewGeneration = generation, generation
		before := maps.Clone(used)
		last := i == n-1 // it tells where all counters stand
		loses := i > 0 && !last && r.IntN(4) == 0
		switch limit := string(rune('a' + r.IntN(4))); {
		case used == nil:
			used = map[string]int64{"b": int64(r.IntN(5)), "d": int64(r.IntN(5))}
			c.Operation, before, c.OldGeneration = stream.Insert, nil, 0
			if generation > 0 {
				generation += 1 + int64(r.IntN(100))
			}
			c.NewGeneration = generation
		case last:
			for limit := range used {
				used[limit]++
			}
		case r.IntN(12) == 0:
			c.Operation, c.NewGeneration, used, loses = stream.Remove, 0, nil, false
		case r.IntN(8) == 0 && generation > 0:
			generation, loses = generation+1, false
			c.NewGeneration = generation
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

// However records are cut into batches, they count what they count one by one: carried together
// until they are counted at once, or counted batch by batch, with batches that come again.
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
				if significant(&records[i]) { // others are not counted until the next one
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
			if r.IntN(3) == 0 { // with records from before, be they lost
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
