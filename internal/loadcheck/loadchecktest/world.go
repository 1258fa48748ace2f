// Package loadchecktest is the driver of random worlds in tests. A [World] has their common parts:
// random choices, true time, a table in memory, calls that are under way, late or lost, and the
// first broken promise. A concrete world embeds it and adds its movers (the actions of its
// processes) and its rules (true after each action). A [Kind] plays many of them, and requires that
// they find a planted defect.
package loadchecktest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Run is one run of a world: its random choices, its actions, and its error. The same seed gives
// the same run. It is not safe for concurrent use.
type Run struct {
	*rand.Rand
	Done map[string]int // how often each action happened, see [Run.Count]
	Err  error          // the first broken promise
}

// World is a run with a table, and with calls that reach it at instants of true time.
type World struct {
	*Run
	Now   int64 // true time, epoch ms
	Items map[item.Key]item.Item
	Late  func() int64 // how long a call, or its answer, is under way; nil: no time
	Lost  int          // one answer in so many is lost; 0: none is
	// Refuses refuses a write although its condition holds. Changed is called for every item
	// written, with nil as after if it is deleted. They may be nil.
	Refuses func(before, after item.Item) bool
	Changed func(before, after item.Item)

	under []arrival // in order of arrival
}

type arrival struct {
	at int64
	do func()
}

// Begin is the instant at which worlds begin: 2027-01-15T08:00:00Z.
const Begin = 1_800_000_000_000

// NewRun begins the run of a seed. Each kind of world uses its own random stream.
func NewRun(seed, stream uint64) *Run {
	return &Run{Rand: rand.New(rand.NewPCG(stream, seed)), Done: map[string]int{}}
}

// New makes the empty world of a seed.
func New(seed, stream uint64) *World {
	return &World{Run: NewRun(seed, stream), Now: Begin, Items: map[item.Key]item.Item{}}
}

// Base returns the run embedded in a world to the driver.
func (r *Run) Base() *Run { return r }

// Pass does nothing without a table. See [World.Pass].
func (r *Run) Pass(int64) {}

// End is called after the last step. Worlds that must come to rest have their own End.
func (r *Run) End() {}

// Fail records a broken promise. Only the first one counts.
func (r *Run) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, args...)
	}
}

// Count records that an action happened: a world that does too little proves nothing.
func (r *Run) Count(what string) { r.Done[what]++ }

// OneIn returns true with probability 1/n, and never for n = 0.
func (r *Run) OneIn(n int) bool { return n > 0 && r.IntN(n) == 0 }

// Skew draws a clock error of up to most in either direction.
func (r *Run) Skew(most int64) int64 { return r.Int64N(2*most+1) - most }

// After calls do after ms milliseconds.
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

// Pass lets time pass, in which calls and answers arrive.
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

// PassToEdge lets time pass until about before or after the next edge of a period.
func (w *World) PassToEdge(period, about int64) {
	edge := (w.Now/period + 1) * period
	w.Pass(max(0, edge+w.Skew(about)-w.Now))
}

// Write performs writes at once, all or none, and reports whether they held.
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
	Arrived  func(held bool) // the table has performed it, or refused it
	Answered func(held bool) // the process has the answer
	Lost     func()          // the process will never get the answer
}

// Send sends a call.
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
