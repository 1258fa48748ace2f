package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Run is what consecutive records of one bucket shard say together: the counters
// before the first and after the last. What happened between is their difference,
// whether or not every record was seen. A run lies in one life of the shard, and no
// limit that it starts with vanishes in it except at its end.
type Run struct {
	First, Last    table.Position
	From, To       []table.Count // by limit, in whole tokens
	Born           bool          // First created the shard: From is empty
	Gone           bool          // Last removed it: To are its last counters
	FromGen, ToGen uint8         // see [table.GenerationByte]
	Wide           bool          // one record of a shard with too many limits: From and To are what changed
	Events         int64         // records that changed consumption

	whole bool // Born, but of all that happened since only the last counters are known: From are To
}

// maxNames is how many limits a mark keeps apart. A shard with more, which only
// other clients make, is counted record by record.
const maxNames = 64

// Part is the runs of one bucket shard that fall into one window of the finest
// kind.
type Part struct {
	Namespace, Entity, Resource string
	Shard                       int
	Start                       int64 // of the window, epoch milliseconds
	Oldest                      int64 // creation of its first record, epoch milliseconds

	// Clock is the refill instant of the shard before the first record, epoch
	// milliseconds. If it lies in a window, the shard was charged in that
	// before, so that the snapshot has counted it.
	Clock int64
	// Follows is the start of the part that this one follows: that is written first, and
	// counts everything up to here. 0: there was none.
	Follows int64
	// Birth is the start of the window in which the shard was created, of the kind
	// that parts are cut by; 0: not known.
	Birth int64
	Runs  []Run // in order, not empty
}

// compare orders parts by bucket, shard and window.
func (p *Part) compare(o *Part) int { return cmp.Or(p.compareShard(o), cmp.Compare(p.Start, o.Start)) }

func (p *Part) compareShard(o *Part) int {
	return cmp.Or(strings.Compare(p.Namespace, o.Namespace), strings.Compare(p.Resource, o.Resource),
		strings.Compare(p.Entity, o.Entity), cmp.Compare(p.Shard, o.Shard))
}

// Sibling reports whether both are of the same bucket.
func (p *Part) Sibling(o *Part) bool {
	return p.Entity == o.Entity && p.Resource == o.Resource && p.Namespace == o.Namespace
}

func (p *Part) last() *Run { return &p.Runs[len(p.Runs)-1] }

// SortParts orders parts as Extend returns them.
func SortParts(parts []Part) {
	slices.SortStableFunc(parts, func(a, b Part) int { return a.compare(&b) })
}

// Extend returns the parts with the histories of a batch; both are sorted,
// as [Fold] and Extend return them. Records that the parts hold already change
// nothing, wherever and however often they come again.
func Extend(parts []Part, histories []History, finest Window) []Part {
	out := make([]Part, 0, len(parts)+len(histories))
	for len(parts) > 0 || len(histories) > 0 {
		order := 1
		if len(parts) > 0 {
			order = -1
			if len(histories) > 0 {
				p := histories[0].part()
				order = parts[0].compareShard(&p)
			}
		}
		n := 0
		for order <= 0 && n < len(parts) && parts[n].compareShard(&parts[0]) == 0 {
			n++
		}
		shard := slices.Clip(parts[:n])
		parts = parts[n:]
		if order >= 0 {
			for _, c := range histories[0].Changes {
				shard = extend(shard, c, finest)
			}
			histories = histories[1:]
		}
		out = append(out, shard...)
	}
	return out
}

func (b *History) part() Part {
	return Part{Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource, Shard: b.Shard}
}

