package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The counters of a bucket that was removed begin anew: all that its next life has consumed is
// live, whatever the last snapshot has counted.
func TestLiveUsageOfAnotherLife(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 1000, Period: 1000}
	b := table.Shard{Generation: start, State: bucket.New([]bucket.Limit{limit}, 0, 1, start)}
	b.State.Slots[b.State.Index("rpm")].Used = 9000
	at := table.PositionOf(1, "5")
	for _, c := range []struct {
		name string
		mark table.Mark
		want int64
	}{
		{"not counted yet", table.Mark{}, 9},
		{"counted up to 4", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 5},
		{"behind a mark of the same life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation),
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, -3},
		{"behind a mark of another life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation) + 1,
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"behind a mark of no known life", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"of a life that ended at 4", table.Mark{At: at, Gone: true, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 9},
	} {
		if got := grown(c.mark, b)["rpm"]; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
