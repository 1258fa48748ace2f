package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// maxTotalShards is the greatest number of shards in one snapshot update: each adds a condition,
// and DynamoDB accepts expressions of 4 KB. A bucket with more active shards takes more than one
// update.
const maxTotalShards = 32

// Total is the counting to do in one usage snapshot: the runs within its window, by bucket shard.
type Total struct {
	Bucket
	Window Window
	Start  int64  // epoch milliseconds
	Chains []Part // the runs, by shard
	TTL    int64  // lifetime of a new snapshot, epoch seconds

	// Over is set if the window has ended. A later one may have been counted first, and may have
	// completed an earlier one with this total's records. So even a creation is looked up in
	// earlier snapshots.
	Over bool
	// Kept is an instant, epoch milliseconds: snapshots of windows that ended before it may have
	// expired.
	Kept int64
	// BeginningsCounted is set once the consumption of its shards before their first records is
	// counted, or cannot be. Until then [Total.Next] asks for it.
	BeginningsCounted bool
	// NotesRead is set once runs that were deleted together with their usage are dropped. Until
	// then [Total.Next] asks for the notes if they matter.
	NotesRead bool
	// Unstored is the keys of earlier snapshots that can never be stored: they are not completed.
	Unstored []item.Key
	// Wide is set if a write on a snapshot that was not read can never be stored. Where the snapshot
	// has counted shards already, there is less to write.
	Wide      bool
	forgotten []int // dropped shards
}

// Totals returns the totals of the parts of one bucket, by start; w is the kind of window by which
// the parts were cut. A total has one part of each shard.
func Totals(parts []Part, w Window) []Total {
	var out []Total
	for i := range parts {
		p := &parts[i]
		at := slices.IndexFunc(out, func(t Total) bool { return t.Start == p.Start && len(t.Chains) < maxTotalShards })
		if at < 0 {
			at = len(out)
			out = append(out, Total{Bucket: p.Bucket, Window: w, Start: p.Start})
		}
		out[at].Chains = append(out[at].Chains, *p)
	}
	slices.SortStableFunc(out, func(a, b Total) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// Apart returns a total for each shard.
func (t *Total) Apart() []Total {
	out := slices.Repeat([]Total{*t}, len(t.Chains))
	for i := range out {
		out[i].Chains = t.Chains[i : i+1]
	}
	return out
}

// From returns the start of the window, RFC 3339, UTC.
func (t *Total) From() string { return layout.Timestamp(t.Start) }

// Key returns the key of the snapshot.
func (t *Total) Key() item.Key { return t.place(t.Window, t.Start).Key() }

// usage returns the fields that do not depend on the counts.
func (t *Total) usage() ledger.Usage {
	u := ledger.Usage{Place: t.place(t.Window, t.Start)}
	u.TTL = t.TTL
	return u
}

// addTally adds a tally to a usage.
func addTally(u *ledger.Usage, t tally) {
	u.Events += t.events
	for _, c := range t.counts {
		i, found := slices.BinarySearchFunc(u.Counts, c.Limit,
			func(a ledger.Count, limit string) int { return strings.Compare(a.Limit, limit) })
		if !found {
			u.Counts = slices.Insert(u.Counts, i, ledger.Count{Limit: c.Limit})
		}
		u.Counts[i].Tokens = bucket.AddSat(u.Counts[i].Tokens, c.Tokens)
	}
}

func (c *Part) begins(marks ledger.Marks, t *Total) bool {
	_, known := marks.Shard(c.Shard)
	return !known && c.Follows == 0 && (!c.Runs[0].Born || t.Over)
}
