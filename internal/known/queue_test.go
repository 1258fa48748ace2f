package known

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Of a hundred requests that wait and decide at the same moment, an empty bucket of 20 lets
// so many begin as may owe 20 tokens, and the one that finds 20 owed.
func TestQueueIsFilledOnce(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 1000})
	state := bucket.New([]bucket.Limit{perHour20}, 0, 1, 1)
	state.Slots[state.Index("rph")].Tokens = 0
	b.See(table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1, State: state}, 1, Unsent)
	w := Want{Costs: []table.Cost{{Limit: perHour20, Milli: bucket.Milli}}}
	var choices []Choice
	for range 100 {
		choices = append(choices, b.Decide(w, &Attempt{Waits: true, Until: bucket.Never},
			func() Now { return Now{Ms: 1} }).Choice)
	}
	begun := 0
	for i, c := range choices {
		switch {
		case !c.Owe:
			t.Fatalf("request %d: %+v, want that it owes", i, c)
		case b.Begin(c, w, 1):
			begun++
		}
	}
	if begun != 21 {
		t.Errorf("%d begin, want 21", begun)
	}
}
