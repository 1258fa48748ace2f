// Package loadchecktest is the driver of random worlds in tests. A [World] has their common parts:
// random choices, true time, a table in memory, calls that are under way, late or lost, and the
// first broken promise. A concrete world embeds it and adds its movers (the actions of its
// processes) and its rules (true after each action). A [Kind] plays many of them, and demands that
// they find a planted defect.
package loadchecktest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Run is one play of a world: its random choices, its actions, and its error. The same seed makes
// the same run. It is not safe for concurrent use.
type Run struct {
	*rand.Rand
	Done map[string]int // how often something was done, see [Run.Count]
	Err  error          // the first broken promise
}

// World is a run with a table, and calls that are on their way to it at instants of true time.
type World struct {
	*Run
	Now   int64 // true time, epoch ms
	Items map[item.Key]item.Item
	Late  func() int64 // how long a call takes to the table, and its answer back; nil: no time
	Lost  int          // of so many answers one never arrives; 0: all arrive
	// Refuses refuses a write although its condition holds. Changed sees every item that is
	// written, made or, with nil after it, gone. They may be nil.
	Refuses func(before, after item.Item) bool
	Changed func(before, after item.Item)

	under []arrival // in the order in which they arrive
}

type arrival struct {
	at int64
	do func()
}

// Begin is the instant at which worlds begin: 2027-01-15T08:00:00Z.
const Begin = 1_800_000_000_000

// NewRun begins the run of a seed. Kinds of worlds have different streams of chance.
func NewRun(seed, stream uint64) *Run {
	return &Run{Rand: rand.New(rand.NewPCG(stream, seed)), Done: map[string]int{}}
}

// New makes the empty world of a seed.
func New(seed, stream uint64) *World {
	return &World{Run: NewRun(seed, stream), Now: Begin, Items: map[item.Key]item.Item{}}
}

// Base returns the run to the driver, where it is embedded in a world.
func (r *Run) Base() *Run { return r }

// Pass lets time go by, which is nothing without a table. See [World.Pass].
func (r *Run) Pass(int64) {}

// End is called after the last step. Worlds that have to come to rest have an End of their own.
func (r *Run) End() {}

// Fail notes a broken promise. The first one counts.
func (r *Run) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, args...)
	}
}

// Count notes that something was done: a world that does too little proves nothing.
func (r *Run) Count(what string) { r.Done[what]++ }

// OneIn reports true one time out of n, and never for n = 0.
func (r *Run) OneIn(n int) bool { return n > 0 && r.IntN(n) == 0 }

// Skew draws how far a clock is off: up to so much either way.
func (r *Run) Skew(most int64) int64 { return r.Int64N(2*most+1) - most }

// After does something when so much time has passed.
func (w *World) After(ms int64, do func()) {
	at := w.Now + ms
	i, _ := slices.BinarySearchFunc(w.under, at, func(a arrival, at int64) int {
		if a.at <= at {
			return -1
		}
		return 1
	})
	w.under = slices.Insert(w.under, i, arrival{at, do})
}

// Pass lets time go by, in which calls and answers arrive.
func (w *World) Pass(ms int64) {
	until := w.Now + ms
	for len(w.under) > 0 && w.under[0].at <= until {
		next := w.under[0]
		w.under = w.under[1:]
		w.Now = next.at
		next.do()
	}
	w.Now = until
}

// PassToEdge lets time go by until about the next edge of a period: up to so much before or after it.
func (w *World) PassToEdge(period, about int64) {
	edge := (w.Now/period + 1) * period
	w.Pass(max(0, edge+w.Skew(about)-w.Now))
}

// Write carries writes out at once, all or none, and reports whether they held.
func (w *World) Write(writes ...item.Write) bool {
	after := make([]item.Item, len(writes))
	for i, one := range writes {
		it, held, err := one.Apply(w.Items[one.Target()])
		if err != nil {
			w.Fail("an invalid write: %w", err)
		}
		if err != nil || !held || w.Refuses != nil && w.Refuses(w.Items[one.Target()], it) {
			return false
		}
		after[i] = it
	}
	for i, one := range writes {
		before := w.Items[one.Target()]
		if w.Items[one.Target()] = after[i]; after[i] == nil {
			delete(w.Items, one.Target())
		}
		if w.Changed != nil {
			w.Changed(before, after[i])
		}
	}
	return true
}

// Call is one call of a process. Its functions may be nil.
type Call struct {
	Writes   []item.Write
	Arrived  func(held bool) // the table has carried it out, or refused it
	Answered func(held bool) // the process knows
	Lost     func()          // the process will never know
}

// Send sends a call on its way.
func (w *World) Send(c Call) {
	w.After(w.late(), func() {
		held := w.Write(c.Writes...)
		if c.Arrived != nil {
			c.Arrived(held)
		}
		lost := w.OneIn(w.Lost)
		w.After(w.late(), func() {
			if lost && c.Lost != nil {
				c.Lost()
			} else if !lost && c.Answered != nil {
				c.Answered(held)
			}
		})
	})
}

func (w *World) late() int64 {
	if w.Late == nil {
		return 0
	}
	return w.Late()
}