// extend adds one change to the parts of its shard.
func extend(parts []Part, c *stream.Change, finest Window) []Part {
	at := position(c)
	start := finest.Start(c.Created)
	if len(parts) == 0 {
		if !significant(c) {
			return parts
		}
		return append(parts, newPart(c, at, finest))
	}
	p := &parts[len(parts)-1]
	run := p.last()
	switch {
	case at.Compare(run.Last) <= 0:
		return parts // there already
	case run.links(c) && (start <= p.Start || c.Operation == stream.Remove):
		// Time goes on: a record created a little earlier than the one before
		// it belongs with that.
		run.extend(c, at)
	case !significant(c):
	case start <= p.Start || c.Operation == stream.Remove:
		p.Runs = append(p.Runs, newRun(c, at))
	default:
		if c.Operation != stream.Insert && !run.links(c) {
			p.Runs = append(p.Runs, justBefore(newRun(c, at)))
		}
		next := newPart(c, at, finest)
		if tallyOf(table.Mark{}, false, p.Runs).moved { // else no snapshot is written for it
			next.Follows = p.Start
		}
		return append(parts, next)
	}
	return parts
}

func newPart(c *stream.Change, at table.Position, finest Window) Part {
	return Part{
		Namespace: c.New.Namespace, Entity: c.New.Entity, Resource: c.New.Resource, Shard: c.New.State.Shard,
		Start: finest.Start(c.Created), Oldest: c.Created, Clock: c.OldRF, Birth: birth(c, finest),
		Runs: []Run{newRun(c, at)},
	}
}

func newRun(c *stream.Change, at table.Position) Run {
	r := Run{First: at, Last: at,
		FromGen: table.GenerationByte(c.OldGeneration), ToGen: table.GenerationByte(c.NewGeneration),
		Events: event(c)}
	r.Wide = len(c.Used) > maxNames
	for _, u := range c.Used {
		if r.Wide && u.Before == u.After {
			continue
		}
		if u.Was {
			r.From = append(r.From, table.Count{Limit: u.Limit, Tokens: u.Before})
		}
		if u.Is {
			r.To = append(r.To, table.Count{Limit: u.Limit, Tokens: u.After})
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

// justBefore returns the run that says only where the shard stood before r.
func justBefore(r Run) Run {
	at := r.First.Before()
	return Run{First: at, Last: at, From: r.From, To: r.From, FromGen: r.FromGen, ToGen: r.FromGen}
}

// links reports whether the change begins where the run ends and can go into it.
func (r *Run) links(c *stream.Change) bool {
	if c.Operation == stream.Insert || r.Gone || r.Wide || len(c.Used) > maxNames ||
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
			return false // a limit vanishes
		}
		i++
	}
	return i == len(r.To) && r.covered()
}

// covered reports whether no limit has vanished in the run.
func (r *Run) covered() bool {
	if len(r.To) < len(r.From) {
		return false
	}
	for _, f := range r.From {
		if _, ok := table.CountOf(r.To, f.Limit); !ok {
			return false
		}
	}
	return true
}

// extend takes in a change that links.
func (r *Run) extend(c *stream.Change, at table.Position) {
	r.Last = at
	r.Events += event(c)
	if c.Operation == stream.Remove {
		r.Gone = true
		return
	}
	r.ToGen = table.GenerationByte(c.NewGeneration)
	i := 0
	for _, u := range c.Used {
		if u.Was {
			r.To[i].Tokens = u.After
		} else {
			r.To = slices.Insert(r.To, i, table.Count{Limit: u.Limit, Tokens: u.After})
		}
		i++
	}
}

// significant reports whether a change has to be counted: it moved a counter,
// began or ended a life, or changed the generation, by which a life is known.
func significant(c *stream.Change) bool {
	if c.Operation != stream.Modify || c.OldGeneration != c.NewGeneration {
		return true
	}
	for _, u := range c.Used {
		if u.Before != u.After || u.Was && !u.Is {
			return true
		}
	}
	return false
}

// event is 1 for a record that changed consumption.
func event(c *stream.Change) int64 {
	if c.Operation == stream.Remove {
		return 0
	}
	for _, u := range c.Used {
		if u.Is && u.Before != u.After {
			return 1
		}
	}
	return 0
}

// position returns the place of a change among all of its bucket shard.
func position(c *stream.Change) table.Position { return table.PositionOf(c.Stream, c.Sequence) }
