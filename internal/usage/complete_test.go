package usage

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// next takes the next step for the only total of some records, and returns the snapshot after the
// write.
func next(t *testing.T, known Snapshots, want Action, records ...stream.Change) item.Item {
	t.Helper()
	total := AllTotals(Fold(records), Hourly)[0]
	step := total.Next(known)
	before := known.Current
	if step.Action == Complete {
		before = known.Previous[step.At]
	}
	check.MustEqual(t, step.Action, want, "action")
	return applied(t, step.Update, before)
}

var applied = itemtest.Applied

// counted adds another aggregator's counts to a snapshot.
func counted(it item.Item, tokens int64) item.Item {
	it["rpm"] = item.N(ledger.AmountOf(it).Tokens["rpm"] + tokens)
	return it
}

// Our aggregator counted up to 100, and missed the records up to 107. The next record goes from 107
// to 112. Another aggregator may have counted some of the 7, but none of the 5: counts beyond 7
// belong to later records.
func TestTokensCountedByOthersAreNotCountedAgain(t *testing.T) {
	hour := Hourly.Start(t0)
	for others, want := range map[int64][3]int64{
		0: {112, 121, 132}, 4: {112, 121, 132}, 7: {112, 121, 132}, 20: {125, 126, 132}, 30: {135, 136, 137},
	} {
		it := counted(next(t, Snapshots{}, Add, created("10", hour, 100)), others)
		for i, record := range []stream.Change{
			grew("20", hour+1, 107, 112), grew("30", hour+2, 120, 121), grew("40", hour+3, 131, 132),
		} {
			it = next(t, Snapshots{Known: true, Current: it}, Add, record)
			check.Equal(t, ledger.AmountOf(it).Tokens["rpm"], want[i], "%d counted by others: after record %d", others, i)
		}
	}
}

// The same if a shard is known only to have taken 12 tokens since its creation: others may have
// counted some of them.
func TestOthersMayHaveCountedSinceACreation(t *testing.T) {
	for others, want := range map[int64]int64{0: 112, 4: 112, 12: 112, 20: 120} {
		it := counted(next(t, Snapshots{}, Add, created("10", Hourly.Start(t0), 100)), others)
		at := justBefore(ran("20", "30", 12, 15))
		at.Born, at.whole = true, true
		total := hourOf(Part{Shard: 1, Runs: []Run{at}})
		step := total.Next(Snapshots{Known: true, PreviousKnown: true, Whole: true, Sure: true, Current: it})
		check.Equal(t, ledger.AmountOf(applied(t, step.Update, it)).Tokens["rpm"], want, "%d by others", others)
	}
}

// The same if the next record is in the next hour: the previous hour gets the part of the 7 that
// others have not counted.
func TestEarlierHoursAreCompletedWithUncountedTokens(t *testing.T) {
	hour := Hourly.Start(t0)
	for others, want := range map[int64]int64{0: 107, 4: 107, 7: 107, 20: 120} {
		it := counted(next(t, Snapshots{}, Add, created("10", hour, 100)), others)
		known := Snapshots{Known: true, PreviousKnown: true, Sure: true, Previous: []item.Item{it}}
		it = next(t, known, Complete, grew("20", hour+hourMillis, 107, 112))
		check.Equal(t, ledger.AmountOf(it).Tokens["rpm"], want, "%d by others", others)
	}
}
