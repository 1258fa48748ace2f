package known

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Answers of concurrent calls overtake each other. One that is certainly older than
// what is known is dropped; one to a write that was sent since is believed.
func TestOvertakenAnswerIsDropped(t *testing.T) {
	images := make([]table.Shard, 3)
	for i := range images { // after one write, two and three
		images[i] = table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
			State: bucket.New([]bucket.Limit{perHour20}, 0, 1, 1)}
		for j := range images[i].State.Slots {
			images[i].State.Slots[j].Used = int64(i+1) * bucket.Milli
		}
	}
	k := factsOf(1)
	k.see(images[1], 0, Unsent, nil)
	since := k.at(0).serial
	for _, c := range []struct {
		image, since, want int
	}{{0, Unsent, 1}, {2, Unsent, 2}, {1, since, 2}, {0, k.at(0).serial + 1, 0}} {
		k.see(images[c.image], 1, c.since, nil)
		want := images[c.want].State
		if got := k.at(0).image.State; got.Slots[got.Index("rph")].Used != want.Slots[want.Index("rph")].Used {
			t.Errorf("after image %d, asked for since %d: %v is known, want image %d", c.image, c.since, got, c.want)
		}
	}
}
