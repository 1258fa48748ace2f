package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardWith is a bucket with a quota of 10 as a client has created it, changed by another.
func shardWith(t *testing.T, calendar string, now int64, change item.Item) item.Item {
	t.Helper()
	limits := []bucket.Limit{{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: calendar}}
	put, _ := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r",
		Costs: table.Costs(limits, 4_000), Now: now, Draw: 7})
	for attr, v := range change {
		if put.Item[attr] = v; v == nil {
			delete(put.Item, attr)
		}
	}
	return put.Item
}

func chargeOf(t *testing.T, it item.Item, milli, now int64) (after item.Item, granted bool) {
	t.Helper()
	b, err := table.DecodeShard(it)
	if err != nil {
		t.Fatal(err)
	}
	plan := table.Charge{Image: b, Costs: table.Costs(b.State.Limits(), milli), Now: now}.Plan()
	if !plan.Verdict.Granted {
		return it, false
	}
	after, held, err := plan.Update.Apply(it)
	if err != nil || !held {
		t.Fatalf("%v, %v", held, err)
	}
	return after, true
}

const noon = 1_800_014_400_000 // 2027-01-15 12:00 UTC

// A period that another shard began, as Python clients tell it, is begun once.
func TestAPeriodThatAnotherShardBeganIsBegunOnce(t *testing.T) {
	const told = noon + 18_000_500
	for name, change := range map[string]item.Item{
		"told with the counter": {"b_q_wa": item.N(noon), "b_q_ws": item.N(told), "b_q_wtc": item.N(4_000), "vu": item.N(0)},
		"told without":          {"b_q_wa": item.N(noon), "b_q_ws": item.N(told), "vu": item.N(0)},
		"in the far future":     {"b_q_wa": item.N(noon), "b_q_ws": item.N(noon * 2), "vu": item.N(0)},
	} {
		it := shardWith(t, "+18000", noon, change)
		taken, now, ok := 0, int64(noon+18_002_000), true
		for range 20 {
			if it, ok = chargeOf(t, it, 1_000, now); ok {
				taken++
			}
			now += 10
		}
		if taken > 10 {
			t.Errorf("%s: %d of 10 taken in one period", name, taken)
		}
		// What the period before has given is not given back to this one.
		back := table.Adjust(table.BucketKey("ns", "e", "r", 0), []table.Cost{{
			Limit: bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+18000"},
			Milli: -4_000, End: noon + 18_000_000,
		}})
		if _, held, err := back.Apply(it); held || err != nil {
			t.Errorf("%s: given back to a later period: %v", name, err)
		}
	}
}

// Nor is it given back before anybody has taken of the period that another shard began.
func TestNothingIsGivenBackOncePeriodsWereBegunElsewhere(t *testing.T) {
	it := shardWith(t, "+18000", noon, item.Item{
		"b_q_wa": item.N(noon), "b_q_ws": item.N(noon + 18_000_500), "b_q_wtc": item.N(4_000), "vu": item.N(0)})
	back := table.Adjust(table.BucketKey("ns", "e", "r", 0), []table.Cost{{
		Limit: bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+18000"},
		Milli: -4_000, End: noon + 18_000_000,
	}})
	if _, held, err := back.Apply(it); held || err != nil {
		t.Errorf("given back to a later period: %v", err)
	}
}

// An end that no zone data can explain does not close a quota for ever.
func TestAnEndThatCannotBeDoesNotKeepAQuotaClosed(t *testing.T) {
	const tomorrow = noon + 12*3_600_000 + 2_000
	for name, until := range map[string]int64{"ages away": 1<<63 - 1, "in microseconds": noon * 1000, "negative": -5} {
		it := shardWith(t, "m0h0@UTC", noon, item.Item{"vu": item.N(until)})
		it, ok := chargeOf(t, it, 6_000, noon+1000)
		if !ok {
			t.Errorf("%s: denied what is there", name)
		}
		if _, ok = chargeOf(t, it, 1_000, noon+2000); ok {
			t.Errorf("%s: open", name)
		}
		if _, ok = chargeOf(t, it, 10_000, tomorrow); !ok {
			t.Errorf("%s: not whole the day after", name)
		}
	}
}
