package known

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/ahead"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Slots refill by no rate, so nothing is reckoned from one: what is free is taken, what is
// not is denied until an epoch is over, and whoever waits owes none.
func TestSlotsAreNoRate(t *testing.T) {
	const now = 1_800_000_010_000
	fly := bucket.Limit{Name: "fly", Capacity: 10 * bucket.Milli, Period: 30_000, AtOnce: true}
	_, image := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: now,
		Costs: table.Costs([]bucket.Limit{fly}, 8*bucket.Milli)})
	b := NewBucket(&Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32})
	b.See(image, now, Unsent)
	clock := func() Now { return Now{Ms: now + 100, Mono: 100, Trip: 4} }
	want := func(n int64) Want {
		return Want{Namespace: "ns", Name: Name{"e", "r"}, Costs: table.Costs([]bucket.Limit{fly}, n*bucket.Milli)}
	}
	for _, tt := range []struct {
		slots int64
		waits bool
		want  Action
	}{{2, false, Take}, {2, true, Take}, {3, false, Deny}, {3, true, Deny}, {0, false, Take}} {
		d := b.Decide(want(tt.slots), &Attempt{Waits: tt.waits, Until: bucket.Never}, clock)
		if d.Do != tt.want || d.Owe {
			t.Errorf("%d of 2 free slots, waits %v: %v, owes %v; want %v", tt.slots, tt.waits, d.Do, d.Owe, tt.want)
		}
	}
	if got := (&others{}).slack(image.State, want(1), 30); got != 3 {
		t.Errorf("the slack of slots is %d, want that of nothing known", got)
	}
	if life := ahead.Life(want(1).Costs, 500); life != 0 {
		t.Errorf("slots are taken ahead for %d ms", life)
	}
	if at, limit := RoomIn(image, want(3), func(string) int64 { return 0 }); at <= now || limit != "fly" {
		t.Errorf("there is room for 3 of 2 free slots at %d by %q", at, limit)
	}
}
