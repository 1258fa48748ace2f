package streams

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// A batch that asks for everything: what is required comes first, in the order of its records, and then
// what clients do without, kind by kind. Each job says what it is, whose, and where to resume.
func TestJobsOfABatchThatAsksForEverything(t *testing.T) {
	r := newRig(t)
	of := func(entity, what string) {
		b := r.bucket(entity, 0)
		switch what {
		case "hot":
			b.State.Slots[b.State.Index(bucket.WCU)].Tokens = 999
		case "low":
			b.State = b.State.Take([]int64{500_000, 0, 0})
		case "brief":
			b.TTL = t0/1000 + 1
		case "quota":
			b.State = bucket.New([]bucket.Limit{budget}, 0, 1, t0).Take([]int64{33_000, 0})
		}
		r.db.Store(b.Item())
		if what != "quota" {
			b.State = b.State.Take([]int64{60_000, 1000, 500})
			r.db.Store(b.Item())
		}
	}
	all := []string{"low", "brief", "hot", "quota", "low", "brief", "hot", "quota"}
	for i, what := range all {
		of(fmt.Sprint("e", 7-i), what) // they are not in the order of their names
	}
	recs := records(r.since(0))
	recs[0] = json.RawMessage(strings.ReplaceAll(string(recs[0]), `"b_rpm_tc":{"N":"`, `"b_rpm_tc":{"N":"x`))
	batch, err := stream.Decode(streamtest.PayloadOf(recs...))
	if err != nil || len(batch.Malformed) != 1 {
		t.Fatal(err, batch.Malformed)
	}
	histories := usage.Fold(batch.Changes)
	led := r.agg.newTally(t.Context(), batch, histories)
	var got []string
	for _, j := range r.agg.jobs(led, histories, usage.Decide(histories, t0+1500, r.agg.conf), batch.Malformed) {
		about := ""
		for _, a := range j.Attrs {
			if a.Key != "object" { // its key has a hash
				about += " " + a.Key + "=" + a.Value.String()
			}
		}
		record := 1 + slices.IndexFunc(r.since(0), func(c memdynamo.Change) bool { return c.SequenceNumber() == j.Resume })
		got = append(got, fmt.Sprintf("%s%s, record %d, required %v", j.What, about, record, j.Required))
	}
	want := []string{
		"malformed record, record 1, required true",
		"usage entity=e7 resource=gpt, record 2, required true",
		"usage entity=e6 resource=gpt, record 3, required true",
		"usage entity=e5 resource=gpt, record 5, required true",
		"usage entity=e4 resource=gpt, record 7, required true",
		"threshold entity=e4 resource=gpt, record 7, required true",
		"usage entity=e3 resource=gpt, record 8, required true",
		"usage entity=e2 resource=gpt, record 10, required true",
		"usage entity=e1 resource=gpt, record 12, required true",
		"usage entity=e0 resource=gpt, record 14, required true",
		"threshold entity=e0 resource=gpt, record 14, required true",
		"resharding entity=e5 resource=gpt, record 6, required false",
		"resharding entity=e1 resource=gpt, record 13, required false",
		"refill entity=e7 resource=gpt, record 2, required false",
		"refill entity=e3 resource=gpt, record 9, required false",
		"lifetime entity=e6 resource=gpt, record 4, required false",
		"lifetime entity=e2 resource=gpt, record 11, required false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	led.tumbling.On = true // what is not counted is carried on, and all else is as it was
	for i, j := range r.agg.jobs(led, histories, usage.Decide(histories, t0+1500, r.agg.conf), batch.Malformed) {
		if required := strings.HasSuffix(want[i], "true") && j.What != jobUsage; j.Required != required {
			t.Errorf("%s in a fold: required %v", want[i], j.Required)
		}
	}
}
