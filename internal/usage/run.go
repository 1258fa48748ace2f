package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Run combines consecutive records of one bucket shard: the counters before the first and after the
// last. The difference is the consumption between them, even if some records are missing. A run is
// within one life of the shard, and none of its first limits disappears before its end.
type Run struct {
	First, Last    ledger.Position
	From, To       []ledger.Count // by limit, in whole tokens
	Born           bool           // First created the shard: From is empty
	Gone           bool           // Last removed the shard: To are its last counters
	FromGen, ToGen uint8          // see [table.GenerationByte]
	Wide           bool           // one record of a shard with too many limits: From and To have only the changed ones
	Events         int64          // records that changed consumption

	whole bool // Born, but only the last counters are known: From equals To
}

func newRun(c *stream.Change, at ledger.Position) Run {
	r := Run{First: at, Last: at,
		FromGen: table.GenerationByte(c.OldGeneration), ToGen: table.GenerationByte(c.New.Generation),
		Events: event(c)}
	r.Wide = len(c.Used) > ledger.MaxNames
	for _, u := range c.Used {
		if r.Wide && (u.Before == u.After || len(r.From)+len(r.To) > 2*ledger.MaxCounts) {
			continue
		}
		if u.Was {
			r.From = append(r.From, ledger.Count{Limit: u.Limit, Tokens: u.Before})
		}
		if u.Is {
			r.To = append(r.To, ledger.Count{Limit: u.Limit, Tokens: u.After})
		}
	}
	switch c.Operation {
	case stream.Insert:
		r.Born, r.FromGen = true, r.ToGen
	case stream.Remove:
		r.Gone, r.To, r.ToGen = true, r.From, r.FromGen
	}
	return r
}

// justBefore returns a run that only stores the position of the shard before r.
func justBefore(r Run) Run {
	at := r.First.Before()
	return Run{First: at, Last: at, From: r.From, To: r.From, FromGen: r.FromGen, ToGen: r.FromGen}
}

// links reports whether the change begins where the run ends, and can be added to it.
func (r *Run) links(c *stream.Change) bool {
	if c.Operation == stream.Insert || r.Gone || r.Wide || len(c.Used) > ledger.MaxNames ||
		r.ToGen != table.GenerationByte(c.OldGeneration) {
		return false
	}
	i := 0
	for _, u := range c.Used {
		if !u.Was {
			continue
		}
		if i == len(r.To) || r.To[i].Limit != u.Limit || r.To[i].Tokens != u.Before {
			return false
		}
		if !u.Is && c.Operation != stream.Remove {
			return false // a limit disappears
		}
		i++
	}
	return i == len(r.To) && r.covered()
}

// covered reports whether no limit has disappeared in the run.
func (r *Run) covered() bool {
	for _, f := range r.From {
		if _, ok := ledger.CountOf(r.To, f.Limit); !ok {
			return false
		}
	}
	return true
}

// extend adds a change that links.
func (r *Run) extend(c *stream.Change, at ledger.Position) {
	r.Last = at
	r.Events += event(c)
	if c.Operation == stream.Remove {
		r.Gone = true
		return
	}
	r.ToGen = table.GenerationByte(c.New.Generation)
	i := 0
	for _, u := range c.Used {
		if u.Was {
			r.To[i].Tokens = u.After
		} else {
			r.To = slices.Insert(r.To, i, ledger.Count{Limit: u.Limit, Tokens: u.After})
		}
		i++
	}
}

// significant reports whether a change must be counted: it moved a counter, began or ended a life,
// or changed the generation, which identifies a life.
func significant(c *stream.Change) bool {
	if c.Operation != stream.Modify || c.OldGeneration != c.New.Generation {
		return true
	}
	for _, u := range c.Used {
		if u.Before != u.After || u.Was && !u.Is {
			return true
		}
	}
	return false
}

// event returns 1 for a record that changed consumption; a removal does not.
func event(c *stream.Change) int64 {
	for _, u := range c.Used {
		if u.Is && u.Before != u.After && u.Limit != bucket.Denied {
			return 1
		}
	}
	return 0
}

// position returns the position of a change among all changes of its bucket shard.
func position(c *stream.Change) ledger.Position { return ledger.PositionOf(c.Stream, c.Sequence) }
