package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// plant is a weakness from the register, planted between the real programs and the real emulator.
// write changes requests to the table, and deliver changes payloads to the aggregator. The programs
// have no switch for it.
type plant struct {
	name    string
	must    promise // must detect it
	write   func(operation string, r request)
	deliver func(payload []byte) []byte
}

var plants = []plant{
	{name: "none"},
	{name: "W9  a day and its first hour share one key", must: usageIsExact, write: func(operation string, r request) {
		// A test rarely runs in the first hour of a day, so the clash is moved to its hour: every
		// hour shares the key of its day.
		sk := r.sortKey()
		if at := strings.LastIndexByte(sk, '#'); operation == "UpdateItem" && strings.HasPrefix(sk, "#USAGE#") {
			r.object("Key")["SK"] = map[string]any{"S": sk[:at+len("#2006-01-02")]}
		}
	}},
	// Consumption before the first record is found from the bucket's creation time, so that is
	// removed too.
	{name: "W15 the first consumption is not counted", must: usageIsExact, deliver: func(payload []byte) []byte {
		var event struct{ Records []json.RawMessage }
		if err := json.Unmarshal(payload, &event); err != nil {
			panic("bug: " + err.Error())
		}
		later := slices.DeleteFunc(event.Records, func(r json.RawMessage) bool {
			return bytes.Contains(r, []byte(`"eventName":"INSERT"`))
		})
		for i, r := range later {
			later[i] = bytes.ReplaceAll(r, []byte(`"`+table.AttrBorn+`":`), []byte(`"not_`+table.AttrBorn+`":`))
		}
		return streamtest.PayloadOf(later...)
	}},
	{name: "W17 a refill credits one limit and moves the clock of all", must: writesConserve,
		write: func(operation string, r request) {
			if operation != "UpdateItem" || !r.sets(layout.AttrRF) {
				return
			}
			r.spendsOnly("b_tpm_tk", cmp.Or(r.adds("b_tpm_tc"), "0"))
		}},
	{name: "W18 usage is added without a mark", must: usageIsExact, write: func(operation string, r request) {
		if operation == "UpdateItem" && strings.HasPrefix(r.sortKey(), "#USAGE#") {
			r.dropCondition()
		}
	}},
	{name: "W24 a split opens a clone with full capacity", must: neverOverAdmits,
		write: func(operation string, r request) {
			if operation == "TransactWriteItems" {
				cloneFully(r)
			}
		}},
}

// cloneFully makes a split behave as in other clients: the sibling starts full, and its parent
// keeps its tokens.
func cloneFully(r request) {
	writes, _ := r["TransactItems"].([]any)
	for _, w := range writes {
		action := request(w.(map[string]any))
		if u := action.object("Update"); u != nil {
			u.addsNothing("_tk")
		}
		if item := action.object("Put").object("Item"); item != nil {
			for _, limit := range []string{"rpm", "tpm"} {
				if capacity, ok := item["b_"+limit+"_cp"]; ok {
					item["b_"+limit+"_tk"] = capacity
				}
			}
		}
	}
}

// closely runs a check with hardly any tolerance for low levels, which suffices for an undisturbed
// run.
func closely(c promise, o *observation) (broken []string) {
	seen := *o
	seen.tolerance = tolerance{slack: big.NewRat(4, 100), margin: big.NewRat(1, 1000)}
	broken, _ = c.find(&seen)
	return broken
}

// TestPlantedDefectsAreCaught runs the same scenario with each of five weaknesses, and without any.
// Checks that pass without must fail with theirs.
func TestPlantedDefectsAreCaught(t *testing.T) {
	t.Parallel() // mostly waiting
	rows := make([]strings.Builder, 1+len(plants))
	fmt.Fprintf(&rows[0], "%-60s", "")
	for _, c := range checks {
		fmt.Fprintf(&rows[0], " %-24s", c.name)
	}
	t.Cleanup(func() {
		t.Log("who caught what:")
		for i := range rows {
			t.Log(rows[i].String())
		}
	})
	for i, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := &usageScenario{calls: 30, shards: 2, plant: p}
			o := s.play(t)
			if p.must.name == "" {
				s.rig.hold(o)
			}
			row := &rows[1+i]
			fmt.Fprintf(row, "%-60s", p.name)
			for _, c := range checks {
				broken := closely(c, o)
				fmt.Fprintf(row, " %-24s", cmp.Or(strings.Repeat("caught", min(1, len(broken))), "-"))
				if len(broken) > 0 {
					t.Logf("%s: %s (%d in all)", c.name, broken[0], len(broken))
				}
				switch {
				case p.must.name == "" && len(broken) > 0:
					t.Errorf("%s fails without a defect", c.name)
				case p.must.name == c.name && len(broken) == 0:
					t.Errorf("%s does not detect it", c.name)
				}
			}
		})
	}
}
