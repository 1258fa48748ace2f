package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// AllTotals returns the totals of the buckets of a batch.
func AllTotals(histories []History, finest Window) []Total {
	var out []Total
	for parts := Extend(nil, histories, finest); len(parts) > 0; {
		n := 1
		for n < len(parts) && parts[n].Bucket == parts[0].Bucket {
			n++
		}
		out = append(out, Totals(parts[:n], finest)...)
		parts = parts[n:]
	}
	return out
}

// Progress is how much of a total is counted in a snapshot, in tokens by limit.
type Progress struct {
	Left    []ledger.Count // still to count, including lost records before the total
	Counted []ledger.Count // counted, because the mark is within the total
	// Behind is the part before the mark: it was counted with an earlier or a later record, unless
	// the mark was the first of the shard.
	Behind  []ledger.Count
	Records int // how many records are behind the mark
}

// Progress compares the total with its snapshot; nil means there is none.
func (t *Total) Progress(snapshot item.Item) (p Progress) {
	marks := ledger.MarksOf(snapshot)
	var left, counted, behind ledger.Usage
	for _, c := range t.Chains {
		mark, known := marks.Shard(c.Shard)
		own, rest := tallyOf(ledger.Mark{}, false, c.Runs), tallyOf(mark, known, c.Runs)
		if known && c.Runs[len(c.Runs)-1].Last.Compare(mark.At) <= 0 {
			addTally(&behind, own)
			continue
		}
		addTally(&left, rest)
		if known && c.Runs[0].First.Compare(mark.At) <= 0 {
			for i := range own.counts {
				n, _ := ledger.CountOf(rest.counts, own.counts[i].Limit)
				own.counts[i].Tokens -= n
			}
			addTally(&counted, own)
		}
	}
	for _, u := range []*ledger.Usage{&left, &counted, &behind} { // denials are not tokens
		u.Counts = slices.DeleteFunc(u.Counts, func(c ledger.Count) bool { return c.Limit == bucket.Denied })
	}
	return Progress{Left: left.Counts, Counted: counted.Counts, Behind: behind.Counts, Records: int(behind.Events)}
}
