package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestExamplesOfTheCharge plays the examples of charge.go with its numbers, in tokens
// and seconds.
func TestExamplesOfTheCharge(t *testing.T) {
	const s = 1_000
	ten := bucket.Limit{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}
	hundred := bucket.Limit{Name: "rpm", Capacity: 100 * s, Amount: s, Period: s}
	image := func(l bucket.Limit, tk, tc, rf int64) table.Shard {
		state := bucket.New([]bucket.Limit{l}, 0, 1, rf*s)
		sl := &state.Slots[state.Index("rpm")]
		sl.Tokens, sl.Used = tk*s, tc*s
		return table.Shard{Namespace: "ns", Entity: "e", Resource: "r", State: state, Generation: 1}
	}
	costs := func(n int64) []table.Cost { return table.Costs([]bucket.Limit{ten}, n*s) }
	seen := image(ten, 4, 100, 0)
	full := image(ten, 10, 100, 2)
	for _, c := range []struct {
		name   string
		charge table.Charge
		stored table.Shard // when the charge arrives
		level  int64       // afterwards; -99: refused
	}{
		{"cost 2, others took 3", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 1, 103, 0), 1},
		{"cost 4, others took 3", table.Charge{Image: seen, Costs: costs(4), Now: 2 * s}, image(ten, 1, 103, 0), -99},
		{"cost 2, others took 4", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 0, 104, 0), 0},
		{"cost 2, others took 5", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, -1, 105, 0), -99},
		{"a refill, others took 6", table.Charge{Image: seen, Now: 2 * s}, image(ten, -2, 106, 0), 0},
		{"a refill, others took 7", table.Charge{Image: seen, Now: 2 * s}, image(ten, -3, 107, 0), -99},
		{"cost 9 by force", table.Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true}, seen, -3},
		{"cost 9 by force, others took 3", table.Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true},
			image(ten, 1, 103, 0), -6},
		{"slack of 20 %, others took 2", table.Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 8, 102, 2), 7},
		{"slack of 20 %, others took 3", table.Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 7, 103, 2), -99},
		{"room of 20 %, cost 5", table.Charge{Image: image(hundred, 100, 0, 0),
			Costs: table.Costs([]bucket.Limit{hundred}, 5*s), Now: s, Room: 20},
			image(hundred, 100, 0, 0), 80},
		{"a refill that was overtaken", table.Charge{Image: image(ten, 10, 90, 90), Now: 95 * s},
			image(ten, 0, 100, 100), -99},
		{"a refill of the same instant", table.Charge{Image: image(ten, 10, 90, 90), Now: 95 * s},
			image(ten, 0, 100, 95), 0},
	} {
		after, held, err := c.charge.Plan().Update.Apply(c.stored.Item())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !held {
			if c.level != -99 {
				t.Errorf("%s: refused", c.name)
			}
			continue
		}
		if !item.Equal(after["b_rpm_tk"], item.N(c.level*s)) {
			t.Errorf("%s: level %v, want %d tokens", c.name, after["b_rpm_tk"], c.level)
		}
	}
}
