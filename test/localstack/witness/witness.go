// Package witness checks from the outside whether a limit has ever admitted more
// than it promises (design I1). It knows nothing of buckets, shards or writes:
// it is given what clients saw, and looks at every window of time.
//
// The promise: for every pair of instants a <= b,
//
//	admitted(a,b) <= capacity + rate*(b-a) + returned(a,b)
//
// A client knows only that what it asked for happened between sending and the
// answer, so each side is counted in favour of the limiter: a grant counts as
// admitted in a window only if it was both sent and answered within, a return
// counts if it may have happened within. An excess that is found is therefore
// real, whatever the true order was.
//
// What is an event, and what is not:
//
//   - A granted request is a Grant of what it asked for, whatever was settled
//     later.
//   - Tokens given back, by a rollback or by an adjustment to less, are a
//     Return, also when the answer was lost: they may have been given back.
//   - An adjustment to more is no event. It was not admitted by any decision,
//     and it can only delay later grants (debt); the promise is about
//     admissions. Leaving it out makes the check milder, never wrong.
//   - A request whose answer was lost is no event: nothing was admitted to
//     anybody. That its tokens may be gone delays others, like an adjustment.
//
// Everything here is pure and exact: integers of 128 bits, no rounding but for
// display.
package witness

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Kind tells what an event did to the bucket.
type Kind int

// The kinds of events.
const (
	Grant  Kind = iota // tokens were admitted
	Return             // tokens were given back
)

// Event is something a client saw. Sent and Answered are instants of one clock,
// in milliseconds; Sent <= Answered. Tokens are whole tokens, not negative.
type Event struct {
	Kind           Kind
	Sent, Answered int64
	Tokens         int64
}

// Bound is the promise: Capacity tokens at once, and Amount tokens more every
// Period milliseconds. Capacity and Amount must not be negative, Period must be
// positive. If the limit was changed while the events happened, take the
// largest capacity and the largest rate.
type Bound struct {
	Capacity, Amount, Period int64
	// Kept lets tokens that were given back to a bucket which was full by then
	// be admitted in a later window than the one they came back in: a level above
	// capacity stays so until a refill cuts it (design D2). Without it the promise
	// is taken literally.
	Kept bool
}

// Result is the worst window.
type Result struct {
	// Excess is by how many millitokens the window exceeds the promise, rounded
	// up; zero or less means that it is kept everywhere. It is never below
	// minus the capacity, which is the excess of a window with nothing in it.
	// It saturates.
	Excess int64
	// From and To are the window's instants; Admitted and Returned are the
	// tokens counted in it. All are zero when no window is worse than an empty
	// one.
	From, To           int64
	Admitted, Returned int64
}

// String returns the window for messages.
func (r Result) String() string {
	return fmt.Sprintf("excess %s tokens in [%d, %d]: admitted %d, returned %d",
		tokens(r.Excess), r.From, r.To, r.Admitted, r.Returned)
}

// maxTokens and maxSpan keep every sum within 128 bits: 2^24 events of 2^53
// tokens, times a period or a span of time of 2^48 ms.
const (
	maxTokens = 1 << 53
	maxSpan   = 1 << 48
	maxEvents = 1 << 24
)

// Worst returns the worst window of the events, in O(n log n). The events need
// no order and are not changed. The error names an event or a bound that makes
// no sense.
func Worst(b Bound, events []Event) (Result, error) {
	if err := check(b, events); err != nil {
		return Result{}, err
	}
	s := newSweep(b, events)
	return s.worst(), nil
}

func check(b Bound, events []Event) error {
	if b.Capacity < 0 || b.Capacity > maxTokens || b.Amount < 0 || b.Amount > maxTokens || b.Period < 1 ||
		b.Period > maxSpan {
		return fmt.Errorf("bound %+v: want capacity and amount of 0 to 2^53 and a period of 1 to 2^48 ms", b)
	}
	if len(events) > maxEvents {
		return fmt.Errorf("%d events, want at most %d", len(events), maxEvents)
	}
	for i, e := range events {
		if e.Kind != Grant && e.Kind != Return {
			return fmt.Errorf("event %d: kind %d, want Grant or Return", i, e.Kind)
		}
		if e.Tokens < 0 || e.Tokens > maxTokens {
			return fmt.Errorf("event %d: %d tokens, want 0 to 2^53", i, e.Tokens)
		}
		if e.Sent > e.Answered || e.Sent < 0 || e.Answered >= maxSpan {
			return fmt.Errorf("event %d: sent at %d and answered at %d, want 0 <= sent <= answered < 2^48", i, e.Sent,
				e.Answered)
		}
	}
	return nil
}

