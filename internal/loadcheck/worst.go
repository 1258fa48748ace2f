package loadcheck

import "fmt"

// Kind is the effect of an event on the bucket.
type Kind int

// The kinds of events.
const (
	Grant   Kind = iota // tokens were admitted
	Return              // tokens were given back
	Passing             // tokens may have been taken and then given back, both between Sent and Answered
)

// Event is an observation of a client. Sent and Answered are instants of one clock, in
// milliseconds; Sent <= Answered. Tokens are whole and not negative.
type Event struct {
	Kind           Kind
	Sent, Answered int64
	Tokens         int64
}

// Bound is the promise of a limit.
type Bound struct {
	// Rules are the limits that may have been in force, each for a time; see InForce. If two may be
	// in force, the larger capacity and the larger refill count. In a window in which they change,
	// the largest capacity counts.
	Rules []Rule
	// Skew is by how many milliseconds the clock that refills the bucket may be ahead of a clock
	// that takes from it. A window may have this much more refill. Zero: there is only one clock.
	Skew int64
	// Kept allows for tokens that were given back to a full bucket. They may be admitted in a later
	// window than the one in which they came back, because a level above capacity stays until a
	// refill cuts it (design D2). Without Kept, the promise is applied literally.
	Kept bool
}

// Result is the worst window.
type Result struct {
	// Excess is by how many millitokens the window exceeds the promise, rounded up; zero or less
	// means that the promise is always kept. It is never below minus the smallest capacity, the
	// excess of an empty window. It saturates.
	Excess int64
	// From and To are the window's instants; Admitted and Returned are the tokens counted in it.
	// All are zero if no window is worse than an empty one.
	From, To           int64
	Admitted, Returned int64
}

// Over returns the excess in whole tokens, rounded up; zero when there is none.
func (r Result) Over() int64 {
	if r.Excess <= 0 {
		return 0
	}
	return (r.Excess-1)/1000 + 1
}

// String returns the window for messages.
func (r Result) String() string {
	return fmt.Sprintf("excess %.3f tokens in [%d, %d]: admitted %d, returned %d",
		float64(r.Excess)/1000, r.From, r.To, r.Admitted, r.Returned)
}

// Bounds that keep every sum within 128 bits: 2^24 events of 2^53 tokens, times a period or time
// span of 2^48 ms.
const (
	maxTokens = 1 << 53
	maxSpan   = 1 << 48
	maxEvents = 1 << 24
)

// Worst returns the worst window of the events, in O(n log n). The events may be in any order and
// are not changed. The error names an invalid event or bound, or a time in which no rule is in
// force.
func Worst(b Bound, events []Event) (Result, error) {
	if err := refuse(b, events); err != nil {
		return Result{}, err
	}
	line, err := newTimeline(b)
	if err != nil {
		return Result{}, err
	}
	s := newSweep(line, b, events)
	if n := len(s.starts); n > 0 {
		if at, ok := line.gap(s.starts[0], s.byEnd[len(s.byEnd)-1].Answered); ok {
			return Result{}, fmt.Errorf("no rule is in force at %d", at)
		}
	}
	return s.worst(), nil
}

// refuse returns why a bound or events cannot be checked.
func refuse(b Bound, events []Event) error {
	if b.Skew < 0 || b.Skew > maxSpan {
		return fmt.Errorf("skew %d, want 0 to 2^48 ms", b.Skew)
	}
	for _, r := range b.Rules {
		if err := r.check(); err != nil {
			return err
		}
	}
	if len(events) > maxEvents {
		return fmt.Errorf("%d events, want at most %d", len(events), maxEvents)
	}
	for i, e := range events {
		if e.Kind < Grant || e.Kind > Passing {
			return fmt.Errorf("event %d: kind %d, want Grant, Return or Passing", i, e.Kind)
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
