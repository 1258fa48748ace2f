package decide

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Slots do not refill: free ones are taken, a denial lasts until an epoch is over, and waiting
// requests leave no debt.
func TestSlotsAreNoRate(t *testing.T) {
	const now = 1_800_000_010_000
	fly := bucket.Limit{Name: "fly", Capacity: 10 * bucket.Milli, Period: 30_000, InFlight: true}
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
	check.Equal(t, (&others{}).slack(image.State, want(1), 30), 3,
		"the slack of slots: that of nothing known")
	if at, limit := RoomIn(image, want(3), func(string) int64 { return 0 }); at <= now || limit != "fly" {
		t.Errorf("there is room for 3 of 2 free slots at %d by %q", at, limit)
	}
}

// Slots may serve the next requests of a busy process while at least half of them are free. A
// request for nothing but reused slots is granted then, without taking tokens.
func TestSlotsForTheNextRequests(t *testing.T) {
	fly := bucket.Limit{Name: "fly", Capacity: 10 * bucket.Milli, Period: 30_000, InFlight: true}
	want := func(n int64) Want {
		costs := table.Costs([]bucket.Limit{fly}, n*bucket.Milli)
		return Want{Namespace: "ns", Name: Name{"e", "r"}, Costs: costs, Ahead: 500}
	}
	for _, c := range []struct {
		requests int // for one slot each, or at the end for several
		last     int64
		want     int64
	}{{1, 1, 0}, {4, 1, 500}, {3, 2, 500}, {5, 1, 0}} {
		b := NewBucket(&Settings{DenyFor: denyFor, Slack: 30, MaxShards: 32})
		_, image := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: noon,
			Costs: table.Costs([]bucket.Limit{fly}, 1*bucket.Milli)})
		b.See(image, noon, Unsent)
		has := want(0)
		has.Reused = []int64{bucket.Milli}
		if _, ok := b.Grant(has, clock(noon)); ok {
			t.Fatal("granted, though nothing was taken ahead yet")
		}
		for i := range c.requests {
			n := int64(1)
			if i == c.requests-1 {
				n = c.last
			}
			group := []Want{want(n)}
			b.Begin(Choice{Do: Take}, group[0], noon)
			_, p := b.Plan(Choice{Do: Take}, group, 1, clock(noon))
			after, held, err := p.Write.Apply(image.Item())
			if err != nil || !held {
				t.Fatal(held, err)
			}
			if image, err = table.DecodeShard(after); err != nil {
				t.Fatal(err)
			}
			b.Took(image, p, group[0], group, noon)
		}
		check.Equal(t, b.Reusable(want(1), noon), c.want, "%d requests, the last for %d: ms", c.requests, c.last)
		if _, ok := b.Grant(want(1), clock(noon)); ok {
			t.Error("a slot is granted that does not exist")
		}
		if h, ok := b.Grant(has, clock(noon)); !ok || h.Key != image.Key() || !slices.Equal(h.Costs, has.Costs) {
			t.Errorf("not granted, or of %v", h.Key)
		}
		if _, ok := b.Grant(want(0), clock(noon)); ok {
			t.Error("granted from an image, though this process has no slots")
		}
	}
}

// Paid slots belong to the epoch in which they were taken; other costs have no end.
func TestSlotsThatWerePaid(t *testing.T) {
	fly := bucket.Limit{Name: "fly", Capacity: 10 * bucket.Milli, Period: 30_000, InFlight: true}
	image := shardOf(bucket.New([]bucket.Limit{fly, perSecond}, 0, 1, noon))
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	image.State = bucket.New([]bucket.Limit{fly, quota, perSecond}, 0, 1, noon)
	p := Payment{Image: image, Costs: table.Costs([]bucket.Limit{fly, quota}, 2*bucket.Milli, 3*bucket.Milli)}
	got := p.Taken(noon)
	want := image.State.At(noon).Slots[image.State.Index("fly")].End
	if got[0].End != want || want == 0 || got[1] != p.Costs[1] {
		t.Errorf("%+v, want slots that end at %d", got, want)
	}
	p.Costs[0].Milli = 0
	none := p.Taken(noon)
	check.Equal(t, none[0].End, 0, "%+v: no slot was taken", none)
	check.Equal(t, p.Costs[0].End, 0, "the payment itself has changed")
}
