package loadcheck

import (
	"cmp"
	"slices"
	"sort"
)

// sweep holds the events in the orders that it needs. Worst windows begin when a grant was sent and
// end when a grant was answered: any other window can be shortened to such a one without losing a
// grant.
type sweep struct {
	line    *timeline
	keeps   bool
	starts  []int64 // candidates for a: distinct, ascending
	byEnd   []Event // grants by answer
	returns []Event // returns by sending
	passing []Event
}

func newSweep(line *timeline, b Bound, events []Event) *sweep {
	s := &sweep{line: line, keeps: b.Kept}
	for _, e := range events {
		switch e.Kind {
		case Grant:
			s.byEnd = append(s.byEnd, e)
			s.starts = append(s.starts, e.Sent)
		case Return:
			s.returns = append(s.returns, e)
		case Passing:
			s.passing = append(s.passing, e)
		}
	}
	slices.Sort(s.starts)
	s.starts = slices.Compact(s.starts)
	slices.SortFunc(s.byEnd, func(x, y Event) int { return cmp.Compare(x.Answered, y.Answered) })
	slices.SortFunc(s.returns, func(x, y Event) int { return cmp.Compare(x.Sent, y.Sent) })
	return s
}

// worst moves the end b of the window through time. A tree over all starts a holds, in units of
// 1/unit tokens,
//
//	admitted(a,b) - returned(a,b) - kept(a) - passing(a) + refilled(a) - capacity(a,b)
//
// so the worst a for this b is the maximum up to b.
func (s *sweep) worst() Result {
	best := s.line.smallest().neg()
	out := Result{Excess: millis(best, s.line.unit)}
	t := newTree(len(s.starts))
	kept := s.kept()
	for i, a := range s.starts {
		t.add(i, i, s.line.refilled(a).sub(kept[i]))
	}
	for _, p := range s.passing { // may have been under way at a: taken before, and given back after it
		t.add(s.upTo(p.Sent-1), s.upTo(p.Answered)-1, product(p.Tokens, s.line.unit).neg())
	}
	largest := capacities{line: s.line, starts: s.starts, tree: t}
	found, next := false, 0
	for _, g := range s.byEnd {
		b := g.Answered
		t.add(0, s.upTo(g.Sent)-1, product(g.Tokens, s.line.unit))
		for ; next < len(s.returns) && s.returns[next].Sent <= b; next++ {
			r := s.returns[next]
			t.add(0, s.upTo(r.Answered)-1, product(r.Tokens, s.line.unit).neg())
		}
		largest.until(b)
		top, at := t.max(s.upTo(b) - 1)
		if v := top.sub(s.line.refilled(b + s.line.skew)); best.less(v) {
			best, found = v, true
			out.From, out.To = s.starts[at], b
		}
	}
	if found {
		out.Excess = millis(best, s.line.unit)
		out.Admitted, out.Returned = s.within(out.From, out.To)
	}
	return out
}

// smallest returns the smallest capacity; zero without rules.
func (l *timeline) smallest() (out wide) {
	first := true
	for i, c := range l.caps {
		if l.live[i] && (first || c.less(out)) {
			out, first = c, false
		}
	}
	return out
}

// capacities maintains in the tree, for every start up to an instant, the largest capacity since.
// Its groups of starts have decreasing capacities.
type capacities struct {
	line   *timeline
	starts []int64
	tree   *tree
	next   int // piece
	groups []group
}

type group struct {
	first    int // start
	capacity wide
}

// until advances to the piece of an instant. It is never the last one, in which no rule is in
// force.
func (c *capacities) until(at int64) {
	for ; c.line.from[c.next] <= at; c.next++ {
		first := sort.Search(len(c.starts), func(i int) bool { return c.starts[i] >= c.line.from[c.next] })
		end := sort.Search(len(c.starts), func(i int) bool { return c.starts[i] >= c.line.from[c.next+1] })
		capacity := c.line.caps[c.next]
		c.tree.add(first, end-1, capacity.neg())
		for n := len(c.groups); n > 0 && c.groups[n-1].capacity.less(capacity); n-- {
			g := c.groups[n-1]
			c.tree.add(g.first, first-1, g.capacity.sub(capacity))
			first, c.groups = g.first, c.groups[:n-1]
		}
		c.groups = append(c.groups, group{first, capacity})
	}
}

// upTo returns how many starts are not after t.
func (s *sweep) upTo(t int64) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > t })
}

// within counts one window directly.
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
	for _, p := range s.passing {
		if p.Sent <= a && p.Answered >= a {
			returned += p.Tokens
		}
	}
	return admitted, returned
}

// kept returns for every start how far a bucket may be above its capacity, if it keeps tokens given
// back when full. While it is above its capacity, only returns raise it and only grants lower it.
// So the surplus at a is at most the largest returned(x,a) - admitted(x,a) over all x before a.
// Returns that may also have happened at or after a are left to returned(a,b). Tokens that were
// passing at x were taken before and came back after it.
func (s *sweep) kept() []wide {
	out := make([]wide, len(s.starts))
	if !s.keeps || len(s.returns)+len(s.passing) == 0 {
		return out
	}
	byAnswer := slices.Concat(s.returns, s.passing)
	slices.SortFunc(byAnswer, func(x, y Event) int { return cmp.Compare(x.Answered, y.Answered) })
	ends := make([]int64, 0, len(byAnswer))
	for _, r := range byAnswer {
		ends = append(ends, r.Answered)
	}
	ends = slices.Compact(ends)
	upTo := func(t int64) int { return sort.Search(len(ends), func(i int) bool { return ends[i] > t }) }
	t := newTree(len(ends))
	r, g := 0, 0
	for i, a := range s.starts {
		for ; r < len(byAnswer) && byAnswer[r].Answered < a; r++ {
			from := 0
			if p := byAnswer[r]; p.Kind == Passing {
				from = upTo(p.Sent - 1)
			}
			t.add(from, upTo(byAnswer[r].Answered)-1, product(byAnswer[r].Tokens, s.line.unit))
		}
		for ; s.byEnd[g].Answered < a; g++ { // up to a grant that was sent at a
			t.add(0, upTo(s.byEnd[g].Sent)-1, product(s.byEnd[g].Tokens, s.line.unit).neg())
		}
		if top, _ := t.max(len(ends) - 1); (wide{}).less(top) {
			out[i] = top
		}
	}
	return out
}
