package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Action is the kind of a step.
type Action int

// The actions.
const (
	Done            Action = iota // nothing is left to do
	ReadCurrent                   // read Snapshots.Current
	ReadPrevious                  // read Snapshots.Previous
	ReadSurely                    // the same, consistently
	ReadNotes                     // read the items at Total.NoteKeys, and Forget
	CountBeginnings               // count Beginnings, set Total.BeginningsCounted, and forget the Snapshots
	Complete                      // write Update, which completes an earlier snapshot
	Add                           // write Update, after which nothing is left
)

// Step is the next step for a total.
type Step struct {
	Action Action
	Update item.Update
	At     int // of a Complete: which of Snapshots.Previous it writes

	// Completed is for an Add or Done: the starts of earlier windows that may have been completed
	// for it. Their days are summed before the Add, because no later step finds them again.
	Completed []int64
	// Behind is the shards that add nothing new. Their records were lost, were counted with a later
	// record, here or in an earlier window, and have now arrived after all; or the shards were
	// deleted.
	Behind []int

	Beginnings []Part // for CountBeginnings: consumption of shards before their first records
	// Unknown is for an Add: how many shards had consumption before their first records that may
	// already be counted. It is not counted.
	Unknown int
}

// Next returns the next step for the total. If a snapshot has counted up to the beginning of the
// runs, the step adds the difference, on this condition. A shard that the snapshot has not counted
// begins here; but if records are missing before it, the earlier snapshot that counted the shard is
// completed first.
//
// Example: a bucket used 100 tokens until 14:50, and the record of 10 more at 14:55 is lost. The
// next record, at 15:05, shows 110 to 115: the hour of 14:00 is completed with 10, then the hour of
// 15:00 gets 5.
func (t *Total) Next(known Snapshots) Step {
	if !known.Known {
		if !t.expected() || t.Over && t.creates() || t.ends() && !t.NotesRead || t.Wide {
			return Step{Action: ReadCurrent}
		}
		return t.blind()
	}
	marks := ledger.MarksOf(known.Current)
	if !known.PreviousKnown && t.begins(marks) {
		return Step{Action: ReadPrevious}
	}
	if !t.NotesRead && t.suspects(known, marks) {
		return Step{Action: ReadNotes}
	}
	if parts := t.beginnings(known, marks); len(parts) > 0 {
		if !known.Sure {
			return Step{Action: ReadSurely}
		}
		return Step{Action: CountBeginnings, Beginnings: parts}
	}
	others := known.Current != nil && !marks.Any
	for at, previous := range known.Previous {
		m := ledger.MarksOf(previous)
		if others || !m.Any {
			break // counted by another client, which saw the records missing here
		}
		if u, needed := t.complete(m, marks, known.Previous[:at]); needed && !slices.Contains(t.Unstored, u.Key) {
			if !known.Sure {
				return Step{Action: ReadSurely}
			}
			return Step{Action: Complete, Update: u, At: at}
		}
	}
	return t.exact(known, marks)
}

// creates reports whether some chain begins with the creation of its shard.
func (t *Total) creates() bool {
	return slices.ContainsFunc(t.Chains, func(c Part) bool { return c.Runs[0].Born })
}

// expected reports whether every chain determines by itself whether the snapshot has a mark of it.
func (t *Total) expected() bool {
	return !slices.ContainsFunc(t.Chains, func(c Part) bool {
		return !c.Runs[0].Born && c.Follows == 0 && c.Clock < t.Start
	})
}

// begins reports whether a chain without a mark may continue an earlier window.
func (t *Total) begins(marks ledger.Marks) bool {
	return slices.ContainsFunc(t.Chains, func(c Part) bool { return c.begins(marks, t) })
}

// blind returns the write on a snapshot that was not read.
func (t *Total) blind() Step {
	u := t.usage()
	moved := false
	for _, c := range t.Chains {
		first := c.Runs[0]
		known := !first.Born && c.Follows == 0
		mark := ledger.Mark{At: first.First, Used: first.From, Gen: first.FromGen}
		before := mark
		before.At = first.First.Before()
		sum := tallyOf(before, known, c.Runs)
		addTally(&u, sum)
		moved = moved || sum.moved
		move := ledger.Move{Shard: c.Shard, To: sum.mark}
		if known {
			move.Counted = &mark
		}
		u.Moves = append(u.Moves, move)
	}
	if n, _ := ledger.CountOf(u.Counts, bucket.Denied); n != 0 || !moved {
		// The count of denials is stored as a new value, not added. And if a limit has disappeared,
		// only the snapshot shows how much of it is not yet counted.
		return Step{Action: ReadCurrent}
	}
	return Step{Action: Add, Update: u.Update()}
}

// exact returns the write on a snapshot in the state in which it was read.
func (t *Total) exact(stored Snapshots, marks ledger.Marks) Step {
	u := t.usage()
	u.Seen = &marks
	var own []Run
	step := Step{Action: Add, Behind: slices.Clone(t.forgotten)}
	for _, c := range t.Chains {
		mark, known := marks.Shard(c.Shard)
		counted := known
		if !known {
			var start int64
			mark, start, counted = lastMark(stored.Previous, c.Shard)
			switch {
			case !counted && c.unseen():
				step.Unknown++
			case counted && c.begins(marks, t) && c.completed(mark):
				step.Completed = append(step.Completed, start)
			}
		}
		// Usually a chain begins after the mark of an earlier window. It does not if the chain
		// completed that window. Example: a counter ends three hours at 100, 110 and 120, and the
		// record of the second is lost. When the third arrives, the first hour is completed with
		// 10. If a replay brings the second after all, it counts nothing.
		counted = counted && c.Runs[0].First.Compare(mark.At) <= 0
		if counted && c.Runs[len(c.Runs)-1].Last.Compare(mark.At) <= 0 {
			step.Behind = append(step.Behind, c.Shard)
		}
		sum := tallyOf(mark, known || counted, c.Runs)
		if !sum.moved {
			continue
		}
		addTally(&u, sum)
		own = append(own, c.Runs...)
		u.Moves = append(u.Moves, ledger.Move{Shard: c.Shard, To: sum.mark})
	}
	if len(u.Moves) == 0 {
		return Step{Action: Done, Completed: step.Completed, Behind: step.Behind}
	}
	sparing(&u, own)
	step.Update = u.Update()
	return step
}