// sweep holds the events in the orders it needs. Worst windows begin when some
// grant was sent and end when some grant was answered: any other window can be
// shrunk to such a one without losing a grant.
type sweep struct {
	bound   Bound
	starts  []int64 // candidates for a: distinct, ascending
	byEnd   []Event // grants by answer
	returns []Event // returns by sending
}

func newSweep(b Bound, events []Event) *sweep {
	s := &sweep{bound: b}
	for _, e := range events {
		if e.Kind == Grant {
			s.byEnd = append(s.byEnd, e)
			s.starts = append(s.starts, e.Sent)
		} else {
			s.returns = append(s.returns, e)
		}
	}
	slices.Sort(s.starts)
	s.starts = slices.Compact(s.starts)
	slices.SortFunc(s.byEnd, func(x, y Event) int { return cmp.Compare(x.Answered, y.Answered) })
	slices.SortFunc(s.returns, func(x, y Event) int { return cmp.Compare(x.Sent, y.Sent) })
	return s
}

// worst sweeps the end b of the window over time. A tree over all starts a
// holds, in units of 1/Period tokens,
//
//	admitted(a,b) - returned(a,b) - kept(a) + rate*a
//
// so that the worst a for this b is its maximum up to b.
func (s *sweep) worst() Result {
	period, capacity := s.bound.Period, product(s.bound.Capacity, s.bound.Period)
	best := capacity.neg()
	out := Result{Excess: millis(best, period)}
	t := newTree(len(s.starts))
	kept := s.kept()
	for i, a := range s.starts {
		t.add(i, i, product(s.bound.Amount, a).sub(kept[i]))
	}
	found, next := false, 0
	for i, g := range s.byEnd {
		b := g.Answered
		t.add(0, s.upTo(g.Sent)-1, product(g.Tokens, period))
		if i+1 < len(s.byEnd) && s.byEnd[i+1].Answered == b {
			continue
		}
		for ; next < len(s.returns) && s.returns[next].Sent <= b; next++ {
			r := s.returns[next]
			t.add(0, s.upTo(r.Answered)-1, product(r.Tokens, period).neg())
		}
		top, at := t.max(s.upTo(b) - 1)
		if v := top.sub(capacity).sub(product(s.bound.Amount, b)); best.less(v) {
			best, found = v, true
			out.From, out.To = s.starts[at], b
		}
	}
	if found {
		out.Excess = millis(best, period)
		out.Admitted, out.Returned = s.within(out.From, out.To)
	}
	return out
}

// upTo returns how many starts are at or before t.
func (s *sweep) upTo(t int64) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > t })
}

// within counts one window the plain way.
func (s *sweep) within(a, b int64) (admitted, returned int64) {
	for _, g := range s.byEnd {
		if g.Sent >= a && g.Answered <= b {
			admitted += g.Tokens
		}
	}
	for _, r := range s.returns {
		if r.Sent <= b && r.Answered >= a {
			returned += r.Tokens
		}
	}
	return admitted, returned
}

// kept returns for every start how far above its capacity a bucket may be that
// keeps what is given back to it when full: while it is above capacity it gains
// by returns and loses by grants only, so the surplus at a is at most the
// largest returned(x,a) - admitted(x,a) over all x before a. Returns that may
// also have happened at or after a are left to returned(a,b).
func (s *sweep) kept() []wide {
	out := make([]wide, len(s.starts))
	if !s.bound.Kept || len(s.returns) == 0 {
		return out
	}
	ends := make([]int64, 0, len(s.returns))
	byAnswer := slices.Clone(s.returns)
	slices.SortFunc(byAnswer, func(x, y Event) int { return cmp.Compare(x.Answered, y.Answered) })
	for _, r := range byAnswer {
		ends = append(ends, r.Answered)
	}
	ends = slices.Compact(ends)
	upTo := func(t int64) int { return sort.Search(len(ends), func(i int) bool { return ends[i] > t }) }
	t := newTree(len(ends))
	r, g := 0, 0
	for i, a := range s.starts {
		for ; r < len(byAnswer) && byAnswer[r].Answered < a; r++ {
			t.add(0, upTo(byAnswer[r].Answered)-1, product(byAnswer[r].Tokens, s.bound.Period))
		}
		for ; g < len(s.byEnd) && s.byEnd[g].Answered < a; g++ {
			t.add(0, upTo(s.byEnd[g].Sent)-1, product(s.byEnd[g].Tokens, s.bound.Period).neg())
		}
		if top, _ := t.max(upTo(a-1) - 1); (wide{}).less(top) {
			out[i] = top
		}
	}
	return out
}
